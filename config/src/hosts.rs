//! `[hosts."…"]`

use oncegate_policy::authority::Authority;
use oncegate_policy::template::Template;
use oncegate_policy::url_template::{Scheme, UrlTemplate};

use crate::document::{Document, Entry};
use crate::facts::Facts;
use crate::headers::header_name;
use crate::model::{Credential, Host, HostPattern, Placement, Sigv4};
use crate::nearest::nearest;
use crate::reader::{Node, Table};
use crate::templates::{Allowed, parse};
use crate::value::{any_text, boolean, owned, path, text, word};

/// The words of `reads`, `writes` and `websockets`.
const PASSAGE: [(&str, bool); 2] = [("allow", true), ("deny", false)];

pub(crate) fn read(document: &Document<'_>, facts: &mut Facts) -> Vec<Host> {
    let urls = action_urls(document);
    for entry in document.entries("hosts") {
        let read = |table: &Table<'_>| host(table, entry, &urls, facts);
        let Some(host) = entry.node.table(&format!("[hosts.\"{}\"]", entry.name), read).flatten() else {
            continue;
        };
        let same = |(_, known): &&(_, Host)| known.pattern == host.pattern && known.port == host.port;
        if let Some((first, _)) = facts.hosts.iter().find(same) {
            let first = entry.node.log.spell(*first);
            let message = format!("`{}` is the same host as the one at {first}", entry.name);
            entry.node.log.fault(entry.place, message);
            continue;
        }
        facts.hosts.push((entry.place, host));
    }
    facts.hosts.iter().map(|(_, host)| host.clone()).collect()
}

/// Hosts that only an action names: the action declares them, with every default and without a credential. Not where
/// a declared host has nearly the same name: that is more likely a slip of the pen.
pub(crate) fn implied(facts: &mut Facts) -> Vec<Host> {
    let mut implied: Vec<Host> = Vec::new();
    for destination in &facts.destinations {
        let authority = &destination.authority;
        let declared = facts.host_for(authority).is_some()
            || implied
                .iter()
                .any(|host| host.pattern.name() == authority.host && host.port == authority.port);
        if declared || slip_of(&authority.host, facts).is_some() {
            continue;
        }
        implied.push(Host {
            pattern: HostPattern::Exact(authority.host.clone()),
            port: authority.port,
            plain: destination.scheme == Scheme::Http,
            credential: None,
            reads: true,
            writes: false,
            websockets: false,
            connect_to: None,
            ca_file: None,
            allow_private: false,
            implied: true,
        });
    }
    implied
}

/// The declared host that was probably meant: at most two letters away.
pub(crate) fn slip_of<'a>(host: &str, facts: &'a Facts) -> Option<&'a str> {
    let names = facts.hosts.iter().map(|(_, declared)| declared.pattern.name());
    nearest(host, names).filter(|near| strsim::osa_distance(host, near) <= 2)
}

/// The servers that actions are declared on, as far as their URLs can be read.
fn action_urls(document: &Document<'_>) -> Vec<(Scheme, Authority)> {
    let urls = document.entries("actions").iter().filter_map(|entry| entry.node.value.as_table()?.get("url"));
    urls.filter_map(|url| UrlTemplate::parse(url.get_ref().as_str()?).ok())
        .map(|url| (url.scheme(), url.authority().clone()))
        .collect()
}

/// Where `plain` is not written, what else is written tells: port 80, or an action on this very server whose URL
/// begins with `http://`.
fn is_plain(entry: &Entry<'_>, urls: &[(Scheme, Authority)]) -> bool {
    let spoken = |scheme: Scheme| {
        let named = Authority::parse(entry.name, Some(scheme.default_port()));
        named.is_ok_and(|named| urls.iter().any(|(each, authority)| *each == scheme && *authority == named))
    };
    let written_80 =
        Authority::parse(entry.name.trim_start_matches('.'), Some(443)).is_ok_and(|a| a.port == 80);
    written_80 || (spoken(Scheme::Http) && !spoken(Scheme::Https))
}

fn host(
    table: &Table<'_>,
    entry: &Entry<'_>,
    urls: &[(Scheme, Authority)],
    facts: &mut Facts,
) -> Option<Host> {
    let plain = table.or("plain", boolean, is_plain(entry, urls));
    let name = pattern(entry, if plain { 80 } else { 443 });
    let to = name.as_ref().map(|(pattern, _)| pattern);
    let credential = table.read("credential", |node| {
        node.table("`credential`", |table| credential(table, to, facts)).flatten()
    });
    let reads = table.or("reads", |node| word(node, &PASSAGE), true);
    let writes = table.or("writes", |node| word(node, &PASSAGE), false);
    let websockets = table.or("websockets", |node| word(node, &PASSAGE), false);
    if table.or("http2", boolean, false) {
        table
            .log
            .warn(table.key_place("http2"), "`http2`: HTTP/2 to providers is not built, HTTP/1.1 is used");
    }
    let connect_to = table.read("connect_to", connect_to);
    let ca_file = table.read("ca_file", path);
    if plain {
        table.refuse(&["ca_file"], "does not go with `plain = true`: there is no certificate to check");
    }
    let allow_private = table.or("allow_private", boolean, false) || connect_to.is_some();
    let (pattern, port) = name?;
    Some(Host {
        pattern,
        port,
        plain,
        credential,
        reads,
        writes,
        websockets,
        connect_to,
        ca_file,
        allow_private,
        implied: false,
    })
}

/// `name`, `name:port`, or either with a leading dot.
fn pattern(entry: &Entry<'_>, default_port: u16) -> Option<(HostPattern, u16)> {
    let below = entry.name.strip_prefix('.');
    match Authority::parse(below.unwrap_or(entry.name), Some(default_port)) {
        Ok(Authority { host, port }) if below.is_some() => Some((HostPattern::Below(host), port)),
        Ok(Authority { host, port }) => Some((HostPattern::Exact(host), port)),
        Err(fault) => {
            entry.node.log.fault(entry.place, format!("`{}` is not a host: {fault}", entry.name));
            None
        }
    }
}

fn connect_to(node: &Node<'_>) -> Option<Authority> {
    let written = text(node)?;
    match Authority::parse(written, None) {
        Ok(authority) => Some(authority),
        Err(fault) => {
            node.fault(format!("{}: `{written}`: {fault}", node.what));
            None
        }
    }
}

fn credential(table: &Table<'_>, to: Option<&HostPattern>, facts: &mut Facts) -> Option<Credential> {
    let kind = table.exactly_one(&["header", "query", "basic", "sigv4"]);
    let value = |facts: &mut Facts, placement| {
        table.need("value", |node| placed(node, text(node)?, placement, to, facts))
    };
    match kind {
        Some("header") => {
            let (name, value) = (table.read("header", header_name), value(facts, Placement::Header));
            Some(Credential::Header { name: name?, value: value? })
        }
        Some("query") => {
            let (name, value) = (table.read("query", owned), value(facts, Placement::Url));
            Some(Credential::Query { name: name?, value: value? })
        }
        Some("basic") => {
            table.refuse(&["value"], "does not go with `basic`: it has `user` and `password`");
            table.read("basic", |node| node.table("`basic`", |table| basic(table, to, facts))?)
        }
        Some(_) => {
            table.refuse(&["value"], "does not go with `sigv4`: it has its keys");
            let keys = table.read("sigv4", |node| node.table("`sigv4`", |table| sigv4(table, to, facts))?);
            keys.map(Credential::Sigv4)
        }
        None => {
            _ = table.get("value");
            None
        }
    }
}

/// Keys by the names of their secrets: a signature has no place for a template.
fn sigv4(table: &Table<'_>, to: Option<&HostPattern>, facts: &mut Facts) -> Option<Sigv4> {
    let (region, service) = (table.need("region", scope_word), table.need("service", scope_word));
    let mut named = |node: &Node<'_>| {
        let secret = owned(node)?;
        facts.uses(node.place, &secret, Placement::Header, to);
        Some(secret)
    };
    let access_key = table.need("access_key", &mut named);
    let secret_key = table.need("secret_key", &mut named);
    let session_token = table.read("session_token", &mut named);
    Some(Sigv4 {
        region: region?,
        service: service?,
        access_key: access_key?,
        secret_key: secret_key?,
        session_token,
    })
}

/// A part of a signature's scope, which is divided by slashes.
fn scope_word(node: &Node<'_>) -> Option<String> {
    let written = text(node)?;
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !written.bytes().all(good) {
        node.fault(format!("{}: `{written}` is not of `a-z`, `0-9` and `-`", node.what));
        return None;
    }
    Some(written.to_owned())
}

fn basic(table: &Table<'_>, to: Option<&HostPattern>, facts: &mut Facts) -> Option<Credential> {
    // Either may be empty: Stripe takes its key as the user, without a password.
    let mut half = |key| table.need(key, |node| placed(node, any_text(node)?, Placement::Header, to, facts));
    let (user, password) = (half("user"), half("password"));
    Some(Credential::Basic { user: user?, password: password? })
}

fn placed(
    node: &Node<'_>,
    written: &str,
    placement: Placement,
    to: Option<&HostPattern>,
    facts: &mut Facts,
) -> Option<Template> {
    let template = parse(node, written, Allowed::CREDENTIAL)?;
    for secret in template.secrets() {
        facts.uses(node.place, secret, placement, to);
    }
    Some(template)
}
