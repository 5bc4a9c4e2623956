//! An agent whose wire is cut: after so many bytes of what it writes, in one of three ways.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use oncegate_tests::{answer::Answer, gate::Gate, wait::PATIENCE, wire::Wire};
use rustix::net::sockopt::set_socket_linger;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

use crate::asking::proxy_authorization;

/// How a wire is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// TLS is ended first, then the stream: a FIN after close_notify.
    Goodbye,
    /// A FIN and nothing else.
    Fin,
    /// RST.
    Reset,
}

impl Cut {
    /// All of them.
    pub(crate) const ALL: [Cut; 3] = [Cut::Goodbye, Cut::Fin, Cut::Reset];
}

/// Where an agent's wire is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// After so many bytes on the wire, from the first of `CONNECT` on; TLS records and all.
    Wire(usize),
    /// After so many bytes of the request inside TLS, which arrive as records of their own.
    Plaintext(usize),
}

/// What the agent heard.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// Nothing at all.
    Nothing,
    /// The beginning of something.
    Part(String),
    /// A whole answer: its status and `Oncegate-Outcome`.
    Whole(u16, String),
}

impl Told {
    /// What an answer amounts to.
    pub(crate) fn of(answer: io::Result<Answer>) -> Told {
        match answer {
            Ok(answer) if answer.complete => Told::Whole(answer.status, answer.outcome().to_owned()),
            Ok(answer) => Told::Part(answer.everything()),
            Err(_) => Told::Nothing,
        }
    }
}

/// The agent's side of one exchange.
pub(crate) struct Cutter {
    /// Where the proxy is.
    pub(crate) proxy: SocketAddr,
    /// What the agent trusts. Without resumption, so that every handshake has the same length.
    pub(crate) tls: Arc<ClientConfig>,
    /// The host of the exchange.
    pub(crate) host: &'static str,
}

/// What came of it.
pub(crate) struct Exchanged {
    /// What the agent heard.
    pub(crate) told: Told,
    /// All bytes that it wrote.
    pub(crate) written: usize,
}

impl Cutter {
    /// Sends one request through a tunnel of its own, cut there.
    pub(crate) fn exchange(&self, request: &[u8], cut: Cut, place: Place) -> Exchanged {
        let (left, part) = match place {
            Place::Wire(bytes) => (bytes, request),
            Place::Plaintext(bytes) => (usize::MAX, &request[..bytes]),
        };
        let mut wire = self.wire(left, cut);
        let Some(conn) = self.opened(&mut wire) else {
            return Exchanged { told: Told::Nothing, written: wire.written };
        };
        let mut tls = StreamOwned::new(conn, wire);
        let wrote = tls.write_all(part).is_ok() && tls.flush().is_ok();
        if wrote && matches!(place, Place::Plaintext(_)) {
            goes(&mut tls);
        }
        let (told, wire) = heard(tls);
        Exchanged { told, written: wire.written }
    }

    /// Sends one whole request, and cuts once it has arrived at the provider; `gone` is opened then.
    pub(crate) fn exchange_until(&self, request: &[u8], cut: Cut, arrived: &Gate, gone: &Gate) -> Told {
        let mut wire = self.wire(usize::MAX, cut);
        let Some(conn) = self.opened(&mut wire) else { panic!("no tunnel") };
        let mut tls = StreamOwned::new(conn, wire);
        tls.write_all(request).unwrap();
        tls.flush().unwrap();
        assert!(arrived.pass(), "the request arrives");
        goes(&mut tls);
        gone.open();
        heard(tls).0
    }

    fn wire(&self, left: usize, cut: Cut) -> Cuttable {
        let tcp = TcpStream::connect(self.proxy).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_nodelay(true).unwrap();
        let mut wire = Cuttable { tcp: Some(tcp), left, cut, written: 0 };
        wire.at_end();
        wire
    }

    /// TLS inside a tunnel; none when the wire was cut before.
    fn opened(&self, wire: &mut Cuttable) -> Option<ClientConnection> {
        let (host, authorization) = (self.host, proxy_authorization("billing-agent"));
        let head = format!(
            "CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\nProxy-Authorization: {authorization}\r\n\r\n"
        );
        wire.write_all(head.as_bytes()).ok()?;
        let answer = Wire::new(&mut *wire).head().ok()??;
        assert!(answer.line.contains(" 200 "), "{answer:?}");
        let name = ServerName::try_from(host).unwrap();
        let mut conn = ClientConnection::new(Arc::clone(&self.tls), name).unwrap();
        while conn.is_handshaking() {
            conn.complete_io(wire).ok()?;
        }
        Some(conn)
    }
}

/// Cuts now, after the goodbye if there is to be one.
fn goes(tls: &mut StreamOwned<ClientConnection, Cuttable>) {
    if tls.sock.cut == Cut::Goodbye {
        tls.conn.send_close_notify();
        drop(tls.conn.complete_io(&mut tls.sock));
    }
    tls.sock.cut();
}

/// All that still comes.
fn heard(tls: StreamOwned<ClientConnection, Cuttable>) -> (Told, Cuttable) {
    let mut wire = Wire::new(tls);
    let mut told = Told::of(Answer::read(&mut wire, false));
    if matches!(told, Told::Nothing) && !wire.seen.is_empty() {
        told = Told::Part(String::from_utf8_lossy(&wire.seen).into_owned());
    }
    (told, wire.stream.sock)
}

/// A stream that is cut when so many bytes were written.
struct Cuttable {
    tcp: Option<TcpStream>,
    left: usize,
    cut: Cut,
    written: usize,
}

impl Cuttable {
    fn cut(&mut self) {
        self.left = 0;
        match self.cut {
            Cut::Goodbye | Cut::Fin => {
                if let Some(tcp) = &self.tcp {
                    drop(tcp.shutdown(Shutdown::Write));
                }
            }
            Cut::Reset => {
                // Closed with linger 0: that is the RST.
                if let Some(tcp) = self.tcp.take() {
                    set_socket_linger(&tcp, Some(Duration::ZERO)).unwrap();
                }
            }
        }
    }

    fn at_end(&mut self) {
        if self.left == 0 {
            self.cut();
        }
    }

    fn open(&mut self) -> io::Result<&mut TcpStream> {
        self.tcp.as_mut().ok_or_else(|| io::ErrorKind::ConnectionReset.into())
    }
}

impl Read for Cuttable {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.open()?.read(buf)
    }
}

impl Write for Cuttable {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let most = buf.len().min(self.left);
        let n = self.open()?.write(&buf[..most])?;
        self.left = self.left.saturating_sub(n);
        self.written += n;
        self.at_end();
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
    }
}
