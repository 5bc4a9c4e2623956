//! `adapter = { type = …, … }` in `[actions.NAME]`.

use oncegate_policy::url_template::UrlTemplate;

use crate::facts::{Destination, Facts};
use crate::limits::currency;
use crate::lookup::{GITHUB_REPOS, RESEND_EMAILS, STRIPE_REFUNDS};
use crate::model::{
    ActionKind, EmailFence, GithubFile, HostPattern, Placement, Repository, ResendEmail, StripeRefund,
};
use crate::nearest::hint;
use crate::reader::{Node, Table};
use crate::value::{owned, text, word};

const STRIPE_REFUND: &str = "stripe.refund";
const RESEND_EMAIL: &str = "resend.email_send";
const GITHUB_FILE: &str = "github.file_update";

/// What `type` may be.
const TYPES: [&str; 3] = [STRIPE_REFUND, RESEND_EMAIL, GITHUB_FILE];

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
        RESEND_EMAIL => (RESEND_EMAILS, resend_email),
        GITHUB_FILE => (GITHUB_REPOS, github_file),
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

/// `mode`, and what goes with `live` only.
fn live(table: &Table<'_>, action: &Table<'_>) -> Option<bool> {
    let live = table.need("mode", |node| word(node, &[("test", false), ("live", true)]));
    if live == Some(true) && action.get("fault_drill").is_some() {
        let place = action.key_place("fault_drill");
        action.log.fault(
            place,
            "`fault_drill` is refused with `mode = \"live\"`: a drill loses the answer on purpose",
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
