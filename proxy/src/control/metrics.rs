//! `GET /metrics`: what was counted, and what the record says now, for Prometheus.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use oncegate_policy::effect::Outcome;
use oncegate_store::read::EffectFilter;
use oncegate_store::view::Exposure;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::answer::ApiError;
use crate::metrics::{self, Labels};
use crate::state::Sidecar;

/// OpenMetrics 1.0, which Prometheus reads.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /metrics`
pub(crate) async fn show(State(sidecar): State<Arc<Sidecar>>) -> Result<Response, ApiError> {
    let mut now = Registry::with_prefix("oncegate");
    unknown(&sidecar, &mut now).await?;
    exposures(&super::limits::exposures(&sidecar).await?, &mut now);
    process(&sidecar, &mut now).await?;
    let text = sidecar.metrics.text(&now).map_err(|error| ApiError::internal("write the metrics", &error))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// How many effects are unknown or wait for a person, and how long the oldest unknown is.
async fn unknown(sidecar: &Arc<Sidecar>, now: &mut Registry) -> Result<(), ApiError> {
    let list = async |filter: EffectFilter| {
        let found = sidecar.store.list(filter).await;
        found.map_err(|error| ApiError::internal("count effects", &error))
    };
    let unknown = |offset| EffectFilter {
        outcome: Some(Outcome::Unknown),
        limit: 1,
        offset,
        ..EffectFilter::default()
    };
    let newest = list(unknown(0)).await?;
    // Newest first: the last one is the oldest. It may be settled between the two readings; then there is none.
    let last = u32::try_from(newest.total.saturating_sub(1)).unwrap_or(u32::MAX);
    let oldest = list(unknown(last)).await?;
    let since = oldest.effects.first().and_then(|effect| effect.unknown_since);
    let age = since.map_or(0.0, |since| sidecar.clock.now().since(since).as_secs_f64());
    let stage = Some("awaiting_approval".to_owned());
    let waiting = list(EffectFilter { stage, limit: 1, ..EffectFilter::default() }).await?;
    gauge(now, "effects_unknown", "Effects whose outcome is not known", newest.total);
    let oldest = Gauge::<f64, AtomicU64>::default();
    oldest.set(age);
    now.register("effects_unknown_oldest_seconds", "How long the oldest of them is not known", oldest);
    gauge(now, "effects_awaiting_approval", "Effects that wait for a person", waiting.total);
    Ok(())
}

fn exposures(exposures: &[Exposure], now: &mut Registry) {
    let family = |now: &mut Registry, name: &str, help: &str| {
        let family = Family::<Labels, Gauge>::default();
        now.register(name, help, family.clone());
        family
    };
    let limit = family(now, "limit_amount", "What a limit allows in its period");
    let consumed = family(now, "limit_consumed", "What is consumed of it in this period");
    let held = family(now, "limit_held", "What is held by effects on their way or unknown");
    let unknown = family(now, "limit_unknown", "The part of what is held whose effect is unknown");
    let available = family(now, "limit_available", "What is left of it");
    for one in exposures.iter().filter(|one| one.archived_at.is_none()) {
        let labels: Labels = vec![
            ("limit", one.limit.name.clone()),
            ("period", one.limit.period.word().to_owned()),
            ("unit", one.limit.dimension.unit().to_owned()),
        ];
        limit.get_or_create(&labels).set(one.limit.amount);
        consumed.get_or_create(&labels).set(one.usage.consumed);
        held.get_or_create(&labels).set(one.usage.reserved);
        unknown.get_or_create(&labels).set(one.usage.unknown_exposure);
        available.get_or_create(&labels).set(one.available());
    }
}

async fn process(sidecar: &Arc<Sidecar>, now: &mut Registry) -> Result<(), ApiError> {
    let halted = sidecar.store.halted().await;
    let halted = halted.map_err(|error| ApiError::internal("read whether writes are halted", &error))?;
    gauge(now, "halted", "1 while all writes are halted", u64::from(halted.is_some()));
    gauge(now, "reload_faults", "Reloads that failed since the start", sidecar.files.faults());
    let (destinations, idle) = sidecar.pool.sizes();
    gauge(now, "pool_destinations", "Servers with an idle connection", destinations as u64);
    gauge(now, "pool_idle_connections", "Idle connections to providers", idle as u64);
    let on_the_wire = sidecar.on_the_wire.count();
    gauge(now, "dispatches_on_the_wire", "Dispatches whose socket is still read", on_the_wire as u64);
    let lost = ConstCounter::new(metrics::log_lines_lost());
    now.register("log_lines_lost", "Lines of the log that could not be written", lost);
    let version = Family::<Labels, Gauge>::default();
    version.get_or_create(&vec![("version", env!("CARGO_PKG_VERSION").to_owned())]).set(1);
    now.register("build", "The version that runs", version);
    Ok(())
}

fn gauge(now: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<i64>::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    now.register(name, help, gauge);
}
