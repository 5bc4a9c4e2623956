//! The scenarios.

use crate::below::play::Play;
use crate::below::play::Step::{
    Begin, Crowd, Decide, End, Fold, Halt, Kill, Read, Reconcile, Replay, Resolve, Resume, Search, Stop,
    Write,
};

/// A first start, a success and its repeat, and an orderly end, which folds the log and removes it.
pub(crate) const FIRST: Play = Play {
    name: "first",
    warm: false,
    steps: &[
        Write("transfers/a", 500),
        Write("transfers/a", 500),
        Stop,
        Read("transfers/a"),
        Write("transfers/b", 500),
    ],
};

/// Answers are lost; a look, a replay and a person settle what they were.
pub(crate) const LOST: Play = Play {
    name: "lost",
    warm: true,
    steps: &[
        Write("transfers/lost-a", 500),
        Write("transfers/lost-a", 500),
        Reconcile("transfers/lost-a"),
        Write("transfers/lost-b", 600),
        Fold,
        Replay("transfers/lost-b"),
        Write("transfers/lost-c", 700),
        Fold,
        Resolve("transfers/lost-c", "failed"),
        Write("transfers/lost-d", 800),
        Resolve("transfers/lost-d", "succeeded"),
    ],
};

/// A person decides; a halt stands in between.
pub(crate) const ASKED: Play = Play {
    name: "asked",
    warm: true,
    steps: &[
        Write("orders/a", 500),
        Decide("orders/a", "approve"),
        Write("orders/lost-b", 500),
        Fold,
        Decide("orders/lost-b", "approve"),
        Write("orders/c", 500),
        Decide("orders/c", "deny"),
        Halt,
        Fold,
        Write("transfers/a", 500),
        Resume,
        Write("transfers/a", 500),
    ],
};

/// The limit is reached; what failed gives its room back.
pub(crate) const EDGE: Play = Play {
    name: "edge",
    warm: true,
    steps: &[
        Write("transfers/a", 6_000),
        Write("transfers/bad-b", 3_000),
        Fold,
        Write("transfers/lost-c", 3_500),
        Write("transfers/d", 1_000),
        Resolve("transfers/lost-c", "failed"),
        Fold,
        Write("transfers/d", 1_000),
        Search("a"),
        Search("lost-b"),
    ],
};

/// Killed while answers are awaited; the next start sweeps.
pub(crate) const SWEPT: Play = Play {
    name: "swept",
    warm: true,
    steps: &[
        Begin("transfers/hang-a", 500),
        Kill,
        Write("transfers/hang-a", 500),
        Reconcile("transfers/hang-a"),
        Stop,
        Begin("transfers/hang-b", 500),
        Kill,
        Resolve("transfers/hang-b", "failed"),
        Read("transfers/hang-a"),
    ],
};

/// Many at once share commits.
pub(crate) const CROWD: Play = Play {
    name: "crowd",
    warm: true,
    steps: &[
        Crowd("transfers/a", 6),
        Fold,
        Crowd("transfers/lost-", 6),
        Kill,
        Write("transfers/lost-0", 100),
    ],
};

/// For crashes: as little as makes every kind of call.
const ANSWERED: Play = Play {
    name: "answered",
    warm: true,
    steps: &[Write("transfers/a", 500), Write("transfers/a", 500), Search("a"), Read("transfers/a"), End],
};
pub(crate) const LOOKED_FOR: Play = Play {
    name: "looked-for",
    warm: true,
    steps: &[Write("transfers/lost-a", 500), Reconcile("transfers/lost-a"), Write("transfers/b", 9_000)],
};
const SENT_AGAIN: Play = Play {
    name: "sent-again",
    warm: true,
    steps: &[
        Write("transfers/lost-a", 500),
        Replay("transfers/lost-a"),
        Write("transfers/lost-b", 500),
        Resolve("transfers/lost-b", "failed"),
    ],
};
const APPROVED: Play = Play {
    name: "approved",
    warm: true,
    steps: &[
        Write("orders/lost-a", 500),
        Decide("orders/lost-a", "approve"),
        Write("orders/b", 500),
        Decide("orders/b", "deny"),
        Halt,
        Resume,
    ],
};
const COLD: Play =
    Play { name: "cold", warm: false, steps: &[Write("transfers/a", 500), Stop, Write("transfers/b", 500)] };

const FOUND_IN_FLIGHT: Play = Play {
    name: "found-in-flight",
    warm: true,
    steps: &[
        Begin("transfers/hang-a", 500),
        Kill,
        Write("transfers/hang-a", 500),
        Reconcile("transfers/hang-a"),
    ],
};

/// Those in which the process is stopped.
pub(crate) const CRASHED: &[Play] = &[ANSWERED, LOOKED_FOR, SENT_AGAIN, APPROVED, COLD, FOUND_IN_FLIGHT];

/// All that the power is cut in.
pub(crate) const ALL: &[Play] = &[FIRST, LOST, ASKED, EDGE, SWEPT, CROWD];
