//! What can be told without trying a client: files, and variables that are set where `doctor` runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use oncegate_certs::{TRUSTSTORE, last_second};
use oncegate_config::model::HostPattern;
use serde_json::{Value, json};

use crate::load::Loaded;

/// A CA that ends sooner is worth a word.
const SOON: Duration = Duration::from_hours(24 * 30);
/// Variables that make a client take any certificate. It would come through, but also believe anybody else.
const CREDULOUS: [(&str, &str); 3] =
    [("NODE_TLS_REJECT_UNAUTHORIZED", "0"), ("GIT_SSL_NO_VERIFY", "1"), ("PYTHONHTTPSVERIFY", "0")];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Grade {
    Fine,
    /// Said, and of no consequence for the exit code.
    Doubtful,
    Failed,
}

/// One thing that was looked at.
pub(super) struct Check {
    name: &'static str,
    grade: Grade,
    said: String,
    remedy: &'static str,
}

impl Check {
    fn fine(name: &'static str, said: impl Into<String>) -> Self {
        Self { name, grade: Grade::Fine, said: said.into(), remedy: "" }
    }

    fn doubtful(name: &'static str, said: impl Into<String>, remedy: &'static str) -> Self {
        Self { name, grade: Grade::Doubtful, said: said.into(), remedy }
    }

    fn bad(name: &'static str, said: impl Into<String>, remedy: &'static str) -> Self {
        Self { name, grade: Grade::Failed, said: said.into(), remedy }
    }

    pub(super) fn failed(&self) -> bool {
        self.grade == Grade::Failed
    }

    fn word(&self) -> &'static str {
        match self.grade {
            Grade::Fine => "ok",
            Grade::Doubtful => "warning",
            Grade::Failed => "failed",
        }
    }

    pub(super) fn document(&self) -> Value {
        json!({ "check": self.name, "result": self.word(), "said": self.said, "remedy": self.remedy })
    }

    pub(super) fn text(&self) -> String {
        let remedy =
            if self.remedy.is_empty() { String::new() } else { format!("          -> {}\n", self.remedy) };
        format!("{:<9} {}: {}\n{remedy}", self.word(), self.name, self.said)
    }
}

/// Whether no client can be governed at all.
pub(super) fn hopeless(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.name == "ca" && check.failed())
}

/// None could be had to try the clients behind.
pub(super) fn no_sidecar(why: &str) -> Check {
    Check::bad("sidecar", why, "no client was tried; `oncegate serve` says more")
}

/// The CA and what agents are given, and who may read what.
pub(super) fn files(loaded: &Loaded, now: SystemTime) -> Vec<Check> {
    let trust = loaded.trust_dir();
    let mut checks = vec![authority(&trust.join("ca.pem"), now), bundle(&trust)];
    let private = [loaded.ca_dir().join("ca.key"), loaded.database()];
    checks.extend(private.iter().filter_map(|path| open_to_others(path)));
    checks
}

fn authority(path: &Path, now: SystemTime) -> Check {
    let none = "make one with `oncegate init`, or start `oncegate serve` once";
    let Ok(pem) = fs::read(path) else {
        return Check::bad("ca", format!("{} cannot be read", path.display()), none);
    };
    let Some(end) = last_second(&pem) else {
        return Check::bad("ca", format!("{} holds no certificate", path.display()), none);
    };
    let days = |left: Duration| left.as_secs() / (24 * 60 * 60);
    let anew = "remove ca.pem and ca.key, start the sidecar, and give agents the new bundle";
    match end.duration_since(now) {
        Err(_) => Check::bad("ca", "the certificate has expired", anew),
        Ok(left) if left < SOON => {
            Check::doubtful("ca", format!("the certificate ends in {} days", days(left)), anew)
        }
        Ok(left) => Check::fine("ca", format!("the certificate is good for {} days", days(left))),
    }
}

fn bundle(trust: &Path) -> Check {
    let restart = "start the sidecar: it writes them anew";
    let ours = fs::read_to_string(trust.join("ca.pem")).unwrap_or_default();
    let first = ours.split_inclusive("-----END CERTIFICATE-----").next().unwrap_or_default().trim();
    let bundle = fs::read_to_string(trust.join("bundle.pem")).unwrap_or_default();
    if first.is_empty() || !bundle.contains(first) {
        return Check::bad("bundle", "bundle.pem does not hold our certificate", restart);
    }
    if !trust.join(TRUSTSTORE).exists() {
        return Check::bad("bundle", format!("{TRUSTSTORE} is not there: Java will not work"), restart);
    }
    Check::fine("bundle", format!("bundle.pem and {TRUSTSTORE} are there"))
}

/// A file that only the sidecar's user should read. One that is not there, or that cannot be seen, is not open.
fn open_to_others(path: &Path) -> Option<Check> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let said = format!("{} has mode {mode:04o}", path.display());
    Some(if mode & 0o077 == 0 {
        Check::fine("modes", said)
    } else {
        Check::bad("modes", said, "others can read it: chmod 600")
    })
}

/// Variables around us. A run replaces those that lead to a proxy; what is started in another way has them as they are.
pub(super) fn environment(loaded: &Loaded, get: &dyn Fn(&str) -> Option<String>) -> Vec<Check> {
    let mut checks = Vec::new();
    for name in ["NO_PROXY", "no_proxy"] {
        let around = get(name).map(|value| led_around(loaded, &value)).unwrap_or_default();
        if !around.is_empty() {
            let said = format!("{name} leads around the proxy: {}", around.join(", "));
            let remedy =
                "take it out of the agent's environment; `oncegate run` and `oncegate env` replace it";
            checks.push(Check::doubtful("environment", said, remedy));
        }
    }
    for name in ["ALL_PROXY", "all_proxy"] {
        if get(name).is_some_and(|value| !value.is_empty()) {
            let said = format!("{name} is set, and some clients prefer it");
            let remedy = "unset it for the agent; `oncegate run` and `oncegate env` do";
            checks.push(Check::doubtful("environment", said, remedy));
        }
    }
    for (name, value) in CREDULOUS {
        if get(name).is_some_and(|set| set == value) {
            let said = format!("{name}={value} makes a client believe any certificate");
            checks.push(Check::doubtful("environment", said, "unset it: the bundle makes it needless"));
        }
    }
    if checks.is_empty() {
        checks.push(Check::fine("environment", "no variable here leads around the proxy"));
    }
    checks
}

/// The declared hosts that a list of exceptions names.
fn led_around(loaded: &Loaded, exceptions: &str) -> Vec<String> {
    let names = exceptions.split([',', ' ']).map(|name| name.trim().to_ascii_lowercase());
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    let covers = |name: &str, host: &str| {
        let name =
            name.split(':').next().unwrap_or_default().trim_start_matches("*.").trim_start_matches('.');
        name == "*" || host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
    };
    let hosts = loaded.config.hosts.iter().map(|host| match &host.pattern {
        HostPattern::Exact(name) | HostPattern::Below(name) => name,
    });
    hosts.filter(|host| names.iter().any(|name| covers(name, host))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use oncegate_certs::Authority;

    use super::*;

    #[test]
    fn a_ca_is_good_until_it_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let made = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let path = directory.path().join("ca.pem");
        assert!(authority(&path, made).failed(), "none");
        Authority::load_or_create(directory.path(), made).unwrap();
        let end = last_second(&fs::read(&path).unwrap()).unwrap();
        let grade = |at| authority(&path, at).grade;
        assert!(grade(made) == Grade::Fine && grade(end - SOON) == Grade::Fine);
        assert!(
            grade(end - SOON + Duration::from_secs(1)) == Grade::Doubtful && grade(end) == Grade::Doubtful
        );
        assert!(grade(end + Duration::from_secs(1)) == Grade::Failed);
        fs::write(&path, "no certificate").unwrap();
        assert!(authority(&path, made).failed());
    }
}
