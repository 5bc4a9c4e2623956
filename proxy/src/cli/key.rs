//! `oncegate key new`: a key, shown once, and the lines that declare its caller.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
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
}

/// Prints the key to standard output and keeps it nowhere.
pub(crate) fn run(common: &Common, command: &KeyCommand) -> Result<Exit, Stop> {
    let KeyCommand::New(args) = command;
    let name = CallerName::parse(&args.name).ok_or_else(|| {
        Stop::usage("a caller's name has 1 to 64 characters out of a-z, A-Z, 0-9, `_`, `.` and `-`")
    })?;
    let scopes = scopes(&args.scopes)?;
    let key = generate()?;
    let digest = digest_hex(key.as_bytes());
    if common.json {
        let scopes: Vec<_> = scopes.iter().map(|scope| scope.word()).collect();
        print::json(&json!({ "name": name.as_str(), "key": key, "keySha256": digest, "scopes": scopes }));
        return Ok(Exit::Done);
    }
    print::note("the key is shown this once; only its hash belongs into the configuration");
    print::line(&format!("{key}\n\n{}", declaration(&name, &digest, &scopes)));
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
pub(crate) fn declaration(name: &CallerName, digest: &str, scopes: &[Scope]) -> String {
    // A bare key of TOML may not hold a dot.
    let table = if name.as_str().contains('.') { format!("\"{name}\"") } else { name.to_string() };
    let scopes: Vec<_> = scopes.iter().map(|scope| format!("\"{}\"", scope.word())).collect();
    format!("[callers.{table}]\nkey_sha256 = \"{digest}\"\nscopes = [{}]", scopes.join(", "))
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
            declaration(&name, "00", &[Scope::ActionsInvoke]),
            "[callers.\"a.b\"]\nkey_sha256 = \"00\"\nscopes = [\"actions:invoke\"]"
        );
        assert!(scopes(&["actions:invoke,actions:resolve".into()]).is_ok());
        assert!(scopes(&["actions:everything".into()]).is_err());
    }
}
