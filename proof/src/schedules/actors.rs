//! Who acts on the claim core, and in which steps. A step is one verb of the store, which is one transaction.

use Ask::{Keyed, Keyless, Librarys, OtherBody, OtherSubject, Parked, Varied};
use By::{Agent, Operator, Schedule};
use Heard::{Lost, NotSent, Refused, Success};
use Shown::{Failed, Match, Nothing};
use Step::{
    Answer, Approve, Ask as Asks, Claim, Confirm, Deny, Gone, Halt, Limit, Look, Replay, Replayed, Resolve,
    Restart, Resume, Sweep, Unanswered, Wait,
};

/// One thing that one actor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An agent's request is admitted or not. What is granted is sent.
    Ask(Ask),
    /// The exchange of this actor's own dispatch ends.
    Answer(Heard),
    /// The agent has waited long enough; the socket is read on.
    Unanswered,
    /// The task that holds the dispatch or the replay is gone.
    Gone,
    /// The provider was looked at.
    Look(Shown, By),
    /// The look after a success.
    Confirm,
    /// A person's word: it succeeded, or it failed.
    Resolve(bool, By),
    /// A replay is asked for. What is granted is sent.
    Replay(By),
    /// The exchange of this actor's own replay ends.
    Replayed(Heard),
    /// A person says yes.
    Approve(By),
    /// A person says no.
    Deny(By),
    /// What was approved is claimed. What is granted is sent.
    Claim,
    /// A reload declares this much, or no limit at all.
    Limit(Option<i64>),
    /// All writes are stopped.
    Halt,
    /// And go on.
    Resume,
    /// What nobody holds becomes unknown.
    Sweep,
    /// The process ends and another one starts.
    Restart,
    /// A day passes, and what nobody approved lapses.
    Wait,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// 100 on the payment, under a chosen key.
    Keyed,
    /// Another amount under that key.
    OtherBody,
    /// The same as the first, without a key.
    Keyless,
    /// The same as the first, under a key that a library made.
    Librarys,
    /// Another amount on the same payment, without a key.
    Varied,
    /// 100 on another payment.
    OtherSubject,
    /// 100 on the payment, once a person has said yes.
    Parked,
}

/// What became of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A complete 200.
    Success,
    /// A complete 402.
    Refused,
    /// The connection was refused.
    NotSent,
    /// The answer is lost.
    Lost,
}

/// What a look showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The provider's record of it.
    Match,
    /// The provider's record of its failure.
    Failed,
    /// No record.
    Nothing,
}

/// At whose wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The key that asked for the effect.
    Agent,
    /// Another key.
    Operator,
    /// Nobody's: it was due.
    Schedule,
}

/// A name and its steps, in their order.
pub(crate) struct Actor {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [Step],
}

const fn actor(name: &'static str, steps: &'static [Step]) -> Actor {
    Actor { name, steps }
}

/// What was there before two actors met.
pub(crate) const SETTINGS: [Actor; 8] = [
    actor("nothing yet", &[]),
    actor("on the wire", &[Asks(Keyed)]),
    actor("unknown", &[Asks(Keyed), Answer(Lost)]),
    actor("unknown, without a key", &[Asks(Keyless), Answer(Lost)]),
    actor("unknown, still read", &[Asks(Keyed), Unanswered]),
    actor("waiting", &[Asks(Parked)]),
    actor("approved", &[Asks(Parked), Approve(Operator)]),
    actor("succeeded", &[Asks(Keyed), Answer(Success)]),
];

/// Everybody who may meet.
pub(crate) const ACTORS: [Actor; 31] = [
    actor("call", &[Asks(Keyed), Answer(Success)]),
    actor("call, lost", &[Asks(Keyed), Answer(Lost)]),
    actor("call, refused by the provider", &[Asks(Keyed), Answer(Refused), Asks(Keyed)]),
    actor("call, never sent", &[Asks(Keyless), Answer(NotSent), Asks(Keyless)]),
    actor("call, late success", &[Asks(Keyed), Unanswered, Answer(Success)]),
    actor("call, late refusal", &[Asks(Keyed), Unanswered, Answer(Refused)]),
    actor("call, its task dies", &[Asks(Keyed), Gone, Sweep]),
    actor("another body under the key", &[Asks(OtherBody), Answer(Success)]),
    actor("the same without a key", &[Asks(Keyless), Answer(Success)]),
    actor("the same under a library's key", &[Asks(Librarys), Answer(Refused), Asks(Librarys)]),
    actor("a varied retry", &[Asks(Varied), Answer(Success)]),
    actor("another payment", &[Asks(OtherSubject), Answer(Success)]),
    actor("another payment, lost", &[Asks(OtherSubject), Answer(Lost), Asks(OtherSubject)]),
    actor("a call that has to wait", &[Asks(Parked), Claim, Answer(Success)]),
    actor("approves", &[Approve(Operator), Claim, Answer(Success)]),
    actor("approves its own", &[Approve(Agent), Claim, Answer(Success)]),
    actor("denies", &[Deny(Operator), Claim]),
    actor("a look that finds it", &[Look(Match, Schedule), Confirm]),
    actor("a look that finds a failure", &[Look(Failed, Schedule)]),
    actor("a look that its own key asked for", &[Look(Failed, Agent), Look(Match, Agent)]),
    actor("looks that find nothing", &[Look(Nothing, Schedule), Look(Nothing, Operator)]),
    actor("resolves as failed", &[Resolve(false, Operator), Resolve(true, Operator)]),
    actor("resolves as succeeded", &[Resolve(true, Operator), Look(Failed, Operator)]),
    actor("resolves its own", &[Resolve(true, Agent), Resolve(false, Agent)]),
    actor("replays", &[Replay(Operator), Replayed(Success)]),
    actor("replays, refused", &[Replay(Operator), Replayed(Refused)]),
    actor("replays, lost, and again", &[Replay(Operator), Replayed(Lost), Replay(Operator), Gone]),
    actor("replays its own", &[Replay(Agent), Replayed(Success)]),
    actor("reloads its limits", &[Limit(Some(50)), Limit(None), Limit(Some(150))]),
    actor("restarts", &[Restart, Sweep]),
    actor("halts over the night", &[Halt, Wait, Resume]),
];

/// The cap at first: one refund fits, two do not.
pub(crate) const CAP: i64 = 150;
