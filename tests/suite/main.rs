//! The promises of DESIGN section 1, and the thread of the lost refund, on real sockets against the real binary.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a test that cannot go on must stop"
)]

mod adapter_declared;
mod adapter_github;
mod adapter_github_write;
mod adapter_resend;
mod adapter_stripe_write;
mod api_actions;
mod api_guard;
mod api_import;
mod api_invoke;
mod api_plain;
mod api_previews;
mod api_routing;
mod api_settling;
mod api_strict;
mod bad_input;
mod bodies_of_reads;
mod canary;
mod cases;
mod classification;
mod classification_slow;
mod commands;
mod concurrency;
mod control_listener;
mod control_places;
mod core_dump;
mod counting;
mod crash;
mod credentials_named;
mod credentials_oauth;
mod credentials_sigv4;
mod degraded;
mod degraded_disk;
mod degraded_process;
mod degraded_record;
mod deploy;
mod descriptors;
mod doctor;
mod drills;
mod elsewhere;
mod governed_reads;
mod harness;
mod identity;
mod java;
mod law;
mod law_approvals;
mod law_evidence;
mod law_halt;
mod law_limits;
mod law_limits_cut;
mod law_links;
mod law_replay;
mod law_replay_window;
mod law_resolve;
mod listener;
mod lost_refund;
mod matching;
mod names_of_fields;
mod neighbours;
mod observed;
mod other_names;
mod other_readings;
mod passthrough_packed;
mod passthrough_stream;
mod passthrough_trailers;
mod passthrough_websocket;
mod planted_secret;
mod promises;
mod promises_kept;
mod python;
mod query_and_body;
mod reconciling;
mod refusals;
mod reload;
mod secrets;
mod shop;
mod taken_over;
mod traced;
mod transparent;
mod visible;
mod when_unread;
