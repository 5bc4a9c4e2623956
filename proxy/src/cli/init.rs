//! `oncegate init`: a commented starter configuration, two keys, and a CA. Overwrites nothing.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use clap::Args;
use oncegate_certs::{Authority, write_bundle};
use oncegate_policy::caller::{CallerName, Scope};
use oncegate_policy::fingerprint::digest_hex;
use serde_json::json;

use super::exit::{Exit, Stop, chain};
use super::{Common, key, print, shims};
use crate::clock::Clock;
use crate::load;

const STARTER: &str = include_str!("starter.toml");

#[derive(Args)]
pub(crate) struct InitArgs {}

/// A caller of the starter, and the key that is shown once.
struct Fresh {
    name: CallerName,
    key: String,
    scopes: Vec<Scope>,
}

/// Writes the configuration to `--config` and the CA beside it.
pub(crate) fn run(common: &Common, _args: &InitArgs) -> Result<Exit, Stop> {
    let agent = fresh("agent", &[Scope::ActionsInvoke])?;
    let operator = fresh("operator", &Scope::ALL.map(|(scope, _)| scope))?;
    let text = starter(&[&agent, &operator]);
    write_new(&common.config, &text)?;
    let loaded = load::load(&common.config)
        .map_err(|error| Stop::failed(format!("the starter configuration is broken: {}", chain(&error))))?;
    let ca_dir = loaded.ca_dir();
    let authority = Authority::load_or_create(&ca_dir, Clock::System.system())
        .map_err(|error| Stop::usage(chain(&error)))?;
    let bundle = write_bundle(&ca_dir, &authority).map_err(|error| Stop::usage(chain(&error)))?;
    shims::write(&ca_dir)?;
    if common.json {
        let keys = [&agent, &operator].map(|one| json!({ "caller": one.name.as_str(), "key": one.key }));
        print::json(&json!({ "config": loaded.file, "caDir": ca_dir, "bundle": bundle, "keys": keys }));
        return Ok(Exit::Done);
    }
    print::line(&format!("wrote {} and a CA in {}", loaded.file.display(), ca_dir.display()));
    print::line("\nTwo keys, shown this once; the file holds their hashes:");
    print::line(&format!("  agent     {}", agent.key));
    print::line(&format!("  operator  {}   (export ONCEGATE_KEY=… for `oncegate effects`)", operator.key));
    print::line("\nNext: declare a secret, a host and an action in the file, then");
    let usual = common.config == Path::new("oncegate.toml");
    let here = if usual { String::new() } else { format!(" --config {}", common.config.display()) };
    print::line(&format!("  oncegate check{here}\n  oncegate run{here} --as agent -- your-agent"));
    Ok(Exit::Done)
}

fn fresh(name: &str, scopes: &[Scope]) -> Result<Fresh, Stop> {
    let name = CallerName::parse(name).ok_or_else(|| Stop::failed("a caller of the starter has no name"))?;
    Ok(Fresh { name, key: key::generate()?, scopes: scopes.to_vec() })
}

fn starter(callers: &[&Fresh]) -> String {
    let declared: Vec<_> = callers
        .iter()
        .map(|one| key::declaration(&one.name, &digest_hex(one.key.as_bytes()), &one.scopes, None))
        .collect();
    STARTER.replace("{{callers}}", &declared.join("\n\n"))
}

/// Writes a file that is not there yet, for its owner alone.
fn write_new(path: &Path, text: &str) -> Result<(), Stop> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            Stop::usage(format!("{} is already there; nothing was changed", path.display()))
        } else {
            Stop::usage(format!("cannot write {}: {error}", path.display()))
        }
    })
}

#[cfg(test)]
mod tests {
    use oncegate_config::Source;

    use super::*;

    fn text() -> String {
        let agent = fresh("agent", &[Scope::ActionsInvoke]).unwrap();
        let operator = fresh("operator", &Scope::ALL.map(|(scope, _)| scope)).unwrap();
        starter(&[&agent, &operator])
    }

    #[test]
    fn the_starter_has_no_fault_and_nothing_doubtful() {
        let text = text();
        let parsed = oncegate_config::parse(&[Source { name: "oncegate.toml", text: &text }]).unwrap();
        assert_eq!(parsed.config.callers.len(), 2);
        assert_eq!(parsed.warnings, []);
    }

    #[test]
    fn what_the_starter_only_suggests_is_right_too() {
        // Lines that look like TOML behind a `# ` are uncommented.
        let is_toml = |line: &str| {
            line.starts_with('[') || line.split_once(" = ").is_some_and(|(name, _)| !name.contains(' '))
        };
        let text: String = text()
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if is_toml(rest) => format!("{rest}\n"),
                Some(_) | None => format!("{line}\n"),
            })
            .collect();
        let tickets = "[hosts.\"tickets.example\"]\n";
        let parsed = oncegate_config::parse(&[
            Source { name: "oncegate.toml", text: &text },
            Source { name: "hosts.toml", text: tickets },
        ]);
        let parsed = parsed.unwrap_or_else(|faults| panic!("{faults:#?}"));
        assert_eq!(parsed.config.actions.len(), 2);
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oncegate.toml");
        write_new(&path, "first").unwrap();
        assert_eq!(write_new(&path, "second").unwrap_err().exit, Exit::Usage);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
    }
}
