//! Tasks of the runtime, and work behind a pointer.
//!
//! The code of an `async fn` is compiled wherever it is waited for: by tokio once for each kind of runtime, and again in
//! each crate that starts it. Behind a pointer there is one of it.

use std::pin::Pin;

use tokio::task::JoinHandle;

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
