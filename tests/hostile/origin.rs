//! A provider that keeps every byte, and reads it in the strictest way: what it cannot read in one way is a fault.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
};

use oncegate_tests::{ca, wait::PATIENCE};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::reading::{self, Reading, Stop};

/// What arrived since somebody last asked.
#[derive(Default)]
pub(crate) struct Arrived {
    /// Requests, in order of arrival.
    pub(crate) requests: Vec<Reading>,
    /// What could not be read in one way.
    pub(crate) faults: Vec<String>,
}

/// The provider: one address for TLS, one in clear. It ends with the process.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) tls: SocketAddr,
    pub(crate) plain: SocketAddr,
    arrived: Arc<Mutex<Arrived>>,
}

impl Origin {
    /// One that serves these names.
    pub(crate) fn open(names: &[&str]) -> Origin {
        let arrived = Arc::default();
        let tls = listen(Some(ca::server_config(names)), &arrived);
        Origin { tls, plain: listen(None, &arrived), arrived }
    }

    /// What arrived since the last call.
    pub(crate) fn arrived(&self) -> Arrived {
        std::mem::take(&mut self.arrived.lock().unwrap())
    }
}

fn listen(tls: Option<Arc<ServerConfig>>, arrived: &Arc<Mutex<Arrived>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let arrived = Arc::clone(arrived);
    thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let (tls, arrived) = (tls.clone(), Arc::clone(&arrived));
            thread::spawn(move || {
                tcp.set_nodelay(true).unwrap();
                // Nobody is waited for longer than the tests wait for anything.
                tcp.set_read_timeout(Some(PATIENCE)).unwrap();
                match tls {
                    None => serve(tcp, &arrived),
                    Some(config) => {
                        let conn = ServerConnection::new(config).unwrap();
                        serve(StreamOwned::new(conn, tcp), &arrived);
                    }
                }
            });
        }
    });
    at
}

/// Reads go well, and are answered with their own target, or with the charge that was asked for; a write gets a 500, so that its effect stays open and the
/// ledger keeps what was sent.
fn serve(mut stream: impl Read + Write, arrived: &Mutex<Arrived>) {
    let mut rest: Vec<u8> = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match reading::first(&rest) {
            Ok((request, took)) => {
                rest.drain(..took);
                let answer = answer(&request);
                arrived.lock().unwrap().requests.push(request);
                if stream.write_all(&answer).and_then(|()| stream.flush()).is_err() {
                    return;
                }
            }
            Err(Stop::Broken(what)) => {
                let seen = format!("{what}: {:?}", String::from_utf8_lossy(&rest));
                arrived.lock().unwrap().faults.push(seen);
                return;
            }
            Err(Stop::Clean | Stop::Incomplete) => match stream.read(&mut chunk) {
                Ok(n) if n > 0 => rest.extend_from_slice(&chunk[..n]),
                Ok(_) | Err(_) => {
                    // A read that passes through streams: of one that broke off a part arrives.
                    let read = [&b"GET "[..], b"HEAD ", b"OPTIONS "].iter().any(|m| rest.starts_with(m));
                    if !rest.is_empty() && !read {
                        let seen = format!("part of a request: {:?}", String::from_utf8_lossy(&rest));
                        arrived.lock().unwrap().faults.push(seen);
                    }
                    return;
                }
            },
        }
    }
}

fn answer(request: &Reading) -> Vec<u8> {
    if request.is_write() {
        return b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 12\r\n\r\n{\"ok\":false}".to_vec();
    }
    let charge = request.target.strip_prefix("/v1/charges/");
    let charge = charge.map(|id| format!(r#"{{"object":"charge","id":"{id}","payment_intent":null}}"#));
    let whole = charge.as_ref().unwrap_or(&request.target);
    let body = if request.method == "HEAD" { "" } else { whole };
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", whole.len()).into_bytes()
}
