//! What must hold for every request of the corpus: it is refused with a code and nothing reaches the provider, or it
//! reaches it once, in one reading, which is what the agent wrote and what was recorded; and the next request on the
//! connection gets its own answer.

use oncegate_policy::refusal::Code;
use oncegate_tests::conf::CREDENTIAL;

use crate::{
    attack::{Effect, Outcome},
    corpus::{Case, Expect},
    reading::{self, Answered, Reading, Stop},
    sense,
};

/// Fields that a request may have once.
const SINGLE: [&str; 6] =
    ["host", "content-length", "content-type", "content-encoding", "authorization", "idempotency-key"];
/// Fields that never go on to the provider.
const NEVER: [&str; 10] = [
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

/// What is wrong about it.
pub(crate) fn judge(case: &Case, outcome: &Outcome) -> Vec<String> {
    let mut judging = Judging { case, outcome, faults: Vec::new() };
    judging.all();
    let faults = judging.faults.into_iter();
    faults.map(|fault| format!("{}: {}", case.name, fault.chars().take(700).collect::<String>())).collect()
}

struct Judging<'a> {
    case: &'a Case,
    outcome: &'a Outcome,
    faults: Vec<String>,
}

impl Judging<'_> {
    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(what());
        }
    }

    fn all(&mut self) {
        let outcome = self.outcome;
        self.faults.extend(
            outcome.arrived.faults.iter().map(|fault| format!("not one reading at the provider: {fault}")),
        );
        // An adapter may look before it plans; nothing follows from that.
        let look = |r: &&Reading| {
            r.method == "GET"
                && (r.target.starts_with("/v1/payment_intents/") || r.target.starts_with("/v1/charges/"))
        };
        let sent: Vec<&Reading> = outcome.arrived.requests.iter().filter(|r| !look(r)).collect();
        if let Some(said) = &outcome.refused {
            self.must(sent.is_empty(), || format!("sent after a refused CONNECT: {sent:?}"));
            match reading::answers(said, |_| false).as_deref() {
                Ok([answer]) => self.own(answer),
                other => self
                    .faults
                    .push(format!("no answer to CONNECT: {other:?} {:?}", String::from_utf8_lossy(said))),
            }
            self.must(self.case.expect != Expect::Sent, || "refused".into());
            return;
        }
        let (asked, stop) = reading::all(&outcome.written, true);
        self.answers(&asked, stop);
        self.sent(&asked, &sent);
        let of_the_case = sent.iter().filter(|r| r.target != outcome.probe).count();
        match self.case.expect {
            Expect::Refused => self.must(of_the_case == 0, || format!("sent: {sent:?}")),
            Expect::Sent => self.must(of_the_case == 1, || {
                format!("sent {of_the_case} times: {}", String::from_utf8_lossy(&outcome.heard))
            }),
            Expect::Either => {}
        }
    }

    /// Every answer is whole and belongs to its request.
    fn answers(&mut self, asked: &[Reading], stop: Stop) {
        let heard = &self.outcome.heard;
        let bodiless = |at: usize| asked.get(at).is_some_and(|r| r.method == "HEAD");
        let answers = match reading::answers(heard, bodiless) {
            Ok(answers) => answers,
            // Behind an accepted CONNECT there are no answers to plain text.
            Err(_) if self.opened() => return,
            Err(stop) => {
                self.faults
                    .push(format!("an answer that is none ({stop:?}): {:?}", String::from_utf8_lossy(heard)));
                return;
            }
        };
        let broken = usize::from(stop != Stop::Clean);
        // Where all is refused nobody minds where the next one begins.
        let refused = |answer: &Answered| answer.field("oncegate-outcome").as_deref() == Some("refused");
        let all_refused = answers.iter().all(refused);
        self.must(all_refused || answers.len() <= asked.len() + broken, || {
            format!("{} answers to {} requests", answers.len(), asked.len())
        });
        for (at, answer) in answers.iter().enumerate() {
            match (answer.field("oncegate-outcome"), asked.get(at)) {
                (None, Some(asked)) if answer.status == 200 => {
                    let own =
                        asked.method == "HEAD" || answer.body == path_and_query(&asked.target).as_bytes();
                    self.must(own, || format!("the answer of another request: {asked:?} {answer:?}"));
                }
                _ => self.own(answer),
            }
        }
        let ends = answers.last().is_some_and(|answer| {
            answer.field("oncegate-outcome").as_deref() == Some("refused") || answer.status == 407
        });
        let closed = answers.len().checked_sub(1).and_then(|at| asked.get(at)).is_some_and(Reading::closes);
        match stop {
            _ if ends || closed => {}
            Stop::Clean => self.must(answers.len() == asked.len(), || {
                format!("{} answers to {} requests", answers.len(), asked.len())
            }),
            Stop::Incomplete => {
                self.must(answers.len() >= asked.len(), || "a whole request without an answer".into())
            }
            Stop::Broken(what) => self
                .faults
                .push(format!("broken ({what}) and not said so: {:?}", String::from_utf8_lossy(heard))),
        }
    }

    /// The case is a CONNECT of its own, and it was accepted.
    fn opened(&self) -> bool {
        let heard = String::from_utf8_lossy(&self.outcome.heard);
        let accepted = heard.starts_with("HTTP/1.1 200 OK\r\n") || heard.starts_with("HTTP/1.0 200 OK\r\n");
        self.case.connect.is_none() && self.outcome.written.starts_with(b"CONNECT ") && accepted
    }

    /// An answer of the proxy's own: a stable code, and a status that nobody retries.
    fn own(&mut self, answer: &Answered) {
        if answer.status == 407 {
            return;
        }
        let code = answer.field("oncegate-code").unwrap_or_default();
        let known = Code::ALL.iter().any(|known| format!("oncegate_{}", known.word()) == code);
        let outcome = answer.field("oncegate-outcome").unwrap_or_default();
        let told = [400, 403, 422].contains(&answer.status)
            && ["refused", "unknown", "failed"].contains(&outcome.as_str());
        self.must(known && told, || format!("no answer of ours: {answer:?}"));
    }

    /// What was sent was asked for, in that order, and was recorded as it was sent.
    fn sent(&mut self, asked: &[Reading], sent: &[&Reading]) {
        let mut left = asked.iter();
        let mut effects = self.outcome.effects.iter();
        for request in sent {
            let Some(wanted) = left.find(|wanted| same(wanted, request)) else {
                self.faults.push(format!("sent and not asked for: {request:?}"));
                continue;
            };
            self.must(!wanted.strange, || format!("sent, and had no one reading: {wanted:?}"));
            self.one_host(wanted, request);
            self.one_meaning(request);
            self.fields(wanted, request);
            if request.is_write() {
                match effects.next() {
                    Some(effect) => self.recorded(wanted, request, effect),
                    None => self.faults.push(format!("sent and not recorded: {request:?}")),
                }
            }
        }
        self.must(effects.next().is_none(), || "recorded and not sent".into());
    }

    /// Tunnel, TLS, target and Host all say the host that it went to.
    fn one_host(&mut self, asked: &Reading, sent: &Reading) {
        let port = if self.case.connect.is_some() { 443 } else { 80 };
        let went = sent.one("host").and_then(|host| sense::authority(&host, port));
        let tunnel = self.case.connect.as_deref().map(|connect| [connect.to_owned(), self.case.sni.clone()]);
        let inside = asked
            .target
            .split_once("://")
            .map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned());
        let said = tunnel.into_iter().flatten().chain(asked.one("host")).chain(inside);
        let all: Vec<String> = said.collect();
        let agree = went.is_some() && all.iter().all(|name| sense::authority(name, port) == went);
        self.must(agree, || format!("sent to {went:?}, where {all:?} was said"));
    }

    fn one_meaning(&mut self, sent: &Reading) {
        let (path, query) = sent.target.split_once('?').unwrap_or((&sent.target, ""));
        let path = if path.is_empty() || path == "*" { "/" } else { path };
        self.must(sense::one_path(path), || {
            format!("a path that can be read in two ways: {path:?} {:?}", sense::paths(path))
        });
        self.must(!sent.target.contains('#'), || "a fragment".into());
        let query = sense::form(query.as_bytes());
        let overridden = query.iter().flatten().any(|(name, _)| name == "_method");
        self.must(!overridden, || "another method in the query".into());
        if !sent.is_write() {
            return;
        }
        self.must(query.is_some(), || format!("a query that can be read in two ways: {}", sent.target));
        let kind = sent.one("content-type").unwrap_or_default().to_ascii_lowercase();
        let text = String::from_utf8_lossy(&sent.body).into_owned();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        let json = essence == "application/json" || essence.ends_with("+json");
        if json && !sent.body.is_empty() {
            self.must(sense::one_json(&sent.body), || format!("JSON that can be read in two ways: {text}"));
        }
        if kind.starts_with("application/x-www-form-urlencoded") {
            self.must(sense::form(&sent.body).is_some(), || {
                format!("a form that can be read in two ways: {text}")
            });
        }
    }

    fn fields(&mut self, asked: &Reading, sent: &Reading) {
        // What passes through is judged by nobody; only its end and its host have to be plain.
        for name in SINGLE.iter().take(if sent.is_write() { SINGLE.len() } else { 2 }) {
            self.must(sent.all(name).len() <= 1, || format!("{name} twice"));
        }
        for name in NEVER {
            self.must(sent.all(name).is_empty(), || format!("{name} went on"));
        }
        // Behind a body that its server may leave unread nothing follows, and the server is told.
        let body = !sent.body.is_empty() || !sent.all("transfer-encoding").is_empty();
        let last = body && !["POST", "PUT", "PATCH"].contains(&sent.method.as_str());
        let ours: &[&[u8]] = if last { &[b"close"] } else { &[] };
        self.must(sent.all("connection") == ours, || format!("connection went on, or is not {ours:?}"));
        let named: Vec<String> = asked
            .all("connection")
            .iter()
            .flat_map(|value| {
                String::from_utf8_lossy(value)
                    .split(',')
                    .map(|name| name.trim().to_ascii_lowercase())
                    .collect::<Vec<_>>()
            })
            .collect();
        // Those that the proxy sets by itself come again.
        let ours = [
            "authorization",
            "host",
            "content-length",
            "transfer-encoding",
            "idempotency-key",
            "accept-encoding",
        ];
        for name in named.iter().filter(|name| !ours.contains(&name.as_str())) {
            // A body that was judged as JSON is named so, whatever came.
            let named_anew = name == "content-type" && sent.one(name).as_deref() == Some("application/json");
            self.must(named_anew || sent.all(name).is_empty(), || {
                format!("{name} went on, and was meant for the next hop")
            });
        }
        let forged = sent.fields.iter().any(|(name, _)| name.starts_with("oncegate-"));
        self.must(!forged, || "a field of our own went on".into());
        if sent.one("host").as_deref() == Some("api.stripe.com") && sent.method != "OPTIONS" {
            let credential = format!("Bearer {CREDENTIAL}");
            self.must(sent.one("authorization") == Some(credential), || "without the credential".into());
        }
    }

    fn recorded(&mut self, asked: &Reading, sent: &Reading, effect: &Effect) {
        let host = sent.one("host").unwrap_or_default();
        let scheme = if self.case.connect.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{host}{}", sent.target);
        let alike = effect.method == sent.method && effect.url == url && effect.body == sent.body;
        self.must(alike, || format!("{effect:?} was recorded and {sent:?} sent"));
        let key = asked.all("idempotency-key");
        let asked_key =
            key.first().map(|key| String::from_utf8_lossy(key).into_owned()).filter(|key| !key.is_empty());
        let hidden = asked
            .all("connection")
            .iter()
            .any(|v| String::from_utf8_lossy(v).to_ascii_lowercase().contains("idempotency-key"));
        self.must(hidden || effect.key == asked_key, || {
            format!("the key {asked_key:?} was recorded as {:?}", effect.key)
        });
        if host != "api.stripe.com" {
            return;
        }
        let amount = |body: &[u8]| {
            if body.trim_ascii_start().starts_with(b"{") {
                let json: serde_json::Value = serde_json::from_slice(body).ok()?;
                return json["amount"].as_u64().or_else(|| json["amount"].as_str()?.parse().ok());
            }
            sense::form(body)?.into_iter().find(|(name, _)| name == "amount")?.1.parse::<u64>().ok()
        };
        let (said, went) = (amount(&asked.body), amount(&sent.body));
        self.must(went == effect.amount && said == went, || {
            format!("the amount was {said:?} when it was asked, {went:?} when it was sent, {:?} when it was recorded", effect.amount)
        });
        self.must(sent.one("idempotency-key").as_ref() == Some(&effect.provider_key), || {
            "not under the effect's own key".into()
        });
    }
}

/// In origin form. A fragment is no part of it, and does not go on.
fn path_and_query(target: &str) -> &str {
    let target = target.split('#').next().unwrap_or_default();
    match target.split_once("://") {
        None => target,
        Some((_, rest)) => rest.find(['/', '?']).map_or("/", |at| &rest[at..]),
    }
}

/// Whether one was made of the other: the same method and target, and the same body, but for what is put behind a form,
/// and for JSON of which a form was made.
fn same(asked: &Reading, sent: &Reading) -> bool {
    let wanted = path_and_query(&asked.target);
    let target = sent.target == wanted || sent.target == format!("/{wanted}") && wanted.starts_with('?');
    let body = sent.body == asked.body || !asked.body.is_empty() && sent.body.starts_with(&asked.body);
    asked.method == sent.method && target && (body || is_form_of(&asked.body, &sent.body))
}

/// Every plain member of the JSON stands in the form.
fn is_form_of(json: &[u8], form: &[u8]) -> bool {
    let (Ok(serde_json::Value::Object(members)), Some(form)) =
        (serde_json::from_slice(json), sense::form(form))
    else {
        return false;
    };
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut plain = members.iter().filter(|(_, value)| !value.is_object() && !value.is_array());
    plain.all(|(name, value)| form.contains(&(name.clone(), text(value))))
}
