//! `oncegate check`: every fault at once, as `file:line:column: message`. Beside what the configuration says, it
//! judges whether the files, variables and the database that it names can be had. Sends nothing and changes nothing.

use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use oncegate_certs::{Authority, upstream_config};
use oncegate_config::Fault;
use oncegate_config::model::SecretSource;
use oncegate_store::examine::examine;
use oncegate_store::found::Found;
use serde_json::{Value, json};

use super::exit::{Exit, Stop, chain};
use super::{Common, print};
use crate::clock::Clock;
use crate::control::tls;
use crate::load::{self, LoadError, Loaded, Text};
use crate::secrets;
use crate::vault::Vault;

/// What is written to see whether there is room: what a start needs beside its database.
const TRIED_BYTES: usize = 64 * 1024;

#[derive(Args)]
pub(crate) struct CheckArgs {}

/// Exits 2 on any fault; warnings alone are printed and pass.
pub(crate) async fn run(common: &Common, _args: &CheckArgs) -> Result<Exit, Stop> {
    let texts = load::read(&common.config).map_err(|error| Stop::usage(super::unloaded(&error)))?;
    let (faults, warnings, summary) = match load::judge(&common.config, &texts) {
        Ok(loaded) => {
            let mut warnings = loaded.warnings.clone();
            if loaded.config.callers.is_empty() {
                let message = "there are no callers: nobody can ask for anything, and nobody can halt";
                warnings.push(first_line(&texts).fault(message.to_owned()));
            }
            warnings.extend(not_runnable(&loaded, &texts));
            warnings.extend(no_record(&loaded, &texts));
            (out_of_reach(&loaded, &texts).await, warnings, summary(&loaded))
        }
        Err(LoadError::Faults(faults)) => (faults, Vec::new(), String::new()),
        Err(error @ (LoadError::Read { .. } | LoadError::Empty { .. } | LoadError::Catalogue(_))) => {
            return Err(Stop::usage(super::unloaded(&error)));
        }
    };
    let exit = if faults.is_empty() { Exit::Done } else { Exit::Usage };
    if common.json {
        let list = |faults: &[Fault]| faults.iter().map(as_json).collect::<Vec<_>>();
        print::json(
            &json!({ "ok": faults.is_empty(), "faults": list(&faults), "warnings": list(&warnings) }),
        );
        return Ok(exit);
    }
    for fault in &faults {
        print::line(&fault.to_string());
    }
    for warning in &warnings {
        let Fault { file, line, column, message } = warning;
        print::line(&format!("{file}:{line}:{column}: warning: {message}"));
    }
    if faults.is_empty() {
        print::line(&summary);
    } else {
        print::note(&format!("{} fault(s)", faults.len()));
    }
    Ok(exit)
}

fn as_json(fault: &Fault) -> Value {
    json!({ "file": fault.file, "line": fault.line, "column": fault.column, "message": fault.message })
}

fn summary(loaded: &Loaded) -> String {
    let config = &loaded.config;
    format!(
        "ok: {} caller(s), {} host(s), {} action(s), {} limit(s)",
        config.callers.len(),
        config.hosts.len(),
        config.actions.len(),
        config.limits.len()
    )
}

/// Secrets, CA files and the CA itself, as far as they can be had without a side effect.
async fn out_of_reach(loaded: &Loaded, texts: &[Text]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (name, spec) in &loaded.config.secrets {
        match spec.from {
            SecretSource::Env(_) | SecretSource::File(_) => {
                if let Err(error) = secrets::read(name, spec, &loaded.directory, &Vault::default()).await {
                    faults.push(locate(texts, "secrets", name, "from").fault(chain(&error)));
                }
            }
            // A command may do more than answer, and what the vault lacks may be put into it later.
            SecretSource::Command(_) | SecretSource::Vault | SecretSource::OAuth2(_) => {}
        }
    }
    // A command may do more than answer here as well.
    let asks = matches!(loaded.config.vault_key, Some(SecretSource::Command(_)));
    if !asks && let Err(error) = Vault::open(&loaded.config, &loaded.directory).await {
        faults.push(locate(texts, "vault", "", "key").fault(chain(&error)));
    }
    for host in &loaded.config.hosts {
        let Some(file) = &host.ca_file else { continue };
        let judged = match std::fs::read(loaded.resolve(file)) {
            Ok(pem) => upstream_config(Some(&pem), &[]).map(drop).map_err(|error| chain(&error)),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = judged {
            let place = find_member(texts, "ca_file", &file.display().to_string());
            faults.push(place.fault(format!("ca_file {} cannot be used: {why}", file.display())));
        }
    }
    if let Err(error) = examine(&loaded.database()) {
        faults.push(locate(texts, "store", "", "path").fault(chain(&error)));
    } else if let Err(error) = takes_files(&loaded.database(), &loaded.directory) {
        let message = format!("the folder of {} cannot be written: {error}", loaded.database().display());
        faults.push(locate(texts, "store", "", "path").fault(message));
    }
    if let Some(files) = &loaded.config.control.tls
        && let Err(error) = tls::load(files, &loaded.directory)
    {
        faults.push(locate(texts, "control", "", "tls").fault(chain(&error)));
    }
    let ca_dir = loaded.ca_dir();
    // Only what is there is judged: a missing CA is made at the first start.
    // One that cannot be looked for may be there: a start would end on it.
    let is_there = |name: &str| ca_dir.join(name).try_exists().unwrap_or(true);
    if (is_there("ca.pem") || is_there("ca.key"))
        && let Err(error) = Authority::load_or_create(&ca_dir, Clock::System.system())
    {
        faults.push(locate(texts, "ca", "", "dir").fault(chain(&error)));
    }
    faults
}

/// Commands of secrets that are named by a path where no program is. It is a doubt and no fault, since it may be there when
/// it is needed; what is looked for in `PATH` is found, or not, in that of the sidecar.
fn not_runnable(loaded: &Loaded, texts: &[Text]) -> Vec<Fault> {
    let mut doubts = Vec::new();
    for (name, spec) in &loaded.config.secrets {
        let SecretSource::Command(command) = &spec.from else { continue };
        let Some(program) = command.first().filter(|program| program.contains('/')) else { continue };
        let file = loaded.directory.join(program);
        if !file.is_file() || rustix::fs::access(&file, rustix::fs::Access::EXEC_OK).is_err() {
            let message = format!("secret {name}: there is no program `{program}` that can be run");
            doubts.push(locate(texts, "secrets", name, "from").fault(message));
        }
    }
    doubts
}

/// A start that begins with nothing, which may be the first. A folder that is not here may be on the machine that this is meant for.
fn no_record(loaded: &Loaded, texts: &[Text]) -> Option<Fault> {
    let database = loaded.database();
    matches!(examine(&database), Ok(Found::EmptyFile)).then(|| {
        let at = database.display();
        let message = format!(
            "{at} has nothing in it: a start knows nothing of what was sent before; if one was made, restore a backup"
        );
        locate(texts, "store", "", "path").fault(message)
    })
}

fn folder_of(database: &Path) -> &Path {
    match database.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// The log of a database stands beside it: its folder takes files, and the disk has room for one. Leaves nothing there. A
/// folder that is not there, and not below the configuration's, may be another machine's: a configuration is checked where it is
/// written as well.
fn takes_files(database: &Path, configuration: &Path) -> io::Result<()> {
    let folder = folder_of(database);
    let made = tempfile::Builder::new().prefix(".oncegate-check-").tempfile_in(folder);
    let mut tried = match made {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.starts_with(configuration) => {
            return Ok(());
        }
        made => made?,
    };
    tried.write_all(&[0; TRIED_BYTES])?;
    tried.as_file().sync_data()
}

/// A place in the text.
struct Place {
    file: String,
    line: usize,
    column: usize,
}

impl Place {
    fn fault(self, message: String) -> Fault {
        Fault { file: self.file, line: self.line, column: self.column, message }
    }
}

/// Where a member of a table stands; the table's head, or the first line, when it is written in another way.
fn locate(texts: &[Text], section: &str, name: &str, member: &str) -> Place {
    let heads = match name {
        "" => [format!("[{section}]"), format!("{section} ="), format!("{section}.{member}")],
        _ => [format!("[{section}.{name}]"), format!("[{section}.\"{name}\"]"), format!("{name} =")],
    };
    for text in texts {
        let mut head = None;
        for (index, line) in text.text.lines().enumerate() {
            let start = line.trim_start();
            let place = || Place {
                file: text.name.clone(),
                line: index + 1,
                column: line.chars().count() - start.chars().count() + 1,
            };
            match &head {
                None if heads.iter().any(|known| start.starts_with(known)) => head = Some(place()),
                None => {}
                Some(_) if start.starts_with('[') => break,
                Some(_)
                    if start.strip_prefix(member).is_some_and(|rest| rest.trim_start().starts_with('=')) =>
                {
                    return place();
                }
                Some(_) => {}
            }
        }
        if let Some(head) = head {
            return head;
        }
    }
    first_line(texts)
}

/// Where a member with this value stands.
fn find_member(texts: &[Text], member: &str, value: &str) -> Place {
    for text in texts {
        for (index, line) in text.text.lines().enumerate() {
            if let Some(at) = line.find(member).filter(|_| line.contains(value)) {
                let column = line.get(..at).map_or(0, |before| before.chars().count()) + 1;
                return Place { file: text.name.clone(), line: index + 1, column };
            }
        }
    }
    first_line(texts)
}

fn first_line(texts: &[Text]) -> Place {
    Place { file: texts.first().map(|text| text.name.clone()).unwrap_or_default(), line: 1, column: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_point_at_the_line_that_is_meant() {
        let text = "[ca]\ndir = \"ca\"\n\n[secrets.A]\nallowed_hosts = []\n  from = { env = \"A\" }\n[hosts.x]\nca_file = \"u.pem\"\n";
        let texts = [Text { name: "o.toml".into(), text: text.into() }];
        let at = |place: Place| (place.line, place.column);
        assert_eq!(at(locate(&texts, "secrets", "A", "from")), (6, 3));
        assert_eq!(at(locate(&texts, "secrets", "A", "other")), (4, 1));
        assert_eq!(at(locate(&texts, "secrets", "B", "from")), (1, 1));
        assert_eq!(at(locate(&texts, "ca", "", "dir")), (2, 1));
        assert_eq!(at(find_member(&texts, "ca_file", "u.pem")), (8, 1));
    }
}
