//! What is bound at the start and stays as it is until the process ends.

use oncegate_config::model::{Config, Control};

/// Puts back what is bound for as long as the process lives, and names what somebody wanted otherwise.
pub(super) fn keep(running: &Config, next: &mut Config) -> Vec<&'static str> {
    let mut named = Vec::new();
    let mut same_or_named = |name: &'static str, same: bool| {
        if !same {
            named.push(name);
        }
    };
    same_or_named("[proxy] listen", running.proxy.listen == next.proxy.listen);
    same_or_named("[proxy] max_connections", running.proxy.max_connections == next.proxy.max_connections);
    same_or_named("[control] listen", running.control.listen == next.control.listen);
    same_or_named("[log]", running.log == next.log);
    same_or_named("[otel]", running.otel == next.otel);
    same_or_named("[store]", running.store == next.store);
    same_or_named(
        "[reconcile] first_after, max_interval",
        running.reconcile.schedule == next.reconcile.schedule,
    );
    same_or_named("[vault]", running.vault_key == next.vault_key);
    same_or_named("[ca]", (&running.ca_dir, &running.trust_dir) == (&next.ca_dir, &next.trust_dir));
    // A caller's listener that is taken away lets nobody in from now on; only a new one has to wait.
    let listens = |(name, caller): (_, &oncegate_config::model::Caller)| {
        let bound = running.callers.get(name);
        let plain = bound.and_then(|known| known.listen.as_ref());
        let transparent = bound.and_then(|known| known.transparent_listen);
        (caller.listen.is_none() || caller.listen.as_ref() == plain)
            && (caller.transparent_listen.is_none() || caller.transparent_listen == transparent)
    };
    same_or_named("[callers] listen, transparent_listen", next.callers.iter().all(listens));
    next.proxy.listen = running.proxy.listen;
    next.proxy.max_connections = running.proxy.max_connections;
    // What protects a listener goes with its address: another one's must not open this one.
    if running.control.listen != next.control.listen {
        next.control = Control { respond_within: next.control.respond_within, ..running.control.clone() };
    }
    next.log = running.log;
    next.otel.clone_from(&running.otel);
    next.store = running.store.clone();
    next.reconcile.schedule = running.reconcile.schedule;
    next.vault_key.clone_from(&running.vault_key);
    next.ca_dir.clone_from(&running.ca_dir);
    next.trust_dir.clone_from(&running.trust_dir);
    named
}
