//! The moves of an effect that more than one verb makes. Each runs inside the verb's transaction.

use oncegate_policy::effect::{SettledResult, Settlement, Stage, Verification};
use oncegate_policy::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use crate::error::Fault;
use crate::events::Event;
use crate::holds::{self, Ending};
use crate::kept::execute_and_forget;
use crate::row::{self, Effect};
use crate::view::{EffectView, ResponseSource, StoredResponse};
use crate::writer::Tx;

/// How an effect ends.
pub(crate) struct End {
    pub(crate) result: SettledResult,
    pub(crate) verification: Verification,
    pub(crate) holds: Ending,
}

/// The fact that moved it, for the chain.
pub(crate) struct Fact<'a> {
    pub(crate) kind: &'static str,
    pub(crate) author: Option<&'a str>,
    pub(crate) text: &'a str,
    /// JSON.
    pub(crate) detail: String,
}

impl Tx<'_> {
    /// The effect as this transaction has left it.
    pub(crate) fn again(&self, effect: &Effect) -> Result<EffectView, Fault> {
        let again = row::by_id(self.connection, &effect.view.id)?;
        again.map(|effect| effect.view).ok_or_else(|| Fault::Gone { effect: effect.view.id.clone() })
    }

    /// Appends a fact that moves nothing.
    pub(crate) fn note_fact(&mut self, effect: &Effect, fact: Fact<'_>, now: Timestamp) -> Result<(), Fault> {
        self.moved(effect, None, fact, now)
    }

    /// The fact that made `acknowledged` into `confirmed`.
    pub(crate) fn confirmed(&mut self, effect: &Effect, fact: Fact<'_>, now: Timestamp) -> Result<(), Fault> {
        let view = self.again(effect)?;
        self.moved(effect, Some(&row::mark(&view.stage)), fact, now)
    }

    /// The move itself: what was seen, and where the effect stands since.
    pub(crate) fn moved(
        &mut self,
        effect: &Effect,
        stage: Option<&str>,
        fact: Fact<'_>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        self.append(&Event {
            at: now,
            kind: fact.kind,
            effect: Some(&effect.view.id),
            stage,
            author: fact.author,
            text: Some(fact.text),
            detail: fact.detail,
        })
    }

    /// `dispatching` or `reconciling` to `settled`: holds end, the prepared request is erased, the fact is kept. The
    /// view is as it was written, without reading it again.
    pub(crate) fn settle(
        &mut self,
        effect: &mut Effect,
        end: &End,
        fact: Fact<'_>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        self.statements.execute(
            "UPDATE OR FAIL effect SET stage = 'settled', run = NULL, next_look_at = NULL, result = ?2, verification = ?3,
                 settled_at = ?4 WHERE key = ?1",
            params![effect.key, row::result_word(end.result), end.verification.word(), now.0],
        )?;
        holds::end(self, effect, &end.holds, now)?;
        let may_be_confirmed = end.result == SettledResult::Acknowledged
            && end.verification == Verification::Unverified
            && effect.view.can_read_back;
        if may_be_confirmed {
            self.forget_body(effect.key)?;
        } else {
            self.forget_request(effect.key)?;
        }
        let (result, verification) = (end.result, end.verification);
        effect.view.stage = Stage::Settled(Settlement { result, verification, at: now });
        self.moved(effect, Some(&row::mark(&effect.view.stage)), fact, now)
    }

    /// `dispatching` to `reconciling`: the hold stays, the exposure grows, the provider will be asked.
    pub(crate) fn unknown(
        &mut self,
        effect: &mut Effect,
        fact: Fact<'_>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let first_look = effect.view.can_read_back.then(|| self.setting.schedule.next(now, 0));
        self.statements.execute(
            "UPDATE OR FAIL effect SET stage = 'reconciling', run = NULL, unknown_since = ?2, next_look_at = ?3 WHERE key = ?1",
            params![effect.key, now.0, first_look.map(|at| at.0)],
        )?;
        holds::expose(self, effect)?;
        effect.view.stage =
            Stage::Reconciling { since: now, next_look_at: first_look, looks: effect.view.looks };
        effect.view.unknown_since = Some(now);
        self.moved(effect, Some("reconciling"), fact, now)
    }

    /// Keeps an answer for repeats, instead of an earlier one.
    pub(crate) fn keep_response(
        &self,
        effect: &mut Effect,
        kept: StoredResponse,
        now: Timestamp,
    ) -> Result<(), Fault> {
        // Usually there is none: replacing one has to be ready to undo the removal.
        let insert = match effect.view.response {
            None => "INSERT INTO response VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            Some(_) => "INSERT OR REPLACE INTO response VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        };
        let row = params![
            effect.key,
            now.0,
            kept.source.word(),
            kept.status,
            kept.reason,
            row::headers_to(&kept.headers),
            kept.body
        ];
        self.statements.once(insert, row, execute_and_forget)?;
        effect.view.response_status = Some(kept.status);
        effect.view.response = Some(kept);
        Ok(())
    }

    /// The answer that repeats get once a look or a person has settled the effect: the record that was found, or none. What was
    /// answered before has proved nothing, or it would have settled the effect, and is not given as if it had.
    pub(crate) fn settled_response(
        &self,
        effect: &mut Effect,
        record: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        match record {
            Some(record) => {
                let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                let source = ResponseSource::ReadBack;
                let kept =
                    StoredResponse { source, status: 200, reason: None, headers, body: record.to_vec() };
                self.keep_response(effect, kept, now)
            }
            None => {
                effect.view.response = None;
                effect.view.response_status = self.dispatch_answered(effect.key)?;
                self.forget_response(effect.key).map(drop)
            }
        }
    }

    /// The status that the dispatch was answered with, if it was answered whole.
    fn dispatch_answered(&self, effect: i64) -> Result<Option<u16>, Fault> {
        let statement = "SELECT status FROM attempt WHERE key = ?1 << 20 AND seen = 'answered'";
        let mut statement = self.connection.prepare_cached(statement)?;
        Ok(statement.query_row([effect], |row| row.get(0)).optional()?.flatten())
    }

    /// Returns how many were there: one or none.
    pub(crate) fn forget_response(&self, effect: i64) -> Result<u64, Fault> {
        let gone =
            self.connection.prepare_cached("DELETE FROM response WHERE effect = ?1")?.execute([effect])?;
        Ok(u64::try_from(gone).unwrap_or(u64::MAX))
    }

    pub(crate) fn forget_request(&self, effect: i64) -> Result<(), Fault> {
        Ok(self.statements.execute("DELETE FROM request WHERE effect = ?1", [effect]).map(drop)?)
    }

    /// The body and headers go; what a look needs stays until the look that may confirm has been made.
    fn forget_body(&self, effect: i64) -> Result<(), Fault> {
        let update = "UPDATE request SET headers = '[]', body = x'' WHERE effect = ?1";
        Ok(self.statements.execute(update, [effect]).map(drop)?)
    }
}
