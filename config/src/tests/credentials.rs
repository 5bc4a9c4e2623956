//! Tokens, signatures, and one credential per place.

use super::{check, config, faults, warnings};
use crate::model::{ClientAuth, Credential, Grant, Placement, SecretSource};

const TOKEN: &str = r#"
[secrets.CRM_TOKEN]
allowed_hosts = ["crm.example"]
[secrets.CRM_TOKEN.from.oauth2]
token_url = "https://login.example/oauth/token?tenant=7"
"#;
const PARTS: &str = r#"
[secrets.CLIENT_SECRET]
from = { env = "CLIENT_SECRET" }
allowed_hosts = ["login.example"]
[secrets.REFRESH]
from = { vault = true }
allowed_hosts = ["login.example"]
allowed_placements = ["body"]
[vault]
key = { file = "vault.key" }
"#;
const CLIENT: &str =
    "grant = \"client_credentials\"\nclient_id = \"me\"\nclient_secret = \"CLIENT_SECRET\"\n";
const REFRESH: &str = "grant = \"refresh_token\"\nclient_id = \"me\"\nrefresh_token = \"REFRESH\"\n";

#[test]
fn client_credentials() {
    let text = format!("{TOKEN}{CLIENT}scope = \"a b\"\naudience = \"crm\"\n{PARTS}");
    let config = config(&text);
    let SecretSource::OAuth2(spec) = &config.secrets["CRM_TOKEN"].from else { panic!("{config:?}") };
    assert_eq!(spec.token_url.authority.to_string(), "login.example:443");
    assert_eq!(spec.token_url.path_and_query, "/oauth/token?tenant=7");
    assert_eq!((&spec.grant, spec.auth), (&Grant::ClientCredentials, ClientAuth::Basic));
    assert_eq!((spec.scope.as_deref(), spec.audience.as_deref()), (Some("a b"), Some("crm")));
    assert_eq!(spec.parts(), [("CLIENT_SECRET", Placement::Header)]);
    let used: Vec<_> = config.secret_uses.iter().map(|one| (one.secret.as_str(), one.to.name())).collect();
    assert_eq!(used, [("CLIENT_SECRET", "login.example")], "its parts go to the token's host");
}

#[test]
fn a_refresh_token_of_a_public_client() {
    let config = config(&format!("{TOKEN}{REFRESH}{PARTS}"));
    let SecretSource::OAuth2(spec) = &config.secrets["CRM_TOKEN"].from else { panic!("{config:?}") };
    assert_eq!((&spec.grant, spec.auth), (&Grant::RefreshToken("REFRESH".to_owned()), ClientAuth::Body));
    assert_eq!(spec.parts(), [("REFRESH", Placement::Body)]);
    assert_eq!(warnings(&format!("{TOKEN}{REFRESH}{PARTS}")), [""; 0]);
}

#[test]
fn a_refresh_token_that_is_not_in_the_vault() {
    let kept = PARTS.replace("{ vault = true }", "{ file = \"refresh\" }");
    let found = warnings(&format!("{TOKEN}{REFRESH}{kept}"));
    assert!(
        found.len() == 1 && found[0].contains("the refresh token `REFRESH` is not kept in the vault"),
        "{found:?}"
    );
}

#[test]
fn faults_of_a_token() {
    let has = |more: &str, expected: &str| {
        let found = faults(&format!("{TOKEN}{more}{PARTS}"));
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:#?}");
    };
    has("grant = \"password\"\nclient_id = \"me\"\n", "unknown word `password`");
    has("grant = \"client_credentials\"\nclient_id = \"me\"\n", "missing key `client_secret` in `oauth2`");
    has("grant = \"refresh_token\"\nclient_id = \"me\"\n", "missing key `refresh_token` in `oauth2`");
    has(
        &format!("{CLIENT}refresh_token = \"REFRESH\"\n"),
        "`refresh_token` goes with `grant = \"refresh_token\"` only",
    );
    has(&format!("{CLIENT}scopes = \"a\"\n"), "unknown key `scopes`; did you mean `scope`?");
    has(&format!("{REFRESH}auth = \"basic\"\n"), "`auth` `basic` needs `client_secret`");
    has(&format!("{CLIENT}auth = \"body\"\n"), "the secret `CLIENT_SECRET` may not stand in the body");
    has(
        &CLIENT.replace("CLIENT_SECRET", "CLIENT_SECRE"),
        "there is no secret `CLIENT_SECRE`; did you mean `CLIENT_SECRET`?",
    );
    has(&CLIENT.replace("\"me\"", "\"{{input.x}}\""), "`client_id` cannot hold `{{input.x}}`");
    let elsewhere = |url: &str| {
        faults(&format!(
            "{}{CLIENT}{PARTS}",
            TOKEN.replace("https://login.example/oauth/token?tenant=7", url)
        ))
    };
    assert!(
        elsewhere("https://other.example/token")[0].contains("`CLIENT_SECRET` may not go to `other.example`")
    );
    assert!(elsewhere("http://login.example/token")[0].contains("must be `https://…`"));
    assert!(elsewhere("https://login.example/{{input.x}}")[0].contains("without placeholders"));
    let plain = format!("{TOKEN}{CLIENT}{PARTS}[hosts.\"login.example:443\"]\nplain = true\n");
    assert!(faults(&plain)[0].contains("tokens are minted over TLS only"));
}

#[test]
fn a_token_is_made_of_secrets_that_are_kept() {
    let second = TOKEN.replace("CRM_TOKEN", "OTHER").replace("crm.example", "login.example");
    let found =
        faults(&format!("{TOKEN}{}{second}{CLIENT}{PARTS}", CLIENT.replace("CLIENT_SECRET", "OTHER")));
    assert!(found.len() == 1 && found[0].contains("the secret `OTHER` is minted itself"), "{found:#?}");
    let found = faults(&format!("{TOKEN}{REFRESH}{}{REFRESH}{PARTS}", TOKEN.replace("CRM_TOKEN", "OTHER")));
    assert!(found.len() == 2 && found[0].contains("`REFRESH` is that of `OTHER` too"), "{found:#?}");
}

const KEYS: &str = r#"
[secrets.AWS_ID]
from = { env = "AWS_ID" }
allowed_hosts = [".amazonaws.com"]
[secrets.AWS_SECRET]
from = { env = "AWS_SECRET" }
allowed_hosts = [".amazonaws.com"]
"#;

#[test]
fn signatures() {
    let host = "[hosts.\".s3.eu-central-1.amazonaws.com\"]\ncredential = { sigv4 = { region = \"eu-central-1\", \
                service = \"s3\", access_key = \"AWS_ID\", secret_key = \"AWS_SECRET\" } }\n";
    let config = config(&format!("{host}{KEYS}"));
    let credential = config.hosts[0].credential.as_ref().unwrap();
    assert!(matches!(credential, Credential::Sigv4(keys) if keys.session_token.is_none()), "{credential:?}");
    assert_eq!(
        (credential.place().as_str(), credential.secrets()),
        ("signature", vec!["AWS_ID", "AWS_SECRET"])
    );
    for (from, to, expected) in [
        ("eu-central-1\", service", "EU/1\", service", "`EU/1` is not of `a-z`, `0-9` and `-`"),
        ("secret_key", "secret_kye", "unknown key `secret_kye`; did you mean `secret_key`?"),
        ("sigv4 = {", "value = \"x\", sigv4 = {", "`value` does not go with `sigv4`"),
        ("\"AWS_SECRET\"", "\"AWS_SECRT\"", "there is no secret `AWS_SECRT`"),
        (".s3.eu-central-1.amazonaws.com", "s3.example", "may not go to `s3.example`"),
    ] {
        let found = faults(&format!("{}{KEYS}", host.replacen(from, to, 1)));
        assert!(found.iter().any(|fault| fault.contains(expected)), "{expected}: {found:#?}");
    }
}

#[test]
fn one_credential_for_one_place() {
    let secret = "[secrets.K]\nfrom = { env = \"K\" }\nallowed_hosts = [\"a.example\"]\nallowed_placements = [\"header\", \"url\"]\n[secrets.L]\nfrom = { env = \
                  \"L\" }\nallowed_hosts = [\"a.example\"]\n";
    let action = "[actions.x]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\nheaders = { Authorization = \"{{secret:L}}\" }\n";
    let host = |credential: &str| format!("[hosts.\"a.example\"]\ncredential = {{ {credential} }}\n");
    let bearer = "header = \"authorization\", value = \"{{secret:K}}\"";
    let basic = "basic = { user = \"{{secret:K}}\", password = \"\" }";
    let signed = "sigv4 = { region = \"x\", service = \"s3\", access_key = \"K\", secret_key = \"K\" }";
    for credential in [bearer, basic, signed] {
        let text = format!("{}{action}{secret}", host(credential));
        let fault = "6:1: the header `authorization` is set here and by the credential of its host: one place has one value";
        check(&[(text.as_str(), &[fault])]);
    }
    let own = format!("{action}credential_secret = \"K\"\n{secret}");
    check(&[(
        own.as_str(),
        &["4:1: the header `authorization` is set here and by `credential_secret`: one place has one value"],
    )]);
    let key = action.replace(
        "headers = { Authorization = \"{{secret:L}}\" }",
        "idempotency = { header = \"X-Key\", window = \"1h\" }",
    );
    let text = format!("{}{key}{secret}", host("header = \"x-key\", value = \"{{secret:K}}\""));
    assert!(faults(&text)[0].contains("the header `x-key` is set here and by the credential of its host"));
    // In places of their own they go together; and an action's own credential is instead of its host's.
    for credential in
        ["query = \"key\", value = \"{{secret:K}}\"", "header = \"x-key\", value = \"{{secret:K}}\""]
    {
        check(&[(format!("{}{action}{secret}", host(credential)).as_str(), &[])]);
    }
}
