//! Text to [`Config`]. Opens no file and reads no environment: the caller hands the text in, and gets
//! either a whole configuration or every fault in it. Read `model` first.

pub mod lookup;
pub mod model;

mod checks;
mod document;
mod fault;
mod headers;
mod nearest;
mod reader;
mod resources;
mod templates;
mod value;

mod actions;
mod adapters;
mod callers;
mod control;
mod cross;
mod declared;
mod facts;
mod hosts;
mod judged;
mod limits;
mod narrower;
mod oauth2;
mod proxy;
mod secrets;
#[cfg(test)]
mod tests;
mod warnings;

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

pub use fault::Fault;
pub use nearest::nearest;

use document::Document;
use facts::Facts;
use fault::{Log, Place};
use model::{Config, Preset};

/// One file of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// What faults call it.
    pub name: &'a str,
    /// What it holds.
    pub text: &'a str,
}

/// A configuration without faults.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// What it says.
    pub config: Config,
    /// What is allowed and still doubtful, in the order of the text.
    pub warnings: Vec<Fault>,
}

/// What is known of providers, by the names that `preset` may have.
pub type Presets = BTreeMap<String, Preset>;

/// Reads a configuration that takes over no presets: see [`parse_with`].
///
/// # Errors
/// Every fault of every source, in the order of the text.
pub fn parse(sources: &[Source<'_>]) -> Result<Parsed, Vec<Fault>> {
    parse_with(sources, &Presets::new())
}

/// Reads a configuration. Several sources are one configuration: sections that are one table stand in one of them,
/// entries of the other sections may stand in any.
///
/// # Errors
/// Every fault of every source, in the order of the text.
pub fn parse_with(sources: &[Source<'_>], presets: &Presets) -> Result<Parsed, Vec<Fault>> {
    let log = Log::new(sources);
    let mut files = Vec::new();
    for (file, source) in sources.iter().enumerate() {
        match DeTable::parse(source.text) {
            Ok(table) => files.push((file, table)),
            Err(error) => {
                let span = error.span().unwrap_or_default();
                let place = Place { file, offset: span.start };
                log.fault(place, format!("not TOML: {}", not_toml(error.message(), source.text.get(span))));
            }
        }
    }
    let whole = files.len() == sources.len();
    let nothing = DeValue::Table(DeTable::new());
    let document = Document::merge(&files, &nothing, &log);
    let mut facts = Facts { presets: presets.clone(), ..Facts::default() };
    let config = read(&document, &mut facts);
    // A file that could not be read may declare what the others name.
    if whole {
        cross::judge(&facts, &log);
    }
    if let (Some(config), true) = (&config, log.is_clean()) {
        warnings::judge(config, &facts, &log);
    }
    let (faults, warnings) = log.finish();
    match config {
        Some(config) if faults.is_empty() => Ok(Parsed { config, warnings }),
        Some(_) | None => Err(faults),
    }
}

/// The library does not say which key it met twice.
fn not_toml(message: &str, met: Option<&str>) -> String {
    match (message, met) {
        ("duplicate key", Some(key)) => format!("duplicate key `{key}`"),
        (message, _) => message.to_owned(),
    }
}

fn read(document: &Document<'_>, facts: &mut Facts) -> Option<Config> {
    let proxy = proxy::proxy(document, facts);
    let control = control::control(document, facts);
    let log = control::log(document);
    let otel = control::otel(document);
    let store = proxy::store(document);
    let reconcile = proxy::reconcile(document);
    let ca = proxy::ca(document);
    let callers = callers::read(document, facts);
    let vault_key = secrets::vault_key(document);
    let secrets = secrets::read(document, facts);
    // Before the actions, which ask what kind of host they go to.
    let hosts = hosts::read(document, facts);
    let actions = actions::read(document, facts);
    let hosts = [hosts, hosts::implied(facts)].concat();
    let limits = limits::read(document, facts);
    let (ca_dir, trust_dir) = ca?;
    Some(Config {
        proxy: proxy?,
        control: control?,
        log: log?,
        otel: otel?,
        store: store?,
        reconcile: reconcile?,
        ca_dir,
        trust_dir,
        callers,
        vault_key,
        secrets,
        secret_uses: facts.uses_of_secrets(),
        hosts,
        actions,
        limits,
    })
}
