//! The API over real sockets, on a sidecar that has done nothing yet.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::load;
use crate::serve::{self, Options, Running};

const AGENT: &str = "ogk_agent";
const READER: &str = "ogk_reader";
const NO_EFFECT: &str = "/api/v2/actions/effects/eff_01ARZ3NDEKTSV4RRFFQ69G5FAV";

struct Api {
    running: Running,
    _dir: TempDir,
}

struct Answer {
    status: u16,
    head: String,
    body: Value,
}

fn configuration(dir: &Path) -> std::path::PathBuf {
    let digest = |key: &str| oncegate_policy::fingerprint::digest_hex(key.as_bytes());
    let text = format!(
        r#"
[proxy]
listen = "127.0.0.1:0"
[control]
listen = "127.0.0.1:0"
[callers.agent]
key_sha256 = "{}"
scopes = ["actions:invoke"]
[callers.reader]
key_sha256 = "{}"
scopes = ["actions:resolve"]
[limits.refunds-per-day]
dimension = "money"
currency = "usd"
period = "day"
amount = 50_000
"#,
        digest(AGENT),
        digest(READER)
    );
    let file = dir.join("oncegate.toml");
    std::fs::write(&file, text).unwrap();
    file
}

impl Api {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let loaded = load::load(&configuration(dir.path())).unwrap();
        Self { running: serve::start(loaded, Options::default()).await.unwrap(), _dir: dir }
    }

    async fn raw(&self, request: String) -> Answer {
        let mut stream = TcpStream::connect(self.running.control_addr()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let head = head.to_ascii_lowercase();
        Answer { status, head, body: serde_json::from_str(body).unwrap_or(Value::Null) }
    }

    async fn call(&self, method: &str, path: &str, key: &str, more: &str, body: &str) -> Answer {
        let host = self.running.control_addr();
        let length = body.len();
        self.raw(format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n{more}\r\n{body}"
        ))
        .await
    }

    async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, AGENT, "", "").await
    }
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.body["error"]["code"]), (status, &json!(code)), "{}", answer.body);
    assert_eq!(answer.body["success"], false);
    assert!(answer.body["error"]["message"].is_string());
    assert!(answer.head.contains("\r\nx-request-id: req_"), "{}", answer.head);
    assert!(answer.head.contains("\r\ncontent-type: application/json"), "{}", answer.head);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_has_one_shape() {
    let api = Api::start().await;
    refused(&api.call("GET", "/api/v2/impact-limits", "nobody", "", "").await, 401, "AUTHENTICATION_FAILED");
    let host = api.running.control_addr();
    let bare = format!("GET /api/v2/auth/identity HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let stranger = api.raw(bare).await;
    refused(&stranger, 401, "AUTHENTICATION_FAILED");
    assert!(stranger.head.contains("\r\nwww-authenticate: bearer"), "{}", stranger.head);
    refused(&api.get("/api/v2/nowhere").await, 404, "NOT_FOUND");
    refused(&api.get("/").await, 404, "NOT_FOUND");
    let deleted = api.call("DELETE", "/api/v2/impact-limits", AGENT, "", "").await;
    refused(&deleted, 405, "METHOD_NOT_ALLOWED");
    assert!(deleted.head.contains("\r\nallow: get"), "{}", deleted.head);
    for path in [
        NO_EFFECT,
        "/api/v2/actions/effects/nonsense",
        "/api/v2/impact-limits/lim_x",
        "/api/v2/actions/effects/%ff",
    ] {
        refused(&api.get(path).await, 404, "NOT_FOUND");
    }
    for query in [
        "limit=0",
        "limit=x",
        "offset=-1",
        "outcome=maybe",
        "stage=x",
        "grade=x",
        "unresolved=1",
        "action=a%20b",
        "a=1;b=2",
    ] {
        let answer = api.get(&format!("/api/v2/actions/effects?{query}")).await;
        refused(&answer, 400, "VALIDATION_ERROR");
    }
    api.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_and_other_names_are_turned_away() {
    let api = Api::start().await;
    let limits = "/api/v2/impact-limits";
    refused(
        &api.call("GET", limits, AGENT, "origin: https://x.example\r\n", "").await,
        403,
        "AUTHORIZATION_ERROR",
    );
    let rebound = format!(
        "GET {limits} HTTP/1.1\r\nhost: rebound.example\r\nauthorization: Bearer {AGENT}\r\nconnection: close\r\n\r\n"
    );
    refused(&api.raw(rebound).await, 403, "AUTHORIZATION_ERROR");
    api.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_takes_an_empty_json_body_and_a_scope() {
    let api = Api::start().await;
    let look = format!("{NO_EFFECT}/reconcile");
    refused(&api.call("POST", &look, READER, "", "").await, 403, "AUTHORIZATION_ERROR");
    for body in ["", "{}", "null"] {
        refused(&api.call("POST", &look, AGENT, "", body).await, 404, "NOT_FOUND");
    }
    refused(&api.call("POST", &look, AGENT, "", "{").await, 400, "VALIDATION_ERROR");
    let large = " ".repeat(super::BODY_BYTES_MAX + 1);
    refused(&api.call("POST", &look, AGENT, "", &large).await, 413, "PAYLOAD_TOO_LARGE");
    api.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_fresh_sidecar_shows() {
    let api = Api::start().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(api.call("GET", path, "nobody", "", "").await.status, 200, "{path}");
    }
    let identity = api.get("/api/v2/auth/identity").await.body;
    assert_eq!(identity["data"]["apiKeyId"], "agent");
    assert_eq!(identity["data"]["scopes"], json!(["actions:invoke"]));
    let effects = api.get("/api/v2/actions/effects?limit=10").await.body;
    assert_eq!(effects["data"], json!([]));
    let empty = json!({ "total": 0, "page": 1, "limit": 10, "totalPages": 0, "hasMore": false });
    assert_eq!(effects["pagination"], empty);
    let limits = api.get("/api/v2/impact-limits").await.body;
    let limit = &limits["data"][0];
    assert_eq!((&limit["available"], &limit["currency"]), (&json!(50_000), &json!("usd")));
    let id = limit["id"].as_str().unwrap();
    assert_eq!(api.get(&format!("/api/v2/impact-limits/{id}")).await.body["data"], *limit);
    api.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_run_is_no_key_of_the_api() {
    let api = Api::start().await;
    let caller = oncegate_policy::caller::CallerName::parse("agent").unwrap();
    let token = api.running.sidecar().issue_run_token(&caller).unwrap();
    refused(&api.call("GET", "/api/v2/impact-limits", &token, "", "").await, 401, "AUTHENTICATION_FAILED");
    api.running.stop().await;
}
