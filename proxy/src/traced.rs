//! OpenTelemetry: one span for each governed request, sent to a collector as OTLP over HTTP in its JSON encoding
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp>). Names, words and times, as in the log: never a body, a
//! header's value or a key. Nothing waits for it: what a collector does not take in time is dropped and said.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::task;
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use oncegate_policy::authority::Authority;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

/// Spans that may wait to be sent.
const WAITING_MAX: usize = 2_048;
/// Spans in one request.
const BATCH_MAX: usize = 256;
/// How long a span waits for others.
const LINGER: Duration = Duration::from_secs(2);
/// For one request to the collector.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a span comes from: a trace and a span, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// 32 digits.
    pub trace: String,
    /// 16 digits.
    pub span: String,
}

/// One governed request, as a span.
pub struct Span {
    /// `refund`
    pub action: String,
    /// Where it was asked for, if that was said.
    pub parent: Option<Parent>,
    /// When it came in.
    pub began: SystemTime,
    /// When it was answered.
    pub ended: SystemTime,
    /// Names and words.
    pub attributes: Vec<(&'static str, Value)>,
    /// Its outcome's public word.
    pub outcome: &'static str,
}

/// Takes spans and sends them when there is time.
#[derive(Clone)]
pub struct Traces {
    give: mpsc::Sender<Value>,
    dropped: Arc<AtomicU64>,
}

impl Traces {
    /// Sends to a collector until `stopped` says so; what waits then is sent first.
    #[must_use]
    pub fn to(collector: Authority, stopped: watch::Receiver<bool>) -> Self {
        let (give, take) = mpsc::channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        task::start(send_all(collector, take, stopped, Arc::clone(&dropped)));
        Self { give, dropped }
    }

    /// Takes a span; drops it where too many wait.
    pub fn take(&self, span: Span) {
        if self.give.try_send(written(span)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn send_all(
    collector: Authority,
    mut take: mpsc::Receiver<Value>,
    mut stopped: watch::Receiver<bool>,
    dropped: Arc<AtomicU64>,
) {
    let mut reachable = true;
    let mut stopping = false;
    while !stopping {
        let first = tokio::select! {
            first = take.recv() => first,
            _ = stopped.wait_for(|stop| *stop) => { stopping = true; take.try_recv().ok() }
        };
        let Some(first) = first else { break };
        let mut spans = vec![first];
        // A stop ends the waiting for others, not the sending.
        let more = async {
            while spans.len() < BATCH_MAX {
                match take.recv().await {
                    Some(span) => spans.push(span),
                    None => break,
                }
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(LINGER, more) => {}
            _ = stopped.wait_for(|stop| *stop) => stopping = true,
        }
        while let Some(span) = take.try_recv().ok().filter(|_| spans.len() < WAITING_MAX) {
            spans.push(span);
        }
        let count = spans.len();
        let sent = tokio::time::timeout(SEND_TIMEOUT, post(&collector, spans)).await;
        let why = match sent {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why),
            Err(_) => Some("it did not answer in time".to_owned()),
        };
        if let Some(why) = &why {
            dropped.fetch_add(count as u64, Ordering::Relaxed);
            if reachable {
                tracing::warn!(%collector, why, "spans could not be sent to the collector; they are dropped");
            }
        } else if !reachable {
            let lost = dropped.load(Ordering::Relaxed);
            tracing::info!(%collector, dropped = lost, "the collector takes spans again");
        }
        reachable = why.is_none();
    }
}

async fn post(collector: &Authority, spans: Vec<Value>) -> Result<(), String> {
    let why = |error: &dyn std::error::Error| crate::upstream::chain(error);
    let stream =
        TcpStream::connect((collector.host.as_str(), collector.port)).await.map_err(|error| why(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| why(&error))?;
    let connection = task::start(connection);
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": [attribute("service.name", "oncegate".into())] },
        "scopeSpans": [{
            "scope": { "name": "oncegate", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans,
        }],
    }] });
    let request = Request::post("/v1/traces")
        .header(header::HOST, collector.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| why(&error))?;
    let answered = sender.send_request(request).await;
    let status = match answered {
        Ok(answer) => {
            let status = answer.status();
            drop(answer.into_body().collect().await);
            status
        }
        Err(error) => return Err(why(&error)),
    };
    connection.abort();
    if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
}

/// The span in OTLP's JSON: ids in hexadecimal, 64-bit numbers as text.
fn written(span: Span) -> Value {
    let trace = span.parent.as_ref().map_or_else(|| random(16), |parent| parent.trace.clone());
    let status = match span.outcome {
        "succeeded" => json!({ "code": 1 }),
        "unknown" | "failed" => json!({ "code": 2, "message": span.outcome }),
        // A no before anything was sent, and a wait for a person, are no errors of the operation.
        _ => json!({}),
    };
    let nanos = |at: SystemTime| {
        at.duration_since(UNIX_EPOCH).map_or_else(|_| "0".to_owned(), |since| since.as_nanos().to_string())
    };
    let attributes: Vec<_> =
        span.attributes.into_iter().map(|(name, value)| attribute(name, value)).collect();
    let mut document = json!({
        "traceId": trace,
        "spanId": random(8),
        "name": format!("oncegate {}", span.action),
        // SPAN_KIND_SERVER: it stands for the request that came in.
        "kind": 2,
        "startTimeUnixNano": nanos(span.began),
        "endTimeUnixNano": nanos(span.ended),
        "attributes": attributes,
        "status": status,
    });
    if let (Some(members), Some(parent)) = (document.as_object_mut(), span.parent) {
        members.insert("parentSpanId".to_owned(), parent.span.into());
    }
    document
}

fn attribute(name: &str, value: Value) -> Value {
    let value = match value {
        Value::Bool(truth) => json!({ "boolValue": truth }),
        Value::Number(number) if number.is_i64() || number.is_u64() => {
            json!({ "intValue": number.to_string() })
        }
        Value::Number(number) => json!({ "doubleValue": number }),
        Value::String(text) => json!({ "stringValue": text }),
        other @ (Value::Null | Value::Array(_) | Value::Object(_)) => {
            json!({ "stringValue": other.to_string() })
        }
    };
    json!({ "key": name, "value": value })
}

/// So many random bytes, at most 16, in hexadecimal digits.
fn random(bytes: usize) -> String {
    let mut random = [0_u8; 16];
    // Without randomness the id is that of the moment: spans are for people, and never decide anything.
    if rustls::crypto::ring::default_provider().secure_random.fill(&mut random).is_err() {
        random = ulid::Ulid::new().to_bytes();
    }
    let hex = format!("{:032x}", u128::from_be_bytes(random) | 1);
    hex.chars().skip(hex.len().saturating_sub(bytes * 2)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_as_a_collector_reads_it() {
        let span = |outcome, parent| Span {
            action: "refund".into(),
            parent,
            began: UNIX_EPOCH + Duration::from_millis(1_500),
            ended: UNIX_EPOCH + Duration::from_secs(2),
            attributes: vec![("oncegate.repeat", false.into()), ("oncegate.provider_status", 200.into())],
            outcome,
        };
        let parent =
            Parent { trace: "0af7651916cd43dd8448eb211c80319c".into(), span: "b7ad6b7169203331".into() };
        let shown = written(span("unknown", Some(parent)));
        assert_eq!(shown["traceId"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(shown["parentSpanId"], "b7ad6b7169203331");
        assert_eq!(
            (shown["startTimeUnixNano"].as_str(), shown["endTimeUnixNano"].as_str()),
            (Some("1500000000"), Some("2000000000"))
        );
        assert_eq!(shown["status"]["code"], 2);
        assert_eq!(
            shown["attributes"][1],
            json!({ "key": "oncegate.provider_status", "value": { "intValue": "200" } })
        );
        let alone = written(span("succeeded", None));
        let id = |name: &str| alone[name].as_str().unwrap().len();
        assert_eq!((id("traceId"), id("spanId"), alone.get("parentSpanId")), (32, 16, None));
        assert_ne!(alone["spanId"], written(span("succeeded", None))["spanId"]);
    }
}
