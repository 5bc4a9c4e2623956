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
mod chains;
mod cuts;
mod cutting;
mod naive;
mod random;
mod spellings;
mod ssrf;
mod stalls;
mod trust;
mod verdicts;
