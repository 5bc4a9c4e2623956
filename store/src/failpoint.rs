//! Named places at which a test stops the process, as a power cut would. Compiled in with the cargo feature
//! `failpoints` only.

/// Every place of the store, with what has happened when the process stops there.
pub const NAMES: &[(&str, &str)] = &[
    ("before_commit", "an admission is written and not committed: nothing of it may be found later"),
    ("after_commit", "an admission is durable and its permit not handed out: no byte has left"),
    ("after_send", "the request was written and no answer read (hit by the proxy)"),
    ("before_record", "the provider answered and nothing was written yet (hit by the proxy)"),
    ("before_record_commit", "the provider answered and the outcome is not committed"),
    ("after_record_commit", "the outcome is durable and nobody was told"),
    ("before_sweep_commit", "interrupted dispatches are marked and not committed"),
    ("after_sweep_commit", "interrupted dispatches are unknown and nobody was told"),
    ("before_finding_commit", "a read-back ended and its finding is not committed"),
    ("after_finding_commit", "a finding is durable and nobody was told"),
    ("before_resolve_commit", "a person's word is not committed"),
    ("after_resolve_commit", "a person's word is durable and the person was not told"),
    ("before_approve_commit", "an approval is not committed"),
    ("after_approve_commit", "an approval is durable and its dispatch not claimed"),
    ("before_replay_commit", "a replay is written and not committed: no byte has left"),
    ("after_replay_commit", "a replay is durable and its permit not handed out"),
];

/// Stops the process here if `ONCEGATE_FAILPOINT` is `<name>=abort`.
#[cfg(feature = "failpoints")]
pub fn hit(name: &str) {
    let chosen = std::env::var("ONCEGATE_FAILPOINT").unwrap_or_default();
    if chosen.split_once('=') == Some((name, "abort")) {
        std::process::abort();
    }
}

/// Does nothing: the feature `failpoints` is off.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn hit(_name: &str) {}
