//! A provider on loopback that does as it is told and counts all that reaches it.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::Sender,
    },
    thread,
    time::Duration,
};

use rustix::net::sockopt;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::{
    ca,
    record::{Record, Request},
    script::{Act, Reply, When},
    wait::PATIENCE,
    wire::{End, Wire},
};

/// What it does with a request that no script speaks of.
pub trait Brain: Send + Sync {
    /// Called once for each request that arrived whole.
    fn answer(&self, request: &Request) -> Reply;
}

/// Says `200 {"ok":true}` to everything.
pub struct Agreeable;

impl Brain for Agreeable {
    fn answer(&self, _: &Request) -> Reply {
        Reply::json("200 OK", r#"{"ok":true}"#)
    }
}

struct Shared {
    record: Record,
    writes: Mutex<VecDeque<Reply>>,
    reads: Mutex<VecDeque<Reply>>,
    brain: Arc<dyn Brain>,
    tls: Option<Arc<ServerConfig>>,
    stop: AtomicBool,
    narrow: AtomicBool,
    open: Mutex<HashMap<usize, TcpStream>>,
}

/// The provider; it ends when dropped.
pub struct Provider {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

impl Provider {
    /// One that speaks TLS as these names.
    pub fn tls(names: &[&str]) -> Provider {
        Provider::start(Some(ca::server_config(names)), Arc::new(Agreeable))
    }

    /// One that speaks TLS as these names and has a mind of its own.
    pub fn tls_with(names: &[&str], brain: Arc<dyn Brain>) -> Provider {
        Provider::start(Some(ca::server_config(names)), brain)
    }

    /// One that speaks TLS in a way of its own.
    pub fn serving(tls: Arc<ServerConfig>) -> Provider {
        Provider::start(Some(tls), Arc::new(Agreeable))
    }

    /// One that speaks in clear.
    pub fn plain() -> Provider {
        Provider::start(None, Arc::new(Agreeable))
    }

    /// One that speaks in clear and has a mind of its own.
    pub fn plain_with(brain: Arc<dyn Brain>) -> Provider {
        Provider::start(None, brain)
    }

    fn start(tls: Option<Arc<ServerConfig>>, brain: Arc<dyn Brain>) -> Provider {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            record: Record::default(),
            writes: Mutex::default(),
            reads: Mutex::default(),
            brain,
            tls,
            stop: AtomicBool::new(false),
            narrow: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let house = Arc::clone(&shared);
        thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                if house.stop.load(SeqCst) {
                    return;
                }
                let number = house.record.connected();
                house.open.lock().unwrap().insert(number, tcp.try_clone().unwrap());
                let house = Arc::clone(&house);
                thread::spawn(move || serve(&house, number, tcp));
            }
        });
        Provider { addr, shared }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it saw.
    pub fn record(&self) -> &Record {
        &self.shared.record
    }

    /// What it does with the next write that no earlier call speaks of.
    pub fn on_write(&self, reply: Reply) {
        self.shared.writes.lock().unwrap().push_back(reply);
    }

    /// What it does with the next read that no earlier call speaks of.
    pub fn on_read(&self, reply: Reply) {
        self.shared.reads.lock().unwrap().push_back(reply);
    }

    /// Takes in little at a time from now on, so that a sender of a large body has to wait for us to read.
    pub fn narrow(&self) {
        self.shared.narrow.store(true, SeqCst);
    }

    /// Ends every connection that is open now.
    pub fn cut_all(&self) {
        for tcp in self.shared.open.lock().unwrap().values() {
            drop(tcp.shutdown(Shutdown::Both));
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        drop(TcpStream::connect(self.addr));
        self.cut_all();
    }
}

/// Counts the TCP reads that brought something.
struct Tap {
    tcp: TcpStream,
    reads: usize,
}

impl Read for Tap {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.tcp.read(buf)?;
        if n > 0 {
            self.reads += 1;
        }
        Ok(n)
    }
}

impl Write for Tap {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.tcp.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

enum Line {
    Plain(Tap),
    Tls(Box<StreamOwned<ServerConnection, Tap>>),
}

impl Line {
    fn tap(&self) -> &Tap {
        match self {
            Line::Plain(tap) => tap,
            Line::Tls(tls) => &tls.sock,
        }
    }

    fn tcp(&self) -> &TcpStream {
        &self.tap().tcp
    }

    fn goodbye(&mut self) -> io::Result<()> {
        if let Line::Tls(tls) = self {
            tls.conn.send_close_notify();
            tls.conn.complete_io(&mut tls.sock)?;
        }
        Ok(())
    }
}

impl Read for Line {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Line::Plain(tap) => tap.read(buf),
            Line::Tls(tls) => tls.read(buf),
        }
    }
}

impl Write for Line {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Line::Plain(tap) => tap.write(buf),
            Line::Tls(tls) => tls.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Line::Plain(tap) => tap.flush(),
            Line::Tls(tls) => tls.flush(),
        }
    }
}

/// One connection, request by request.
fn serve(house: &Shared, number: usize, tcp: TcpStream) {
    if let Some(mut wire) = greet(house, &tcp) {
        while serve_one(house, number, &mut wire) {}
        house.record.carried(number, &wire.seen);
    }
    // The last handle goes here: with SO_LINGER 0 set, this is what sends the RST.
    house.open.lock().unwrap().remove(&number);
    house.record.ended();
}

/// Sets the socket up and does the TLS handshake; `None` if the peer does not go through with it.
fn greet(house: &Shared, tcp: &TcpStream) -> Option<Wire<Line>> {
    let tcp = tcp.try_clone().unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp.set_write_timeout(Some(PATIENCE)).unwrap();
    tcp.set_nodelay(true).unwrap();
    if house.narrow.load(SeqCst) {
        sockopt::set_socket_recv_buffer_size(&tcp, 8 * 1024).unwrap();
    }
    let mut tap = Tap { tcp, reads: 0 };
    let line = match &house.tls {
        None => Line::Plain(tap),
        Some(config) => {
            let mut conn = ServerConnection::new(Arc::clone(config)).unwrap();
            while conn.is_handshaking() {
                conn.complete_io(&mut tap).ok()?;
            }
            Line::Tls(Box::new(StreamOwned::new(conn, tap)))
        }
    };
    Some(Wire::shown_secrets(line, "a provider is sent its credential"))
}

/// One request; `false` when the connection is over.
fn serve_one(house: &Shared, connection: usize, wire: &mut Wire<Line>) -> bool {
    let before = wire.stream.tap().reads;
    let Ok(Some(head)) = wire.head() else { return false };
    house.record.carried(connection, &wire.seen);
    let mut words = head.line.split(' ');
    let mut request = Request {
        connection,
        method: words.next().unwrap_or_default().to_owned(),
        target: words.next().unwrap_or_default().to_owned(),
        head,
        ..Request::default()
    };
    let number = house.record.began(request.clone());
    let queue = if request.is_write() { &house.writes } else { &house.reads };
    let scripted = queue.lock().unwrap().pop_front();
    let when = scripted.as_ref().map_or(When::Whole, |reply| reply.when);
    let (body, end) = read_body(wire, &request, when);
    request.body = body;
    request.complete = end == End::Complete;
    request.chunks = wire.stream.tap().reads - before;
    house.record.carried(connection, &wire.seen);
    let reply = match scripted {
        Some(reply) => reply,
        None if request.complete => house.brain.answer(&request),
        None => Reply { when: When::Whole, acts: vec![Act::Fin] },
    };
    house.record.grew(number, &request);
    reply.acts.iter().all(|act| perform(wire, act))
}

fn read_body(wire: &mut Wire<Line>, request: &Request, when: When) -> (Vec<u8>, End) {
    let length: usize = request.head.field("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
    match when {
        When::Head => (Vec::new(), if length == 0 { End::Complete } else { End::Cut }),
        When::Body(n) => (wire.take(n), End::Cut),
        When::Whole if request.head.field("transfer-encoding").is_some() => wire.chunked(),
        When::Whole => wire.sized(length),
    }
}

/// Does one thing; `false` when the connection is over.
fn perform(wire: &mut Wire<Line>, act: &Act) -> bool {
    match act {
        Act::Send(bytes) => wire.stream.write_all(bytes).is_ok_and(|()| wire.stream.flush().is_ok()),
        Act::Flood(piece, times) => {
            (0..*times).all(|_| wire.stream.write_all(piece).is_ok()) && wire.stream.flush().is_ok()
        }
        Act::FloodUntilStuck(piece, times, stuck) => flood(wire.stream.tcp(), piece, *times, stuck),
        Act::Hear(bytes, heard) => {
            let came = wire.take(*bytes);
            let whole = came.len() == *bytes;
            heard.send(came).is_ok() && whole
        }
        Act::Drain(bytes) => wire.skim(*bytes, |_| {}) == *bytes,
        Act::Wait(gate) => gate.pass(),
        Act::CheckIn(gate) => {
            gate.open();
            true
        }
        Act::Close => {
            drop(wire.stream.goodbye());
            hang_up(wire)
        }
        Act::CloseThen(gate) => {
            drop(wire.stream.goodbye());
            hang_up(wire);
            gate.open();
            false
        }
        Act::Fin => hang_up(wire),
        Act::UntilEnd(gate) => {
            drop(wire.rest());
            gate.open();
            false
        }
        Act::Reset => {
            sockopt::set_socket_linger(wire.stream.tcp(), Some(Duration::ZERO)).unwrap();
            false
        }
    }
}

/// So long without a byte taken is called stuck.
const STUCK_AFTER: Duration = Duration::from_millis(500);

/// Writes until the peer takes no more, says when, and goes on when it takes more.
pub fn flood(tcp: &TcpStream, piece: &[u8], times: usize, stuck: &Sender<usize>) -> bool {
    let mut tcp = tcp;
    tcp.set_write_timeout(Some(STUCK_AFTER)).unwrap();
    let mut gone = 0;
    while gone < piece.len() * times {
        match tcp.write(&piece[gone % piece.len()..]) {
            Ok(n) => gone += n,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                tcp.set_write_timeout(Some(PATIENCE)).unwrap();
                if stuck.send(gone).is_err() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    true
}

/// A FIN, then reading on, so that what the peer still writes does not turn it into a reset.
fn hang_up(wire: &mut Wire<Line>) -> bool {
    drop(wire.stream.tcp().shutdown(Shutdown::Write));
    drop(wire.rest());
    false
}
