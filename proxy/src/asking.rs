//! One caller asking for one action: the value that both listeners make and the pipeline takes.

use bytes::Bytes;
use http::{HeaderMap, Method};
use oncegate_adapters::Request as ForAdapter;
use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::body::BodyKind;
use oncegate_policy::caller::CallerName;
use oncegate_policy::url_template::Scheme;
use serde_json::Value;

use crate::meaning::Named;
use crate::plan::{COMPENSATES_HEADER, DEPENDS_ON_HEADER, RETRY_OF_HEADER};
use crate::receive::{self, Head};

/// Who asks for what, and with which bytes.
pub struct Asking {
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
    /// What it says.
    pub input: Value,
    /// The failed invocation that it retries on purpose.
    pub retry_of: Option<String>,
    /// Effects that must have an outcome first: `eff_…=succeeded`, separated by commas.
    pub depends_on: Option<String>,
    /// The effect that this one undoes.
    pub compensates: Option<String>,
    /// Which listener it came through, for the record.
    pub listener: &'static str,
}

impl Asking {
    /// From a proxied request.
    #[must_use]
    pub fn proxied(head: Head, oncegate_headers: &HeaderMap, named: Named) -> Self {
        let ours = |name: &str| {
            let value = oncegate_headers.get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        Self {
            caller: head.via.caller,
            action: named.action,
            authority: head.via.authority,
            scheme: head.via.scheme,
            method: head.method,
            path_and_query: head.raw_path_and_query,
            query: head.query,
            headers: receive::plain(&head.headers),
            header_map: head.headers,
            body: named.body,
            body_kind: named.body_kind,
            input: named.input,
            retry_of: ours(RETRY_OF_HEADER),
            depends_on: ours(DEPENDS_ON_HEADER),
            compensates: ours(COMPENSATES_HEADER),
            listener: "proxy",
        }
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
