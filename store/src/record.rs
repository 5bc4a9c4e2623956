//! What was seen of a dispatch, and what follows for the effect.

use std::sync::Arc;

use oncegate_policy::classify::Verdict;
use oncegate_policy::effect::{SettledResult, Stage, Verification};
use oncegate_policy::exchange::{Exchange, Loss};
use oncegate_policy::id::EffectId;
use oncegate_policy::time::Timestamp;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::claim::{Claim, Remembered, Unrecorded};
use crate::error::{Fault, StoreError};
use crate::events::{bounded, text_of};
use crate::holds::Ending;
use crate::row::{self, Effect};
use crate::settle::{End, Fact};
use crate::view::{EffectView, NeverSent, ResponseSource, StoredResponse};
use crate::writer::{Step, Tx};
use crate::{Store, attempt};

const RECORD: Step = Step::new("record an outcome").failing_at("before_record_commit", "after_record_commit");
const MARK: Step =
    Step::new("mark an effect unknown").failing_at("before_record_commit", "after_record_commit");

/// Headers of an answer that are not kept: they belong to the connection or the moment, would make a client
/// retry, set state at the agent a second time, or are ours to set.
const NOT_KEPT: [&str; 15] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "retry-after",
    "set-cookie",
    "set-cookie2",
    "stripe-should-retry",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-should-retry",
];

/// What a dispatch or a replay has shown, and what that proves.
#[derive(Clone, Debug)]
pub struct Seen {
    pub(crate) verdict: Verdict,
    pub(crate) exchange: SeenExchange,
}

/// The exchange, as far as it is kept.
#[derive(Clone, Debug)]
pub(crate) enum SeenExchange {
    NotSent(NeverSent),
    Answered { answer: StoredResponse, digest: [u8; 32] },
    Lost(Loss),
}

/// What the chain keeps of an answer, in the order of the alphabet.
#[derive(Serialize)]
struct AnsweredDetail<'a> {
    body: &'a str,
    status: u16,
    verdict: &'a str,
}

impl Seen {
    /// What the wire showed and the verdict on it.
    #[must_use]
    pub fn of(verdict: Verdict, exchange: &Exchange) -> Self {
        let exchange = match exchange {
            Exchange::NotSent(proof) => SeenExchange::NotSent(NeverSent {
                step: proof.step().to_owned(),
                cause: bounded(proof.cause()).to_owned(),
            }),
            Exchange::Lost(loss) => SeenExchange::Lost(Loss {
                phase: loss.phase,
                cause: bounded(&loss.cause).to_owned(),
                status: loss.status,
            }),
            Exchange::Answered(answer) => SeenExchange::Answered {
                digest: Sha256::digest(&answer.body).into(),
                answer: StoredResponse {
                    source: ResponseSource::Dispatch,
                    status: answer.status,
                    reason: answer.reason.clone(),
                    headers: answer.headers.iter().filter(|(name, _)| is_kept(name)).cloned().collect(),
                    body: answer.body.clone(),
                },
            },
        };
        Self { verdict, exchange }
    }

    /// Bytes of the answer's body; 0 without one.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        match &self.exchange {
            SeenExchange::Answered { answer, .. } => answer.body.len(),
            SeenExchange::NotSent(_) | SeenExchange::Lost(_) => 0,
        }
    }

    pub(crate) fn word(&self) -> &'static str {
        match &self.exchange {
            SeenExchange::NotSent(_) => "not_sent",
            SeenExchange::Answered { .. } => "answered",
            SeenExchange::Lost(_) => "lost",
        }
    }

    pub(crate) fn author(&self) -> &'static str {
        match &self.exchange {
            SeenExchange::Answered { .. } => "provider",
            SeenExchange::NotSent(_) | SeenExchange::Lost(_) => "dispatch",
        }
    }

    /// In words, for evidence and for the log.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.exchange {
            SeenExchange::NotSent(proof) => format!("never sent: {}: {}", proof.step, proof.cause),
            SeenExchange::Answered { answer, .. } => format!("the provider answered {}", answer.status),
            SeenExchange::Lost(loss) => match loss.status {
                Some(status) => {
                    format!("answer lost after status {status} ({}): {}", loss.phase.word(), loss.cause)
                }
                None => format!("answer lost ({}): {}", loss.phase.word(), loss.cause),
            },
        }
    }

    pub(crate) fn detail(&self) -> serde_json::Value {
        let verdict = self.verdict.word();
        match &self.exchange {
            SeenExchange::NotSent(proof) => json!({ "verdict": verdict, "step": proof.step }),
            SeenExchange::Answered { answer, digest } => {
                json!({ "verdict": verdict, "status": answer.status, "body": row::to_hex(digest) })
            }
            SeenExchange::Lost(loss) => {
                json!({ "verdict": verdict, "phase": loss.phase.word(), "status": loss.status })
            }
        }
    }

    /// The same as text.
    pub(crate) fn detail_text(&self) -> String {
        match &self.exchange {
            SeenExchange::Answered { answer, digest } => text_of(&AnsweredDetail {
                body: &row::to_hex(digest),
                status: answer.status,
                verdict: self.verdict.word(),
            }),
            SeenExchange::NotSent(_) | SeenExchange::Lost(_) => self.detail().to_string(),
        }
    }

    /// Where it ended without an answer, what the system said, and the status, as far as there is one.
    pub(crate) fn columns(&self) -> (Option<&str>, Option<&str>, Option<u16>) {
        match &self.exchange {
            SeenExchange::NotSent(proof) => (Some(&proof.step), Some(&proof.cause), None),
            SeenExchange::Answered { answer, .. } => (None, None, Some(answer.status)),
            SeenExchange::Lost(loss) => (Some(loss.phase.word()), Some(&loss.cause), loss.status),
        }
    }

    /// SHA-256 of the answer's body.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        match &self.exchange {
            SeenExchange::Answered { digest, .. } => Some(*digest),
            SeenExchange::NotSent(_) | SeenExchange::Lost(_) => None,
        }
    }

    /// How the effect ends on this, if it does.
    pub(crate) fn end(&self) -> Option<End> {
        let (result, holds) = match self.verdict {
            Verdict::Succeeded => (SettledResult::Acknowledged, Ending::Consumed),
            Verdict::Failed => (SettledResult::Failed, Ending::Released),
            Verdict::Unknown => return None,
        };
        Some(End { result, verification: Verification::Unverified, holds })
    }
}

fn is_kept(name: &str) -> bool {
    !NOT_KEPT.contains(&name) && !name.starts_with("oncegate-") && name != "x-idempotent-replay"
}

impl Store {
    /// `respond_within` has passed and the socket is still read: unknown from now on, for the agent and for the
    /// limits. A late answer may still settle it.
    ///
    /// # Errors
    /// The record could not be written: the row still says `dispatching`.
    pub async fn mark_unknown(
        &self,
        claim: &Claim,
        why: &str,
        now: Timestamp,
    ) -> Result<EffectView, StoreError> {
        let (attempt, id, why) = (claim.claimed.attempt, claim.effect().clone(), why.to_owned());
        let verb = move |tx: &mut Tx<'_>| {
            let mut effect = attempt::effect_of(tx.connection, attempt, &id)?;
            if !matches!(effect.view.stage, Stage::Dispatching { .. }) {
                return Ok(effect.view);
            }
            tx.note_dispatch(&effect)?;
            let fact = Fact {
                kind: "unanswered",
                author: Some("dispatch"),
                text: &why,
                detail: json!({}).to_string(),
            };
            tx.unknown(&mut effect, fact, now)?;
            Ok(effect.view)
        };
        self.inner.writer.write(MARK, usize::MAX, verb).await
    }

    /// The end of a dispatch. Settles what it proves; if a look or a person has settled the effect in between, the
    /// answer is kept as evidence and the outcome stays.
    ///
    /// # Errors
    /// The record could not be written. The claim comes back: with it the same may be tried again, and once it is
    /// dropped the sweep calls the effect unknown.
    pub async fn record(
        &self,
        mut claim: Claim,
        seen: impl Into<Arc<Seen>>,
        now: Timestamp,
    ) -> Result<EffectView, Box<Unrecorded<Claim>>> {
        let (attempt, id, seen) = (claim.claimed.attempt, claim.effect().clone(), seen.into());
        let mut remembered = claim.claimed.remembered.take();
        let verb = move |tx: &mut Tx<'_>| {
            let mut effect = ended(tx, attempt, &id, remembered.take(), &seen, now)?;
            record(tx, &mut effect, &seen, now)?;
            Ok(effect.view)
        };
        // The claim lives until the commit is decided, so that no sweep calls the effect interrupted meanwhile.
        match self.inner.writer.write(RECORD, usize::MAX, verb).await {
            Ok(view) => {
                self.inner.living.forget(attempt);
                Ok(view)
            }
            Err(error) => Err(Unrecorded::of(claim, error)),
        }
    }
}

/// Crash window: the provider has answered and this is not committed. The row still says `dispatching` (or
/// `reconciling`), so after a restart the effect is unknown and a look finds what happened. In the other order,
/// telling the agent first, a crash could leave an agent that knows more than the record.
fn record(tx: &mut Tx<'_>, effect: &mut Effect, seen: &Seen, now: Timestamp) -> Result<(), Fault> {
    let since = match &effect.view.stage {
        Stage::Dispatching { .. } => None,
        Stage::Reconciling { since, .. } => Some(*since),
        Stage::Settled(_) => return too_late(tx, effect, seen, now),
        Stage::AwaitingApproval { .. } | Stage::Ready | Stage::Rejected(_) => {
            let stage = effect.view.stage.word();
            return Err(Fault::OutOfOrder { effect: effect.view.id.clone(), stage });
        }
    };
    let text = match since {
        None => seen.text(),
        Some(since) => {
            format!("late, {} s after the effect became unknown: {}", now.since(since).as_secs(), seen.text())
        }
    };
    let fact =
        Fact { kind: seen.word(), author: Some(seen.author()), text: &text, detail: seen.detail_text() };
    if let SeenExchange::Answered { answer, .. } = &seen.exchange {
        tx.keep_response(effect, answer.clone(), now)?;
    }
    match (seen.end(), since) {
        (Some(end), _) => tx.settle(effect, &end, fact, now),
        (None, None) => tx.unknown(effect, fact, now),
        (None, Some(_)) => tx.note_fact(effect, fact, now),
    }
}

/// Something else has settled it first. Both orders end alike: the first word stays, the second is kept beside it.
pub(crate) fn too_late(
    tx: &mut Tx<'_>,
    effect: &mut Effect,
    seen: &Seen,
    now: Timestamp,
) -> Result<(), Fault> {
    let outcome = effect.view.stage.outcome().word();
    let agrees = seen.verdict.word() == outcome || seen.verdict == Verdict::Unknown;
    let remark = if agrees { "" } else { "; this CONTRADICTS the recorded outcome, which stays" };
    let text = format!("late, after the effect was settled as {outcome}: {}{remark}", seen.text());
    let fact =
        Fact { kind: seen.word(), author: Some(seen.author()), text: &text, detail: seen.detail_text() };
    tx.note_fact(effect, fact, now)?;
    if let SeenExchange::Answered { answer, .. } = &seen.exchange
        && seen.verdict.word() == outcome
        && effect.view.response.is_none()
    {
        tx.keep_response(effect, answer.clone(), now)?;
    }
    if !agrees {
        tracing::error!(effect.id = %effect.view.id, outcome, seen = %seen.text(), "a late answer contradicts the recorded outcome");
    }
    Ok(())
}

/// The effect of a dispatch whose end is in the record by now: as it was claimed, if it still says `dispatching`, else as it
/// is now.
fn ended(
    tx: &Tx<'_>,
    attempt: i64,
    id: &EffectId,
    remembered: Option<Box<Remembered>>,
    seen: &Seen,
    now: Timestamp,
) -> Result<Effect, Fault> {
    if let Some(claimed) = remembered
        && let Some(mut effect) = tx.end_as_claimed(attempt, *claimed, seen, now)?
    {
        saw(&mut effect, seen);
        return Ok(effect);
    }
    let mut effect = attempt::effect_of(tx.connection, attempt, id)?;
    end_dispatch(tx, &mut effect, attempt, seen, now)?;
    Ok(effect)
}

/// The end of the one dispatch: in the record, and in the view.
pub(crate) fn end_dispatch(
    tx: &Tx<'_>,
    effect: &mut Effect,
    attempt: i64,
    seen: &Seen,
    now: Timestamp,
) -> Result<(), Fault> {
    if tx.end_attempt(effect, attempt, seen, now)? {
        saw(effect, seen);
    }
    Ok(())
}

fn saw(effect: &mut Effect, seen: &Seen) {
    let view = &mut effect.view;
    (view.last_loss, view.never_sent) = match &seen.exchange {
        SeenExchange::NotSent(proof) => (None, Some(proof.clone())),
        SeenExchange::Lost(loss) => (Some(loss.clone()), None),
        SeenExchange::Answered { answer, .. } => {
            // Of a record that was read back, or of an earlier answer, the status stays with what is kept.
            if view.response.is_none() {
                view.response_status = Some(answer.status);
            }
            (None, None)
        }
    };
}
