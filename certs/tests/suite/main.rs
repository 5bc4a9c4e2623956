//! The crate through its public interface: what it mints is read by another parser and judged by a TLS
//! client that knows nothing but the CA.
#![cfg(test)]

mod authority;
mod bundle;
mod handshake;
mod leaves;
mod operator;
mod profile;
mod support;
mod upstream;
