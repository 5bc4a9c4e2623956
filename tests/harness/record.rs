//! What a provider saw, kept for the test to count.

use std::{
    collections::HashMap,
    sync::{Condvar, Mutex},
};

use crate::{wait::PATIENCE, wire::Head};

/// One request as it arrived, whole or not.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Which connection carried it (counted from 0).
    pub connection: usize,
    /// The method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// The head.
    pub head: Head,
    /// As much of the body as arrived.
    pub body: Vec<u8>,
    /// Whether it arrived whole.
    pub complete: bool,
    /// How many TCP reads it took. A bound from below on the sender's writes; 0 if it came with the handshake's end.
    pub chunks: usize,
}

impl Request {
    /// Whether it may change something.
    pub fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Everything seen so far.
#[derive(Default)]
pub struct Record {
    inner: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    ended: usize,
    requests: Vec<Request>,
    plaintext: HashMap<usize, Vec<u8>>,
}

impl Record {
    /// A connection was accepted; its number.
    pub(crate) fn connected(&self) -> usize {
        let mut seen = self.inner.lock().unwrap();
        seen.connections += 1;
        self.changed.notify_all();
        seen.connections - 1
    }

    /// A connection has ended.
    pub(crate) fn ended(&self) {
        self.inner.lock().unwrap().ended += 1;
        self.changed.notify_all();
    }

    /// A head arrived; the request's number.
    pub(crate) fn began(&self, request: Request) -> usize {
        let mut seen = self.inner.lock().unwrap();
        seen.requests.push(request);
        self.changed.notify_all();
        seen.requests.len() - 1
    }

    /// More is known of a request.
    pub(crate) fn grew(&self, number: usize, request: &Request) {
        let mut seen = self.inner.lock().unwrap();
        seen.requests[number] = request.clone();
        self.changed.notify_all();
    }

    /// All bytes that a connection carried to us so far.
    pub(crate) fn carried(&self, connection: usize, bytes: &[u8]) {
        self.inner.lock().unwrap().plaintext.insert(connection, bytes.to_vec());
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.inner.lock().unwrap().connections
    }

    /// All requests, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.inner.lock().unwrap().requests.clone()
    }

    /// The requests that may change something, whole or not.
    pub fn writes(&self) -> Vec<Request> {
        self.requests().into_iter().filter(Request::is_write).collect()
    }

    /// The plaintext bytes of each connection, in the order in which they were accepted.
    pub fn streams(&self) -> Vec<Vec<u8>> {
        let seen = self.inner.lock().unwrap();
        (0..seen.connections).map(|number| seen.plaintext.get(&number).cloned().unwrap_or_default()).collect()
    }

    /// Waits until every connection has ended; says whether they have.
    pub fn wait_ended(&self) -> bool {
        let seen = self.inner.lock().unwrap();
        let still = |seen: &mut Seen| seen.ended < seen.connections;
        !self.changed.wait_timeout_while(seen, PATIENCE, still).unwrap().1.timed_out()
    }

    /// All plaintext bytes of all connections that have ended a read.
    pub fn all_bytes(&self) -> Vec<u8> {
        self.inner.lock().unwrap().plaintext.values().flatten().copied().collect()
    }

    /// Waits until `enough` holds for the requests so far; fails the test if it takes too long.
    #[track_caller]
    pub fn wait_for(&self, what: &str, enough: impl Fn(&[Request]) -> bool) -> Vec<Request> {
        let seen = self.inner.lock().unwrap();
        let (seen, late) =
            self.changed.wait_timeout_while(seen, PATIENCE, |seen| !enough(&seen.requests)).unwrap();
        assert!(!late.timed_out(), "the provider waited in vain for {what}; it saw {:?}", seen.requests);
        seen.requests.clone()
    }

    /// Waits until so many writes have arrived whole.
    #[track_caller]
    pub fn wait_writes(&self, n: usize) -> Vec<Request> {
        self.wait_for(&format!("{n} writes"), |all| {
            all.iter().filter(|r| r.is_write() && r.complete).count() >= n
        })
    }
}
