//! The provider of a soak: it takes refunds, counts what it applied, and answers as badly as it is told to. It ignores
//! keys: what arrives twice is applied twice.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use oncegate_tests::conf::CREDENTIAL;
use oncegate_tests::script::answer;
use oncegate_tests::wire::Wire;
use rustix::net::sockopt;
use serde_json::{Value, json};

use crate::failure::{During, Failure};
use crate::soak::books::Books;

/// For a peer to write or to read, and for all connections to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many ticks after it was applied something is listed, while the list lags.
const LAG_TICKS: u64 = 4;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    LostAnswer,
    ResetMidAnswer,
    Garbled,
    FailedAfterApply,
    FailedWithoutApply,
    Declined,
    ResetUnapplied,
    Slow,
    NoAnswer,
    KeptClosed,
    ListLags,
    LookFails,
    Refused,
}

impl Fault {
    pub(crate) const ALL: [Self; 13] = [
        Self::LostAnswer,
        Self::ResetMidAnswer,
        Self::Garbled,
        Self::FailedAfterApply,
        Self::FailedWithoutApply,
        Self::Declined,
        Self::ResetUnapplied,
        Self::Slow,
        Self::NoAnswer,
        Self::KeptClosed,
        Self::ListLags,
        Self::LookFails,
        Self::Refused,
    ];
}

/// How an answer goes out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    Whole,
    /// At the next tick.
    Late,
    /// When the other side has given up.
    Never,
    /// Not at all: the connection ends.
    Nowhere,
    Reset,
    /// Half of it, then a reset.
    Half,
    /// As something that is no HTTP.
    Garbled,
}

#[derive(Default)]
struct State {
    books: Books,
    /// What becomes of the next write.
    armed: Option<Fault>,
    tick: u64,
    lags_until: u64,
    looks_fail_until: u64,
    open: HashMap<u64, TcpStream>,
    connections: u64,
    over: bool,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
    shut: AtomicBool,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The provider; it ends when dropped.
pub(crate) struct Shop {
    pub(crate) at: SocketAddr,
    inner: Arc<Inner>,
    door: Mutex<Option<JoinHandle<()>>>,
}

impl Shop {
    /// Opens it. With `counts_twice` its books have some writes twice, as if they had been sent twice.
    pub(crate) fn new(counts_twice: bool) -> Result<Self, Failure> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).during("open the shop")?;
        let at = listener.local_addr().during("open the shop")?;
        let inner = Arc::new(Inner::default());
        inner.state().books.counts_twice = counts_twice;
        let door = Mutex::new(Some(attend(&inner, listener)));
        Ok(Self { at, inner, door })
    }

    /// One second more, and what goes wrong in it. A shop that was shut opens first.
    pub(crate) fn tick(&self, fault: Option<Fault>) -> Result<(), Failure> {
        self.open()?;
        {
            let mut state = self.inner.state();
            state.tick += 1;
            let until = state.tick + LAG_TICKS;
            match fault {
                None | Some(Fault::Refused) => {}
                Some(Fault::KeptClosed) => {
                    state.open.values().for_each(|tcp| drop(tcp.shutdown(Shutdown::Both)));
                }
                Some(Fault::ListLags) => state.lags_until = until,
                Some(Fault::LookFails) => state.looks_fail_until = until,
                write => state.armed = write,
            }
            self.inner.changed.notify_all();
        }
        if fault == Some(Fault::Refused) {
            self.shut();
        }
        Ok(())
    }

    /// Nothing goes wrong any more, and everything is listed.
    pub(crate) fn heal(&self) -> Result<(), Failure> {
        self.open()?;
        let mut state = self.inner.state();
        (state.armed, state.lags_until, state.looks_fail_until) = (None, 0, 0);
        state.books.list_all();
        Ok(())
    }

    /// Waits until every connection has ended, so that nothing is on its way; the other side must be gone.
    pub(crate) fn quiet(&self) -> Result<(), Failure> {
        self.tick(None)?;
        let busy = |state: &mut State| !state.open.is_empty();
        let waited = self.inner.changed.wait_timeout_while(self.inner.state(), PATIENCE, busy);
        if waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            Err(Failure::new("wait for the shop", "it took too long"))
        } else {
            Ok(())
        }
    }

    /// What it has applied.
    pub(crate) fn books<T>(&self, look: impl FnOnce(&Books) -> T) -> T {
        look(&self.inner.state().books)
    }

    fn door(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<(), Failure> {
        let mut door = self.door();
        if door.is_none() {
            self.inner.shut.store(false, Ordering::SeqCst);
            *door = Some(attend(&self.inner, TcpListener::bind(self.at).during("open the shop again")?));
        }
        Ok(())
    }

    /// Who connects from now on is refused.
    fn shut(&self) {
        if let Some(attending) = self.door().take() {
            self.inner.shut.store(true, Ordering::SeqCst);
            drop(TcpStream::connect(self.at));
            drop(attending.join());
        }
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.shut();
        let mut state = self.inner.state();
        state.over = true;
        state.open.values().for_each(|tcp| drop(tcp.shutdown(Shutdown::Both)));
        self.inner.changed.notify_all();
    }
}

fn attend(inner: &Arc<Inner>, listener: TcpListener) -> JoinHandle<()> {
    let inner = Arc::clone(inner);
    thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            if inner.shut.load(Ordering::SeqCst) {
                return;
            }
            let Ok(handle) = tcp.try_clone() else { continue };
            let number = {
                let mut state = inner.state();
                state.connections += 1;
                let number = state.connections;
                state.open.insert(number, handle);
                number
            };
            let inner = Arc::clone(&inner);
            thread::spawn(move || {
                // A connection that ends in an error has ended.
                drop(serve(&inner, tcp));
                inner.state().open.remove(&number);
                inner.changed.notify_all();
            });
        }
    })
}

/// One connection, request by request.
fn serve(inner: &Inner, tcp: TcpStream) -> io::Result<()> {
    tcp.set_write_timeout(Some(PATIENCE))?;
    tcp.set_nodelay(true)?;
    let mut wire = Wire::shown_secrets(tcp, "a provider is sent its credential");
    while let Some(head) = wire.head()? {
        let length = head.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let (body, _) = wire.sized(length);
        if body.len() < length {
            return Ok(());
        }
        // What is looked for in the sidecar's files has to be there to be lost.
        if head.field("authorization") != Some(&format!("Bearer {CREDENTIAL}")) {
            inner.state().books.odd(format!("it came without its credential: {}", head.line));
        }
        let (status, said, goes) = inner.state().react(&head.line, head.field("x-effect"), &body);
        if !perform(inner, &mut wire, &answer(status, &[], &said.to_string()), goes)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether the connection goes on.
fn perform(inner: &Inner, wire: &mut Wire<TcpStream>, answer: &[u8], goes: Goes) -> io::Result<bool> {
    match goes {
        Goes::Whole => {}
        Goes::Late => {
            let state = inner.state();
            let now = state.tick;
            let waits = |state: &mut State| state.tick == now && !state.over;
            drop(inner.changed.wait_timeout_while(state, PATIENCE, waits));
        }
        Goes::Never => drop(wire.rest()),
        Goes::Nowhere => return Ok(false),
        Goes::Reset | Goes::Half => {
            if goes == Goes::Half {
                wire.stream.write_all(&answer[..answer.len() - answer.len() / 4])?;
            }
            sockopt::set_socket_linger(&wire.stream, Some(Duration::ZERO))?;
            return Ok(false);
        }
        Goes::Garbled => {
            wire.stream.write_all(b"\x16\x03not HTTP at all\r\n\r\n")?;
            return Ok(false);
        }
    }
    wire.stream.write_all(answer)?;
    Ok(goes != Goes::Never)
}

type Reaction = (&'static str, Value, Goes);

impl State {
    fn react(&mut self, line: &str, effect: Option<&str>, body: &[u8]) -> Reaction {
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if method == "GET" {
            return self.look(target);
        }
        let order = serde_json::from_slice::<Value>(body)
            .ok()
            .and_then(|body| Some((body.get("order")?.as_str()?.to_owned(), body.get("amount")?.as_i64()?)));
        let (Some(effect), Some((order, amount))) = (effect, order) else {
            let text = String::from_utf8_lossy(body);
            self.books.odd(format!("what arrived is not what was asked for: {line} {text}"));
            return ("400 Bad Request", json!({}), Goes::Whole);
        };
        let goes = match self.armed.take() {
            Some(Fault::FailedWithoutApply) => {
                return ("503 Service Unavailable", json!({"error": "busy"}), Goes::Whole);
            }
            Some(Fault::Declined) => {
                return ("402 Payment Required", json!({"error": "declined"}), Goes::Whole);
            }
            Some(Fault::ResetUnapplied) => return ("500 Gone", json!({}), Goes::Reset),
            Some(Fault::LostAnswer) => Goes::Nowhere,
            Some(Fault::ResetMidAnswer) => Goes::Half,
            Some(Fault::Garbled) => Goes::Garbled,
            Some(Fault::Slow) => Goes::Late,
            Some(Fault::NoAnswer) => Goes::Never,
            Some(Fault::FailedAfterApply) => {
                let said = self.apply(effect, &order, amount);
                return ("500 Internal Server Error", said, Goes::Whole);
            }
            None | Some(Fault::KeptClosed | Fault::ListLags | Fault::LookFails | Fault::Refused) => {
                Goes::Whole
            }
        };
        ("200 OK", self.apply(effect, &order, amount), goes)
    }

    fn apply(&mut self, effect: &str, order: &str, amount: i64) -> Value {
        let lag = if self.tick < self.lags_until { LAG_TICKS } else { 0 };
        self.books.apply(effect, order, amount, self.tick + lag);
        json!({"ref": effect, "status": "booked"})
    }

    fn look(&self, target: &str) -> Reaction {
        let Some(effect) = target.split_once("?ref=").map(|(_, effect)| effect) else {
            return ("200 OK", json!({"data": []}), Goes::Whole);
        };
        if self.tick < self.looks_fail_until {
            return ("500 Internal Server Error", json!({"error": "later"}), Goes::Whole);
        }
        let listed = self.books.listed(effect, self.tick);
        let data: &[Value] = if listed { &[json!({"ref": effect, "status": "booked"})] } else { &[] };
        ("200 OK", json!({"data": data}), Goes::Whole)
    }
}
