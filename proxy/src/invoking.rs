//! An invocation by name, made into the request that an agent would have sent: from there on both listeners are one.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use oncegate_adapters::{Adapter, Built};
use oncegate_config::model::Action;
use oncegate_policy::body::{self, BodyKind};
use oncegate_policy::caller::CallerName;
use oncegate_policy::id::PreviewId;
use oncegate_policy::json;
use oncegate_policy::path::CanonicalPath;
use oncegate_policy::query;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::router::Candidate;
use oncegate_policy::template::Scope;
use serde_json::Value;

use crate::asking::{Asking, Fresh, KeysBeside, Listener};
use crate::links::Links;
use crate::meant::{self, Content};
use crate::state::Snapshot;
use crate::{adapting, fits, receive};

/// What providers that ask for a name of their client are told, where the action declares none.
const USER_AGENT: &str = concat!("oncegate/", env!("CARGO_PKG_VERSION"));

/// What is asked, by name.
pub struct Invoked {
    /// Who asks.
    pub caller: CallerName,
    /// The caller's own keys, as far as any were sent.
    pub keys: KeysBeside,
    /// A JSON object.
    pub input: Value,
    /// What it says of other effects.
    pub links: Links,
    /// The preview that it is bound to.
    pub preview: Option<PreviewId>,
}

/// The same value that a proxied request becomes.
///
/// # Errors
/// `invalid_input` when the input lacks what the action needs or makes another action's request, `ambiguous` when two
/// servers could read what it makes differently.
pub fn asking(
    snapshot: &Snapshot,
    action: &Action,
    adapter: &Adapter,
    invoked: Invoked,
) -> Result<Asking, Refusal> {
    let invoked = Invoked { input: adapter.spelled(invoked.input)?, ..invoked };
    fits::given(snapshot, action, &invoked.input)?;
    let fresh = Fresh::ids();
    let key = fresh.provider_key();
    let scope = Scope {
        input: &invoked.input,
        effect_id: Some(fresh.effect.as_str()),
        effect_key: Some(&key),
        response: None,
    };
    let built = adapter.build(&invoked.input, &scope)?;
    let header_map = headers(&built, &scope)?;
    let target: Uri = built.url.parse().map_err(|_| invalid("The input makes an address that is none"))?;
    let path_and_query = target.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let path = CanonicalPath::parse(target.path()).map_err(|fault| ambiguous("path", &fault))?;
    let query = query::parse(target.query()).map_err(|fault| ambiguous("query", &fault))?;
    let method = Method::from_bytes(built.method.as_bytes())
        .map_err(|_| invalid("The action's method is none that can be sent"))?;
    let body = built.body.unwrap_or_default();
    let content_type = header_map.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let (body_kind, members) = body::read(content_type, &body).map_err(|fault| {
        invalid(&format!("The input makes a body that cannot be read in one way: {fault}"))
    })?;
    let (authority, scheme) = (adapting::authority(action), adapting::scheme(action));
    let candidates = snapshot.router.candidates(method.as_str(), scheme, &authority, &path, &query);
    let packed = receive::is_packed(&header_map);
    let content = Content {
        method: &method,
        content_type,
        packed,
        bytes: &body,
        kind: body_kind,
        members: &members,
        told_by: snapshot.router.told_by(method.as_str(), scheme, &authority, &path),
    };
    let meant = meant::meant(snapshot, &candidates, &content)?;
    let equal = of_equals(action, meant.as_ref(), &candidates, &members);
    let read_back = if equal.is_some() { equal } else { of_its_own(action, meant)? };
    let given = invoked.input.clone();
    // A provider's adapter judges the provider's own parameters. What an operator declared is judged by its own input; what
    // it says is read from what goes out all the same.
    let (input, built) = match read_back.filter(|_| adapting::is_provider(adapter)) {
        Some(read_back) => (read_back, None),
        None => {
            let members = whichever_effect(&content, &fresh).unwrap_or(members);
            let built = as_proxied(action, &candidates, &invoked.input, members);
            (invoked.input, Some(built))
        }
    };
    Ok(Asking {
        fresh,
        caller: invoked.caller,
        action: action.name.clone(),
        authority,
        scheme,
        method,
        path_and_query,
        query,
        headers: receive::plain(&header_map),
        header_map,
        body: Bytes::from(body),
        body_kind,
        input,
        built,
        given,
        edition: 0,
        drill: None,
        preview: invoked.preview,
        keys: invoked.keys,
        links: invoked.links,
        listener: Listener::Api,
    })
}

/// A body that is known by its digest alone, digested without the effect's name; `None` for one that is read.
fn whichever_effect(content: &Content<'_>, fresh: &Fresh) -> Option<Value> {
    match content.kind {
        BodyKind::Opaque => {
            let nameless = String::from_utf8_lossy(content.bytes).replace(fresh.effect.as_str(), "");
            body::read(content.content_type, nameless.as_bytes()).ok().map(|(_, members)| members)
        }
        BodyKind::Empty | BodyKind::Json | BodyKind::Form => None,
    }
}

/// What a request that is built says, as the proxy would read it. Where no proxied request can be the same, since the URL
/// names the effect or mixes text and input: what its URL takes and what its body says.
fn as_proxied(action: &Action, candidates: &[Candidate<'_>], input: &Value, members: Value) -> Value {
    let named = candidates.iter().find(|candidate| candidate.action == action.name.as_str());
    let merged = named
        .and_then(|named| body::merge(&named.captured.input, &named.captured.rest, members.clone()).ok());
    merged.unwrap_or_else(|| {
        let url = action.kind.declared().map(|declared| declared.url.inputs()).unwrap_or_default();
        let taken = url.into_iter().map(|path| json::get(input, path).cloned().unwrap_or_default()).collect();
        let mut said = members;
        if let Some(members) = said.as_object_mut() {
            members.insert(TAKEN_BY_URL.to_owned(), Value::Array(taken));
        }
        said
    })
}

/// Where the input that a URL takes stands beside a body's members: at a name that no body has.
const TAKEN_BY_URL: &str = "{{url}}";

/// The same, for an action that comes behind the one that is meant by its name alone.
fn of_equals(
    action: &Action,
    meant: Option<&(&Action, Value)>,
    candidates: &[Candidate<'_>],
    members: &Value,
) -> Option<Value> {
    meant::named_as_well(&action.name, meant?.0, candidates, members)
}

/// The input as the proxy would read it from what goes out, for the action that it would take it for: what is declared
/// for one action is not done under the name of another. `None` for an action that no proxied request is, where what
/// goes out is no other action's.
fn of_its_own(action: &Action, meant: Option<(&Action, Value)>) -> Result<Option<Value>, Refusal> {
    match meant {
        Some((meant, input)) if meant.name == action.name => Ok(Some(input)),
        Some((meant, _)) => {
            let sentence = format!(
                "This request is action {}, not {}: ask for it by that name. Nothing was sent.",
                meant.name, action.name
            );
            Err(Refusal::new(Code::InvalidInput, sentence))
        }
        None if action.kind.declared().is_some_and(|declared| !declared.url.is_matchable()) => Ok(None),
        None => Err(invalid("The input makes a request that is not this action's")),
    }
}

/// The declared fields. Those that name a secret are placed by `inject`, where the secret may go.
fn headers(built: &Built, scope: &Scope<'_>) -> Result<HeaderMap, Refusal> {
    let mut map = HeaderMap::new();
    map.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    map.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    for (name, template) in built.headers.iter().filter(|(_, template)| template.secrets().is_empty()) {
        let value = template
            .render(scope)
            .map_err(|fault| invalid(&format!("The header {name} cannot be made: {fault}")))?;
        let field = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(&value).ok());
        let Some((name, value)) = field else {
            return Err(invalid(&format!(
                "The header {name} would hold a character that cannot stand there"
            )));
        };
        map.insert(name, value);
    }
    Ok(map)
}

fn invalid(what: &str) -> Refusal {
    Refusal::new(Code::InvalidInput, format!("{what}. Nothing was sent."))
}

fn ambiguous(part: &str, fault: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(Code::Ambiguous, format!("The input makes an ambiguous {part}: {fault}. Nothing was sent."))
}
