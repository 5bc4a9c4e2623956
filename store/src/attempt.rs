//! Attempts and the keys that they have: their effect's, with a number behind it. A dispatch is no row while its effect
//! says `dispatching`: whose it is and since when stands there.

use oncegate_policy::effect::Stage;
use oncegate_policy::exchange::{Loss, Phase};
use oncegate_policy::id::{AttemptId, EffectId};
use oncegate_policy::time::Timestamp;
use rusqlite::{Connection, ErrorCode, ffi, params};

use crate::claim::Remembered;
use crate::error::Fault;
use crate::record::Seen;
use crate::row::{self, Columns, Effect};
use crate::view::NeverSent;
use crate::writer::Tx;

/// An attempt's key is its effect's with this many bits behind it; they are 0 for the dispatch.
pub(crate) const BITS: u32 = 20;
/// Attempts of one effect after which a look that decides nothing leaves its event behind and no attempt: as many as a
/// schedule makes in half a year with an hour between them, and far fewer than there are keys.
const UNDECIDED_MAX: i64 = 4_096;
/// The highest number of an attempt.
const NUMBER_MAX: i64 = (1 << BITS) - 1;

/// The key of an effect's one dispatch: there cannot be two.
pub(crate) fn dispatch_key(effect: i64) -> i64 {
    effect << BITS
}

/// Whether a key is that of a dispatch.
pub(crate) fn is_dispatch(attempt: i64) -> bool {
    attempt & NUMBER_MAX == 0
}

/// A dispatch's id is its effect's own, with another beginning: there cannot be two.
pub(crate) fn dispatch_id(effect: &EffectId) -> AttemptId {
    AttemptId::from_ulid(effect.as_str().trim_start_matches(EffectId::PREFIX))
}

/// The effect that an attempt was claimed for. Its key alone does not say which: that of a pruned effect is used again.
pub(crate) fn effect_of(connection: &Connection, attempt: i64, id: &EffectId) -> Result<Effect, Fault> {
    let found = row::by_attempt(connection, attempt)?.filter(|effect| effect.view.id == *id);
    found.ok_or_else(|| Fault::Gone { effect: id.clone() })
}

/// Whether a row was not inserted because its key is taken.
fn is_there(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|said| said.extended_code == ffi::SQLITE_CONSTRAINT_PRIMARYKEY)
}

/// How a dispatch ended, if it has.
#[derive(Default)]
pub(crate) struct Dispatched {
    pub(crate) last_loss: Option<Loss>,
    pub(crate) never_sent: Option<NeverSent>,
    /// The status of a whole answer.
    pub(crate) answered: Option<u16>,
}

/// Columns `seen`, `step`, `cause`, `status`.
pub(crate) fn dispatch(columns: &mut Columns<'_>) -> Result<Dispatched, Fault> {
    let seen: Option<String> = columns.next()?;
    let step: Option<String> = columns.next()?;
    let cause = columns.next::<Option<String>>()?.unwrap_or_default();
    let status = columns.next()?;
    let step = step.unwrap_or_default();
    let mut dispatched = Dispatched::default();
    match seen.as_deref() {
        Some("not_sent") => dispatched.never_sent = Some(NeverSent { step, cause }),
        Some("lost") => {
            let phase = phase(&step).ok_or(Fault::Unreadable { what: "phase", found: step })?;
            dispatched.last_loss = Some(Loss { phase, cause, status });
        }
        Some("answered") => dispatched.answered = status,
        Some(_) | None => {}
    }
    Ok(dispatched)
}

fn phase(word: &str) -> Option<Phase> {
    [Phase::AwaitingHead, Phase::ReadingBody, Phase::Interrupted]
        .into_iter()
        .find(|phase| phase.word() == word)
}

impl Tx<'_> {
    /// A row for a dispatch that nobody has seen the end of, before its effect stops to say `dispatching`.
    pub(crate) fn note_dispatch(&self, effect: &Effect) -> Result<(), Fault> {
        self.connection
            .prepare_cached(
                "INSERT INTO attempt (key, effect, kind, run, started_at)
                 SELECT key << 20, key, 'dispatch', run, claimed_at FROM effect WHERE key = ?1",
            )?
            .execute([effect.key])?;
        Ok(())
    }

    /// What was seen of a dispatch whose effect is as it was claimed. `None`, and nothing written: it is not, any more. Who
    /// it was claimed for is asked by the statement itself, and the rest by the trigger: with no run there is no row.
    pub(crate) fn end_as_claimed(
        &self,
        attempt: i64,
        claimed: Remembered,
        seen: &Seen,
        now: Timestamp,
    ) -> Result<Option<Effect>, Fault> {
        let Remembered { view, room } = claimed;
        let (step, cause, status) = seen.columns();
        let insert = "INSERT INTO attempt (key, effect, kind, run, started_at, ended_at, verdict, seen, step, cause, status, digest)
             VALUES (?1, ?1 >> 20, 'dispatch', (SELECT run FROM effect WHERE key = ?1 >> 20 AND id = ?9),
                 ?10, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let row = params![
            attempt,
            now.0,
            seen.verdict.word(),
            seen.word(),
            step,
            cause,
            status,
            seen.digest(),
            view.id.as_str(),
            view.claimed_at.map(|at| at.0)
        ];
        match self.statements.execute(insert, row) {
            Ok(_) => Ok(Some(Effect { key: attempt >> BITS, view, room: Some(room) })),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What was seen of one attempt, once. `false`: it was called interrupted meanwhile, and keeps that end; what was seen
    /// after it is kept as evidence by whoever saw it.
    pub(crate) fn end_attempt(
        &self,
        effect: &Effect,
        attempt: i64,
        seen: &Seen,
        now: Timestamp,
    ) -> Result<bool, Fault> {
        let (step, cause, status) = seen.columns();
        let (verdict, word, digest) = (seen.verdict.word(), seen.word(), seen.digest());
        if let Stage::Dispatching { claimed_at, owner } = &effect.view.stage {
            // By which run is known by heart, but for what an earlier one has left.
            let run = (*owner == self.setting.owner).then_some(self.setting.run);
            let insert = "INSERT INTO attempt (key, effect, kind, run, started_at, ended_at, verdict, seen, step, cause, status, digest)
                 VALUES (?1, ?1 >> 20, 'dispatch', coalesce(?9, (SELECT run FROM effect WHERE key = ?1 >> 20)),
                     ?10, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let begun =
                params![attempt, now.0, verdict, word, step, cause, status, digest, run, claimed_at.0];
            match self.statements.execute(insert, begun) {
                // An earlier version has begun it with a row.
                Err(error) if is_there(&error) => {}
                done => return Ok(done? == 1),
            }
        }
        let ended = self
            .connection
            .prepare_cached(
                "UPDATE attempt SET ended_at = ?2, verdict = ?3, seen = ?4, step = ?5, cause = ?6, status = ?7, digest = ?8
                 WHERE key = ?1 AND ended_at IS NULL",
            )?
            .execute(params![attempt, now.0, verdict, word, step, cause, status, digest])?;
        Ok(ended == 1)
    }

    /// The key of an effect's next attempt that is no dispatch. `None` when there is none left, and for a look that
    /// decides nothing already before: anybody who may invoke may ask for looks without end, and they must use up
    /// neither the disk nor the keys of what decides.
    pub(crate) fn next_attempt(&self, effect: i64, decides: bool) -> Result<Option<i64>, Fault> {
        let latest: Option<i64> = self
            .connection
            .prepare_cached(
                "SELECT max(key) FROM attempt WHERE key BETWEEN ?1 << 20 AND (?1 << 20) + 1048575",
            )?
            .query_row([effect], |row| row.get(0))?;
        let number = latest.map_or(0, |key| key & NUMBER_MAX).saturating_add(1);
        let highest = if decides { NUMBER_MAX } else { UNDECIDED_MAX };
        Ok((number <= highest).then_some((effect << BITS) | number))
    }
}
