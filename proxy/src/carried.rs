//! A governed request on its way, moved by the connection that waits for its answer.
//!
//! It needs no task of its own for as long as somebody waits: nothing is handed from one task to another, and no other
//! thread is woken for it. Whoever stops waiting leaves it to a task of its own, in which it goes on to its end: hanging
//! up changes nothing (P9).

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::said::{Answering, Said};
use crate::task::{self, Work};

/// Waits for what is said of a request, and moves it meanwhile.
pub struct Carried {
    /// `None` when it has ended.
    rest: Option<Work<()>>,
    answer: oneshot::Receiver<Said>,
}

impl Carried {
    /// The way of a request that answers through what it is given.
    pub fn new<F>(way: impl FnOnce(Answering) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (answering, answer) = Answering::channel();
        Self { rest: Some(task::apart(way(answering))), answer }
    }

    /// Moves it. Whether it has ended; a defect that ends it in a panic ends it alone, as in a task.
    fn moved(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(rest) = &mut self.rest else { return true };
        // It is not touched again after a panic.
        catch_unwind(AssertUnwindSafe(|| rest.as_mut().poll(cx))).map_or(true, |moved| moved.is_ready())
    }
}

impl Future for Carried {
    /// `None` when it ended without a word.
    type Output = Option<Said>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Said>> {
        if self.moved(cx) {
            self.rest = None;
        }
        Pin::new(&mut self.answer).poll(cx).map(Result::ok)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if let (Some(rest), Ok(runtime)) = (self.rest.take(), Handle::try_current()) {
            runtime.spawn(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncegate_policy::refusal::{Code, Refusal};
    use tokio::sync::oneshot::{Receiver, Sender, channel};

    use super::*;

    fn word() -> Said {
        Said::Refused(Refusal::new(Code::Denied, "No."))
    }

    /// One that waits for `go`, says its word, waits for `end`, and tells that it has come to its end.
    fn way(answering: Answering, go: Receiver<()>, end: Receiver<()>, ended: Sender<()>) -> Work<()> {
        let mut answering = answering;
        Box::pin(async move {
            go.await.unwrap();
            answering.give(word());
            end.await.unwrap();
            ended.send(()).unwrap();
        })
    }

    async fn soon<T>(what: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(20), what).await.expect("it comes")
    }

    #[tokio::test]
    async fn who_hangs_up_before_the_answer_leaves_it_to_its_end() {
        let ((go, going), (end, ending), (ended, has_ended)) = (channel(), channel(), channel());
        let mut carried = Carried::new(|answering| way(answering, going, ending, ended));
        let begun =
            std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut carried).poll(cx).is_pending())).await;
        assert!(begun, "it waits");
        drop(carried);
        go.send(()).unwrap();
        end.send(()).unwrap();
        soon(has_ended).await.unwrap();
    }

    #[tokio::test]
    async fn one_that_was_never_moved_goes_on_as_well() {
        let ((go, going), (end, ending), (ended, has_ended)) = (channel(), channel(), channel());
        drop(Carried::new(|answering| way(answering, going, ending, ended)));
        go.send(()).unwrap();
        end.send(()).unwrap();
        soon(has_ended).await.unwrap();
    }

    #[tokio::test]
    async fn what_follows_the_answer_keeps_nobody_waiting() {
        let ((go, going), (end, ending), (ended, has_ended)) = (channel(), channel(), channel());
        go.send(()).unwrap();
        let said = soon(Carried::new(|answering| way(answering, going, ending, ended))).await;
        assert!(matches!(said, Some(Said::Refused(_))));
        end.send(()).unwrap();
        soon(has_ended).await.unwrap();
    }

    #[tokio::test]
    async fn a_defect_ends_it_alone() {
        let (broken, is_broken) = channel::<()>();
        drop(broken);
        let said = soon(Carried::new(|answering| async move {
            let _answering = answering;
            is_broken.await.unwrap();
        }));
        assert!(said.await.is_none());
    }
}
