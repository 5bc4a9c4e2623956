//! What the repository promises about itself: arrows, sizes, links, pages, and a test for every promise.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on must stop")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use oncegate_policy::refusal::Code;
use toml::{Table, Value};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Every file of the tree with one of these endings, and its text.
fn files(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let skipped = ["target", ".git", ".venv", "node_modules", "__pycache__", ".pytest_cache"];
            if path.is_dir() {
                if !skipped.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no files ending in {endings:?}");
    found
}

#[track_caller]
fn none(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}

fn manifest(path: &Path) -> Table {
    fs::read_to_string(path).unwrap().parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Our own packages that a manifest depends on, in whatever way.
fn arrows(manifest: &Table) -> BTreeSet<String> {
    let mut kinds = vec![manifest];
    kinds.extend(
        manifest
            .get("target")
            .and_then(Value::as_table)
            .into_iter()
            .flat_map(|targets| targets.values().filter_map(Value::as_table)),
    );
    let tables = kinds.iter().flat_map(|kind| {
        ["dependencies", "dev-dependencies", "build-dependencies"]
            .into_iter()
            .filter_map(|name| kind.get(name).and_then(Value::as_table))
    });
    let names = tables.flat_map(|table| {
        table.iter().map(|(name, how)| how.get("package").and_then(Value::as_str).unwrap_or(name).to_owned())
    });
    names.filter(|name| name.starts_with("oncegate")).collect()
}

/// DESIGN section 12.
#[test]
fn arrows_point_one_way() {
    let law = ["oncegate-policy"];
    let house =
        ["oncegate-adapters", "oncegate-certs", "oncegate-config", "oncegate-policy", "oncegate-store"];
    let all = [&house[..], &["oncegate"]].concat();
    let proof = [&all[..], &["oncegate-tests"]].concat();
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("policy", &[][..]),
        ("config", &law[..]),
        ("store", &law[..]),
        ("adapters", &law[..]),
        ("certs", &[][..]),
        ("proxy", &house[..]),
        ("tests", &all[..]),
        ("bench", &all[..]),
        ("proof", &proof[..]),
        ("fuzz", &all[..]),
    ]);
    let workspace = manifest(&root().join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().unwrap();
    let members: BTreeSet<&str> = members.iter().filter_map(Value::as_str).collect();
    assert_eq!(
        members,
        allowed.keys().copied().collect(),
        "a member without a rule, or a rule without a member"
    );
    let mut faults = Vec::new();
    for (member, may) in allowed {
        for name in arrows(&manifest(&root().join(member).join("Cargo.toml"))) {
            if !may.contains(&name.as_str()) {
                faults.push(format!("{member} -> {name}"));
            }
        }
    }
    none("arrows that DESIGN section 12 does not have", &faults);
}

#[test]
fn the_arrows_are_seen() {
    let text = "[dependencies]\na = \"1\"\nb = { package = \"oncegate-x\" }\n[dev-dependencies]\noncegate-y.workspace = true\n[target.'cfg(unix)'.dependencies]\noncegate-z = \"1\"\n";
    let seen = arrows(&text.parse().unwrap());
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["oncegate-x", "oncegate-y", "oncegate-z"]);
}

#[test]
fn files_are_short() {
    const LINES_MAX: usize = 400;
    let long = files(&[".rs"]).into_iter().filter(|(_, text)| text.lines().count() > LINES_MAX);
    let faults: Vec<_> =
        long.map(|(path, text)| format!("{}: {}", path.display(), text.lines().count())).collect();
    none("files of more than 400 lines", &faults);
}

#[test]
fn every_refusal_has_a_page() {
    let folder = root().join("docs/refusals");
    let pages: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "README")
        .collect();
    let codes: BTreeSet<String> = Code::ALL.iter().map(|code| code.word().to_owned()).collect();
    let missing: Vec<_> = codes.difference(&pages).cloned().collect();
    none("codes without a page in docs/refusals", &missing);
    let left: Vec<_> = pages.difference(&codes).cloned().collect();
    none("pages in docs/refusals without a code", &left);
    for code in &codes {
        let text = fs::read_to_string(folder.join(format!("{code}.md"))).unwrap();
        assert!(text.contains(&format!("oncegate_{code}")), "{code}.md does not name its code");
    }
}

/// The targets of `[text](target)` outside code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect();
        for piece in prose.split("](").skip(1) {
            found.extend(
                piece.split(')').next().map(|t| t.split_whitespace().next().unwrap_or_default().to_owned()),
            );
        }
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let mut faults = Vec::new();
    for (path, text) in files(&[".md"]) {
        for link in links(&text) {
            let target = link.split('#').next().unwrap_or_default();
            let outside = ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme));
            let here = root().join(&path).parent().unwrap().join(target);
            if !outside && !target.is_empty() && !here.exists() {
                faults.push(format!("{}: {link}", path.display()));
            }
        }
    }
    none("links that lead nowhere", &faults);
}

#[test]
fn the_links_are_seen() {
    let text = "[a](b.md) and [c](d/e.md#f \"title\"), not `[x](y)`\n```\n[z](z)\n```\n";
    assert_eq!(links(text), ["b.md", "d/e.md#f"]);
}

/// Texts that must not stand anywhere; put together here so that this file does not hold them.
#[test]
fn nothing_is_left_lying_about() {
    let words = [["to", "do!("], ["FIX", "ME"], ["un", "implemented!("], ["/wo", "rk/"], ["/ro", "ot/"]];
    let mut faults = Vec::new();
    let endings = [
        ".rs",
        ".md",
        ".toml",
        ".py",
        ".sh",
        ".yml",
        ".yaml",
        ".sql",
        ".service",
        ".json",
        "run",
        "Dockerfile",
    ];
    for (path, text) in files(&endings) {
        for word in words.map(|pieces| pieces.concat()) {
            for (number, line) in text.lines().enumerate().filter(|(_, line)| line.contains(&word)) {
                faults.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    none("left lying about", &faults);
}

#[test]
fn every_promise_has_a_test_of_its_name() {
    let suite: String = files(&[".rs"])
        .into_iter()
        .filter(|(path, _)| path.starts_with("tests/suite"))
        .map(|(_, text)| text)
        .collect();
    let missing: Vec<_> = (1..=10)
        .filter(|number| !suite.contains(&format!("#[test]\nfn p{number}_")))
        .map(|number| format!("P{number}"))
        .collect();
    none("promises without a test that bears their name", &missing);
}
