//! What a child process does: serve, say where, and end when its standard input does.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use oncegate::serve::Options;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use crate::floor::Floor;
use crate::{During, Failure};

/// Oncegate, as `oncegate serve` runs it, with the configuration in `dir`. Logs at its default level.
///
/// # Errors
/// It could not start.
pub async fn oncegate(dir: &Path) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("info"))
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false)
        .fmt_fields(oncegate::log_fields::Plain)
        .try_init()
        .during("start logging")?;
    let loaded = oncegate::load::load(&dir.join("oncegate.toml")).during("read the configuration")?;
    let running = oncegate::serve::start(loaded, Options::default()).await.during("start oncegate")?;
    say(running.proxy_addr())?;
    until_told().await;
    running.stop().await;
    Ok(())
}

/// A floor.
///
/// # Errors
/// It could not start.
pub async fn floor(dir: &Path, origin: SocketAddr, journal: bool) -> Result<(), Failure> {
    let floor = Floor::bind(dir, origin, journal).await?;
    say(floor.addr().during("bind the floor")?)?;
    tokio::select! {
        () = floor.serve() => Err(Failure::new("serve the floor", "it cannot accept connections any more")),
        () = until_told() => Ok(()),
    }
}

fn say(addr: SocketAddr) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{addr}").and_then(|()| out.flush()).during("say where this listens")
}

/// Until the parent closes our input, or is gone.
async fn until_told() {
    let (end, ended) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        // Nothing is ever written to it; an error is an end as well.
        drop(std::io::stdin().read(&mut [0_u8; 16]));
        drop(end);
    });
    ended.await.unwrap_or_default();
}
