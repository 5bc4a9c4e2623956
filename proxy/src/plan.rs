//! Plan: what an action's request amounts to. May read the provider, never write; nothing is spent yet.

use std::sync::Arc;
use std::time::Duration;

use oncegate_adapters::{Adapter, Plan, Planned, ReadBack};
use oncegate_config::model::{Action, Credential, Host};
use oncegate_policy::admission::{self, CallerKey};
use oncegate_policy::body;
use oncegate_policy::exchange::{Answer, Exchange};
use oncegate_policy::fingerprint::Said;
use oncegate_policy::identity;
use oncegate_policy::json;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::template::Scope;
use serde_json::Value;

use crate::asking::{Asking, KeysBeside, Listener};
use crate::state::{Sidecar, Snapshot};
use crate::{adapting, fits, meaning, read, sigv4};

/// The caller's key, where the provider has no header of its own for it.
pub const KEY_HEADER: &str = "idempotency-key";

/// Most characters of a cookie's name that a sentence repeats.
const COOKIE_SHOWN_CHARS_MAX: usize = 64;

/// Everything that admission needs to know.
pub struct Planning {
    /// What it amounts to.
    pub plan: Plan,
    /// Whose repeat it could be.
    pub asked: admission::Asked,
    /// What it says, of whichever action.
    pub said: Said,
}

/// Plans a request, reading the provider where the adapter needs it.
///
/// # Errors
/// `invalid_input`, `ambiguous`, `credential_unavailable` or `undeclared`. Nothing but reads was sent.
pub async fn plan(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    host: &Host,
    action: &Action,
    adapter: &Adapter,
    asking: &Asking,
) -> Result<Planning, Refusal> {
    match asking.listener {
        Listener::Proxy => {
            fits::proxied(snapshot, action, asking)?;
            let judged = action.judged_where_declared();
            let judged: Vec<_> = judged.iter().map(String::as_str).collect();
            adapter.fits(&asking.for_adapter(), &judged)?;
        }
        // Judged as it was given, before a request was made of it.
        Listener::Api => {}
    }
    if let Some(name) = lookalike(action, &asking.input) {
        return Err(meaning::lookalike(&name));
    }
    if let Some(name) = in_a_cookie(action, &asking.headers) {
        let name: String = name.chars().take(COOKIE_SHOWN_CHARS_MAX).collect();
        let sentence = format!(
            "The request is ambiguous: {name} is judged, and a cookie of that name stands over it at some servers. Nothing was sent."
        );
        return Err(Refusal::new(Code::Ambiguous, sentence));
    }
    let asked = asking.for_adapter();
    let planned = match adapter.plan(&asked) {
        Planned::NeedsRead(wanted) => {
            tracing::debug!(action.name = %action.name, why = wanted.why, "reading the provider before the plan");
            let answer = look(sidecar, snapshot, (host, action), asking, &wanted.read_back).await;
            adapter.plan_with(&asked, answer.as_ref())
        }
        planned @ (Planned::Ready(_) | Planned::Refused(_)) => planned,
    };
    let plan = match planned {
        Planned::Ready(plan) => plan,
        Planned::Refused(refusal) => return Err(refusal),
        Planned::NeedsRead(_) => {
            let sentence = "What this would change could not be established. Nothing was sent.";
            return Err(Refusal::new(Code::InvalidInput, sentence));
        }
    };
    fits::pinned(snapshot, action, &asking.input, &plan)?;
    let signed = adapting::credential(host, Some(action), false);
    let (asked, said) = if matches!(signed.as_deref(), Some(Credential::Sigv4(_))) {
        // For the fingerprint alone: a read-back does not repeat them.
        let mut whole = plan.clone();
        whole.fingerprint_scope.extend(amazons(asked.headers, adapter.key_header()));
        identify(action, adapter, asking, &whole)?
    } else {
        identify(action, adapter, asking, &plan)?
    };
    Ok(Planning { plan, asked, said })
}

/// A cookie of a judged member's name: PHP puts cookies over the body in `$_REQUEST`, where no `request_order` says otherwise
/// (<https://www.php.net/manual/en/reserved.variables.request.php>, `variables_order`).
fn in_a_cookie(action: &Action, headers: &[(String, String)]) -> Option<String> {
    let route = action.kind.declared()?;
    // Nobody takes what stands in the path from a cookie.
    let in_the_query: Vec<&str> = route.url.query_inputs().collect();
    let of_the_path = |path: &&str| route.url.inputs().contains(path) && !in_the_query.contains(path);
    let judged: Vec<&str> = action.judged_paths().into_iter().filter(|path| !of_the_path(path)).collect();
    let first = |path: &&str| path.split('.').next().unwrap_or_default().to_owned();
    let judged: Vec<_> = judged.iter().map(first).collect();
    let is_judged = |name: &String| judged.iter().any(|path| body::binds(name, path));
    cookie_names(headers).find(is_judged)
}

/// The names of an agent's cookies, decoded.
pub(crate) fn cookie_names(headers: &[(String, String)]) -> impl Iterator<Item = String> {
    let cookies = headers.iter().filter(|(name, _)| name == "cookie").flat_map(|(_, value)| value.split(';'));
    let names = cookies.filter_map(|cookie| cookie.split(['=', '[']).next());
    names.map(|name| percent_encoding::percent_decode_str(name.trim()).decode_utf8_lossy().into_owned())
}

/// A member that a server may take for one that is judged, by the schema and by the declared body as well: one that these
/// themselves tell apart in two spellings is none.
fn lookalike(action: &Action, input: &Value) -> Option<String> {
    let judged = action.judged_paths();
    let mut declared = action.schema_paths();
    declared.extend(action.body_paths());
    let is_one =
        |path: &&String| !declared.iter().any(|other| other != *path && other.eq_ignore_ascii_case(path));
    let of_schema = declared.iter().filter(is_one).map(String::as_str);
    let judged = judged.into_iter().find_map(|path| json::lookalike(input, path));
    // What a schema says of lists is the schema's to judge, and what a body makes of an input is no path in it.
    judged.or_else(|| of_schema.into_iter().find_map(|path| json::respelled(input, path)))
}

/// What a signed request says in Amazon's own fields, but for the provider's key: it is no part of the input.
fn amazons<'a>(
    headers: &'a [(String, String)],
    key: Option<&'a str>,
) -> impl Iterator<Item = (String, String)> + 'a {
    headers.iter().filter(move |(name, _)| sigv4::is_asked(name) && key != Some(name.as_str())).cloned()
}

/// The answer to a read; without one, the log says why.
async fn look(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    (host, action): (&Host, &Action),
    asking: &Asking,
    read_back: &ReadBack,
) -> Option<Answer> {
    let to = (&asking.authority, asking.scheme);
    let within = snapshot.config.proxy.respond_within.min(Duration::from_secs(10)) / 2;
    let cause = match read::ask(sidecar, snapshot, (host, action), to, read_back, within).await {
        Ok(Exchange::Answered(answer)) => return Some(answer),
        Ok(Exchange::NotSent(proof)) => proof.cause().to_owned(),
        Ok(Exchange::Lost(loss)) => loss.cause.clone(),
        Err(cause) => cause,
    };
    tracing::warn!(action.name = %action.name, cause, "the provider could not be read before the plan");
    None
}

/// Key, fingerprint and retry link (DESIGN section 5).
pub(crate) fn identify(
    action: &Action,
    adapter: &Adapter,
    asking: &Asking,
    plan: &Plan,
) -> Result<(admission::Asked, Said), Refusal> {
    let invalid = |sentence: String| Refusal::new(Code::InvalidInput, sentence);
    let declared_key = match &action.operation_key {
        None => None,
        Some(template) => {
            Some(template.render_identity(&Scope::of_input(&asking.input)).map_err(|fault| {
                invalid(format!("The operation key cannot be made: {fault}. Nothing was sent."))
            })?)
        }
    };
    let said = asking.said();
    let mut scope = plan.fingerprint_scope.clone();
    scope.extend(adapter.said_in_fields(&asking.for_adapter(), said)?);
    scope.extend(said_by_name(action, asking));
    let said = words(adapter, said, &scope);
    let (caller_key, second_key) = caller_keys(adapter, asking)?;
    let asked = admission::Asked {
        caller_key,
        second_key,
        declared_key,
        fingerprint: said.of_action(action.name.as_str()),
        identical_within: action.identical_within,
        retry_of: asking.links.retry_of.clone(),
    };
    Ok((asked, said))
}

/// The operation and the subject of an invocation, where they are made of an input that is not sent: then no request through
/// the proxy has them, and somebody has named them all the same.
fn said_by_name(action: &Action, asking: &Asking) -> Vec<(String, String)> {
    let Some(built) = &asking.built else { return Vec::new() };
    let (given, said) = (Scope::of_input(&asking.input), Scope::of_input(built));
    let named = [("operation_key", &action.operation_key), ("subject", &action.subject)];
    let unsaid = named.into_iter().filter_map(|(name, template)| Some((name, template.as_ref()?)));
    let unsaid = unsaid.filter(|(_, template)| template.render_identity(&said).is_err());
    unsaid
        .filter_map(|(name, template)| Some((name.to_owned(), template.render_identity(&given).ok()?)))
        .collect()
}

/// What the request says, without the key (a library makes a new one for each try), without what names the effect, and
/// without what only shapes the answer. `scope` is what makes the same words another request, beside the mode of the action.
pub(crate) fn words(adapter: &Adapter, input: &Value, scope: &[(String, String)]) -> Said {
    let left_out =
        |name: &str| adapter.key_member() == Some(name) || adapter.answer_members().contains(&name);
    let world = adapter.world().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let scope: Vec<_> = scope.iter().cloned().chain(world).collect();
    let of = |input: &Value| Said::of(input, &scope);
    let input = adapter.without_marks(input);
    match input.as_object().filter(|members| members.keys().any(|name| left_out(name))) {
        None => of(&input),
        Some(members) => {
            let mut said = members.clone();
            said.retain(|name, _| !left_out(name));
            of(&Value::Object(said))
        }
    }
}

/// The caller's key: in `Idempotency-Key`, or where the provider itself reads it. Where `operationKey` came as well and
/// is another, it is the second one.
fn caller_keys(
    adapter: &Adapter,
    asking: &Asking,
) -> Result<(Option<CallerKey>, Option<CallerKey>), Refusal> {
    let header = adapter.key_header().unwrap_or(KEY_HEADER);
    let in_headers = asking.headers.iter().filter(|(name, _)| name == header || name == KEY_HEADER);
    let in_body = adapter.key_member().and_then(|member| asking.input.get(member)).and_then(Value::as_str);
    let KeysBeside { field, operation } = &asking.keys;
    let beside = operation.as_deref().or(field.as_deref());
    let mut found = in_headers
        .map(|(_, text)| text.as_str())
        .chain(in_body)
        .chain(beside)
        .filter(|text| !text.is_empty());
    let Some(text) = found.next() else { return Ok((None, None)) };
    if found.any(|other| other != text) {
        let sentence = "The request carries two different idempotency keys. Nothing was sent.";
        return Err(Refusal::new(Code::Ambiguous, sentence));
    }
    let named = well_formed(text, operation.is_some())?;
    match field.as_deref().filter(|field| operation.is_some() && *field != text) {
        Some(field) => Ok((Some(well_formed(field, false)?), Some(named))),
        None => Ok((Some(named), None)),
    }
}

/// A key, which somebody chose or which may be a library's.
fn well_formed(text: &str, chosen: bool) -> Result<CallerKey, Refusal> {
    if !identity::valid_key(text) {
        let sentence = "The idempotency key has to be 1 to 255 printable ASCII characters. Nothing was sent.";
        return Err(Refusal::new(Code::InvalidInput, sentence));
    }
    Ok(CallerKey { generated: !chosen && identity::is_generated_key(text), text: text.to_owned() })
}
