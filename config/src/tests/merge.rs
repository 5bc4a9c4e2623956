//! Several files.

use crate::{Source, parse};

fn faults(texts: &[&str]) -> Vec<String> {
    let names = ["a.toml", "b.toml", "c.toml"];
    let sources: Vec<Source<'_>> =
        names.iter().zip(texts).map(|(name, text)| Source { name, text }).collect();
    match parse(&sources) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn entries_may_stand_in_any_file() {
    let found = faults(&[
        "[proxy]\nlisten = \"127.0.0.1:0\"\n[hosts.\"a.example\"]",
        "[hosts.\"b.example\"]\n[limits.l]\ndimension = \"resource_mutations\"\nperiod = \"day\"\namount = 1\naction = \"x\"",
        "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"",
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn one_table_in_two_files_is_a_fault_that_names_both() {
    let found = faults(&["[proxy]\n[hosts.\"a.example\"]", "\n[proxy]\n[hosts.\"a.example\"]"]);
    assert_eq!(
        found,
        [
            "b.toml:2:2: `[proxy]` is already defined at a.toml:1:2",
            "b.toml:3:8: `[hosts.a.example]` is already defined at a.toml:2:8",
        ]
    );
}

#[test]
fn a_file_that_is_not_toml_does_not_hide_the_faults_of_the_others() {
    let found = faults(&[
        "[secrets.K]\nfrom = {",
        "[proxy]\nx = 1\n[hosts.\"a.example\"]\ncredential = { header = \"x\", value = \"{{secret:K}}\" }",
    ]);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("a.toml:2:"), "{found:#?}");
    assert!(found[1].starts_with("b.toml:2:1: unknown key `x`"), "{found:#?}");
}
