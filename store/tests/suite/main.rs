//! What the memory promises, tried on real files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests; clippy.toml covers test functions only"
)]

mod approvals;
mod bounds;
mod by_hand;
mod chain;
mod crash;
mod evidence;
mod fence;
mod holds;
mod identity;
mod keys;
mod law;
mod limits;
mod limits_renamed;
mod looks;
mod model;
mod partly;
mod plain;
mod prepared;
mod previews;
mod replays;
mod rules;
#[cfg(feature = "failpoints")]
mod stops;
mod support;
mod tally;
mod upgrade;
mod upkeep;
mod views;
