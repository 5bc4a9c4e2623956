//! `[actions.NAME]` with `method` and `url`: a declared route.

use oncegate_policy::classify::ResponseRules;
use oncegate_policy::impact::{AmountOf, AmountRule, Bound};
use oncegate_policy::template::Template;
use oncegate_policy::url_template::UrlTemplate;
use serde_json::Value;
use toml::de::DeValue;

use crate::checks::{answer, matches};
use crate::facts::{Destination, Facts, Fields};
use crate::headers::{check_name, header_name};
use crate::limits::dimension;
use crate::model::{Declared, HostPattern, Idempotency, ImpactRule, KeyPlace, Placement, Preset, Verify};
use crate::nearest::hint;
use crate::reader::{Node, Table, entries};
use crate::templates::{Allowed, parse, template};
use crate::value::{amount, boolean, integer, json, list, owned, positive_duration, text, word};

/// Methods that can be declared, and whether they write.
const METHODS: [(&str, bool); 8] = [
    ("POST", true),
    ("PUT", true),
    ("PATCH", true),
    ("DELETE", true),
    ("QUERY", true),
    ("GET", false),
    ("HEAD", false),
    ("OPTIONS", false),
];

/// Keys that make a read a governed one, as the API has it, beside `requires_approval = true`.
const IMPLIES_GOVERNED: [&str; 7] =
    ["impact", "verify", "approval_when", "operation_key", "subject", "idempotency", "response"];
/// Keys that mean nothing without an effect. `response` says also how a plain invocation ended, and `approval_when` needs
/// an `impact`.
const GOVERNED_KEYS: [&str; 7] =
    ["impact", "verify", "idempotency", "preset", "scope_headers", "operation_key", "subject"];
const NO_EFFECT: &str = "does not go with `governed = false`: there is no effect";

/// Names in `scope_headers`, at most.
const SCOPE_HEADERS_MAX: usize = 16;
/// What clients put secrets into.
const SECRET_HEADERS: [&str; 3] = ["authorization", "cookie", "x-api-key"];

pub(crate) fn read(table: &Table<'_>, name: &str, facts: &mut Facts) -> Option<Declared> {
    // The missing pair has one fault of its own.
    let neither = table.get("method").is_none() && table.get("url").is_none();
    let method = if neither { None } else { table.need("method", method) };
    let impact = table.read("impact", |node| node.table("`impact`", impact)?);
    let preset = table.read("preset", |node| preset(node, facts)).unwrap_or_default();
    let idempotency = table.read("idempotency", |node| node.table("`idempotency`", idempotency)?);
    let writes = method.is_none_or(|(_, writes)| writes);
    let asked =
        table.get("requires_approval").is_some_and(|node| matches!(node.value, DeValue::Boolean(true)));
    let implied = writes || asked || IMPLIES_GOVERNED.iter().any(|key| table.get(key).is_some());
    let governed = table.or("governed", boolean, implied);
    if !governed {
        table.refuse(&GOVERNED_KEYS, NO_EFFECT);
        if asked {
            table.log.fault(table.key_place("requires_approval"), format!("`requires_approval` {NO_EFFECT}"));
        }
    }
    let here = |allowed: Allowed| if governed { allowed } else { allowed.without_effect() };
    let url = if neither { None } else { table.need("url", |node| url(node, here(Allowed::WRITE))) };
    let to = url.as_ref().map(|url| HostPattern::Exact(url.authority().host.clone()));
    if let Some(url) = &url {
        let (scheme, authority) = (url.scheme(), url.authority().clone());
        facts.destinations.push(Destination { place: table.key_place("url"), scheme, authority });
    }
    let headers =
        table.or("headers", |node| headers(node, here(Allowed::WRITE), to.as_ref(), facts), Vec::new());
    let scope_headers = table.or("scope_headers", scope_headers, Vec::new());
    let body = table.read("body", |node| body(node, here(Allowed::BODY)));
    let verify = table
        .read("verify", |node| node.table("`verify`", |verify| read_verify(verify, name, url.as_ref()))?);
    let response = table.read("response", |node| node.table("`response`", response));
    let credential_secret = table.read("credential_secret", |node| secret(node, to.as_ref(), facts));
    if let Some(HostPattern::Exact(host)) = &to {
        judge_preset(table, &preset, host);
    }
    // What the action says itself goes before what is known of its provider.
    let idempotency = if table.get("idempotency").is_some() { idempotency } else { preset.idempotency };
    let response = if table.get("response").is_some() { response } else { Some(preset.response) };
    judge_key_place(table, idempotency.as_ref(), &headers);
    if let Some(url) = &url {
        let key = idempotency.as_ref().and_then(|key| match &key.place {
            KeyPlace::Header(name) => Some((table.key_place("idempotency"), name.clone())),
            KeyPlace::Body(_) => None,
        });
        let at = table.key_place("headers");
        let set = headers.iter().map(|(name, _)| (at, name.clone())).chain(key).collect();
        let own_credential = credential_secret.is_some();
        facts.fields.push(Fields { authority: url.authority().clone(), own_credential, set });
    }
    Some(Declared {
        method: method?.0.to_owned(),
        url: url?,
        headers,
        scope_headers,
        body,
        governed,
        writes_by_get: preset.writes_by_get,
        impact,
        idempotency,
        verify,
        response: response.unwrap_or_default(),
        credential_secret,
    })
}

/// A name of the catalogue.
fn preset(node: &Node<'_>, facts: &Facts) -> Option<Preset> {
    let named = text(node)?;
    let found = facts.presets.get(named).cloned();
    if found.is_none() {
        let hint = hint(named, facts.presets.keys().map(String::as_str));
        node.fault(format!("{}: there is no `{named}` in the catalogue{hint}", node.what));
    }
    found
}

fn judge_preset(table: &Table<'_>, preset: &Preset, host: &str) {
    let of_it = |known: &String| match known.strip_prefix('.') {
        Some(below) => HostPattern::Below(below.to_owned()).covers(host),
        None => known == host,
    };
    if !preset.hosts.is_empty() && !preset.hosts.iter().any(of_it) {
        let hosts = preset.hosts.join("`, `");
        table.log.warn(
            table.key_place("preset"),
            format!(
                "`preset` is of `{hosts}`, and the action goes to `{host}`: its facts may not hold there"
            ),
        );
    }
}

fn method(node: &Node<'_>) -> Option<(&'static str, bool)> {
    let known = METHODS.map(|(method, writes)| (method, (method, writes)));
    word(node, &known)
}

fn url(node: &Node<'_>, allowed: Allowed) -> Option<UrlTemplate> {
    let written = text(node)?;
    match UrlTemplate::parse(written) {
        Ok(url) => {
            _ = parse(node, written, allowed);
            Some(url)
        }
        Err(fault) => {
            node.fault(format!("{}: {fault}", node.what));
            None
        }
    }
}

fn headers(
    node: &Node<'_>,
    allowed: Allowed,
    to: Option<&HostPattern>,
    facts: &mut Facts,
) -> Option<Vec<(String, Template)>> {
    let Some(table) = node.value.as_table() else {
        node.wrong_type("a table");
        return None;
    };
    let mut headers: Vec<(String, Template)> = Vec::new();
    for (written, place, value) in entries(table, node.place.file, node.log) {
        let name = check_name(&Node { place, what: node.what.clone(), ..value.clone() }, written);
        let template = template(&value, allowed);
        let (Some(name), Some(template)) = (name, template) else { continue };
        if headers.iter().any(|(known, _)| *known == name) {
            node.log.fault(place, format!("{}: `{written}` stands here twice", node.what));
        }
        for secret in template.secrets() {
            facts.uses(value.place, secret, Placement::Header, to);
        }
        headers.push((name, template));
    }
    Some(headers)
}

/// Names, each once. What they hold is kept with the effect, and read-backs repeat it.
fn scope_headers(node: &Node<'_>) -> Option<Vec<String>> {
    let mut names = list(node, |item| {
        let name = header_name(item)?;
        if SECRET_HEADERS.contains(&name.as_str()) {
            item.fault(format!("{}: `{name}` holds a secret, which no record may have", item.what));
            return None;
        }
        Some(name)
    })?;
    names.sort_unstable();
    names.dedup();
    if names.len() > SCOPE_HEADERS_MAX {
        node.fault(format!("{}: at most {SCOPE_HEADERS_MAX} headers", node.what));
        return None;
    }
    Some(names)
}

/// Any value: each string in it is a template.
fn body(node: &Node<'_>, allowed: Allowed) -> Option<Value> {
    judge_strings(node, allowed);
    json(node)
}

fn judge_strings(node: &Node<'_>, allowed: Allowed) {
    match node.value {
        DeValue::String(written) => _ = parse(node, written, allowed),
        DeValue::Array(_) => {
            for item in node.items().unwrap_or_default() {
                judge_strings(&item, allowed);
            }
        }
        DeValue::Table(table) => {
            for (_, _, member) in entries(table, node.place.file, node.log) {
                judge_strings(&member, allowed);
            }
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

/// It is sent as `Authorization: Bearer`, in place of the host's credential.
fn secret(node: &Node<'_>, to: Option<&HostPattern>, facts: &mut Facts) -> Option<String> {
    let secret = owned(node)?;
    facts.uses(node.place, &secret, Placement::Header, to);
    Some(secret)
}

pub(crate) fn impact(table: &Table<'_>) -> Option<ImpactRule> {
    let dimension = dimension(table);
    let amount = table.need("amount", amount_rule);
    let bounds = [Bound::Exact, Bound::UpperBound].map(|bound| (bound.word(), bound));
    let bound = table.or("bound", |node| word(node, &bounds), Bound::Exact);
    Some(ImpactRule { dimension: dimension?, amount: amount?, bound })
}

fn amount_rule(node: &Node<'_>) -> Option<AmountRule> {
    if matches!(node.value, DeValue::Integer(_)) {
        return amount(node).map(|amount| AmountRule { of: AmountOf::Literal(amount), times: 1 });
    }
    let written = text(node)?;
    let rule = AmountRule::parse(written);
    if rule.is_none() {
        node.fault(format!(
            "{}: `{written}` is not an integer, `input.PATH` or `count(input.PATH)`, with or without `* INTEGER`",
            node.what
        ));
    }
    rule
}

fn idempotency(table: &Table<'_>) -> Option<Idempotency> {
    let place = match table.exactly_one(&["header", "body"]) {
        Some("header") => table.read("header", header_name).map(KeyPlace::Header),
        Some(_) => table.read("body", owned).map(KeyPlace::Body),
        None => None,
    };
    let window = table.need("window", positive_duration);
    Some(Idempotency { place: place?, window: window?, failures_kept: None })
}

/// The provider key is the effect's own: a header of the same name would fight with it.
fn judge_key_place(table: &Table<'_>, idempotency: Option<&Idempotency>, headers: &[(String, Template)]) {
    let Some(KeyPlace::Header(key)) = idempotency.map(|idempotency| &idempotency.place) else { return };
    if headers.iter().any(|(name, _)| name == key) {
        let message = format!("`headers` sets `{key}`, which `idempotency` sets already");
        table.log.fault(table.key_place("headers"), message);
    }
}

pub(crate) fn read_verify(table: &Table<'_>, name: &str, action: Option<&UrlTemplate>) -> Option<Verify> {
    let look = table.need("url", |node| {
        let look = url(node, Allowed::LOOK)?;
        let same = |action: &UrlTemplate| (action.scheme(), action.authority()) == (look.scheme(), look.authority());
        if let Some(action) = action.filter(|action| !same(action)) {
            node.fault(format!(
                "`verify` looks at {}://{}, but `{name}` writes to {}://{}: only the action's own host can say what \
                 became of it",
                look.scheme(),
                look.authority(),
                action.scheme(),
                action.authority()
            ));
        }
        Some(look)
    });
    let status = table.or("status", status, 200);
    let checks = table.or("match", matches, Vec::new());
    Some(Verify { url: look?, status, checks })
}

fn status(node: &Node<'_>) -> Option<u16> {
    let status = integer(node, 0)?;
    let status = u16::try_from(status).ok().filter(|status| (200..=599).contains(status));
    if status.is_none() {
        node.fault(format!("{} must be an HTTP status from 200 to 599", node.what));
    }
    status
}

fn response(table: &Table<'_>) -> ResponseRules {
    ResponseRules {
        failed_statuses: Vec::new(),
        failed_states: &[],
        succeeded_when: table.or("succeeded_when", answer, Vec::new()),
        failed_when: table.or("failed_when", answer, Vec::new()),
    }
}
