//! What a scripted provider does with one request.

use std::sync::mpsc::Sender;

use crate::gate::Gate;

/// When the provider begins to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// As soon as the head is there; the body is not read.
    Head,
    /// After so many bytes of the body.
    Body(usize),
    /// When the request has arrived whole.
    Whole,
}

/// One thing that it does on the connection.
#[derive(Clone)]
pub enum Act {
    /// Writes these bytes as they are.
    Send(Vec<u8>),
    /// Writes these bytes so many times over.
    Flood(Vec<u8>, usize),
    /// As `Flood`, in clear only; says how many bytes had gone when for once no more did for a while.
    FloodUntilStuck(Vec<u8>, usize, Sender<usize>),
    /// Reads so many bytes and shows them.
    Hear(usize, Sender<Vec<u8>>),
    /// Reads so many bytes and forgets them.
    Drain(u64),
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Opens the gate: it has come this far.
    CheckIn(Gate),
    /// Ends TLS with close_notify, then the connection. Reads on until the peer ends too.
    Close,
    /// As `Close`; opens the gate when the peer has ended the connection too.
    CloseThen(Gate),
    /// Ends the connection without close_notify (a bare FIN). Reads on until the peer ends too.
    Fin,
    /// RST.
    Reset,
    /// Says nothing and reads on until the peer ends the connection; then opens the gate.
    UntilEnd(Gate),
}

/// All that it does: after the last act it reads the next request, unless the connection is over.
#[derive(Clone)]
pub struct Reply {
    /// When to begin.
    pub when: When,
    /// What to do, in order.
    pub acts: Vec<Act>,
}

/// The bytes of a complete answer with `Content-Length` (and `Content-Type: application/json`).
pub fn answer(status: &str, fields: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n");
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    text.into_bytes()
}

impl Reply {
    /// A complete answer; the connection stays open.
    pub fn json(status: &str, body: &str) -> Reply {
        Reply::raw(answer(status, &[], body))
    }

    /// A complete answer with more header fields.
    pub fn with(status: &str, fields: &[(&str, &str)], body: &str) -> Reply {
        Reply::raw(answer(status, fields, body))
    }

    /// Bytes as they are.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply { when: When::Whole, acts: vec![Act::Send(bytes.into())] }
    }

    /// The request is read whole and the connection ends without a byte of an answer.
    pub fn lost() -> Reply {
        Reply { when: When::Whole, acts: vec![Act::Fin] }
    }

    /// The request is read whole and the connection is reset.
    pub fn reset() -> Reply {
        Reply { when: When::Whole, acts: vec![Act::Reset] }
    }

    /// Holds the answer until the gate opens.
    pub fn after(mut self, gate: &Gate) -> Reply {
        self.acts.insert(0, Act::Wait(gate.clone()));
        self
    }

    /// Begins at another time.
    pub fn at(mut self, when: When) -> Reply {
        self.when = when;
        self
    }

    /// Does one thing more.
    pub fn then(mut self, act: Act) -> Reply {
        self.acts.push(act);
        self
    }
}
