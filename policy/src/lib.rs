//! The law: every word, table and decision of Oncegate, as pure functions.
//!
//! Nothing here reads a clock, opens a socket or touches a file. Values come in, values go out; what may
//! run, repeat, wait and settle is decided here. Read `effect`, `admission`, `classify` and `reconcile` first.

pub mod action;
pub mod admission;
pub mod caller;
pub mod classify;
pub mod effect;
pub mod exchange;
mod git_report;
pub mod id;
pub mod impact;
pub mod limit;
pub mod money;
pub mod near;
pub mod plain;
pub mod preview;
pub mod reconcile;
pub mod refusal;
pub mod time;
pub mod told;

pub mod authority;
pub mod body;
pub mod check;
pub mod fingerprint;
pub mod form;
pub mod identity;
pub mod json;
pub mod other_method;
pub mod path;
pub mod query;
pub mod router;
pub mod template;
pub mod url_template;
