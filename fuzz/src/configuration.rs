//! Any text as a configuration: faults with a place and a sentence, or something that can be served.

use oncegate_config::{Source, parse};
use oncegate_policy::router::Router;
use toml::Table;

/// Every table of the file, as docs/configuration.md has them.
const TABLES: [&str; 13] = [
    "proxy",
    "control",
    "log",
    "otel",
    "store",
    "reconcile",
    "ca",
    "vault",
    "callers",
    "secrets",
    "hosts",
    "actions",
    "limits",
];

/// The text of one file.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let source = Source { name: "fuzz.toml", text };
    match parse(&[source]) {
        Ok(parsed) => {
            let again = parse(&[source]).expect("the same text again");
            assert_eq!(format!("{:?}", parsed.config), format!("{:?}", again.config));
            // Nothing is read over: a word that nobody knows would be a rule that does not hold.
            let table: Table = text.parse().expect("what is no TOML is refused");
            assert!(table.keys().all(|name| TABLES.contains(&name.as_str())), "{text:?}");
            let named = |name: &str| table.get(name).and_then(|table| table.as_table()).map_or(0, Table::len);
            let (actions, callers) = (parsed.config.actions.len(), parsed.config.callers.len());
            assert_eq!((actions, callers), (named("actions"), named("callers")), "{text:?}");
            drop(Router::build(parsed.config.routes()));
            assert!(parsed.warnings.iter().all(|warning| !warning.to_string().is_empty()));
        }
        Err(faults) => {
            assert!(!faults.is_empty(), "refused without a word");
            assert!(faults.iter().all(|fault| fault.to_string().len() > "fuzz.toml".len()));
        }
    }
}
