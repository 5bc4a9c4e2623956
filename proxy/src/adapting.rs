//! From a configured action to its adapter: the two crates do not know each other.

use std::borrow::Cow;
use std::time::Duration;

use oncegate_adapters::Adapter;
use oncegate_adapters::catalog::{self, CatalogFault, Entry};
use oncegate_adapters::declared::{Declared, KeyPlace, Verify};
use oncegate_adapters::github_file::{GithubFile, Repository};
use oncegate_adapters::github_write::GithubWrite;
use oncegate_adapters::resend_email::{Fence, ResendEmail};
use oncegate_adapters::stripe_refund::StripeRefund;
use oncegate_adapters::stripe_write::StripeWrite;
use oncegate_config::Presets;
use oncegate_config::model::{self, Action, ActionKind, Config, Credential, EmailFence, Host, SecretSource};
use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::fingerprint;
use oncegate_policy::template::{Piece, Template};
use oncegate_policy::url_template::Scheme;
use oncegate_store::SecretNames;

/// The host of Stripe's API.
pub const STRIPE_HOST: &str = "api.stripe.com";
/// The host of GitHub's API.
pub const GITHUB_HOST: &str = "api.github.com";
/// The host of Resend's API.
pub const RESEND_HOST: &str = "api.resend.com";

/// The adapter of an action.
#[must_use]
pub fn adapter(action: &Action) -> Adapter {
    match &action.kind {
        ActionKind::StripeRefund(refund) => Adapter::StripeRefund(StripeRefund {
            account: refund.account.clone(),
            currency: refund.currency.clone(),
            live: refund.live,
        }),
        ActionKind::StripeWrite(write) => Adapter::StripeWrite(Box::new(StripeWrite {
            live: write.live,
            route: from_declared(action, &write.route),
        })),
        ActionKind::ResendEmail(email) => Adapter::ResendEmail(ResendEmail {
            fence: match email.fence {
                EmailFence::RecipientsAndSubject => Fence::RecipientsAndSubject,
                EmailFence::Recipients => Fence::Recipients,
            },
        }),
        ActionKind::GithubFile(file) => {
            let repository = file
                .repository
                .as_ref()
                .map(|only| Repository { owner: only.owner.clone(), name: only.name.clone() });
            Adapter::GithubFile(GithubFile::new(repository, file.branch.clone()))
        }
        ActionKind::GithubWrite(write) => Adapter::GithubWrite(Box::new(GithubWrite::new(
            from_declared(action, &write.route),
            write.mark_body,
        ))),
        ActionKind::Declared(declared) => Adapter::Declared(from_declared(action, declared)),
    }
}

fn from_declared(action: &Action, declared: &model::Declared) -> Declared {
    Declared {
        method: declared.method.clone(),
        url: declared.url.clone(),
        headers: declared.headers.clone(),
        scope_headers: declared.scope_headers.clone(),
        body: declared.body.clone(),
        subject: action.subject.clone(),
        impact: declared.impact.clone().map(|rule| (rule.dimension, rule.amount, rule.bound)),
        idempotency: declared.idempotency.clone().map(|key| {
            let place = match key.place {
                model::KeyPlace::Header(name) => KeyPlace::Header(name),
                model::KeyPlace::Body(name) => KeyPlace::Body(name),
            };
            (place, u64::try_from(key.window.as_millis()).unwrap_or(u64::MAX))
        }),
        verify: declared.verify.clone().map(|verify| Verify {
            url: verify.url,
            status: verify.status,
            checks: verify.checks,
        }),
        response: declared.response.clone(),
    }
}

/// What an action's `preset` may take over, from the catalogue.
///
/// # Errors
/// An entry of the catalogue that cannot be read.
pub fn presets() -> Result<Presets, CatalogFault> {
    let preset = |entry: Entry| {
        let idempotency = entry.replay().map(|(place, window_ms)| model::Idempotency {
            place: match place {
                KeyPlace::Header(name) => model::KeyPlace::Header(name),
                KeyPlace::Body(name) => model::KeyPlace::Body(name),
            },
            window: Duration::from_millis(window_ms),
            failures_kept: entry
                .facts
                .failures
                .as_ref()
                .filter(|fact| fact.confirmed)
                .map(|fact| fact.what.kept),
        });
        let response = entry.response();
        let writes_by_get =
            entry.facts.writes_by_get.as_ref().is_some_and(|fact| fact.confirmed && fact.what.all);
        let hosts = entry.facts.hosts;
        (entry.name.to_owned(), model::Preset { hosts, idempotency, response, writes_by_get })
    };
    Ok(catalog::entries()?.into_iter().map(preset).collect())
}

/// Whether the provider answers a repeat of what failed, under the same key, with that failure, if that is known.
#[must_use]
pub fn failures_kept(action: &Action) -> Option<bool> {
    match &action.kind {
        // Status and body of the first answer are kept whatever it was (<https://docs.stripe.com/api/idempotent_requests>).
        ActionKind::StripeRefund(_) | ActionKind::StripeWrite(_) => Some(true),
        // Resend does not say; GitHub takes no key.
        ActionKind::ResendEmail(_) | ActionKind::GithubFile(_) | ActionKind::GithubWrite(_) => None,
        ActionKind::Declared(declared) => declared.idempotency.as_ref().and_then(|key| key.failures_kept),
    }
}

/// What an action's subjects, keys and requests are compared in: an adapter's are the same things whatever the action is
/// called, and those of a declared route as long as it is the same one under another name.
#[must_use]
pub fn realm(action: &Action) -> String {
    let route = match &action.kind {
        ActionKind::StripeRefund(_) => return "stripe.refund".to_owned(),
        ActionKind::ResendEmail(_) => return "resend.email_send".to_owned(),
        ActionKind::GithubFile(_) => return "github.file_update".to_owned(),
        ActionKind::StripeWrite(write) => &write.route,
        ActionKind::GithubWrite(write) => &write.route,
        ActionKind::Declared(declared) => declared,
    };
    let subject = action.subject.as_ref().map(|subject| format!("{subject:?}")).unwrap_or_default();
    let said = format!("{} {:?} {:?} {subject}", route.method, route.url, action.when);
    let digest = fingerprint::digest_hex(said.as_bytes());
    format!("route/{}", digest.get(..REALM_DIGITS).unwrap_or(&digest))
}

/// Actions of the same realm that are declared beside one and told from it by their `when`: no other names of it. Of declared
/// routes the realm itself tells them.
#[must_use]
pub fn apart(config: &Config, action: &Action) -> Vec<ActionName> {
    if let ActionKind::Declared(_) = &action.kind {
        return Vec::new();
    }
    let own = realm(action);
    let beside =
        config.actions.values().filter(|other| other.name != action.name && other.when != action.when);
    beside.filter(|other| realm(other) == own).map(|other| other.name.clone()).collect()
}

/// Of a digest, in hexadecimal: enough to tell a few thousand routes apart.
const REALM_DIGITS: usize = 16;

/// Where an action's requests go.
#[must_use]
pub fn authority(action: &Action) -> Authority {
    match &action.kind {
        ActionKind::StripeRefund(_) | ActionKind::StripeWrite(_) => {
            Authority { host: STRIPE_HOST.to_owned(), port: 443 }
        }
        ActionKind::ResendEmail(_) => Authority { host: RESEND_HOST.to_owned(), port: 443 },
        ActionKind::GithubFile(_) | ActionKind::GithubWrite(_) => {
            Authority { host: GITHUB_HOST.to_owned(), port: 443 }
        }
        ActionKind::Declared(declared) => declared.url.authority().clone(),
    }
}

/// How its host is spoken to.
#[must_use]
pub fn scheme(action: &Action) -> Scheme {
    match &action.kind {
        ActionKind::StripeRefund(_)
        | ActionKind::StripeWrite(_)
        | ActionKind::ResendEmail(_)
        | ActionKind::GithubFile(_)
        | ActionKind::GithubWrite(_) => Scheme::Https,
        ActionKind::Declared(declared) => declared.url.scheme(),
    }
}

/// Whether an action's writes are declared to be real ones.
#[must_use]
pub fn is_live(action: &Action) -> bool {
    match &action.kind {
        ActionKind::StripeRefund(refund) => refund.live,
        ActionKind::StripeWrite(write) => write.live,
        ActionKind::ResendEmail(_)
        | ActionKind::GithubFile(_)
        | ActionKind::GithubWrite(_)
        | ActionKind::Declared(_) => false,
    }
}

/// Whether an adapter knows a provider's own error format.
#[must_use]
pub fn is_provider(adapter: &Adapter) -> bool {
    match adapter {
        Adapter::StripeRefund(_)
        | Adapter::StripeWrite(_)
        | Adapter::ResendEmail(_)
        | Adapter::GithubFile(_)
        | Adapter::GithubWrite(_) => true,
        Adapter::Declared(_) => false,
    }
}

/// The credential of a request: the action's own where it names one, else the host's. One, never both in one
/// place. A read may have another than the write.
#[must_use]
pub fn credential<'a>(host: &'a Host, action: Option<&Action>, reading: bool) -> Option<Cow<'a, Credential>> {
    let named = action.and_then(|action| {
        let own = action.kind.read_secret().filter(|_| reading);
        own.or_else(|| action.kind.credential_secret())
    });
    match named {
        Some(secret) => {
            let value = Template::parse(&format!("Bearer {{{{secret:{secret}}}}}")).ok()?;
            Some(Cow::Owned(Credential::Header { name: "authorization".to_owned(), value }))
        }
        None => host.credential.as_ref().map(Cow::Borrowed),
    }
}

/// The names of the secrets that a write carries, by the place that each of them stands in: what [`credential`] and
/// [`secret_headers`] choose.
#[must_use]
pub fn secret_names(host: Option<&Host>, action: &Action) -> SecretNames {
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let chosen = host.and_then(|host| credential(host, Some(action), false));
    let chosen = chosen.as_deref().map(|credential| (credential.place(), owned(credential.secrets())));
    let headers = secret_headers(action, true).into_iter();
    let headers = headers.map(|(name, value)| (format!("header {name}"), owned(value.secrets())));
    headers.chain(chosen).filter(|(_, names)| !names.is_empty()).collect()
}

/// Whether a secret stands in an action's requests, those that read its effects back among them, or is one that a token
/// is minted with which stands there.
#[must_use]
pub fn takes_secret(config: &Config, action: &Action, name: &str) -> bool {
    let host = config.host_for(&authority(action));
    let credentials = [false, true].map(|reading| credential(host?, Some(action), reading));
    let named = credentials.iter().flatten().flat_map(|credential| credential.secrets());
    let headers = secret_headers(action, true);
    let mut named = named.chain(headers.iter().flat_map(|(_, value)| value.secrets()));
    named.any(|secret| {
        let minted_with = match config.secrets.get(secret).map(|spec| &spec.from) {
            Some(SecretSource::OAuth2(minting)) => minting.parts(),
            Some(
                SecretSource::Env(_) | SecretSource::File(_) | SecretSource::Command(_) | SecretSource::Vault,
            )
            | None => Vec::new(),
        };
        secret == name || minted_with.iter().any(|(part, _)| *part == name)
    })
}

/// The declared headers that name a secret. Without a scope, only those that need nothing else.
#[must_use]
pub fn secret_headers(action: &Action, with_scope: bool) -> Vec<(&str, &Template)> {
    let Some(declared) = action.kind.declared() else { return Vec::new() };
    let alone = |template: &Template| {
        template.pieces().iter().all(|piece| match piece {
            Piece::Text(_) | Piece::Secret(_) => true,
            Piece::Input(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_) => false,
        })
    };
    let named = declared.headers.iter().filter(|(_, template)| !template.secrets().is_empty());
    named
        .filter(|(_, template)| with_scope || alone(template))
        .map(|(name, template)| (name.as_str(), template))
        .collect()
}
