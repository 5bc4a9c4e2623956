//! `managed/limits.toml` beside the configuration: limits made through the API. The file is read at every start like
//! what a person wrote, so a limit does not vanish with a restart; what a person wrote is never touched.
//!
//! And how the API says that an edit of `managed/` was not made.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use oncegate_config::Fault;
use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::Limit;
use serde_json::{Value, json};

use super::answer::{ApiError, ErrorCode};
use crate::load;
use crate::reload::{ManagedEdit, ReplaceError};

const FILE: &str = "limits.toml";
const HEADER: &str =
    "# Limits made through the API. Oncegate rewrites this file; write your own limits in another one.\n";
const OPEN: &str = "[limits.";

/// The names that the file beside the configuration at `path` declares. A name that it does not know was declared by
/// a person.
pub(crate) fn names(path: &Path) -> io::Result<BTreeSet<String>> {
    match fs::read_to_string(load::managed_folder(path).join(FILE)) {
        Ok(text) => Ok(text.lines().filter_map(declared).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

/// The file with these limits and no other.
pub(crate) fn edit<'a>(limits: impl Iterator<Item = &'a Limit>) -> ManagedEdit {
    let text = std::iter::once(HEADER.to_owned()).chain(limits.map(written)).collect();
    ManagedEdit { file: FILE, text: Some(text) }
}

impl From<ReplaceError> for ApiError {
    fn from(error: ReplaceError) -> Self {
        match error {
            ReplaceError::Faults(faults) => {
                let first = faults.first().map(|fault| fault.message.as_str()).unwrap_or_default();
                let message = format!("the definition is faulty: {first}. Nothing was changed.");
                Self::new(ErrorCode::Validation, message)
                    .with_details(faults.iter().map(shown).collect::<Vec<_>>().into())
            }
            ReplaceError::Standing(faults) => {
                let message = "the configuration on disk has faults of its own; `oncegate check` lists them. Nothing \
                               was changed.";
                let faults: Vec<_> = faults.iter().map(shown).collect();
                Self::new(ErrorCode::Conflict, message)
                    .with_details(json!({ "reason": "configuration_faulty", "faults": faults }))
            }
            error @ (ReplaceError::Write { .. } | ReplaceError::Reload(_)) => {
                Self::internal("take the new configuration", &error).but("What was in force stays in force.")
            }
        }
    }
}

/// A fault for a client: which file it is in, and not where that lies.
fn shown(fault: &Fault) -> Value {
    let Fault { file, line, column, message } = fault;
    let file = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    json!({ "field": format!("{file}:{line}:{column}"), "message": message })
}

/// The name in a line that begins a limit as [`written`] writes it.
fn declared(line: &str) -> Option<String> {
    serde_json::from_str(line.trim_end().strip_prefix(OPEN)?.strip_suffix(']')?).ok()
}

/// JSON's spelling of a text is TOML's as well, but for one control character.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn written(limit: &Limit) -> String {
    let mut text = format!("\n{OPEN}{}]\n", quoted(&limit.name));
    let mut member = |name: &str, value: &str| text.push_str(&format!("{name} = {value}\n"));
    member("dimension", &quoted(limit.dimension.word()));
    match &limit.dimension {
        Dimension::Money { currency } => member("currency", &quoted(currency)),
        Dimension::ResourceMutations => {}
        Dimension::Declared { unit, .. } => member("unit", &quoted(unit)),
    }
    member("period", &quoted(limit.period.word()));
    member("amount", &limit.amount.to_string());
    if let Some(action) = &limit.action {
        member("action", &quoted(action.as_str()));
    }
    if let Some(prefix) = &limit.resource_prefix {
        member("resource_prefix", &quoted(prefix));
    }
    text
}

#[cfg(test)]
mod tests {
    use oncegate_policy::action::ActionName;
    use oncegate_policy::limit::Period;

    use super::*;

    fn limit(name: &str) -> Limit {
        Limit {
            name: name.into(),
            dimension: Dimension::Money { currency: "usd".into() },
            period: Period::Day,
            amount: 50_000,
            action: ActionName::parse("refund"),
            resource_prefix: Some("acct_1/\"x\"".into()),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oncegate.toml");
        assert!(names(&path).unwrap().is_empty());
        let written = ["plain", "with \"quotes\" and ]", "two\nlines \u{7f}"];
        let limits = written.map(limit);
        let text = edit(limits.iter()).text.unwrap();
        fs::create_dir(dir.path().join("managed")).unwrap();
        fs::write(dir.path().join("managed/limits.toml"), &text).unwrap();
        assert_eq!(names(&path).unwrap(), written.map(str::to_owned).into());
        assert!(text.contains("[limits.\"plain\"]\ndimension = \"money\"\ncurrency = \"usd\"\n"), "{text}");
        assert!(text.contains("resource_prefix = \"acct_1/\\\"x\\\"\"\n"), "{text}");
        assert_eq!(edit(std::iter::empty()).text.as_deref(), Some(HEADER));
    }
}
