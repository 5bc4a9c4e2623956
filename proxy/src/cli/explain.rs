//! `oncegate explain METHOD URL`: which action a request means and what would happen. Sends nothing, reads no
//! secret, and asks no database: repeats and what is left of a limit are not judged.

use std::str::FromStr;

use bytes::Bytes;
use std::sync::Arc;

use clap::Args;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use oncegate_adapters::{Adapter, Plan, Planned};
use oncegate_config::model::{Action, Host, Undeclared};
use oncegate_policy::authority::Authority;
use oncegate_policy::caller::CallerName;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::url_template::Scheme;
use serde_json::{Value, json};

use super::exit::{Exit, Stop, chain};
use super::table::facts;
use super::{Common, print, visible};
use crate::asking::Asking;
use crate::links::Links;
use crate::meaning::{self, ByUrl, Meaning, Named};
use crate::receive::{self, Head, Via};
use crate::state::Snapshot;
use crate::{adapting, fits, plan};

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// GET, POST, …
    method: String,
    /// The whole URL
    url: String,
    /// The body
    #[arg(short, long, default_value = "", hide_default_value = true)]
    data: String,
    /// A header, as `name: value`; may be given several times
    #[arg(short = 'H', long = "header", value_name = "H")]
    headers: Vec<String>,
    /// The body's type; JSON when it looks like it, else a form
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

/// What would happen.
struct Explained {
    verdict: &'static str,
    /// Name, value for people, value for programs.
    facts: Vec<(&'static str, &'static str, Value)>,
    refusal: Option<Refusal>,
}

/// Explains one request. Exits 15 if it would be refused.
pub(crate) fn run(common: &Common, args: &ExplainArgs) -> Result<Exit, Stop> {
    let loaded = super::load(common)?;
    let snapshot =
        Snapshot::new(loaded.config.clone(), loaded.directory.clone(), Arc::default(), Arc::default())
            .map_err(|error| Stop::usage(chain(&error)))?;
    let (request, via) = request(args)?;
    let explained = explain(&snapshot, request, via, args.data.as_bytes());
    if common.json {
        print::json(&explained.document());
    } else {
        print::out(&visible::lines(&explained.text()));
    }
    Ok(if explained.refusal.is_some() { Exit::Refused } else { Exit::Done })
}

fn request(args: &ExplainArgs) -> Result<(Request<()>, Via), Stop> {
    let wrong = |what: &str, why: &dyn std::fmt::Display| Stop::usage(format!("{what}: {why}"));
    let uri = Uri::from_str(&args.url).map_err(|error| wrong("the URL", &error))?;
    let scheme = match uri.scheme_str() {
        Some("https") => Scheme::Https,
        Some("http") => Scheme::Http,
        Some(_) | None => return Err(Stop::usage("the URL has to begin with https:// or http://")),
    };
    let written = uri.authority().map_or("", |authority| authority.as_str());
    let authority =
        Authority::parse(written, Some(scheme.default_port())).map_err(|fault| wrong("the URL", &fault))?;
    let method = Method::from_str(&args.method).map_err(|error| wrong("the method", &error))?;
    let mut headers = HeaderMap::new();
    for line in &args.headers {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| Stop::usage(format!("`{line}` is no header: write `name: value`")))?;
        let name = HeaderName::from_str(name.trim()).map_err(|error| wrong(line, &error))?;
        let value = HeaderValue::from_str(value.trim()).map_err(|error| wrong(line, &error))?;
        headers.append(name, value);
    }
    if !args.data.is_empty() && !headers.contains_key(CONTENT_TYPE) {
        let guessed = if args.data.trim_start().starts_with(['{', '[']) {
            "application/json"
        } else {
            "application/x-www-form-urlencoded"
        };
        let value = args.content_type.as_deref().unwrap_or(guessed);
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_str(value).map_err(|error| wrong("--content-type", &error))?,
        );
    }
    // One that is given is judged as the agent's would be.
    if !headers.contains_key(HOST) {
        headers.insert(HOST, HeaderValue::from_str(written).map_err(|error| wrong("the URL", &error))?);
    }
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    let caller = CallerName::parse("explain").ok_or_else(|| Stop::failed("no name for the caller"))?;
    Ok((request, Via { caller, scheme, authority }))
}

fn explain(snapshot: &Snapshot, request: Request<()>, via: Via, body: &[u8]) -> Explained {
    let (parts, ()) = request.into_parts();
    let authority = via.authority.clone();
    let Some(host) = snapshot.host(&authority) else { return undeclared_host(snapshot, &authority) };
    if host.plain != (via.scheme == Scheme::Http) {
        let sentence =
            format!("{authority} is declared for {} only.", if host.plain { "http" } else { "https" });
        return Explained::refused(Refusal::new(Code::Undeclared, sentence));
    }
    let head = match receive::head(parts, Arc::new(via)) {
        Ok(head) => head,
        Err(refusal) => return Explained::refused(refusal),
    };
    match meaning_of(snapshot, host, &head, body) {
        Err(refusal) => Explained::refused(refusal),
        Ok(None) => passed_on(host, None),
        Ok(Some(Meaning::Passthrough { action, .. })) => {
            let action = action.and_then(|name| snapshot.action(name.as_str())).map(|(action, _)| action);
            passed_on(host, action)
        }
        Ok(Some(Meaning::Governed(named))) => governed(snapshot, host, head, named),
    }
}

fn meaning_of(
    snapshot: &Snapshot,
    host: &Host,
    head: &Head,
    body: &[u8],
) -> Result<Option<Meaning>, Refusal> {
    match meaning::by_url(snapshot, host, head)? {
        ByUrl::Read => Ok(None),
        ByUrl::Actions(candidates) => {
            meaning::with_body(snapshot, host, head, &candidates, Bytes::copy_from_slice(body)).map(Some)
        }
    }
}

fn undeclared_host(snapshot: &Snapshot, authority: &Authority) -> Explained {
    match snapshot.config.proxy.undeclared_hosts {
        Undeclared::Tunnel => Explained::new("tunnelled blind, without a credential"),
        Undeclared::Deny => {
            Explained::refused(Refusal::new(Code::Undeclared, format!("{authority} is not declared.")))
        }
    }
}

fn passed_on(host: &Host, action: Option<&Action>) -> Explained {
    let mut explained = Explained::new("passed through, not governed");
    if let Some(action) = action {
        explained.add("action", "action", action.name.as_str());
    }
    explained.credential(host, action);
    explained
}

fn governed(snapshot: &Snapshot, host: &Host, head: Head, named: Named) -> Explained {
    let links = match Links::of_headers(&head.own) {
        Ok(links) => links,
        Err(refusal) => return Explained::refused(refusal),
    };
    let asking = Asking::proxied(head, links, named);
    let Some((action, adapter)) = snapshot.action(asking.action.as_str()) else {
        return Explained::refused(Refusal::new(Code::Undeclared, "The action is disabled."));
    };
    let mut explained = Explained::new("governed: recorded first, then sent at most once");
    explained.add("action", "action", action.name.as_str());
    explained.add("input", "input", asking.input.clone());
    explained.credential(host, Some(action));
    let judged = action.judged_where_declared();
    let judged: Vec<_> = judged.iter().map(String::as_str).collect();
    let fits =
        fits::proxied(snapshot, action, &asking).and_then(|()| adapter.fits(&asking.for_adapter(), &judged));
    if let Err(refusal) = fits {
        return explained.but(refusal);
    }
    match adapter.plan(&asking.for_adapter()) {
        Planned::Refused(refusal) => explained.but(refusal),
        Planned::NeedsRead(read) => {
            explained.verdict = "governed, after a read at the provider";
            explained.add("readsFirst", "reads first", format!("GET {}", read.read_back.path_and_query()));
            explained.add("readsFor", "to learn", read.why);
            explained
        }
        Planned::Ready(ready) => planned(explained, snapshot, (action, adapter), &asking, &ready),
    }
}

fn planned(
    mut explained: Explained,
    snapshot: &Snapshot,
    (action, adapter): (&Action, &Adapter),
    asking: &Asking,
    ready: &Plan,
) -> Explained {
    let asked = match plan::identify(action, adapter, asking, ready) {
        Ok((asked, _)) => asked,
        Err(refusal) => return explained.but(refusal),
    };
    explained.add("subject", "subject", ready.subject.clone());
    explained.add("operationKey", "operation key", asked.declared_key);
    if let Some(key) = asked.caller_key {
        explained.add("idempotencyKey", "caller's key", key.text);
        explained.add("keyNamesOperation", "key names the operation", !key.generated);
    }
    explained.add("fingerprint", "fingerprint", asked.fingerprint.as_str());
    explained.add("identicalWithinSeconds", "identical within (s)", action.identical_within.as_secs());
    if let Some(impact) = &ready.impact {
        explained.add("impact", "impact", impact.to_string());
        let limits: Vec<_> = snapshot
            .config
            .limits
            .iter()
            .filter(|limit| limit.applies(&action.name, ready.resource.as_deref(), impact))
            .collect();
        let names: Vec<_> = limits.iter().map(|limit| limit.name.as_str()).collect();
        explained.add("limits", "limits", json!(names));
        if impact.amount.is_none() && !limits.is_empty() {
            return explained.but(Refusal::new(
                Code::AmountUnbounded,
                "A limit applies, and the amount cannot be established.",
            ));
        }
        let never = limits.iter().find(|limit| impact.amount.is_some_and(|amount| amount > limit.amount));
        if let Some(limit) = never {
            let sentence =
                format!("The limit {} can never take this: it holds {} in all.", limit.name, limit.amount);
            return explained.but(Refusal::new(Code::LimitExceeded, sentence));
        }
        let approval =
            action.approval_when.is_some_and(|when| impact.amount.is_none_or(|n| n > when.amount_above));
        explained.add("requiresApproval", "needs approval", action.requires_approval || approval);
    } else {
        explained.add("requiresApproval", "needs approval", action.requires_approval);
    }
    explained.add("providerKey", "provider deduplicates", ready.provider_key);
    explained.add("canReadBack", "can be looked up", adapter.can_read_back());
    explained
}

impl Explained {
    fn new(verdict: &'static str) -> Self {
        Self { verdict, facts: Vec::new(), refusal: None }
    }

    fn refused(refusal: Refusal) -> Self {
        Self::new("refused").but(refusal)
    }

    fn but(mut self, refusal: Refusal) -> Self {
        self.verdict = "refused";
        self.refusal = Some(refusal);
        self
    }

    fn add(&mut self, member: &'static str, name: &'static str, value: impl Into<Value>) {
        self.facts.push((member, name, value.into()));
    }

    /// The credential by the names of its secrets; their values are not read.
    fn credential(&mut self, host: &Host, action: Option<&Action>) {
        let Some(credential) = adapting::credential(host, action, false) else { return };
        let place = credential.place();
        self.add("credential", "credential", json!(credential.secrets()));
        self.add("credentialPlace", "placed in", place);
    }

    fn document(&self) -> Value {
        let mut document = json!({ "verdict": self.verdict });
        if let Some(members) = document.as_object_mut() {
            members.extend(self.facts.iter().map(|(member, _, value)| ((*member).to_owned(), value.clone())));
            if let Some(refusal) = &self.refusal {
                let status = refusal.code.proxy_status();
                let shown = json!({ "code": format!("oncegate_{}", refusal.code.word()), "status": status, "sentence": refusal.sentence });
                members.insert("refusal".to_owned(), shown);
            }
        }
        document
    }

    fn text(&self) -> String {
        let mut rows = vec![("verdict", self.verdict.to_owned())];
        if let Some(refusal) = &self.refusal {
            rows.push((
                "code",
                format!("oncegate_{} ({})", refusal.code.word(), refusal.code.proxy_status()),
            ));
            rows.push(("because", refusal.sentence.clone()));
        }
        rows.extend(
            self.facts
                .iter()
                .filter(|(.., value)| !value.is_null())
                .map(|(_, name, value)| (*name, plain(value))),
        );
        facts(&rows)
    }
}

/// A value as a person reads it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Null | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}
