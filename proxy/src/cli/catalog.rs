//! `oncegate catalog`: what is known of providers' idempotency, and where it stands.

use clap::Args;
use oncegate_adapters::catalog::{Entry, Fact, Place, entries};
use oncegate_config::nearest;

use super::exit::{Exit, Stop, chain};
use super::table::{Align, facts, table};
use super::{Common, print};

#[derive(Args)]
pub(crate) struct CatalogArgs {
    /// One entry, with the source of each fact
    name: Option<String>,
}

/// Lists the entries, or shows one. Reads no configuration.
pub(crate) fn run(common: &Common, args: &CatalogArgs) -> Result<Exit, Stop> {
    let all = entries().map_err(|fault| Stop::failed(chain(&fault)))?;
    let Some(name) = &args.name else {
        if common.json {
            print::json(&all);
        } else {
            let rows: Vec<_> = all.iter().map(row).collect();
            let columns = ["NAME", "KEY", "REPLAY", "PROVIDER"].map(|title| (title, Align::Left));
            print::out(&table(&columns, &rows));
        }
        return Ok(Exit::Done);
    };
    let Some(entry) = all.iter().find(|entry| entry.name == name) else {
        let near = nearest(name, all.iter().map(|entry| entry.name));
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Err(Stop::usage(format!("there is no {name} in the catalogue{hint}")));
    };
    if common.json {
        print::json(entry);
    } else {
        print::out(&facts(&told(entry)));
    }
    Ok(Exit::Done)
}

fn row(entry: &Entry) -> Vec<String> {
    vec![entry.name.to_owned(), key(entry), replay(entry), entry.facts.title.clone()]
}

fn key(entry: &Entry) -> String {
    let key = &entry.facts.key.what;
    let kind = match key.place {
        Place::Header => "header",
        Place::Body => "body",
        Place::Form => "form",
        Place::Document => "document",
        Place::Id => "own id",
        Place::None => return "none known".to_owned(),
    };
    format!("{kind} {}", key.name.as_deref().unwrap_or_default())
}

fn replay(entry: &Entry) -> String {
    match entry.replay() {
        Some((_, window_ms)) => span(window_ms / 60_000),
        None => "no".to_owned(),
    }
}

fn span(minutes: u64) -> String {
    if minutes.is_multiple_of(60) { format!("{} h", minutes / 60) } else { format!("{minutes} min") }
}

fn told(entry: &Entry) -> Vec<(&'static str, String)> {
    let known = &entry.facts;
    let mut told = vec![
        ("provider", known.title.clone()),
        ("hosts", known.hosts.join(", ")),
        ("key", with_source(&key(entry), &known.key)),
    ];
    if let Some(window) = &known.window {
        told.push(("remembered for", with_source(&span(window.what.minutes.into()), window)));
    }
    if let Some(failures) = &known.failures {
        let kept = if failures.what.kept { "yes" } else { "no" };
        told.push(("keeps failures", with_source(kept, failures)));
    }
    if let Some(conflict) = &known.conflict {
        told.push(("same key, other request", with_source(&conflict.what.status.to_string(), conflict)));
    }
    if let Some(read_back) = &known.read_back {
        told.push(("to look for it", with_source(&read_back.what.how, read_back)));
    }
    if let Some(response) = &known.response {
        told.push(("inside a 2xx", with_source("has rules", response)));
    }
    told.push(("replay", replay(entry)));
    told.extend(known.note.iter().filter(|note| !note.is_empty()).map(|note| ("note", note.clone())));
    told
}

fn with_source<T>(what: &str, fact: &Fact<T>) -> String {
    let doubt = if fact.confirmed { "" } else { "not confirmed: " };
    format!("{what} ({doubt}{})", fact.source)
}
