//! What an effect waits for: other effects, each with the outcome that it needs.

use oncegate_policy::effect::Outcome;
use oncegate_policy::id::EffectId;
use oncegate_policy::refusal::{Code, Refusal};
use rusqlite::Connection;

use crate::error::Fault;
use crate::row;

/// The refusal for the first one that is not met. It is met by the named outcome and by nothing else: pending and unknown do
/// not count.
pub(crate) fn unmet(
    connection: &Connection,
    needed: &[(EffectId, Outcome)],
) -> Result<Option<Refusal>, Fault> {
    for (on, needed) in needed {
        let outcome = row::by_id(connection, on)?.map(|effect| effect.view.stage.outcome());
        if outcome != Some(*needed) {
            let (needs, stands) = (needed.word(), outcome.map_or("not in the record", Outcome::word));
            return Ok(Some(Refusal::naming(
                Code::DependencyUnmet,
                on.clone(),
                format!("This depends on effect {on} being {needs}, and it is {stands}. Nothing was sent."),
            )));
        }
    }
    Ok(None)
}
