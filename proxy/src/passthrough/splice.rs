//! Two streams as one, both ways, until they end.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::frames::Frames;
// Clients and servers that mean to stay send pings.
use crate::upstream::silence::IDLE_MAX;

/// Bytes on their way in each direction: a peer that does not read stops the other one.
const BUFFER: usize = 16 * 1024;
/// Once one side has ended, the other one may say goodbye for so long.
pub(super) const GOODBYE_MAX: Duration = Duration::from_secs(10);

/// Carries bytes both ways until both sides have ended, nothing was said for [`IDLE_MAX`], or `withdrawn` says why not
/// to go on. What the provider says goes through `frames`; what the agent says goes as it is.
///
/// # Errors
/// Why it ended before both sides had.
pub(super) async fn splice<A, P>(
    agent: A,
    provider: P,
    mut frames: Option<Frames>,
    withdrawn: impl Future<Output = &'static str>,
) -> Result<(), String>
where
    A: AsyncRead + AsyncWrite,
    P: AsyncRead + AsyncWrite,
{
    let (mut from_agent, mut to_agent) = tokio::io::split(agent);
    let (mut from_provider, mut to_provider) = tokio::io::split(provider);
    let stirred = Notify::new();
    let both = async {
        let there = carry(&mut from_agent, &mut to_provider, None, &stirred);
        let back = carry(&mut from_provider, &mut to_agent, frames.as_mut(), &stirred);
        let (mut there, mut back) = (std::pin::pin!(there), std::pin::pin!(back));
        let goodbye = tokio::select! {
            ended = there.as_mut() => { ended?; tokio::time::timeout(GOODBYE_MAX, back).await }
            ended = back.as_mut() => { ended?; tokio::time::timeout(GOODBYE_MAX, there).await }
        };
        goodbye.unwrap_or(Ok(()))
    };
    tokio::select! {
        ended = both => ended.map_err(|error: io::Error| error.to_string()),
        () = idle(&stirred) => Err("nothing was said for too long".to_owned()),
        why = withdrawn => Err(why.to_owned()),
    }
}

async fn carry<R, W>(
    from: &mut R,
    to: &mut W,
    mut frames: Option<&mut Frames>,
    stirred: &Notify,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(BUFFER);
        if (&mut *from).take(BUFFER as u64).read_buf(&mut buffer).await? == 0 {
            return to.shutdown().await;
        }
        stirred.notify_one();
        let came: Bytes = buffer.split().freeze();
        match &mut frames {
            None => to.write_all(&came).await?,
            Some(frames) => to.write_all(&frames.push(came)?).await?,
        }
        to.flush().await?;
    }
}

/// Ends when nothing was stirred for [`IDLE_MAX`].
async fn idle(stirred: &Notify) {
    while tokio::time::timeout(IDLE_MAX, stirred.notified()).await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    /// Agent and provider at the ends of a splice.
    fn spliced() -> (DuplexStream, DuplexStream, tokio::task::JoinHandle<Result<(), String>>) {
        let (agent, here) = duplex(1024);
        let (there, provider) = duplex(1024);
        let task = tokio::spawn(splice(here, there, None, std::future::pending()));
        (agent, provider, task)
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_it_and_one_side_that_speaks_does_not() {
        let (agent, mut provider, task) = spliced();
        let began = Instant::now();
        let mut agent = agent;
        for _ in 0..3 {
            tokio::time::sleep(IDLE_MAX / 2).await;
            provider.write_all(b"ping").await.unwrap();
            let mut heard = [0; 4];
            agent.read_exact(&mut heard).await.unwrap();
        }
        assert_eq!(task.await.unwrap().unwrap_err(), "nothing was said for too long");
        assert!(began.elapsed() >= IDLE_MAX / 2 * 3 + IDLE_MAX);
        assert_eq!(provider.read(&mut [0]).await.unwrap(), 0, "both sides are told");
    }

    #[tokio::test(start_paused = true)]
    async fn who_ends_is_heard_out_for_a_moment() {
        let (mut agent, mut provider, task) = spliced();
        agent.write_all(b"bye").await.unwrap();
        agent.shutdown().await.unwrap();
        let mut heard = Vec::new();
        provider.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"bye");
        provider.write_all(b"bye too").await.unwrap();
        let began = Instant::now();
        let mut heard = [0; 7];
        agent.read_exact(&mut heard).await.unwrap();
        task.await.unwrap().unwrap();
        assert_eq!(began.elapsed(), GOODBYE_MAX, "the provider does not close, and is not waited for");
    }
}
