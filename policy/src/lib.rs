//! The law: every word, table and decision of Oncegate, as pure functions.
//!
//! Nothing here reads a clock, opens a socket or touches a file. Values come in, values go out; what may
//! run, repeat, wait and settle is decided here and only here. Modules in reading order.

pub mod id;
pub mod time;
pub mod caller;
pub mod action;
pub mod impact;
pub mod limit;
pub mod refusal;
pub mod effect;
pub mod exchange;
pub mod classify;
pub mod admission;
pub mod reconcile;

pub mod authority;
pub mod path;
pub mod query;
pub mod json;
pub mod form;
pub mod fingerprint;
pub mod template;
pub mod check;
pub mod url_template;
pub mod router;
pub mod body;
pub mod identity;
