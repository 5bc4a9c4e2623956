//! As much of HTTP/1.1 as the client and the floor need: where a message ends. Lengths only, nothing chunked.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that a message may have.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Room that is made for a read.
const READ_BYTES: usize = 4 * 1024;

/// A whole message at the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Bytes of the head with its empty line.
    pub head: usize,
    /// Bytes of head and body.
    pub total: usize,
}

/// Reads until the buffer begins with a whole message; `None` when the peer ended before its first byte.
///
/// # Errors
/// The stream broke, or what it carries is not for this rig.
pub async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> io::Result<Option<Message>> {
    loop {
        if let Some(message) = whole(buffer)? {
            return Ok(Some(message));
        }
        if buffer.len() > MESSAGE_BYTES_MAX {
            return Err(invalid("a message is too large"));
        }
        buffer.reserve(READ_BYTES);
        if stream.read_buf(buffer).await? == 0 {
            return if buffer.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
    }
}

fn whole(buffer: &[u8]) -> io::Result<Option<Message>> {
    let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = end + 4;
    let body = match field(buffer.get(..head).unwrap_or_default(), "content-length") {
        None => 0,
        Some(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.trim().parse::<usize>().ok())
            .ok_or_else(|| invalid("a length is no number"))?,
    };
    let total = head.saturating_add(body);
    Ok((buffer.len() >= total).then_some(Message { head, total }))
}

/// The value of a field in a head, by its lower-case name.
#[must_use]
pub fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let (found, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":")?;
        found.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
    })
}

/// The status of a response's head.
#[must_use]
pub fn status(head: &[u8]) -> Option<u16> {
    std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_told_apart() {
        let mut wire: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 401 No\r\n\r\n";
        let mut buffer = BytesMut::new();
        let first = read(&mut wire, &mut buffer).await.unwrap().unwrap();
        assert_eq!(first, Message { head: 38, total: 41 });
        assert_eq!(status(&buffer), Some(200));
        drop(buffer.split_to(first.total));
        assert_eq!(read(&mut wire, &mut buffer).await.unwrap().unwrap(), Message { head: 19, total: 19 });
        assert_eq!(status(&buffer), Some(401));
        buffer.clear();
        assert_eq!(read(&mut wire, &mut buffer).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_message_that_breaks_off_is_an_error() {
        let mut wire: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na";
        assert!(read(&mut wire, &mut BytesMut::new()).await.is_err());
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let head = b"GET / HTTP/1.1\r\nX-Host: a\r\nHOST:  b \r\n\r\n";
        assert_eq!(field(head, "host"), Some(&b"b"[..]));
        assert_eq!(field(head, "cookie"), None);
    }
}
