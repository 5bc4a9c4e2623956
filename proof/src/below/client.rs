//! One request by hand, to a process that may be gone at any moment: whatever happens is a result.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oncegate_tests::answer::Answer;
use oncegate_tests::conf::key_of;
use oncegate_tests::wire::Wire;

use crate::below::stage::HOST;

/// How long an answer may take. Everything is on this machine, and the sidecar's own bounds are shorter.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request that was written, whose answer is still to be read.
pub(crate) struct Asked(Wire<TcpStream>);

impl Asked {
    /// Whether there is an answer to read, or the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        let tcp = &self.0.stream;
        let seen = tcp.set_nonblocking(true).and_then(|()| tcp.peek(&mut [0]));
        let blocking = tcp.set_nonblocking(false);
        blocking.is_err() || !seen.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits for the answer.
    pub(crate) fn answer(mut self) -> io::Result<Answer> {
        let answer = Answer::read(&mut self.0, false)?;
        if answer.complete { Ok(answer) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

fn ask(at: SocketAddr, head: &str, body: &str) -> io::Result<Asked> {
    let mut tcp = TcpStream::connect_timeout(&at, PATIENCE)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    tcp.set_write_timeout(Some(PATIENCE))?;
    tcp.set_nodelay(true)?;
    let length = body.len();
    let head = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    tcp.write_all(head.as_bytes())?;
    Ok(Asked(Wire::new(tcp)))
}

/// The agent asks the provider through the proxy.
pub(crate) fn through(
    proxy: SocketAddr,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: &str,
) -> io::Result<Asked> {
    let caller = "billing-agent";
    let basic = STANDARD.encode(format!("{caller}:{}", key_of(caller)));
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} http://{HOST}{path} HTTP/1.1\r\nHost: {HOST}\r\nProxy-Authorization: Basic {basic}\r\n\
         Content-Type: application/json\r\n{key}"
    );
    ask(proxy, &head, body)
}

/// The agent asks for an action by its name, at the API.
pub(crate) fn invoke(control: SocketAddr, action: &str, account: &str) -> io::Result<Answer> {
    let key = key_of("billing-agent");
    let head = format!(
        "POST /api/v2/actions/{action}/invoke HTTP/1.1\r\nHost: {control}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nIdempotency-Key: key-of:{action}/{account}\r\n"
    );
    ask(control, &head, &format!(r#"{{"input":{{"id":"{account}"}}}}"#))?.answer()
}

/// The operator asks the API.
pub(crate) fn operate(control: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<Answer> {
    let head = format!(
        "{method} /api/v2{path} HTTP/1.1\r\nHost: {control}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\n",
        key_of("ops")
    );
    ask(control, &head, body)?.answer()
}
