//! Tasks of the runtime, and work behind a pointer.
//!
//! The code of an `async fn` is compiled wherever it is waited for: by tokio once for each kind of runtime, and again in
//! each crate that starts it. Behind a pointer there is one of it.

use std::pin::Pin;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, JoinHandle};

/// Work that any thread can do, whatever it is made of.
pub type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Starts a task.
pub(crate) fn start<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(apart(work))
}

/// Puts work behind a pointer.
pub(crate) fn apart<T>(work: impl Future<Output = T> + Send + 'static) -> Work<T> {
    Box::pin(work)
}

/// Does what waits for a disk in a thread of its own, so that it keeps no task waiting. A runtime of one thread, as
/// simulations have it, does it at once: when another thread is done is up to the machine, and their clock is not.
///
/// # Errors
/// It has panicked, or the runtime ends.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}
