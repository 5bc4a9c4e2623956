//! `oncegate env`: the exports that an agent needs.

use crate::load::Loaded;
use clap::{Args, ValueEnum};
use oncegate_config::model::{Caller, CallerListen};
use oncegate_policy::caller::{CallerName, Scope};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::beside::{is_abandoned, proxy_file};
use super::environment::{Change, PROXIES, Place, Proxy, REMOVED, applied, changes, proxy_url};
use super::exit::{Exit, Stop};
use super::{Common, print, shims};

#[derive(Args)]
pub(crate) struct EnvArgs {
    /// The caller that the agent is; may be left out when only one may do nothing but invoke actions
    #[arg(long = "as", value_name = "CALLER")]
    caller: Option<String>,
    /// The caller's key; not needed when it has a listener of its own. Without it the proxy asks for one
    #[arg(long, env = "ONCEGATE_AGENT_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Only what makes clients trust the CA, for an agent whose connections are redirected to the caller's
    /// transparent_listen
    #[arg(long, conflicts_with = "key")]
    transparent: bool,
    /// How to write it
    #[arg(long, value_enum, default_value = "sh")]
    shell: Shell,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    /// For `eval` in sh, bash and zsh
    Sh,
    /// For `source` in fish
    Fish,
    /// One JSON object
    Json,
}

/// Prints the environment; writes the helper files, and nothing else.
pub(crate) fn run(common: &Common, args: &EnvArgs) -> Result<Exit, Stop> {
    let loaded = super::load(common)?;
    let who = match (which_caller(&loaded, args.caller.as_deref()), &args.caller, args.transparent) {
        (Ok(who), _, _) => Some(who),
        // Where to connect is the same for all of them; who it is, the proxy asks.
        (Err(stop), None, false) => {
            print::note(&format!("{stop}; what is printed names none, and the proxy asks for a key"));
            None
        }
        (Err(stop), _, _) => return Err(stop),
    };
    let way = way(&loaded, who, args)?;
    let trust_dir = loaded.trust_dir();
    let (bundle, ca) = (trust_dir.join("bundle.pem"), trust_dir.join("ca.pem"));
    if !bundle.exists() {
        return Err(Stop::usage(format!(
            "{} is not there yet: run `oncegate init` or start `oncegate serve` first",
            bundle.display()
        )));
    }
    let shims = shims::write(&trust_dir)?;
    let url = way.as_ref().map(|way| proxy_url(&way.proxy.to_string(), way.credentials));
    let proxy = way.as_ref().zip(url.as_ref()).map(|(way, url)| Proxy { url, java: way.proxy });
    let changes = changes(&Place { proxy, bundle: &bundle, ca: &ca, shims: &shims });
    let removed = if way.is_some() { REMOVED.to_vec() } else { [REMOVED.as_slice(), &PROXIES].concat() };
    let shell = if common.json { Shell::Json } else { args.shell };
    print::out(&written(&removed, &changes, shell)?);
    // At the end: an `eval` without quotes makes one line of all, and a comment would hide what comes after it.
    if way.is_some_and(|way| way.asks) && shell != Shell::Json {
        let name = who.map_or("the agent", |(name, _)| name.as_str());
        print::out(&format!(
            "# Java sends no proxy credentials and is refused here: give {name} a port of its own\n\
             # (listen = \"127.0.0.1:PORT\") in the configuration, or start Java with `oncegate run`.\n"
        ));
    }
    Ok(Exit::Done)
}

/// Where an agent connects, and what it says there.
struct Way<'a> {
    proxy: SocketAddr,
    credentials: Option<(&'a CallerName, &'a str)>,
    /// It has to say who it is.
    asks: bool,
}

/// A caller of the configuration.
type Who<'a> = (&'a CallerName, &'a Caller);

/// `None` where connections are redirected.
fn way<'a>(loaded: &Loaded, who: Option<Who<'a>>, args: &'a EnvArgs) -> Result<Option<Way<'a>>, Stop> {
    if let (true, Some((name, caller))) = (args.transparent, who) {
        return match caller.transparent_listen {
            Some(_) => Ok(None),
            None => Err(Stop::usage(format!("{name} has no transparent_listen in the configuration"))),
        };
    }
    if let Some((name, caller)) = who
        && let Some(CallerListen::Tcp(listen)) = caller.listen
    {
        let proxy = bound(loaded, listen, &format!("/callers/{name}/listen"))?;
        return Ok(Some(Way { proxy, credentials: None, asks: false }));
    }
    let credentials = match (who, &args.key) {
        (Some((name, caller)), Some(key)) => {
            check_key(name, caller, key)?;
            Some((name, key.as_str()))
        }
        (None, Some(_)) => {
            return Err(Stop::usage("say with --as whose key it is"));
        }
        (Some((name, _)), None) => {
            print::note(&format!(
                "no key of {name} was given (--key, or ONCEGATE_AGENT_KEY): what is printed has none, and the proxy asks for it"
            ));
            None
        }
        (None, None) => None,
    };
    let proxy = bound(loaded, loaded.config.proxy.listen, "/proxy")?;
    Ok(Some(Way { proxy, credentials, asks: true }))
}

/// Where a listener of the configuration is reached. Port 0 is whatever the running sidecar has got: `pointer` is where
/// that stands in what it says.
fn bound(loaded: &Loaded, listen: SocketAddr, pointer: &str) -> Result<SocketAddr, Stop> {
    if listen.port() != 0 {
        return Ok(reachable(listen));
    }
    let database = loaded.database();
    let said = std::fs::read_to_string(proxy_file(&database)).ok().filter(|_| !is_abandoned(&database));
    let said: Option<Value> = said.and_then(|text| serde_json::from_str(&text).ok());
    let at = said.as_ref().and_then(|said| said.pointer(pointer)).and_then(Value::as_str);
    let at: Option<SocketAddr> = at.and_then(|at| at.parse().ok());
    at.map(reachable).ok_or_else(|| {
        Stop::usage(
            "the port is 0, and no sidecar of this configuration runs that could say which it is: start one with `oncegate \
             serve`, write a port, or use `oncegate run`",
        )
    })
}

/// Where a client on this machine connects for a listener on this address.
pub(crate) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The named caller, or the only one that may invoke actions; of several the only one that may do nothing else, as agents
/// may: an operator's key is never taken for an agent's.
pub(crate) fn which_caller<'a>(
    loaded: &'a Loaded,
    name: Option<&str>,
) -> Result<(&'a CallerName, &'a Caller), Stop> {
    let callers = &loaded.config.callers;
    if let Some(name) = name {
        return callers.iter().find(|(known, _)| known.as_str() == name).ok_or_else(|| {
            let known: Vec<_> = callers.keys().map(CallerName::as_str).collect();
            Stop::usage(format!("there is no caller `{name}`; declared are: {}", known.join(", ")))
        });
    }
    let able: Vec<_> =
        callers.iter().filter(|(_, caller)| caller.scopes.contains(&Scope::ActionsInvoke)).collect();
    let agents: Vec<_> = able.iter().copied().filter(|(_, caller)| caller.scopes.len() == 1).collect();
    match (able.as_slice(), agents.as_slice()) {
        ([only], _) | (_, [only]) => Ok(*only),
        ([], _) => Err(Stop::usage("no caller has the scope actions:invoke")),
        (several, _) => {
            let names: Vec<_> = several.iter().map(|(name, _)| name.as_str()).collect();
            Err(Stop::usage(format!("say which caller it is with --as: {}", names.join(", "))))
        }
    }
}

fn check_key(name: &CallerName, caller: &Caller, key: &str) -> Result<(), Stop> {
    let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
    if caller.keys.iter().any(|known| known.sha256 == digest) {
        return Ok(());
    }
    Err(Stop::usage(format!("this is not the key of {name}")))
}

fn written(removed: &[&str], changes: &[(&'static str, Change)], shell: Shell) -> Result<String, Stop> {
    let lines = |unset: &dyn Fn(&str) -> String, one: &dyn Fn(&str, &Change) -> String| {
        let removed = removed.iter().map(|name| unset(name));
        removed.chain(changes.iter().map(|(name, change)| one(name, change))).collect::<String>()
    };
    Ok(match shell {
        Shell::Sh => lines(&|name| format!("unset {name}\n"), &sh),
        Shell::Fish => lines(&|name| format!("set -e {name}\n"), &fish),
        Shell::Json => {
            let after = |name: &str, change: &Change| applied(change, std::env::var(name).ok().as_deref());
            let all: BTreeMap<_, _> =
                changes.iter().map(|(name, change)| (*name, after(name, change))).collect();
            let text = serde_json::to_string_pretty(&all).map_err(|error| Stop::failed(error.to_string()))?;
            format!("{text}\n")
        }
    })
}

fn sh(name: &str, change: &Change) -> String {
    match change {
        Change::Set(value) => format!("export {name}={}\n", sh_quoted(value)),
        Change::Before(value, separator) => {
            format!("export {name}={}\"${{{name}:+{separator}${name}}}\"\n", sh_quoted(value))
        }
    }
}

fn fish(name: &str, change: &Change) -> String {
    match change {
        Change::Set(value) => format!("set -gx {name} {}\n", fish_quoted(value)),
        // Fish joins variables whose names end in PATH with colons, and all others with spaces.
        Change::Before(value, _) => format!("set -gx {name} {} ${name}\n", fish_quoted(value)),
    }
}

fn sh_quoted(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@%+,=".contains(&b);
    if value.bytes().all(plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

fn fish_quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_reads_what_it_is_given() {
        let set = Change::Set("/a b/it's.pem".into());
        let before = Change::Before("/x".into(), ":");
        assert_eq!(sh("A", &set), "export A='/a b/it'\\''s.pem'\n");
        assert_eq!(sh("PYTHONPATH", &before), "export PYTHONPATH=/x\"${PYTHONPATH:+:$PYTHONPATH}\"\n");
        assert_eq!(fish("A", &set), "set -gx A '/a b/it\\'s.pem'\n");
        assert_eq!(fish("PYTHONPATH", &before), "set -gx PYTHONPATH '/x' $PYTHONPATH\n");
    }
}
