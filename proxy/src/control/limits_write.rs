//! Making, changing and archiving limits. Clients send these again without a key: each is safe to repeat.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use oncegate_policy::action::ActionName;
use oncegate_policy::caller::Scope;
use oncegate_policy::id::LimitId;
use oncegate_policy::limit::{Limit, Period};
use oncegate_store::StoreError;
use oncegate_store::limits::{ChangedLimit, CreatedLimit};
use oncegate_store::view::Exposure;
use serde::Deserialize;
use serde_json::json;

use super::answer::{ApiError, ErrorCode, created, one};
use super::auth::Asker;
use super::limits::exposures;
use super::managed;
use super::params::Id;
use super::resolving::dimension;
use super::{body, show};
use crate::reload::{ManagedEdit, Prepared, Turn};
use crate::state::{Sidecar, Snapshot};

const NAME_CHARS_MAX: usize = 100;
const PREFIX_CHARS_MAX: usize = 500;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct New {
    name: String,
    dimension: String,
    period: String,
    amount: i64,
    currency: Option<String>,
    unit: Option<String>,
    action_name: Option<String>,
    resource_prefix: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    name: Option<String>,
    amount: Option<i64>,
}

/// `POST /impact-limits`: the very same limit again gives the one that is there.
pub(crate) async fn create(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ImpactLimitsWrite)?;
    let limit = limit(&sidecar.snapshot(), body::object(body).await?)?;
    let mut turn = Turn::take(&sidecar).await;
    let there = Standing::read(&sidecar).await?;
    if let Some(known) = there.named(&limit.name) {
        return if known.limit == limit { Ok(one(show::limit(known))) } else { Err(taken(&limit.name)) };
    }
    // First the file: a limit that counts now also counts after a restart, whatever happens in between.
    let prepared = turn.prepare(there.edit(&[&limit], &[])).await?;
    prepared.write().await?;
    let made = sidecar.store.create_limit(limit, sidecar.clock.now()).await;
    let made = or_put_back(&prepared, "make the limit", made).await?;
    turn.finish(prepared).await;
    match made {
        CreatedLimit::Created(made) => {
            tracing::info!(caller.name = %asker.name, limit = made.limit.name, "a limit was made");
            Ok(created(show::limit(&made)))
        }
        CreatedLimit::Exists(known) => Ok(one(show::limit(&known))),
        CreatedLimit::NameTaken(known) => Err(taken(&known.limit.name)),
    }
}

/// `PATCH /impact-limits/{id}`: lowering a limit frees nothing.
pub(crate) async fn change(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
    body: Body,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ImpactLimitsWrite)?;
    let Change { name, amount } = body::object(body).await?;
    let name = body::maybe_text("name", name.as_ref(), NAME_CHARS_MAX)?;
    let amount = amount.map(not_negative).transpose()?;
    let mut turn = Turn::take(&sidecar).await;
    let there = Standing::read(&sidecar).await?;
    let known = there.with_id(&id)?.clone();
    if known.archived_at.is_some() {
        return Err(ApiError::new(ErrorCode::Conflict, "this limit is archived"));
    }
    there.made_here(&known)?;
    let changed = Limit {
        name: name.clone().unwrap_or_else(|| known.limit.name.clone()),
        amount: amount.unwrap_or(known.limit.amount),
        ..known.limit.clone()
    };
    if there.named(&changed.name).is_some_and(|other| other.id != known.id) {
        return Err(taken(&changed.name));
    }
    let prepared = turn.prepare(there.edit(&[&changed], &[&known.limit.name])).await?;
    prepared.write().await?;
    // If this is cut off here, what reads the file knows a limit under another name by its scope.
    let changed = sidecar.store.change_limit(&known.id, name, amount, sidecar.clock.now()).await;
    let changed = or_put_back(&prepared, "change the limit", changed).await?;
    turn.finish(prepared).await;
    match changed {
        ChangedLimit::Changed(now) => {
            tracing::info!(caller.name = %asker.name, limit = now.limit.name, "a limit was changed");
            Ok(one(show::limit(&now)))
        }
        ChangedLimit::NameTaken => Err(taken(&known.limit.name)),
        ChangedLimit::Missing => Err(ApiError::not_found("impact limit")),
    }
}

/// `DELETE /impact-limits/{id}`: it counts no more; what it holds still settles.
pub(crate) async fn archive(
    State(sidecar): State<Arc<Sidecar>>,
    asker: Asker,
    Id(id): Id,
) -> Result<Response, ApiError> {
    asker.needs(Scope::ImpactLimitsWrite)?;
    let mut turn = Turn::take(&sidecar).await;
    let there = Standing::read(&sidecar).await?;
    let known = there.with_id(&id)?;
    if known.archived_at.is_some() {
        return Ok(one(show::limit(known)));
    }
    there.made_here(known)?;
    let prepared = turn.prepare(there.edit(&[], &[&known.limit.name])).await?;
    // Before the record: a limit that could not be taken out of the file has never ceased to count.
    prepared.write().await?;
    let archived = sidecar.store.archive_limit(&known.id, sidecar.clock.now()).await;
    let archived = or_put_back(&prepared, "archive the limit", archived).await?;
    turn.finish(prepared).await;
    tracing::info!(caller.name = %asker.name, limit = known.limit.name, "a limit was archived");
    archived.map(|now| one(show::limit(&now))).ok_or_else(|| ApiError::not_found("impact limit"))
}

/// What is not recorded is taken out of the file again. Where that fails as well, it is said what stands.
async fn or_put_back<T>(
    prepared: &Prepared,
    step: &'static str,
    recorded: Result<T, StoreError>,
) -> Result<T, ApiError> {
    let error = match recorded {
        Ok(recorded) => return Ok(recorded),
        Err(error) => error,
    };
    if prepared.put_back().await {
        return Err(ApiError::unrecorded(step, &error).but("Nothing was changed."));
    }
    Err(ApiError::internal(step, &error)
        .but("It does not count yet; managed/limits.toml says it, and the next reload takes it."))
}

/// What stands when a change begins.
struct Standing {
    exposures: Vec<Exposure>,
    names: std::collections::BTreeSet<String>,
}

impl Standing {
    async fn read(sidecar: &Arc<Sidecar>) -> Result<Self, ApiError> {
        let names = managed::names(sidecar.files.path());
        let names = names.map_err(|error| ApiError::internal("read the managed limits", &error))?;
        Ok(Self { exposures: exposures(sidecar).await?, names })
    }

    fn named(&self, name: &str) -> Option<&Exposure> {
        self.exposures.iter().find(|known| known.archived_at.is_none() && known.limit.name == name)
    }

    fn with_id(&self, id: &str) -> Result<&Exposure, ApiError> {
        let missing = || ApiError::not_found("impact limit");
        let id = LimitId::parse(id).ok_or_else(missing)?;
        self.exposures.iter().find(|known| known.id == id).ok_or_else(missing)
    }

    /// What an operator wrote is changed where it was written.
    fn made_here(&self, known: &Exposure) -> Result<(), ApiError> {
        let name = &known.limit.name;
        if self.names.contains(name) {
            return Ok(());
        }
        let message = format!(
            "limit {name} is declared in the configuration: change it there, [limits.{name}]. Nothing was changed."
        );
        Err(ApiError::new(ErrorCode::Conflict, message).with_details(json!({ "reason": "declared_in_file" })))
    }

    /// The file as it will be: every limit that it has now, without some, with others.
    fn edit(&self, with: &[&Limit], without: &[&str]) -> Vec<ManagedEdit> {
        let kept =
            self.exposures.iter().filter(|known| known.archived_at.is_none()).map(|known| &known.limit);
        let kept =
            kept.filter(|limit| self.names.contains(&limit.name) && !without.contains(&limit.name.as_str()));
        vec![managed::edit(kept.chain(with.iter().copied()))]
    }
}

fn limit(snapshot: &Snapshot, new: New) -> Result<Limit, ApiError> {
    let action = new.action_name.as_deref().map(|name| {
        ActionName::parse(name)
            .filter(|name| snapshot.config.actions.contains_key(name))
            .ok_or_else(|| ApiError::parameter("actionName", "a declared action"))
    });
    Ok(Limit {
        name: body::text("name", &new.name, NAME_CHARS_MAX)?,
        dimension: dimension(None, &new.dimension, new.currency.as_deref(), new.unit.as_deref())?,
        period: Period::parse(&new.period)
            .ok_or_else(|| ApiError::parameter("period", "day, month or total"))?,
        amount: not_negative(new.amount)?,
        action: action.transpose()?,
        resource_prefix: body::maybe_text("resourcePrefix", new.resource_prefix.as_ref(), PREFIX_CHARS_MAX)?,
    })
}

fn not_negative(amount: i64) -> Result<i64, ApiError> {
    if amount < 0 { Err(ApiError::parameter("amount", "a whole number, 0 or more")) } else { Ok(amount) }
}

fn taken(name: &str) -> ApiError {
    ApiError::new(ErrorCode::Conflict, format!("another limit is called {name}"))
        .with_details(json!({ "reason": "name_taken" }))
}
