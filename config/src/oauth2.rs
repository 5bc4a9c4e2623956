//! `oauth2 = { … }` in a secret's `from`.

use oncegate_policy::template::{Scope, Template};
use oncegate_policy::url_template::{Scheme, UrlTemplate};
use serde_json::Value;

use crate::facts::{Facts, Minting};
use crate::model::{ClientAuth, Grant, HostPattern, OAuth2, TokenUrl};
use crate::reader::{Node, Table};
use crate::templates::{Allowed, template};
use crate::value::{owned, text, word};

const CLIENT_CREDENTIALS: &str = "client_credentials";
const REFRESH_TOKEN: &str = "refresh_token";

pub(crate) fn read(table: &Table<'_>, name: &str, facts: &mut Facts) -> Option<OAuth2> {
    let token_url = table.need("token_url", token_url);
    let kind = table.need("grant", |node| {
        word(node, &[(CLIENT_CREDENTIALS, CLIENT_CREDENTIALS), (REFRESH_TOKEN, REFRESH_TOKEN)])
    });
    let client_id = table.need("client_id", |node| template(node, Allowed::CREDENTIAL));
    // A public client has none, and may only refresh what somebody else has granted it.
    let client_secret = match kind {
        Some(CLIENT_CREDENTIALS) => table.need("client_secret", owned),
        Some(_) | None => table.read("client_secret", owned),
    };
    let grant = match kind {
        Some(REFRESH_TOKEN) => table.need(REFRESH_TOKEN, owned).map(Grant::RefreshToken),
        Some(_) => {
            table.refuse(&[REFRESH_TOKEN], "goes with `grant = \"refresh_token\"` only");
            Some(Grant::ClientCredentials)
        }
        None => {
            _ = table.get(REFRESH_TOKEN);
            None
        }
    };
    let usual = if client_secret.is_some() { ClientAuth::Basic } else { ClientAuth::Body };
    let auth = table.or(
        "auth",
        |node| word(node, &[("basic", ClientAuth::Basic), ("body", ClientAuth::Body)]),
        usual,
    );
    if auth == ClientAuth::Basic && table.get("client_secret").is_none() {
        table.refuse(&["auth"], "`basic` needs `client_secret`");
    }
    let (scope, audience) = (table.read("scope", owned), table.read("audience", owned));
    let minted = OAuth2 {
        token_url: token_url?,
        grant: grant?,
        client_id: client_id?,
        client_secret,
        auth,
        scope,
        audience,
    };
    remember(table, name, &minted, facts);
    Some(minted)
}

/// Its parts go to the token's host, and to no other; what they are is judged when all secrets are known.
fn remember(table: &Table<'_>, name: &str, minted: &OAuth2, facts: &mut Facts) {
    let to = HostPattern::Exact(minted.token_url.authority.host.clone());
    let place_of = |part: &str| {
        let key = match &minted.grant {
            Grant::RefreshToken(secret) if secret == part => REFRESH_TOKEN,
            Grant::RefreshToken(_) | Grant::ClientCredentials
                if minted.client_secret.as_deref() == Some(part) =>
            {
                "client_secret"
            }
            Grant::RefreshToken(_) | Grant::ClientCredentials => "client_id",
        };
        table.key_place(key)
    };
    for (part, placement) in minted.parts() {
        facts.uses(place_of(part), part, placement, Some(&to));
        facts.minting.push(Minting {
            place: place_of(part),
            minted: name.to_owned(),
            part: part.to_owned(),
            renews: matches!(&minted.grant, Grant::RefreshToken(secret) if secret == part),
        });
    }
    facts.token_hosts.push((table.key_place("token_url"), minted.token_url.authority.clone()));
}

fn token_url(node: &Node<'_>) -> Option<TokenUrl> {
    let written = text(node)?;
    let read = UrlTemplate::parse(written).map_err(|fault| fault.to_string());
    let fixed = Template::parse(written).is_ok_and(|template| template.is_constant());
    let url = match read {
        Ok(url) if url.scheme() == Scheme::Https && fixed => url,
        Ok(_) => {
            node.fault(format!("{} must be `https://…` without placeholders", node.what));
            return None;
        }
        Err(fault) => {
            node.fault(format!("{}: {fault}", node.what));
            return None;
        }
    };
    let nothing = Scope { input: &Value::Null, effect_id: None, effect_key: None, response: None };
    let built = url.build(&nothing).ok()?;
    let after = built.strip_prefix("https://").unwrap_or(&built);
    let path_and_query = after.find(['/', '?']).map_or("/", |at| &after[at..]).to_owned();
    let authority = url.authority().clone();
    Some(TokenUrl { authority, path_and_query })
}
