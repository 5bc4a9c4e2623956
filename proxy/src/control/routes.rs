//! Every route of the control listener, in one table: the router is built from it, keys and scopes are asked for by
//! it, and the tests walk it. A route that is not here is not served.

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, patch, post, put};
use oncegate_config::model::Config;
use oncegate_policy::caller::Scope;

use super::{
    BODY_BYTES_MAX, actions, actions_write, approvals, effects, environment, health, identity, import,
    invocations, invoke, limits, limits_write, metrics, previews, resolving, secrets,
};
use crate::state::Sidecar;

/// Where the API begins; `/healthz` and its like stand beside it.
pub const PREFIX: &str = "/api/v2";

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody: nothing is told.
    Open,
    /// Whoever has a key.
    Key,
    /// A key, unless `[control] metrics = "open"`.
    Metrics,
    /// A key with this scope.
    Scoped(Scope),
}

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Upper case.
    pub method: &'static str,
    /// From the root, with `{name}` where an id stands.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
}

/// A group of routes and the router that serves exactly these.
macro_rules! routes {
    ($(#[$about:meta])* $table:ident $router:ident $prefix:literal $($method:ident $path:literal $access:expr => $handler:path;)*) => {
        $(#[$about])*
        pub const $table: &[Route] =
            &[$(Route { method: upper!($method), path: concat!($prefix, $path), access: $access }),*];

        pub(super) fn $router() -> Router<Arc<Sidecar>> {
            Router::new()$(.route($path, $method($handler)))*
        }
    };
}

macro_rules! upper {
    (get) => {
        "GET"
    };
    (post) => {
        "POST"
    };
    (put) => {
        "PUT"
    };
    (patch) => {
        "PATCH"
    };
    (delete) => {
        "DELETE"
    };
}

use Access::{Key, Metrics, Open, Scoped};
use Scope::{
    ActionsGovern, ActionsInvoke, ActionsResolve, ApprovalsDecide, EnvironmentsHalt, ImpactLimitsWrite,
    SecretsWrite,
};

routes! {
    /// Whether the process lives and works.
    HEALTH health_routes ""
    get "/healthz" Open => health::alive;
    get "/readyz" Open => health::ready;
}

routes! {
    /// What monitoring reads.
    WATCHING watching_routes ""
    get "/metrics" Metrics => metrics::show;
}

routes! {
    /// What changes nothing, and what is safe to repeat without a key of its own.
    PLAIN plain_routes "/api/v2"
    get "/auth/identity" Key => identity::show;
    get "/actions" Key => actions::list;
    get "/actions/{ref}" Key => actions::get;
    post "/actions/{ref}/invoke" Scoped(ActionsInvoke) => invoke::invoke;
    get "/actions/{ref}/versions" Key => actions_write::versions;
    get "/actions/previews/{id}" Key => previews::get;
    get "/actions/{ref}/invocations" Key => invocations::of_action;
    get "/actions/invocations" Key => invocations::list;
    get "/actions/invocations/{id}" Key => invocations::get;
    get "/actions/effects" Key => effects::list;
    get "/actions/effects/{id}" Key => effects::get;
    get "/approvals" Key => approvals::list;
    get "/approvals/{id}" Key => approvals::get;
    get "/impact-limits" Key => limits::list;
    post "/impact-limits" Scoped(ImpactLimitsWrite) => limits_write::create;
    get "/impact-limits/{id}" Key => limits::get;
    patch "/impact-limits/{id}" Scoped(ImpactLimitsWrite) => limits_write::change;
    delete "/impact-limits/{id}" Scoped(ImpactLimitsWrite) => limits_write::archive;
    get "/secrets" Key => secrets::list;
    put "/secrets/{name}" Scoped(SecretsWrite) => secrets::put;
    get "/secrets/{name}" Key => secrets::get;
    delete "/secrets/{name}" Scoped(SecretsWrite) => secrets::delete;
    get "/environment" Key => environment::get;
    post "/environment/halt" Scoped(EnvironmentsHalt) => environment::halt;
    post "/environment/resume" Scoped(EnvironmentsHalt) => environment::resume;
    post "/environment/prune" Scoped(ActionsGovern) => environment::prune;
    get "/audit/verify" Scoped(ActionsResolve) => environment::verify;
}

routes! {
    /// What clients send again under one `Idempotency-Key` when the answer is lost.
    ONCE once_routes "/api/v2"
    post "/actions" Scoped(ActionsGovern) => actions_write::create;
    patch "/actions/{ref}" Scoped(ActionsGovern) => actions_write::change;
    delete "/actions/{ref}" Scoped(ActionsGovern) => actions_write::remove;
    post "/actions/import" Scoped(ActionsGovern) => import::import;
    post "/actions/{ref}/previews" Scoped(ActionsInvoke) => previews::make;
    post "/actions/previews/{id}/refresh" Scoped(ActionsInvoke) => previews::refresh;
    post "/actions/invocations/{id}/resolve" Scoped(ActionsResolve) => invocations::resolve;
    post "/actions/effects/{id}/reconcile" Scoped(ActionsInvoke) => effects::reconcile;
    post "/actions/effects/{id}/notes" Scoped(ActionsResolve) => resolving::note;
    post "/actions/effects/{id}/resolve" Scoped(ActionsResolve) => resolving::resolve;
    post "/actions/effects/{id}/replay" Scoped(ActionsResolve) => resolving::replay;
    post "/approvals" Scoped(ActionsInvoke) => approvals::ask;
    post "/approvals/{id}/approve" Scoped(ApprovalsDecide) => approvals::approve;
    post "/approvals/{id}/deny" Scoped(ApprovalsDecide) => approvals::deny;
}

/// Every route.
pub fn all() -> impl Iterator<Item = &'static Route> {
    [HEALTH, WATCHING, PLAIN, ONCE].into_iter().flatten()
}

/// Most bytes of a request's body, by the path as the router matched it.
pub(super) fn body_bytes_max(matched: &str, config: &Config) -> usize {
    match matched {
        "/api/v2/actions/import" => import::BYTES_MAX,
        // It holds an input, as an invocation does.
        "/api/v2/actions/{ref}/previews" => config.proxy.max_request_body.max(BODY_BYTES_MAX),
        _ => BODY_BYTES_MAX,
    }
}

/// What is asked of whoever calls this method of a path, as the router matched it.
pub(super) fn access(method: &str, matched: &str) -> Option<Access> {
    // A HEAD is served by the handler of GET.
    let method = if method == "HEAD" { "GET" } else { method };
    all().find(|route| route.method == method && route.path == matched).map(|route| route.access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_route_stands_twice_and_only_health_is_open() {
        let mut seen = std::collections::BTreeSet::new();
        for route in all() {
            assert!(seen.insert((route.path, route.method)), "{route:?}");
            let beside = HEALTH.contains(route) || WATCHING.contains(route);
            assert_eq!(route.path.starts_with(PREFIX), !beside, "{route:?}");
            assert_eq!(route.access == Open, HEALTH.contains(route), "{route:?}");
        }
        assert_eq!(access("HEAD", "/api/v2/actions"), Some(Key));
        assert_eq!(access("PUT", "/api/v2/actions"), None);
    }

    /// What stands in `docs/openapi.json` of a route: its method, path and who may call it.
    fn described() -> std::collections::BTreeSet<(String, String, String)> {
        let document: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
        let mut all = std::collections::BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let security = operation.get("security").map(|ways| ways.as_array().unwrap().len());
                let scope = operation.get("x-scope").map(|scope| scope.as_str().unwrap());
                let access = scope.unwrap_or(match security {
                    None => "key",
                    Some(0) => "open",
                    // With a key, or without.
                    Some(_) => "metrics",
                });
                all.insert((method.to_uppercase(), path.clone(), access.to_owned()));
            }
        }
        all
    }

    #[test]
    fn the_description_has_every_route_and_no_other() {
        let served = all().map(|route| {
            let access = match route.access {
                Open => "open",
                Key => "key",
                Access::Metrics => "metrics",
                Scoped(scope) => scope.word(),
            };
            (route.method.to_owned(), route.path.to_owned(), access.to_owned())
        });
        assert_eq!(served.collect::<std::collections::BTreeSet<_>>(), described());
    }
}
