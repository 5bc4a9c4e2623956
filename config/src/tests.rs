//! Whole texts in, whole configurations or every fault out.

mod control;
mod credentials;
mod cross;
mod example;
mod faults;
mod lookup;
mod merge;
mod warnings;

use crate::model::Config;
use crate::{Source, parse};

/// The configuration of one file that has no fault.
fn config(text: &str) -> Config {
    match parse(&[Source { name: "t.toml", text }]) {
        Ok(parsed) => parsed.config,
        Err(faults) => panic!("{faults:#?}"),
    }
}

/// Every fault of one file, printed.
fn faults(text: &str) -> Vec<String> {
    match parse(&[Source { name: "t.toml", text }]) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

/// Every warning of one file that has no fault, printed.
fn warnings(text: &str) -> Vec<String> {
    match parse(&[Source { name: "t.toml", text }]) {
        Ok(parsed) => parsed.warnings.iter().map(ToString::to_string).collect(),
        Err(faults) => panic!("{faults:#?}"),
    }
}

/// Texts and exactly the faults they have, without `t.toml:`.
fn check(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        let found = faults(text);
        let found: Vec<&str> = found.iter().map(|fault| fault.trim_start_matches("t.toml:")).collect();
        assert_eq!(&found, expected, "in:\n{text}");
    }
}
