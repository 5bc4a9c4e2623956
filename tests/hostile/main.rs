//! A hostile world, on real sockets against the real binary: cut wires, forged requests, addresses that must not be
//! reached, and providers that do not prove their name. Each suite holds one planted defect that its own checker
//! has to find.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a test that cannot go on must stop"
)]

mod asking;
mod attack;
mod chains;
mod corpus;
mod cuts;
mod cutting;
mod forge;
mod lax;
mod naive;
mod one_reading;
mod origin;
mod random;
mod reading;
mod sense;
mod spellings;
mod splitting;
mod ssrf;
mod stalls;
mod trust;
mod verdicts;
