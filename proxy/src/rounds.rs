//! Rounds of looks: servers side by side, and at each one look after the other, so that one that does not answer keeps
//! only its own effects waiting.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use oncegate_config::model::Action;
use oncegate_policy::action::ActionName;
use oncegate_policy::authority::Authority;
use oncegate_policy::reconcile::Looker;
use oncegate_store::StoreError;
use oncegate_store::look::LookDue;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use crate::adapting;
use crate::looking;
use crate::reconciler::{self, apply};
use crate::state::{Sidecar, Snapshot};
use crate::task;

/// Servers that are asked at a time.
const SERVERS_MAX: usize = 8;
/// A server's turns begin within this time: a slow one has more of them in the next round.
const TURNS_FOR: Duration = Duration::from_secs(10);

/// One look that is due.
enum Turn {
    /// For what is unknown.
    Settle(LookDue),
    /// After a success: a match makes `acknowledged` into `confirmed`.
    Confirm(LookDue),
}

/// Looks that are being made. Whoever drops it ends them: what was not recorded is due again.
pub(crate) struct Rounds {
    sidecar: Arc<Sidecar>,
    /// One for each server that is asked.
    lanes: JoinSet<Result<usize, StoreError>>,
    /// Whose effects have their turns in it.
    busy: HashMap<Id, Vec<ActionName>>,
    places: Arc<Semaphore>,
}

impl Rounds {
    pub(crate) fn new(sidecar: &Arc<Sidecar>) -> Self {
        Self {
            sidecar: Arc::clone(sidecar),
            lanes: JoinSet::new(),
            busy: HashMap::new(),
            places: Arc::new(Semaphore::new(SERVERS_MAX)),
        }
    }

    /// Begins what is due at servers that are not being asked: at most `max_per_pass` looks of each kind.
    ///
    /// # Errors
    /// The record could not be read at all.
    pub(crate) async fn begin(&mut self) -> Result<(), StoreError> {
        let snapshot = self.sidecar.snapshot();
        let mut servers: BTreeMap<Option<Authority>, Vec<Turn>> = BTreeMap::new();
        for turn in self.turns(&snapshot).await? {
            servers.entry(server_of(&snapshot, turn.action())).or_default().push(turn);
        }
        for (server, turns) in servers {
            let mut theirs: Vec<_> = turns.iter().map(|turn| turn.action().clone()).collect();
            let at_it = |name: &&ActionName| server.is_some() && server_of(&snapshot, name) == server;
            theirs.extend(snapshot.config.actions.keys().filter(at_it).cloned());
            let (sidecar, snapshot) = (Arc::clone(&self.sidecar), Arc::clone(&snapshot));
            let places = Arc::clone(&self.places);
            let lane = self.lanes.spawn(task::apart(async move {
                // Never closed.
                let _place = places.acquire().await.ok();
                lane(&sidecar, &snapshot, server.as_ref(), turns).await
            }));
            self.busy.insert(lane.id(), theirs);
        }
        Ok(())
    }

    /// Waits until one server's turns are over. How many looks were made and recorded; `None` when no server is asked.
    ///
    /// # Errors
    /// The record could not be written at all.
    pub(crate) async fn ended(&mut self) -> Option<Result<usize, StoreError>> {
        let (id, ended) = match self.lanes.join_next_with_id().await? {
            Ok((id, ended)) => (id, ended),
            Err(panicked) => {
                tracing::error!(%panicked, "looks at a provider ended early");
                (panicked.id(), Ok(0))
            }
        };
        self.busy.remove(&id);
        Some(ended)
    }

    /// What is due, unknown effects first, but for what rests and for servers that rest or are being asked.
    async fn turns(&self, snapshot: &Snapshot) -> Result<Vec<Turn>, StoreError> {
        let sidecar = &self.sidecar;
        sidecar.unasked.resting();
        let rests = |action: &&Action| sidecar.unasked.rests(&adapting::authority(action));
        let resting = snapshot.config.actions.values().filter(rests).map(|action| &action.name);
        let but: Vec<ActionName> = resting.chain(self.busy.values().flatten()).cloned().collect();
        let looks_max = snapshot.config.reconcile.max_per_pass;
        let list_max = looks_max.saturating_add(sidecar.put_off.resting());
        let now = sidecar.clock.now();
        let due = sidecar.store.due(now, list_max, &but).await?;
        let due = sidecar.put_off.awake(due, |due| &due.view.id, looks_max);
        let before = now.minus(snapshot.config.reconcile.schedule.first_after);
        let unconfirmed = sidecar.store.unconfirmed(before, list_max, &but).await?;
        let unconfirmed = sidecar.put_off.awake(unconfirmed, |due| &due.view.id, looks_max);
        Ok(due.into_iter().map(Turn::Settle).chain(unconfirmed.into_iter().map(Turn::Confirm)).collect())
    }
}

/// What is due now, until all of it is made. How many were recorded.
///
/// # Errors
/// The record could not be read or written at all.
pub(crate) async fn round(sidecar: &Arc<Sidecar>) -> Result<usize, StoreError> {
    let mut rounds = Rounds::new(sidecar);
    rounds.begin().await?;
    let (mut done, mut failed) = (0, None);
    while let Some(ended) = rounds.ended().await {
        match ended {
            Ok(looks) => done += looks,
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(done), Err)
}

fn server_of(snapshot: &Snapshot, action: &ActionName) -> Option<Authority> {
    snapshot.declared(action.as_str()).map(|(action, _)| adapting::authority(action))
}

impl Turn {
    fn due(&self) -> &LookDue {
        match self {
            Self::Settle(due) | Self::Confirm(due) => due,
        }
    }

    fn action(&self) -> &ActionName {
        &self.due().view.action
    }
}

/// The turns of one server. How many looks were made and recorded.
async fn lane(
    sidecar: &Arc<Sidecar>,
    snapshot: &Snapshot,
    server: Option<&Authority>,
    turns: Vec<Turn>,
) -> Result<usize, StoreError> {
    let begun = Instant::now();
    let mut done = 0;
    for turn in turns {
        // Somebody else's look may have been told to pause, too. What has no turn is due again.
        if begun.elapsed() >= TURNS_FOR || server.is_some_and(|server| sidecar.unasked.rests(server)) {
            break;
        }
        let finding = looking::look(sidecar, snapshot, turn.due(), &Looker::Schedule).await;
        let id = &turn.due().view.id;
        let recorded = match turn {
            Turn::Settle(_) => apply(sidecar, id, finding, Looker::Schedule).await,
            Turn::Confirm(_) => sidecar.store.confirm(id, finding, sidecar.clock.now()).await,
        };
        match recorded {
            Ok(_) => done += 1,
            Err(error) => reconciler::put_off(sidecar, id, error)?,
        }
    }
    Ok(done)
}
