//! `oncegate key new`: a key, shown once, and the lines that declare its caller.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use oncegate_policy::caller::{CallerName, Scope};
use oncegate_policy::fingerprint::digest_hex;
use serde_json::json;

use super::exit::{Exit, Stop};
use super::{Common, print};

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key and print it once, with the lines for the configuration
    New(NewArgs),
}

#[derive(Args)]
pub(crate) struct NewArgs {
    /// The caller's name: [callers.NAME]
    name: String,
    /// What the key may do; may be given several times
    #[arg(long = "scope", value_name = "S", required = true)]
    scopes: Vec<String>,
    /// More of what it may do
    #[arg(value_name = "S")]
    more: Vec<String>,
    /// From when on the key counts no more: a moment such as 2027-01-01T00:00:00Z
    #[arg(long, value_name = "MOMENT")]
    expires: Option<Timestamp>,
}

/// Prints the key to standard output and keeps it nowhere.
pub(crate) fn run(common: &Common, command: &KeyCommand) -> Result<Exit, Stop> {
    let KeyCommand::New(args) = command;
    let name = CallerName::parse(&args.name).ok_or_else(|| {
        Stop::usage("a caller's name has 1 to 64 characters out of a-z, A-Z, 0-9, `_`, `.` and `-`")
    })?;
    let scopes = scopes(&[args.scopes.as_slice(), &args.more].concat())?;
    let key = generate()?;
    let digest = digest_hex(key.as_bytes());
    if common.json {
        let scopes: Vec<_> = scopes.iter().map(|scope| scope.word()).collect();
        let expires = args.expires.map(|expires| expires.to_string());
        print::json(&json!({
            "name": name.as_str(), "key": key, "keySha256": digest, "scopes": scopes, "expiresAt": expires,
        }));
        return Ok(Exit::Done);
    }
    print::note("the key is shown this once; only its hash belongs into the configuration");
    print::line(&format!("{key}\n\n{}", declaration(&name, &digest, &scopes, args.expires)));
    Ok(Exit::Done)
}

fn scopes(words: &[String]) -> Result<Vec<Scope>, Stop> {
    let mut scopes = Vec::new();
    for word in words.iter().flat_map(|word| word.split(',')) {
        let scope = Scope::parse(word.trim()).ok_or_else(|| {
            let known: Vec<_> = Scope::ALL.iter().map(|(_, word)| *word).collect();
            Stop::usage(format!("`{word}` is no scope; there are: {}", known.join(", ")))
        })?;
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    Ok(scopes)
}

/// `ogk_` and 256 bits from the operating system.
pub(crate) fn generate() -> Result<String, Stop> {
    let mut random = [0_u8; 32];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut random)
        .map_err(|_| Stop::failed("the operating system gives no random numbers"))?;
    Ok(format!("ogk_{}", URL_SAFE_NO_PAD.encode(random)))
}

/// The table that declares a caller.
pub(crate) fn declaration(
    name: &CallerName,
    digest: &str,
    scopes: &[Scope],
    expires: Option<Timestamp>,
) -> String {
    // A bare key of TOML may not hold a dot.
    let table = if name.as_str().contains('.') { format!("\"{name}\"") } else { name.to_string() };
    let scopes: Vec<_> = scopes.iter().map(|scope| format!("\"{}\"", scope.word())).collect();
    let key = match expires {
        None => format!("\"{digest}\""),
        // On the key, not on the caller: its successor can stand beside it.
        Some(expires) => format!("[{{ sha256 = \"{digest}\", expires = \"{expires}\" }}]"),
    };
    format!("[callers.{table}]\nkey_sha256 = {key}\nscopes = [{}]", scopes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_long_and_never_the_same() {
        let (first, second) = (generate().unwrap(), generate().unwrap());
        assert_eq!(first.len(), "ogk_".len() + 43);
        assert_ne!(first, second);
    }

    #[test]
    fn a_declaration_is_toml() {
        let name = CallerName::parse("a.b").unwrap();
        assert_eq!(
            declaration(&name, "00", &[Scope::ActionsInvoke], None),
            "[callers.\"a.b\"]\nkey_sha256 = \"00\"\nscopes = [\"actions:invoke\"]"
        );
        let expires = "2027-01-01T00:00:00Z".parse().ok();
        assert!(
            declaration(&name, "00", &[], expires)
                .contains("key_sha256 = [{ sha256 = \"00\", expires = \"2027-01-01T00:00:00Z\" }]")
        );
        assert!(scopes(&["actions:invoke,actions:resolve".into()]).is_ok());
        assert!(scopes(&["actions:everything".into()]).is_err());
    }
}
