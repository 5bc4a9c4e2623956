//! `managed/limits.toml` beside the configuration: limits made through the API. The file is read at every start like
//! what a person wrote, so a limit does not vanish with a restart; what a person wrote is never touched.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::Limit;

/// Where everything that the API defines is kept, beside the configuration.
const FOLDER: &str = "managed";
const FILE: &str = "limits.toml";
const HEADER: &str =
    "# Limits made through the API. Oncegate rewrites this file; write your own limits in another one.\n";
const OPEN: &str = "[limits.";

/// The file of one configuration.
pub(crate) struct Managed(PathBuf);

impl Managed {
    /// Of the configuration in this directory.
    pub(crate) fn beside(directory: &Path) -> Self {
        Self(directory.join(FOLDER))
    }

    /// The names that the file declares. A name that it does not know was declared by a person.
    pub(crate) fn names(&self) -> io::Result<BTreeSet<String>> {
        match fs::read_to_string(self.0.join(FILE)) {
            Ok(text) => Ok(text.lines().filter_map(declared).collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        }
    }

    /// Writes all of it anew, whole or not at all, durable when this returns.
    pub(crate) fn write<'a>(&self, limits: impl Iterator<Item = &'a Limit>) -> io::Result<()> {
        let text: String = std::iter::once(HEADER.to_owned()).chain(limits.map(written)).collect();
        fs::create_dir_all(&self.0)?;
        let mut file = tempfile::Builder::new().prefix(".limits-").tempfile_in(&self.0)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(self.0.join(FILE)).map_err(|error| error.error)?;
        fs::File::open(&self.0)?.sync_all()
    }
}

/// The name in a line that begins a limit as [`written`] writes it.
fn declared(line: &str) -> Option<String> {
    serde_json::from_str(line.trim_end().strip_prefix(OPEN)?.strip_suffix(']')?).ok()
}

/// JSON's spelling of a text is TOML's as well, but for one control character.
fn quoted(text: &str) -> String {
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
        let managed = Managed::beside(dir.path());
        assert!(managed.names().unwrap().is_empty());
        let names = ["plain", "with \"quotes\" and ]", "two\nlines \u{7f}"];
        managed.write(names.map(limit).iter()).unwrap();
        assert_eq!(managed.names().unwrap(), names.map(str::to_owned).into());
        let text = fs::read_to_string(dir.path().join("managed/limits.toml")).unwrap();
        assert!(text.contains("[limits.\"plain\"]\ndimension = \"money\"\ncurrency = \"usd\"\n"), "{text}");
        assert!(text.contains("resource_prefix = \"acct_1/\\\"x\\\"\"\n"), "{text}");
        managed.write(std::iter::empty()).unwrap();
        assert!(managed.names().unwrap().is_empty());
    }
}
