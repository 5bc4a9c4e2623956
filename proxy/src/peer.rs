//! Which user of this machine is on the other side of a loopback connection. A port that stands for a caller would
//! else be that caller for every user of the machine.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::fs::File;
use tokio::io::AsyncReadExt;

/// Whether this system tells it. Linux lists every socket with its owner; others would have to be asked by calls that
/// no safe interface has.
pub const TOLD: bool = cfg!(target_os = "linux");

/// The kernel's lists. A socket of IPv6 that speaks IPv4, as Java opens them, is in the second one.
const LISTS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// Most bytes of one list that are read: some 200 000 sockets.
const LIST_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The user of the socket at `peer` that is connected to `here`. `None` when the system does not say, or the socket is
/// gone.
pub async fn user(peer: SocketAddr, here: SocketAddr) -> Option<u32> {
    for list in LISTS {
        match read(list).await {
            Ok(text) => {
                if let Some(user) = find(&text, peer, here) {
                    return Some(user);
                }
            }
            // Without IPv6 there is no second list.
            Err(error) => tracing::debug!(%error, list, "a list of sockets could not be read"),
        }
    }
    None
}

async fn read(list: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(list).await?.take(LIST_BYTES_MAX).read_to_string(&mut text).await?;
    Ok(text)
}

/// Columns as in proc(5): number, local address, remote address, state, queues, timer, retransmits, user, probes, inode.
/// A socket that its process has closed is listed on for a while, without an inode and as if it were root's.
fn find(list: &str, peer: SocketAddr, here: SocketAddr) -> Option<u32> {
    let same = |written: &str, wanted: SocketAddr| {
        address(written).is_some_and(|address| {
            address.port() == wanted.port() && address.ip().to_canonical() == wanted.ip().to_canonical()
        })
    };
    list.lines().find_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (columns.next()?, columns.next()?);
        if !(same(local, peer) && same(remote, here)) {
            return None;
        }
        let user = columns.nth(4)?.parse().ok()?;
        (columns.nth(1)? != "0").then_some(user)
    })
}

/// `0100007F:1F90`: words of four bytes as the machine holds them, then the port.
fn address(written: &str) -> Option<SocketAddr> {
    let (ip, port) = written.split_once(':')?;
    let words = (0..ip.len()).step_by(8).map(|at| {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    let ip = <[u8; 4]>::try_from(bytes.as_slice())
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes.as_slice()).map(IpAddr::from));
    Some(SocketAddr::new(ip.ok()?, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_lists_are_read() {
        let v4 = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                  0: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 1 1 0\n   \
                  1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0\n";
        assert_eq!(find(v4, at("127.0.0.1:49153"), at("127.0.0.1:8080")), Some(1001));
        assert_eq!(find(v4, at("127.0.0.1:49154"), at("127.0.0.1:8080")), None);
        let v6 = "   0: 0000000000000000FFFF00000100007F:C002 0000000000000000FFFF00000100007F:1F90 01 0:0 0:0 0  7  0 1\n";
        assert_eq!(find(v6, at("127.0.0.1:49154"), at("127.0.0.1:8080")), Some(7));
        let closed = "0: 0100007F:C001 0100007F:1F90 04 0:0 0:0 0  0  0 0\n";
        assert_eq!(find(closed, at("127.0.0.1:49153"), at("127.0.0.1:8080")), None);
        for broken in ["", "0: zz:1 0100007F:1F90 1 2 3 4 5", "0: 0100007F:C001 0100007F:1F90 1 2"] {
            assert_eq!(find(broken, at("127.0.0.1:49153"), at("127.0.0.1:8080")), None, "{broken}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_socket_of_ours_is_ours() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let client = tokio::net::TcpStream::connect(here).await.unwrap();
        let (_accepted, peer) = listener.accept().await.unwrap();
        assert_eq!(user(peer, here).await, Some(rustix::process::geteuid().as_raw()));
        drop(client);
        assert_eq!(user("127.0.0.1:1".parse().unwrap(), here).await, None);
    }
}
