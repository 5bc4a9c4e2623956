//! What the wire showed of one dispatch. There is no error here: a time-out, a reset and a garbled answer are
//! things that the wire shows.

/// One contact with the provider, as far as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// No byte of the request left, and here is why that is certain.
    NotSent(NotSent),
    /// A complete answer.
    Answered(Answer),
    /// A byte may have left, and no complete answer came.
    Lost(Loss),
}

/// Proof that nothing left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// The name did not resolve.
    Resolve(String),
    /// Every address it resolved to is one that we do not dial.
    AddressRefused(String),
    /// No connection.
    Connect(String),
    /// A connection, and no TLS session with the host it should be.
    Tls(String),
    /// The access token that the request needs could not be minted; no connection was made for the request.
    Credential(String),
    /// The HTTP client gave the whole request back: with hyper 1.12 the peer had read 0 bytes in every such case.
    HandedBack(String),
    /// Whoever had the right to send it gave it up unused.
    GivenUp(String),
}

impl NotSent {
    /// The step at which it ended, for evidence and logs.
    #[must_use]
    pub fn step(&self) -> &'static str {
        match self {
            Self::Resolve(_) => "resolve",
            Self::AddressRefused(_) => "address_refused",
            Self::Connect(_) => "connect",
            Self::Tls(_) => "tls",
            Self::Credential(_) => "credential",
            Self::HandedBack(_) => "handed_back",
            Self::GivenUp(_) => "given_up",
        }
    }

    /// What the system said.
    #[must_use]
    pub fn cause(&self) -> &str {
        match self {
            Self::Resolve(cause)
            | Self::AddressRefused(cause)
            | Self::Connect(cause)
            | Self::Tls(cause)
            | Self::Credential(cause)
            | Self::HandedBack(cause)
            | Self::GivenUp(cause) => cause,
        }
    }
}

/// A complete answer: its length was met, its last chunk was seen, or TLS was closed cleanly (RFC 9112 section 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code of the final answer; interim ones are not answers.
    pub status: u16,
    /// The reason phrase, if it was not the usual one.
    pub reason: Option<String>,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// At most `max_response_body` bytes.
    pub body: Vec<u8>,
}

/// A lost answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// How far it went.
    pub phase: Phase,
    /// What the system said.
    pub cause: String,
    /// The status that was seen, when a head arrived and the rest did not.
    pub status: Option<u16>,
}

/// How far a lost exchange went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing of an answer was seen; the request may be partly or wholly there.
    AwaitingHead,
    /// The head was seen, the body did not end.
    ReadingBody,
    /// The process ended in between.
    Interrupted,
}

impl Phase {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::AwaitingHead => "awaiting_head",
            Self::ReadingBody => "reading_body",
            Self::Interrupted => "interrupted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_names_the_step_and_keeps_the_cause() {
        for (proof, step) in [
            (NotSent::Resolve as fn(String) -> NotSent, "resolve"),
            (NotSent::AddressRefused, "address_refused"),
            (NotSent::Connect, "connect"),
            (NotSent::Tls, "tls"),
            (NotSent::Credential, "credential"),
            (NotSent::HandedBack, "handed_back"),
            (NotSent::GivenUp, "given_up"),
        ] {
            let proof = proof("as the system said".into());
            assert_eq!((proof.step(), proof.cause()), (step, "as the system said"));
        }
        for (phase, word) in [
            (Phase::AwaitingHead, "awaiting_head"),
            (Phase::ReadingBody, "reading_body"),
            (Phase::Interrupted, "interrupted"),
        ] {
            assert_eq!(phase.word(), word);
        }
    }
}
