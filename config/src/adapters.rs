//! `adapter = { type = …, … }` in `[actions.NAME]`.

use oncegate_policy::classify::ResponseRules;
use oncegate_policy::url_template::UrlTemplate;
use toml::de::DeValue;

use crate::declared;
use crate::facts::{Destination, Facts};
use crate::limits::currency;
use crate::lookup::{GITHUB_REPOS, RESEND_EMAILS, STRIPE_REFUNDS, STRIPE_V1};
use crate::model::{
    ActionKind, Declared, EmailFence, GithubFile, GithubWrite, HostPattern, ImpactRule, Placement,
    Repository, ResendEmail, StripeRefund, StripeWrite, Verify,
};
use crate::nearest::hint;
use crate::reader::{Node, Table};
use crate::templates::{Allowed, parse};
use crate::value::{boolean, owned, text, word};

const STRIPE_REFUND: &str = "stripe.refund";
const STRIPE_WRITE: &str = "stripe.write";
const RESEND_EMAIL: &str = "resend.email_send";
const GITHUB_FILE: &str = "github.file_update";
const GITHUB_WRITE: &str = "github.write";

/// What `type` may be.
const TYPES: [&str; 5] = [STRIPE_REFUND, STRIPE_WRITE, RESEND_EMAIL, GITHUB_FILE, GITHUB_WRITE];

/// What a declared route has and `stripe.write` and `github.write` take too.
const WRITE_KEYS: [&str; 3] = ["subject", "impact", "verify"];

/// Whether a key of declared routes goes with this adapter.
pub(crate) fn takes(adapter: &Node<'_>, key: &str) -> bool {
    let kind = adapter.value.as_table().and_then(|table| table.get("type")?.get_ref().as_str());
    [STRIPE_WRITE, GITHUB_WRITE].map(Some).contains(&kind) && WRITE_KEYS.contains(&key)
}

/// What an action with `adapter` means.
pub(crate) fn read(node: &Node<'_>, action: &Table<'_>, facts: &mut Facts) -> Option<ActionKind> {
    // Read in any case, so that it is a known key whatever the adapter is.
    let secret = action.get("credential_secret");
    let Some(table) = node.value.as_table() else {
        node.wrong_type("a table");
        return None;
    };
    // Without it, the other keys are not judged: nobody knows what they should be.
    let Some(kind) = table.get("type") else {
        node.fault("missing key `type` in `adapter`");
        return None;
    };
    let kind = text(&Node::new(kind, node.place.file, "`type`".to_owned(), node.log))?;
    let (url, read): (&str, Reader) = match kind {
        STRIPE_REFUND => (STRIPE_REFUNDS, stripe_refund),
        STRIPE_WRITE => (STRIPE_V1, stripe_write),
        RESEND_EMAIL => (RESEND_EMAILS, resend_email),
        GITHUB_FILE => (GITHUB_REPOS, github_file),
        GITHUB_WRITE => (GITHUB_REPOS, github_write),
        unknown => {
            node.fault(format!("unknown adapter `{unknown}`{}", hint(unknown, TYPES)));
            return None;
        }
    };
    let to = destination(node, url, facts);
    if secret.is_none() {
        action.log.fault(action.place, format!("the adapter `{kind}` needs `credential_secret`"));
    }
    let secret = secret.and_then(|node| secret_for(&node, to.as_ref(), facts));
    let given = Given { action, to: to.as_ref(), credential_secret: secret };
    node.table("`adapter`", |table| {
        _ = table.need("type", text);
        read(table, given, facts)
    })?
}

/// What a reader needs beside the adapter's own table.
struct Given<'a, 'b> {
    action: &'a Table<'b>,
    to: Option<&'a HostPattern>,
    credential_secret: Option<String>,
}

type Reader = fn(&Table<'_>, Given<'_, '_>, &mut Facts) -> Option<ActionKind>;

/// Where the adapter writes, for the cross checks.
fn destination(node: &Node<'_>, url: &str, facts: &mut Facts) -> Option<HostPattern> {
    let url = UrlTemplate::parse(url).ok()?;
    let (scheme, authority) = (url.scheme(), url.authority().clone());
    let to = HostPattern::Exact(authority.host.clone());
    facts.destinations.push(Destination { place: node.place, scheme, authority });
    Some(to)
}

fn secret_for(node: &Node<'_>, to: Option<&HostPattern>, facts: &mut Facts) -> Option<String> {
    let secret = owned(node)?;
    facts.uses(node.place, &secret, Placement::Header, to);
    Some(secret)
}

/// `mode`, and what goes with `live` only. Asked here, where a fault elsewhere does not hide this one.
fn live(table: &Table<'_>, action: &Table<'_>) -> Option<bool> {
    let live = table.need("mode", |node| word(node, &[("test", false), ("live", true)]));
    let allowed =
        action.get("allow_live_drill").is_some_and(|node| matches!(node.value, DeValue::Boolean(true)));
    if live == Some(true) && !allowed && action.get("fault_drill").is_some() {
        action.log.fault(
            action.key_place("fault_drill"),
            "`fault_drill` is refused with `mode = \"live\"` unless `allow_live_drill = true`: a drill loses the answer on purpose",
        );
    }
    live
}

fn stripe_refund(table: &Table<'_>, given: Given<'_, '_>, _: &mut Facts) -> Option<ActionKind> {
    let account = table.read("account", owned);
    let live = live(table, given.action);
    let currency = table.need("currency", currency);
    Some(ActionKind::StripeRefund(StripeRefund {
        account,
        live: live?,
        currency: currency?,
        credential_secret: given.credential_secret?,
    }))
}

fn stripe_write(table: &Table<'_>, given: Given<'_, '_>, _: &mut Facts) -> Option<ActionKind> {
    let action = given.action;
    let live = live(table, action);
    let url = table.need("path", stripe_path);
    let impact = action.read("impact", |node| node.table("`impact`", declared::impact)?);
    let verify = action.read("verify", |node| {
        node.table("`verify`", |verify| declared::read_verify(verify, STRIPE_WRITE, url.as_ref()))?
    });
    let route = keyless("POST", url?, impact, verify, given.credential_secret?);
    Some(ActionKind::StripeWrite(Box::new(StripeWrite { live: live?, route })))
}

/// A route whose key, headers and answers the adapter knows.
fn keyless(
    method: &str,
    url: UrlTemplate,
    impact: Option<ImpactRule>,
    verify: Option<Verify>,
    credential_secret: String,
) -> Declared {
    Declared {
        method: method.to_owned(),
        url,
        headers: Vec::new(),
        scope_headers: Vec::new(),
        body: None,
        governed: true,
        writes_by_get: false,
        impact,
        idempotency: None,
        verify,
        response: ResponseRules::default(),
        credential_secret: Some(credential_secret),
    }
}

/// `/v1/transfers`, or `/v1/customers/{{input.id}}`.
fn stripe_path(node: &Node<'_>) -> Option<UrlTemplate> {
    path_below(node, "/v1/", STRIPE_V1, "/v1/transfers")
}

/// `/repos/owner/name/issues`, or `/repos/{{input.owner}}/{{input.repo}}/issues`.
fn github_path(node: &Node<'_>) -> Option<UrlTemplate> {
    path_below(node, "/repos/", GITHUB_REPOS, "/repos/owner/name/issues")
}

fn path_below(node: &Node<'_>, start: &str, base: &str, example: &str) -> Option<UrlTemplate> {
    let written = text(node)?;
    let Some(below) = written.strip_prefix(start).filter(|below| !below.is_empty() && !below.contains('?'))
    else {
        node.fault(format!("{}: `{written}` is not a path such as `{example}`", node.what));
        return None;
    };
    match UrlTemplate::parse(&format!("{base}/{below}")) {
        Ok(url) => {
            _ = parse(node, written, Allowed::WRITE.without_effect());
            Some(url)
        }
        Err(fault) => {
            node.fault(format!("{}: {fault}", node.what));
            None
        }
    }
}

fn resend_email(table: &Table<'_>, given: Given<'_, '_>, facts: &mut Facts) -> Option<ActionKind> {
    let fences =
        [EmailFence::RecipientsAndSubject, EmailFence::Recipients].map(|fence| (fence.word(), fence));
    let fence = table.or("fence", |node| word(node, &fences), EmailFence::RecipientsAndSubject);
    let read_secret = table.read("read_secret", |node| secret_for(node, given.to, facts));
    Some(ActionKind::ResendEmail(ResendEmail {
        fence,
        credential_secret: given.credential_secret?,
        read_secret,
    }))
}

fn github_file(table: &Table<'_>, given: Given<'_, '_>, _: &mut Facts) -> Option<ActionKind> {
    let repository = table.read("repository", repository);
    let branch = table.read("branch", owned);
    Some(ActionKind::GithubFile(GithubFile {
        repository,
        branch,
        credential_secret: given.credential_secret?,
    }))
}

/// The methods of GitHub's writes.
const GITHUB_METHODS: [(&str, &str); 4] =
    [("POST", "POST"), ("PUT", "PUT"), ("PATCH", "PATCH"), ("DELETE", "DELETE")];

fn github_write(table: &Table<'_>, given: Given<'_, '_>, _: &mut Facts) -> Option<ActionKind> {
    let action = given.action;
    let method = table.or("method", |node| word(node, &GITHUB_METHODS), "POST");
    let url = table.need("path", github_path);
    let mark_body = table.or("mark_body", boolean, false);
    let impact = action.read("impact", |node| node.table("`impact`", declared::impact)?);
    let verify = action.read("verify", |node| {
        node.table("`verify`", |verify| declared::read_verify(verify, GITHUB_WRITE, url.as_ref()))?
    });
    let route = keyless(method, url?, impact, verify, given.credential_secret?);
    Some(ActionKind::GithubWrite(Box::new(GithubWrite { mark_body, route })))
}

/// `owner/name`. It becomes a part of the action's URL.
fn repository(node: &Node<'_>) -> Option<Repository> {
    let written = text(node)?;
    let plain = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let parts = written.split_once('/').filter(|(owner, name)| plain(owner) && plain(name));
    if parts.is_none() {
        node.fault(format!("{}: `{written}` is not a repository such as `owner/name`", node.what));
    }
    parts.map(|(owner, name)| Repository { owner: owner.to_owned(), name: name.to_owned() })
}
