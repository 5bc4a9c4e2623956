//! Oncegate: what an AI agent writes is sent at most once, and what is not known is recorded as not known.
//!
//! Read [`pipeline`] first: one governed request, from top to bottom. The modules in reading order.

pub mod pipeline;
pub mod front;
pub mod receive;
pub mod meaning;
pub mod asking;
pub mod plan;
pub mod inject;
pub mod upstream;
pub mod said;
pub mod respond;
pub mod passthrough;
pub mod reconciler;
pub mod let_through;

pub mod listener;
pub mod connection;
pub mod tunnel;
pub mod canned;

pub mod state;
pub mod adapting;
pub mod secrets;
pub mod scrub;
pub mod clock;
pub mod serve;
pub mod load;

pub mod control;
pub mod cli;
pub mod demo;
