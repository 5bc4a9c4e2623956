//! What the suites stand on: a provider that does as it is told, an agent that speaks raw HTTP, and the real
//! sidecar as a child process. Black box: nothing here uses a crate of ours.
//!
//! Everything listens on 127.0.0.1 with a port chosen by the system, every wait is bounded, and tests wait for
//! events (a request arrived, a gate was opened), never for time to pass.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on must stop"
)]

pub mod agent;
pub mod answer;
pub mod binary;
pub mod ca;
pub mod canary;
pub mod conf;
pub mod dead;
pub mod encodings;
pub mod gate;
pub mod github;
pub mod provider;
pub mod record;
pub mod resend;
mod rows;
pub mod script;
pub mod sidecar;
pub mod stripe;
pub mod wait;
pub mod wire;
