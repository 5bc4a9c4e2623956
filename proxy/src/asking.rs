//! One caller asking for one action: the value that both listeners make and the pipeline takes.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use oncegate_adapters::Request as ForAdapter;
use oncegate_config::model::{Config, FaultDrill};
use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::body::BodyKind;
use oncegate_policy::caller::CallerName;
use oncegate_policy::id::{EffectId, InvocationId, PreviewId};
use oncegate_policy::url_template::Scheme;
use serde_json::Value;

use crate::links::Links;
use crate::meaning::Named;
use crate::receive::{self, Head};
use crate::state::new_ulid;

/// Which way a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// As an ordinary request of an HTTP client.
    Proxy,
    /// As an invocation by name.
    Api,
}

impl Listener {
    /// The word in the record.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Api => "api",
        }
    }

    /// What a client of this listener waits for a governed answer.
    #[must_use]
    pub fn respond_within(self, config: &Config) -> Duration {
        match self {
            Self::Proxy => config.proxy.respond_within,
            Self::Api => config.control.respond_within,
        }
    }
}

/// The ids that a request has before it is known whether it becomes anything: a request that is built for an input
/// may name its effect.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// The invocation's.
    pub invocation: InvocationId,
    /// The effect's.
    pub effect: EffectId,
}

impl Fresh {
    /// New ones, that differ in how they begin: there is one effect of each invocation, and one index finds both.
    #[must_use]
    pub fn ids() -> Self {
        let ulid = new_ulid();
        Self { invocation: InvocationId::from_ulid(&ulid), effect: EffectId::from_ulid(&ulid) }
    }

    /// The key that a provider may deduplicate on. Decided here and kept with the effect, so that a replay can only
    /// repeat it.
    #[must_use]
    pub fn provider_key(&self) -> String {
        format!("oncegate-{}", self.effect)
    }
}

/// How each [`Fresh::provider_key`] begins.
pub const PROVIDER_KEY_BEGIN: &str = "oncegate-eff_";

/// The keys that came beside a request and not in one of its fields, as they were sent and not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysBeside {
    /// `Idempotency-Key`, which client libraries fill by themselves.
    pub field: Option<String>,
    /// `operationKey`. Somebody named the operation by it: no library fills that by itself, whatever it looks like.
    pub operation: Option<String>,
}

/// Who asks for what, and with which bytes.
pub struct Asking {
    /// Its ids, if it becomes something.
    pub fresh: Fresh,
    /// Who.
    pub caller: CallerName,
    /// For which action.
    pub action: ActionName,
    /// Where it goes.
    pub authority: Authority,
    /// Over TLS or not.
    pub scheme: Scheme,
    /// How.
    pub method: Method,
    /// Path and query as they will be sent.
    pub path_and_query: String,
    /// Decoded query parameters.
    pub query: Vec<(String, String)>,
    /// End-to-end fields, lower-case names.
    pub headers: Vec<(String, String)>,
    /// The same as they came.
    pub header_map: HeaderMap,
    /// The body, whole.
    pub body: Bytes,
    /// How it is written.
    pub body_kind: BodyKind,
    /// What it says: the input that it is judged by.
    pub input: Value,
    /// What the request of an invocation says when it is read as a proxied one would be, where `input` is what was given.
    pub built: Option<Value>,
    /// The input of an invocation by name, as it was given; `null` for a proxied request.
    pub given: Value,
    /// Taken before the configuration that it was read by (see [`crate::editions`]).
    pub edition: u64,
    /// The fault drill that an operator asks for, for this request alone.
    pub drill: Option<FaultDrill>,
    /// The preview that it is bound to.
    pub preview: Option<PreviewId>,
    /// The keys that came beside the request and not in one of its fields.
    pub keys: KeysBeside,
    /// What it says of other effects.
    pub links: Links,
    /// Which way it came in.
    pub listener: Listener,
}

impl Asking {
    /// From a proxied request.
    #[must_use]
    pub fn proxied(head: Head, links: Links, named: Named) -> Self {
        Self {
            fresh: Fresh::ids(),
            caller: head.via.caller.clone(),
            action: named.action,
            authority: head.via.authority.clone(),
            scheme: head.via.scheme,
            method: head.method,
            path_and_query: head.raw_path_and_query.as_str().to_owned(),
            query: head.query,
            headers: receive::plain(&head.headers),
            header_map: head.headers,
            body: named.body,
            body_kind: named.body_kind,
            input: named.input,
            built: None,
            given: Value::Null,
            edition: 0,
            drill: None,
            preview: None,
            keys: KeysBeside::default(),
            links,
            listener: Listener::Proxy,
        }
    }

    /// The absolute URL, as a person reads it: without the scheme's own port.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = self.scheme.as_str();
        let host = self.authority.url_host();
        match self.authority.port == self.scheme.default_port() {
            true => format!("{scheme}://{host}{}", self.path_and_query),
            false => format!("{scheme}://{host}:{}{}", self.authority.port, self.path_and_query),
        }
    }

    /// What goes out, as the proxy reads it: repeats are known by it, whichever way a request was asked for.
    #[must_use]
    pub fn said(&self) -> &Value {
        self.built.as_ref().unwrap_or(&self.input)
    }

    /// As the adapters read it.
    #[must_use]
    pub fn for_adapter(&self) -> ForAdapter<'_> {
        ForAdapter {
            method: self.method.as_str(),
            headers: &self.headers,
            query: &self.query,
            body_kind: self.body_kind,
            body: &self.body,
            input: &self.input,
        }
    }
}
