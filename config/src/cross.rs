//! What two sections say about each other.

use std::collections::BTreeMap;

use oncegate_policy::url_template::Scheme;

use crate::facts::{Destination, Facts, Fields, Minting, SecretUse};
use crate::fault::{Log, Place};
use crate::lookup::allows;
use crate::model::{Credential, HostPattern, Placement, SecretSource, SecretSpec};
use crate::nearest::hint;

/// Records every contradiction between sections.
pub(crate) fn judge(facts: &Facts, log: &Log<'_>) {
    for one in &facts.secret_uses {
        secret_use(one, facts, log);
    }
    for destination in &facts.destinations {
        destination_is_declared(destination, facts, log);
    }
    for (place, name) in &facts.limited_actions {
        if !facts.actions.contains_key(name) {
            let hint = hint(name, facts.actions.keys().map(String::as_str));
            log.fault(*place, format!("there is no action `{name}`{hint}"));
        }
    }
    for (name, place) in &facts.actions {
        if let Some(other) = name.strip_prefix("act_").filter(|other| facts.actions.contains_key(*other)) {
            let message = format!(
                "`{name}` is the id of action `{other}` in the API, which would take one for the other"
            );
            log.fault(*place, message);
        }
    }
    for one in &facts.minting {
        minting(one, facts, log);
    }
    for (place, authority) in &facts.token_hosts {
        if facts.host_for(authority).is_some_and(|host| host.plain) {
            let message =
                format!("`{authority}` is declared with `plain = true`: tokens are minted over TLS only");
            log.fault(*place, message);
        }
    }
    for fields in &facts.fields {
        one_credential_per_place(fields, facts, log);
    }
    for (place, within) in &facts.waits {
        if facts.upstream_timeout.is_some_and(|timeout| *within > timeout) {
            let message = "`respond_within` is longer than `[proxy] upstream_timeout`: nobody listens to the \
                           provider for so long, and the agent is answered then";
            log.warn(*place, message);
        }
    }
    unique_keys(facts, log);
    unique_listeners(facts, log);
}

fn secret_use(one: &SecretUse, facts: &Facts, log: &Log<'_>) {
    let name = &one.secret;
    match facts.secrets.get(name) {
        None => {
            let hint = hint(name, facts.secrets.keys().map(String::as_str));
            log.fault(one.place, format!("there is no secret `{name}`{hint}"));
        }
        Some(Some(spec)) => secret_may_stand(one, spec, log),
        // Its own faults are reported where it is declared.
        Some(None) => {}
    }
}

fn secret_may_stand(one: &SecretUse, spec: &SecretSpec, log: &Log<'_>) {
    let name = &one.secret;
    if !spec.may_stand(one.placement) {
        let placement = word(one.placement);
        log.fault(
            one.place,
            format!("the secret `{name}` may not stand in the {placement}: see its `allowed_placements`"),
        );
    }
    let Some(to) = &one.to else { return };
    let elsewhere = |hosts: &Vec<String>| !hosts.iter().any(|allowed| allows(allowed, to));
    if spec.allowed_hosts.as_ref().is_some_and(elsewhere) {
        let to = spelled(to);
        log.fault(one.place, format!("the secret `{name}` may not go to `{to}`: see its `allowed_hosts`"));
    }
}

fn minting(one: &Minting, facts: &Facts, log: &Log<'_>) {
    let Minting { place, minted, part, renews } = one;
    let from = facts.secrets.get(part).and_then(|spec| spec.as_ref()).map(|spec| &spec.from);
    match from {
        Some(SecretSource::OAuth2(_)) => {
            log.fault(
                *place,
                format!("the secret `{part}` is minted itself: `{minted}` cannot be made of it"),
            );
        }
        Some(SecretSource::Env(_) | SecretSource::File(_) | SecretSource::Command(_)) if *renews => {
            let message = format!(
                "the refresh token `{part}` is not kept in the vault: a new one from the provider is known until the \
                 sidecar ends, and no longer; use `from = {{ vault = true }}` where the provider replaces it"
            );
            log.warn(*place, message);
        }
        Some(
            SecretSource::Env(_) | SecretSource::File(_) | SecretSource::Command(_) | SecretSource::Vault,
        )
        | None => {}
    }
    let other = |other: &&Minting| other.renews && other.part == *part && other.minted != *minted;
    if let Some(other) = facts.minting.iter().find(other).filter(|_| *renews) {
        let message = format!(
            "the refresh token `{part}` is that of `{}` too: what one of them makes of it, the other could not know",
            other.minted
        );
        log.fault(*place, message);
    }
}

/// What is declared for a request stands in places of its own: a credential that silently replaced another one would
/// be sent for it.
fn one_credential_per_place(fields: &Fields, facts: &Facts, log: &Log<'_>) {
    let host = facts.host_for(&fields.authority);
    let (taken, by): (Vec<&str>, &str) = if fields.own_credential {
        (vec!["authorization"], "`credential_secret`")
    } else {
        let credential = host.and_then(|host| host.credential.as_ref());
        (credential.map(Credential::headers).unwrap_or_default(), "the credential of its host")
    };
    for (place, name) in &fields.set {
        if taken.contains(&name.as_str()) {
            log.fault(
                *place,
                format!("the header `{name}` is set here and by {by}: one place has one value"),
            );
        }
    }
}

fn word(placement: Placement) -> &'static str {
    match placement {
        Placement::Header => "header",
        Placement::Url => "url",
        Placement::Body => "body",
    }
}

fn spelled(pattern: &HostPattern) -> String {
    match pattern {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Below(suffix) => format!(".{suffix}"),
    }
}

fn destination_is_declared(destination: &Destination, facts: &Facts, log: &Log<'_>) {
    let Destination { place, scheme, authority } = destination;
    let entry =
        if authority.port == scheme.default_port() { authority.url_host() } else { authority.to_string() };
    match (facts.host_for(authority), scheme) {
        (None, Scheme::Https | Scheme::Http) => {
            // See `hosts::implied`: without a near name, the action alone declares its host.
            match crate::hosts::slip_of(&authority.host, facts) {
                Some(near) => log.fault(
                    *place,
                    format!("`{entry}` is not a declared host: add `[hosts.\"{entry}\"]`; did you mean `{near}`?"),
                ),
                None => log.warn(
                    *place,
                    format!("`{entry}` has no `[hosts.\"{entry}\"]`: this action alone declares it, without a credential of its own"),
                ),
            }
        }
        (Some(host), Scheme::Http) if !host.plain => {
            log.fault(
                *place,
                format!("`{entry}` is spoken to over TLS: write `https://`, or `plain = true` at the host"),
            );
        }
        (Some(host), Scheme::Https) if host.plain => {
            log.fault(
                *place,
                format!("`{entry}` is declared with `plain = true`: write `http://`, or remove that"),
            );
        }
        (Some(_), Scheme::Https | Scheme::Http) => {}
    }
}

fn unique_keys(facts: &Facts, log: &Log<'_>) {
    let mut first: BTreeMap<[u8; 32], (&str, Place)> = BTreeMap::new();
    for (place, caller, hash) in &facts.key_hashes {
        match first.get(hash) {
            Some((other, _)) if other == caller => {
                log.fault(*place, format!("`{caller}` has this key twice"))
            }
            Some((other, at)) => {
                let at = log.spell(*at);
                log.fault(
                    *place,
                    format!("`{caller}` has the same key as `{other}` at {at}: nobody could tell them apart"),
                );
            }
            None => _ = first.insert(*hash, (caller, *place)),
        }
    }
}

fn unique_listeners(facts: &Facts, log: &Log<'_>) {
    let mut first: BTreeMap<&str, Place> = BTreeMap::new();
    for (place, listen) in &facts.listens {
        match first.get(listen.as_str()) {
            Some(at) => {
                log.fault(*place, format!("`{listen}` is listened on already: see {}", log.spell(*at)))
            }
            None => _ = first.insert(listen, *place),
        }
    }
}
