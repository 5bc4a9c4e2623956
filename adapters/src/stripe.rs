//! What holds for every write of version 1 of Stripe's API (<https://docs.stripe.com/api>).
//!
//! The provider deduplicates on `Idempotency-Key` for at least 24 hours and keeps the answer, a 500 included: a kept 500
//! proves nothing (<https://docs.stripe.com/api/idempotent_requests>).

use oncegate_policy::body::BodyKind;
use oncegate_policy::exchange::Answer;
use oncegate_policy::form;
use oncegate_policy::json;
use oncegate_policy::reconcile::Finding;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::template::Template;
use oncegate_policy::url_template::percent_encode;
use serde_json::{Map, Value};

use crate::built::{is_header_text, plain_header};
use crate::form_body;
use crate::look::Memory;
use crate::own_marks::{self, MARK};
use crate::plan::{Marks, Prepared, Request};

/// Stripe's idempotency header, lower case.
pub(crate) const KEY_HEADER: &str = "idempotency-key";
/// Keys may be forgotten once they are 24 hours old (<https://docs.stripe.com/api/idempotent_requests>).
pub(crate) const REPLAY_WINDOW_MS: u64 = 24 * 60 * 60 * 1000;
/// How long before the dispatch an object may have been made: two clocks never quite agree.
const CLOCK_SKEW_S: i64 = 5 * 60;
/// Ids are at most 255 characters (<https://docs.stripe.com/upgrades>, on backward-compatible changes).
pub(crate) const MAX_ID: usize = 255;
/// Version 1 takes forms only (<https://docs.stripe.com/api>).
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";
/// Headers that say where a request is done: they make it another request, and a read has to repeat them
/// (<https://docs.stripe.com/connect/authentication>).
const ACCOUNT_HEADERS: [&str; 2] = ["stripe-account", "stripe-context"];
/// The header that says how an answer is written (<https://docs.stripe.com/api/versioning>). A read has to repeat it. It makes
/// no other request: each release of an SDK sends its own, and curl sends none, so the same refund would be another one
/// as soon as another client asks for it (decision 0022).
const VERSION_HEADERS: [&str; 1] = ["stripe-version"];
/// The member of an API input that names a connected account. Stripe has no such parameter: it goes out as
/// `Stripe-Account` (<https://docs.stripe.com/connect/authentication>).
pub(crate) const ACCOUNT_MEMBER: &str = "stripe_account";

pub(crate) fn invalid(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::InvalidInput, format!("{what}. Nothing was sent."))
}

fn ambiguous(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::Ambiguous, format!("{what}. Nothing was sent."))
}

/// Stripe reads parameters from the query as well as from the body: what was judged would not be what it reads.
pub(crate) fn only_expand_in_the_query(request: &Request<'_>) -> Result<(), Refusal> {
    let is_expand = |name: &str| name.starts_with("expand[") && name.ends_with(']');
    match request.query.iter().any(|(name, _)| !is_expand(name)) {
        true => Err(ambiguous("The parameters belong in the body; the query may only hold expand[]")),
        false => Ok(()),
    }
}

/// Where a request is done.
pub(crate) fn account(request: &Request<'_>) -> Result<Vec<(String, String)>, Refusal> {
    request.scope(&ACCOUNT_HEADERS)
}

/// In which version of the API.
pub(crate) fn version(request: &Request<'_>) -> Result<Vec<(String, String)>, Refusal> {
    request.scope(&VERSION_HEADERS)
}

/// Stripe's own parameters are lower-case words. Servers differ in what they make of `[amount]`, `amount]` or
/// ` amount`, and Stripe ignores none of its own.
pub(crate) fn plain_names(input: &Value) -> Result<(), Refusal> {
    let Value::Object(members) = input else { return Err(invalid("The input must be an object")) };
    let plain = |name: &String| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    match members.keys().all(plain) {
        true => Ok(()),
        false => Err(ambiguous("A parameter's name is not one of Stripe's lower-case words")),
    }
}

/// No request moves a mark or takes one away, at whatever endpoint: an object that another effect made carries it there.
pub(crate) fn no_mark_of_its_own(input: &Value) -> Result<(), Refusal> {
    own_marks::no_member(input, None)?;
    whole_metadata(input)
}

/// `metadata` is an object: anything else clears what an object has (<https://docs.stripe.com/api/metadata>), and the
/// effect's mark goes into one.
fn whole_metadata(input: &Value) -> Result<(), Refusal> {
    match input.get("metadata") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(invalid("metadata must be an object; Oncegate marks what it sends in it"))
        }
    }
}

/// Of a declared route: what is in the body is known, and it clears no marks.
pub(crate) fn can_be_read(request: &Request<'_>) -> Result<(), Refusal> {
    match request.body_kind {
        BodyKind::Empty | BodyKind::Form | BodyKind::Json => whole_metadata(request.input),
        BodyKind::Opaque => Err(invalid("Stripe must be asked with a form or JSON")),
    }
}

/// A request that says another currency than the one that is counted is not the one that was declared.
pub(crate) fn same_currency(input: &Value, currency: &str) -> Result<(), Refusal> {
    match input.get("currency") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(named)) if named.eq_ignore_ascii_case(currency) => Ok(()),
        Some(_) => Err(invalid(format!("This action counts {currency} only"))),
    }
}

/// What is put behind what the agent sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adds {
    /// An `amount` that the agent did not name, in minor units.
    pub(crate) amount: Option<i64>,
    /// The effect's id in the metadata, where there is a place for it.
    pub(crate) mark: bool,
}

/// What the agent sent as a form, with what is added, and the effect's own key.
pub(crate) fn prepare(request: &Request<'_>, marks: &Marks<'_>, adds: Adds) -> Result<Prepared, Refusal> {
    let body = match request.body_kind {
        BodyKind::Form => request.body.to_vec(),
        BodyKind::Empty => Vec::new(),
        BodyKind::Json => form_body::encode(&members(request.body)?).map_err(invalid)?,
        BodyKind::Opaque => return Err(invalid("Stripe must be asked with a form or JSON")),
    };
    // Checked again where the mark is set: two of them, or a cleared `metadata`, and it is never found.
    no_mark_of_its_own(request.input)?;
    let body = match adds.amount {
        Some(amount) => form::append(&body, "amount", &amount.to_string()),
        None => body,
    };
    let body = match adds.mark {
        true => form::append(&body, &format!("metadata[{MARK}]"), marks.effect_id),
        false => body,
    };
    let headers = vec![
        ("content-type".to_owned(), FORM.to_owned()),
        (KEY_HEADER.to_owned(), marks.provider_key.to_owned()),
    ];
    Ok(Prepared { headers, body })
}

/// The members of a JSON body; Stripe's own clients leave out what is `null`, too.
fn members(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    match json::strict(body) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) | Err(_) => Err(invalid("The body must be an object")),
    }
}

/// The headers of a built request.
pub(crate) type Headers = Vec<(String, Template)>;

/// An API input without the member that names a connected account, and the headers of its request.
pub(crate) fn apart(input: &Value) -> Result<(Map<String, Value>, Headers), Refusal> {
    let Value::Object(members) = input else { return Err(invalid("The input must be an object")) };
    let mut members = members.clone();
    let mut headers = vec![plain_header("content-type", FORM)];
    match members.remove(ACCOUNT_MEMBER) {
        None | Some(Value::Null) => {}
        Some(Value::String(account)) if !account.trim().is_empty() && is_header_text(&account) => {
            headers.push(plain_header("stripe-account", &account));
        }
        Some(_) => return Err(invalid(format!("{ACCOUNT_MEMBER} must be the id of an account, acct_…"))),
    }
    Ok((members, headers))
}

/// Stripe's keys name their mode: `sk_live_…`, `rk_test_…` (<https://docs.stripe.com/keys>). One that does not
/// say is believed.
pub(crate) fn credential_fits(live: bool, credential: &str) -> bool {
    let other = if live { "_test_" } else { "_live_" };
    // Of an account, restricted, and of an organization (<https://docs.stripe.com/keys/organization-api-keys>).
    !["sk", "rk", "sk_org", "rk_org"]
        .iter()
        .any(|kind| credential.trim_start().strip_prefix(kind).is_some_and(|rest| rest.starts_with(other)))
}

/// The effect that an object was marked with.
pub(crate) fn mark(object: &Value) -> Option<&str> {
    object.get("metadata")?.get(MARK)?.as_str()
}

/// The earliest `created` of what an effect made, in seconds since 1970.
fn since(memory: &Memory<'_>) -> i64 {
    memory.sent_at_ms / 1000 - CLOCK_SKEW_S
}

/// Between which seconds an object can have been made to be looked for in a list: from an hour before the dispatch, since a
/// clock can be that wrong, to an hour after the last replay. So the list does not grow while the effect is unknown.
pub(crate) fn listed_between(memory: &Memory<'_>) -> (i64, i64) {
    const HOUR_S: i64 = 60 * 60;
    let sent = memory.sent_at_ms / 1000;
    let window = i64::try_from(REPLAY_WINDOW_MS / 1000).unwrap_or(0);
    (sent - HOUR_S, sent + window + HOUR_S)
}

/// Whether a listed object can be what an effect made: it carries its mark, and is about the amount that was asked; where
/// the two cannot be compared, it is none that was made before the dispatch. Anybody with a key of the account can write
/// the mark into another object.
pub(crate) fn is_made_by(memory: &Memory<'_>, object: &Value) -> bool {
    let amount = |of: &Value| {
        of.get("amount").filter(|amount| !amount.is_null()).and_then(|amount| json::amount(amount).ok())
    };
    let can_be = match (amount(memory.input), amount(object)) {
        (Some(asked), Some(made)) => asked == made,
        (Some(_) | None, None) | (None, Some(_)) => {
            object.get("created").and_then(Value::as_i64).is_none_or(|made| made >= since(memory))
        }
    };
    mark(object) == Some(memory.effect_id) && can_be
}

/// What the objects of one page that carry the mark say together; `None` where the next page has to say it. One that was
/// applied decides, wherever it stands: another with the same mark may have failed, or be a copy. One that has failed decides
/// only where the list ends with it.
pub(crate) fn together(findings: impl Iterator<Item = Finding>, is_last_page: bool) -> Option<Finding> {
    let mut failed = None;
    let mut unsaid = None;
    for finding in findings {
        match finding {
            Finding::Matched { .. } => return Some(finding),
            Finding::ProviderSaysFailed { .. } => failed = failed.or(Some(finding)),
            Finding::Unreadable { .. } | Finding::NoMatch { .. } => unsaid = unsaid.or(Some(finding)),
        }
    }
    unsaid.or(failed).filter(|_| is_last_page)
}

/// One page of a list (<https://docs.stripe.com/api/pagination>).
pub(crate) struct Page {
    pub(crate) objects: Vec<Value>,
    /// The last id, encoded for a query, when there is more after it.
    pub(crate) next: Option<String>,
}

/// Reads a page of a list of `what`.
pub(crate) fn read_page(answer: &Answer, what: &str) -> Result<Page, String> {
    if answer.status != 200 {
        return Err(format!("the list of {what} was answered with {}", answer.status));
    }
    let garbled = || format!("the list of {what} cannot be read");
    let mut list = json::of_answer(&answer.body).map_err(|_| garbled())?;
    let more = list.get("has_more").and_then(Value::as_bool).ok_or_else(garbled)?;
    let Some(Value::Array(objects)) = list.get_mut("data").map(Value::take) else { return Err(garbled()) };
    let ids: Option<Vec<&str>> = objects.iter().map(|object| object.get("id")?.as_str()).collect();
    let ids = ids.filter(|ids| ids.iter().all(|id| id.len() <= MAX_ID)).ok_or_else(garbled)?;
    let last = ids.last().filter(|id| !id.is_empty()).map(|id| percent_encode(id));
    if more && last.is_none() {
        return Err(format!("the list of {what} says that it goes on, and not after what"));
    }
    Ok(Page { objects, next: last.filter(|_| more) })
}
