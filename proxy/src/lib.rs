//! Oncegate: what an AI agent writes is sent at most once, and what is not known is recorded as not known.
//!
//! Read [`pipeline`] first: one governed request, from top to bottom. Then `prepare`, `plan`, `reconciler` and `let_through`.

pub mod arriving;
pub mod as_prepared;
pub mod asking;
pub mod carried;
pub mod drill;
pub mod editions;
mod fits;
pub mod front;
pub mod git;
pub mod in_flight;
pub mod inject;
pub mod invoking;
mod lapsing;
pub mod let_through;
pub mod links;
pub mod meaning;
pub mod meant;
pub mod passthrough;
pub mod pipeline;
pub mod plain;
pub mod plan;
pub mod prepare;
pub mod preview;
pub mod read;
pub mod receive;
pub mod reconciler;
pub mod respond;
pub mod said;
pub mod unrecorded;
pub mod upstream;

pub mod awaited;
mod begun;
pub mod canned;
pub mod connection;
pub mod descriptors;
pub mod head_timer;
pub mod listener;
pub mod own;
pub mod peeked;
pub mod peer;
pub mod places;
pub mod probe;
pub mod relay;
pub mod run_port;
pub mod sockets;
pub mod transparent;
pub mod tunnel;

pub mod adapting;
pub mod clock;
mod definition;
pub mod durable;
pub mod load;
pub mod log_fields;
pub mod logged;
pub mod metrics;
pub mod proof;
pub mod put_off;
pub mod reload;
pub mod run_tokens;
pub mod scrub;
pub mod secrets;
pub mod serve;
pub mod sigv4;
pub mod state;
pub mod taken_over;
pub mod task;
pub mod traced;
pub mod unpack;
pub mod vault;

pub mod cli;
pub mod control;
pub mod demo;
