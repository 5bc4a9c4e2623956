//! Peers that a connection never gets far with.

use std::{
    io::Read,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    thread,
};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// A port that refuses connections, and that nobody else can take meanwhile: bound, never listened on.
pub struct Refusing {
    fd: OwnedFd,
}

impl Default for Refusing {
    fn default() -> Refusing {
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&fd, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        Refusing { fd }
    }
}

impl Refusing {
    /// Where nobody answers.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::try_from(getsockname(&self.fd).unwrap()).unwrap()
    }
}

/// Accepts connections and says nothing, so that a TLS handshake with it never ends.
pub struct Silent {
    addr: SocketAddr,
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Default for Silent {
    fn default() -> Silent {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let held = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&held);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                kept.lock().unwrap().push(stream);
            }
        });
        Silent { addr, held }
    }
}

impl Silent {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many connections it took.
    pub fn connections(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    /// Whether any connection carried a plain HTTP request (it never should).
    pub fn read_first(&self) -> Vec<u8> {
        let held = self.held.lock().unwrap();
        let mut all = Vec::new();
        for mut stream in held.iter() {
            stream.set_nonblocking(true).unwrap();
            let mut chunk = [0; 4096];
            if let Ok(n) = stream.read(&mut chunk) {
                all.extend_from_slice(&chunk[..n]);
            }
        }
        all
    }
}
