//! One definition of the API as one entry of the configuration.
//!
//! Only names and shapes are translated here. What a value must be is judged by the configuration's reader, as it is for
//! an entry that a person writes.

use serde_json::{Map, Value};
use toml::Table;

use super::toml_value::{Nulls, from_json};
use super::{Problem, names};

/// What is said of an action only if it is governed. Each of them makes it so.
const DECLARATIONS: [&str; 7] =
    ["impact", "verify", "idempotency", "response", "subject", "operation_key", "approval_when"];
/// Members of a shown definition that say nothing of what it is.
const IGNORED: [&str; 2] = ["id", "name"];
/// The method of a template action that does not name one.
const METHOD_DEFAULT: &str = "POST";

/// The entry of a new definition.
///
/// # Errors
/// Members that nobody knows, and values that the configuration cannot say.
pub(crate) fn created(members: &Map<String, Value>) -> Result<Table, Vec<Problem>> {
    let given = |name: &str| members.get(name).is_some_and(|value| !value.is_null());
    let mut entry = Table::new();
    if given("urlTemplate") && !given("method") {
        entry.insert("method".to_owned(), METHOD_DEFAULT.into());
    }
    let mut problems = Vec::new();
    if !given("urlTemplate") && !given("adapter") {
        problems.push(Problem::new("urlTemplate", "an action needs `urlTemplate` or `adapter`"));
    }
    apply(&mut entry, members, &mut problems);
    settle_governed(&mut entry, members, &mut problems);
    if problems.is_empty() { Ok(entry) } else { Err(problems) }
}

/// The entry with some members changed: what is left out is kept, `null` takes away.
///
/// # Errors
/// As [`created`].
pub(crate) fn changed(there: &Table, members: &Map<String, Value>) -> Result<Table, Vec<Problem>> {
    let mut entry = there.clone();
    let mut problems = Vec::new();
    if members.get("governed") == Some(&Value::Bool(false)) {
        for key in DECLARATIONS.iter().chain(&["scope_headers"]) {
            entry.remove(*key);
        }
    }
    apply(&mut entry, members, &mut problems);
    settle_governed(&mut entry, members, &mut problems);
    if problems.is_empty() { Ok(entry) } else { Err(problems) }
}

fn apply(entry: &mut Table, members: &Map<String, Value>, problems: &mut Vec<Problem>) {
    for (name, value) in members {
        if IGNORED.contains(&name.as_str()) {
            continue;
        }
        let Some(key) = names::key(name) else {
            let known = names::MEMBERS.iter().map(|(api, _)| *api);
            let hint = oncegate_config::nearest(name, known)
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            problems.push(Problem::new(name, format!("unknown member `{name}`{hint}")));
            continue;
        };
        if value.is_null() {
            remove(entry, key);
            continue;
        }
        let read = match key {
            "adapter" => {
                remove(entry, key);
                adapter(entry, value)
            }
            "impact" => from_json(name, &impact(value), Nulls::LeftOut),
            "verify" => verify(value),
            "idempotency" => from_json(name, value, Nulls::LeftOut),
            "response" => from_json(name, &respelled(value, names::snake), Nulls::LeftOut),
            "input_schema" => Ok(schema(value)),
            "method" => from_json(name, &upper(value), Nulls::Refused),
            _ => from_json(name, value, Nulls::Refused),
        };
        match read {
            Ok(read) => _ = entry.insert(key.to_owned(), read),
            Err(more) => problems.extend(more),
        }
    }
}

/// Takes a key away, and with an adapter what its `config` and its `credentialSecret` have said.
fn remove(entry: &mut Table, key: &str) {
    entry.remove(key);
    if key == "adapter" {
        entry.remove("fault_drill");
        entry.remove("credential_secret");
    }
}

/// `{type, config, credentialSecret}`. Whatever type it is: its configuration passes through under our spelling.
fn adapter(entry: &mut Table, value: &Value) -> Result<toml::Value, Vec<Problem>> {
    let Value::Object(members) = value else { return from_json("adapter", value, Nulls::Refused) };
    let mut flat = Map::new();
    let mut problems = Vec::new();
    for (name, value) in members {
        match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("type", value) => _ = flat.insert("type".to_owned(), value.clone()),
            ("credentialSecret", value) => match from_json("adapter.credentialSecret", value, Nulls::Refused)
            {
                Ok(secret) => _ = entry.insert("credential_secret".to_owned(), secret),
                Err(more) => problems.extend(more),
            },
            ("config", Value::Object(config)) => {
                for (name, value) in config {
                    match (name.as_str(), value) {
                        (_, Value::Null) => {}
                        ("faultDrill", value) => {
                            match from_json("adapter.config.faultDrill", value, Nulls::Refused) {
                                Ok(drill) => _ = entry.insert("fault_drill".to_owned(), drill),
                                Err(more) => problems.extend(more),
                            }
                        }
                        (name, value) => _ = flat.insert(names::snake(name), value.clone()),
                    }
                }
            }
            ("config", _) => problems.push(Problem::new("adapter.config", "`config` must be an object")),
            (name, _) => {
                let message = "an adapter has `type`, `config` and `credentialSecret`";
                problems.push(Problem::new(format!("adapter.{name}"), message));
            }
        }
    }
    match from_json("adapter.config", &Value::Object(flat), Nulls::LeftOut) {
        Ok(read) if problems.is_empty() => Ok(read),
        Ok(_) => Err(problems),
        Err(more) => Err([problems, more].concat()),
    }
}

/// The published `unit` of money is its currency; that of the other dimensions is their own name.
fn impact(value: &Value) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    let mut members = members.clone();
    let dimension = members.get("dimension").cloned().unwrap_or_default();
    let (unit, currency) = (members.get("unit").cloned(), members.get("currency").cloned());
    if dimension == "money" {
        // Both, and different: the reader says that one of them does not belong.
        if let Some(unit) =
            unit.filter(|unit| currency.as_ref().is_none_or(|known| known.is_null() || known == unit))
        {
            members.remove("unit");
            members.insert("currency".to_owned(), unit);
        }
    } else if unit == Some(dimension) {
        members.remove("unit");
    }
    Value::Object(members)
}

/// `null` in a condition is a value to compare with, which the configuration cannot say.
fn verify(value: &Value) -> Result<toml::Value, Vec<Problem>> {
    let Value::Object(members) = value else { return from_json("verify", value, Nulls::Refused) };
    let mut members = members.clone();
    // A list without conditions is what leaving it out means.
    let conditions = members.remove("match").filter(|conditions| !conditions.is_null());
    let mut read = from_json("verify", &Value::Object(members), Nulls::LeftOut)?;
    if let (Some(conditions), Some(table)) = (conditions, read.as_table_mut()) {
        table.insert("match".to_owned(), from_json("verify.match", &conditions, Nulls::Refused)?);
    }
    Ok(read)
}

fn respelled(value: &Value, spell: impl Fn(&str) -> String) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    members.iter().map(|(name, value)| (spell(name), value.clone())).collect::<Map<_, _>>().into()
}

/// A table where TOML can say it, else its JSON as text.
fn schema(value: &Value) -> toml::Value {
    match from_json("inputSchema", value, Nulls::Refused) {
        // A text would be taken for JSON: what was sent is not an object.
        Ok(toml::Value::String(text)) => toml::Value::Array(vec![toml::Value::String(text)]),
        Ok(table) => table,
        Err(_) => toml::Value::String(value.to_string()),
    }
}

fn upper(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), |method| method.to_ascii_uppercase().into())
}

/// A template action is governed if anything is declared that needs an effect, or if it says so; what was governed stays
/// so until it says otherwise. It always stands in the file, for whoever reads it.
fn settle_governed(entry: &mut Table, members: &Map<String, Value>, problems: &mut Vec<Problem>) {
    if entry.contains_key("adapter") {
        // That of a template action which becomes an adapter's; one that was sent is refused by the reader.
        if members.get("governed").is_none_or(Value::is_null) {
            entry.remove("governed");
        }
        return;
    }
    let asks = entry.get("requires_approval").and_then(toml::Value::as_bool) == Some(true);
    match members.get("governed") {
        Some(Value::Bool(false)) => {
            for key in DECLARATIONS.iter().filter(|key| entry.contains_key(**key)) {
                let member = names::member(key).unwrap_or(key);
                let message = format!("`{member}` does not go with `governed: false`: there is no effect");
                problems.push(Problem::new(member, message));
            }
            if asks {
                let message = "what waits for a person is governed: send `requiresApproval: false` as well";
                problems.push(Problem::new("requiresApproval", message));
            }
        }
        Some(Value::Null) | None => {
            let already = entry.get("governed").and_then(toml::Value::as_bool) == Some(true);
            let declares = DECLARATIONS.iter().any(|key| entry.contains_key(*key));
            entry.insert("governed".to_owned(), (already || declares || asks).into());
        }
        // `true`, or something that the reader refuses.
        Some(_) => {}
    }
}
