//! `managed/secrets.toml` beside the configuration: what is declared of secrets that were put through the API.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use oncegate_config::Source;
use oncegate_config::model::{Placement, SecretSpec};
use thiserror::Error;

use super::managed::quoted;
use crate::load;
use crate::reload::ManagedEdit;

const FILE: &str = "secrets.toml";
const HEADER: &str = "# Secrets put through the API; their values are in the vault. Oncegate rewrites this file; write your own \
                      secrets in another one.\n";

/// What the file declares. A name that it does not know was declared by a person.
pub(crate) type Declared = BTreeMap<String, SecretSpec>;

/// Why the file cannot be read.
#[derive(Debug, Error)]
pub(crate) enum Unread {
    /// What the system said.
    #[error("managed/secrets.toml cannot be read")]
    File(#[from] std::io::Error),
    /// Somebody has changed it.
    #[error("managed/secrets.toml has {0} fault(s)")]
    Faulty(usize),
}

/// Of the file beside the configuration at `path`.
pub(crate) fn read(path: &Path) -> Result<Declared, Unread> {
    let text = match std::fs::read_to_string(load::managed_folder(path).join(FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Declared::new()),
        Err(error) => return Err(error.into()),
    };
    let parsed = oncegate_config::parse(&[Source { name: FILE, text: &text }]);
    parsed.map(|parsed| parsed.config.secrets).map_err(|faults| Unread::Faulty(faults.len()))
}

/// The file with these secrets and no other.
pub(crate) fn edit(secrets: &Declared) -> ManagedEdit {
    let written = secrets.iter().map(|(name, spec)| written(name, spec));
    let text = std::iter::once(HEADER.to_owned()).chain(written).collect();
    ManagedEdit { file: FILE, text: Some(text) }
}

fn written(name: &str, spec: &SecretSpec) -> String {
    let mut text = format!("\n[secrets.{name}]\nfrom = {{ vault = true }}\n");
    let mut member = |name: &str, value: &str| text.push_str(&format!("{name} = {value}\n"));
    if let Some(description) = &spec.description {
        member("description", &quoted(description));
    }
    if let Some(hosts) = &spec.allowed_hosts {
        let hosts: Vec<_> = hosts.iter().map(|host| quoted(host)).collect();
        member("allowed_hosts", &format!("[{}]", hosts.join(", ")));
    }
    if let Some(placements) = &spec.allowed_placements {
        let words = placements.iter().map(|place| match place {
            Placement::Header => "\"header\"",
            Placement::Url => "\"url\"",
            Placement::Body => "\"body\"",
        });
        member("allowed_placements", &format!("[{}]", words.collect::<Vec<_>>().join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use oncegate_config::model::SecretSource;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oncegate.toml");
        assert!(read(&path).unwrap().is_empty());
        let bare = SecretSpec {
            from: SecretSource::Vault,
            description: None,
            allowed_hosts: None,
            allowed_placements: None,
        };
        let full = SecretSpec {
            description: Some("for \"refunds\"\n[secrets.X]".into()),
            allowed_hosts: Some(vec!["api.stripe.com".into(), ".example.com".into()]),
            allowed_placements: Some(vec![Placement::Url, Placement::Header, Placement::Body]),
            ..bare.clone()
        };
        let all = Declared::from([("BARE".into(), bare), ("FULL".into(), full)]);
        std::fs::create_dir(dir.path().join("managed")).unwrap();
        std::fs::write(dir.path().join("managed/secrets.toml"), edit(&all).text.unwrap()).unwrap();
        assert_eq!(read(&path).unwrap(), all);
    }
}
