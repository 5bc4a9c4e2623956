//! `managed/actions.toml`: the definitions that were made through the API.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// The file's name in the managed folder.
pub(crate) const FILE: &str = "actions.toml";
/// Most definitions that the API makes. Each start reads and judges all of them.
pub(crate) const DEFINITIONS_MAX: usize = 1_000;

const HEADER: &str =
    "# Actions made through the API. Oncegate rewrites this file; write your own actions in another one.\n";
const SECTION: &str = "actions";

/// The entries of the file, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Defined(Table);

impl Defined {
    /// Reads the file's text.
    ///
    /// # Errors
    /// When somebody has edited it into something that is not TOML.
    pub(crate) fn read(text: &str) -> Result<Self, toml::de::Error> {
        let mut file: Table = text.parse()?;
        match file.remove(SECTION) {
            Some(Value::Table(entries)) => Ok(Self(entries)),
            // A section of another type is a fault of the configuration, which no sidecar serves.
            Some(_) | None => Ok(Self::default()),
        }
    }

    /// The file's text.
    ///
    /// # Errors
    /// None that is known: what was read from TOML or JSON can be written.
    pub(crate) fn text(&self) -> Result<String, toml::ser::Error> {
        let file = Table::from_iter([(SECTION.to_owned(), Value::Table(self.0.clone()))]);
        let text = if self.0.is_empty() { String::new() } else { toml::to_string_pretty(&file)? };
        Ok(format!("{HEADER}{text}"))
    }

    /// One entry.
    pub(crate) fn get(&self, name: &str) -> Option<&Table> {
        self.0.get(name).and_then(Value::as_table)
    }

    /// Adds or replaces an entry.
    pub(crate) fn set(&mut self, name: &str, entry: Table) {
        self.0.insert(name.to_owned(), Value::Table(entry));
    }

    /// Takes an entry out; whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Every name.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut defined = Defined::default();
        assert_eq!(Defined::read(&defined.text().unwrap()).unwrap(), defined);
        let entry: Table = "method = \"POST\"\nheaders = { \"x y\" = \"a\\\"\\u007f\" }\n[verify]\nmatch = [{ path = \"a.*\" }]"
            .parse()
            .unwrap();
        defined.set("a.b-c", entry.clone());
        defined.set("d", Table::new());
        let text = defined.text().unwrap();
        assert!(text.starts_with("# Actions made through the API."), "{text}");
        assert!(text.contains("[actions.\"a.b-c\"]\n"), "{text}");
        let mut read = Defined::read(&text).unwrap();
        assert_eq!(read.get("a.b-c"), Some(&entry));
        assert!(read.remove("d") && !read.remove("d"));
        assert_eq!(read.names(), ["a.b-c"].into());
        assert!(Defined::read("[actions").is_err());
    }
}
