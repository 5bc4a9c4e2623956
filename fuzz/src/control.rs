//! The control API, over its socket: whatever is asked, it answers whole, and never that it broke.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use oncegate::serve::{Options, Running, start};
use oncegate_policy::fingerprint::digest_hex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const KEY: &str = "ogk_fuzz";
/// What an answer takes at most; more is a hang.
const PATIENCE: Duration = Duration::from_secs(5);
const METHODS: [&str; 4] = ["GET", "POST", "PATCH", "DELETE"];

struct Api {
    at: SocketAddr,
    _kept: (Runtime, Running, TempDir),
}

fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("oncegate.toml");
        std::fs::write(&file, configuration()).expect("a configuration");
        let runtime = Runtime::new().expect("a runtime");
        let running = runtime.block_on(async {
            let loaded = oncegate::load::load(&file).expect("a configuration without faults");
            start(loaded, Options::default()).await.expect("a sidecar")
        });
        Api { at: running.control_addr(), _kept: (runtime, running, directory) }
    })
}

/// Nothing listens where the actions go: whatever is invoked is never sent.
fn configuration() -> String {
    format!(
        r#"
[proxy]
listen = "127.0.0.1:0"
[control]
listen = "127.0.0.1:0"
[callers.fuzz]
key_sha256 = "{}"
scopes = ["actions:invoke", "actions:resolve", "actions:govern", "secrets:write", "impact-limits:write", "environments:halt", "approvals:decide"]
[hosts."127.0.0.1:1"]
plain = true
connect_to = "127.0.0.1:1"
[actions.open]
method = "POST"
url = "http://127.0.0.1:1/x/{{{{input.id}}}}"
subject = "{{{{input.id}}}}"
impact = {{ dimension = "resource_mutations", amount = "1" }}
[limits.open]
dimension = "resource_mutations"
period = "total"
amount = 1000000000
"#,
        digest_hex(KEY.as_bytes())
    )
}

/// Where a first line of one letter leads; anything else is a path.
fn path(line: &str) -> String {
    let below = match line {
        "i" => "actions/open/invoke",
        "p" => "actions/open/previews",
        "a" => "actions",
        "l" => "impact-limits",
        "s" => "secrets",
        "m" => "actions/import",
        other => other,
    };
    format!("/api/v2/{below}")
}

/// Two lines: a method's number and a path, and then a body.
pub fn run(data: &[u8]) {
    let Some([head, body]) = crate::lines(data) else { return };
    let Some((method, path_line)) = head.split_at_checked(1) else { return };
    let method = METHODS[usize::from(method.as_bytes()[0]) % METHODS.len()];
    let path = path(path_line);
    if !path.bytes().all(|b| b.is_ascii_graphic()) || path.contains("halt") {
        return;
    }
    let at = api().at;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {at}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    // It may have answered before it has read all.
    drop(stream.write_all(request.as_bytes()));
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    assert!(ended.is_ok() || !answer.is_empty(), "no answer to {request:?}: {ended:?}");
    let status: u16 =
        text.get(9..12).and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{text:?}"));
    assert!(status < 500, "{request:?}: {text}");
    assert!(!text.contains(KEY), "the key came back: {text}");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("half a head: {text:?}"));
    whole(&request, head, body);
}

/// As long as it says, and when it is JSON of ours, either what was asked for or what is wrong.
fn whole(request: &str, head: &str, body: &str) {
    let field = |name: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        fields.find_map(|(field, value)| field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned()))
    };
    if let Some(length) = field("content-length") {
        assert_eq!(length, body.len().to_string(), "{request:?}: {head}");
    }
    if !body.is_empty() && field("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        let said: Value =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{request:?}: {error}: {body}"));
        assert!(said.get("data").is_some() != said.get("error").is_some(), "{request:?}: {body}");
    }
}
