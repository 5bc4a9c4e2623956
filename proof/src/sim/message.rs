//! The little of HTTP/1.1 that simulated agents and providers need: one message after the other, each with its length.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of a message, at most: nothing here is larger.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes that are read at once.
const CHUNK: usize = 4096;

/// A request or an answer.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// The first line.
    pub(crate) start: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Message {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The second word of the first line: a target, or a status.
    pub(crate) fn second(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// Everything in it, to look through.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{}\n{:?}\n", self.start, self.headers).into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    fn length(&self) -> usize {
        self.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn of_head(head: &str) -> Self {
        let mut lines = head.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        });
        Self { start, headers: headers.collect(), body: vec![] }
    }
}

/// Reads messages of one side of a connection.
pub(crate) struct Messages<S> {
    stream: S,
    read: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Messages<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub(crate) fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The next whole message; `None` when the other side has ended before one began.
    ///
    /// # Errors
    /// The stream broke, or ended within a message.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Message>> {
        let head = loop {
            if let Some(at) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            if !self.more().await? {
                return if self.read.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        };
        let mut message = Message::of_head(&String::from_utf8_lossy(&self.read[..head]));
        let end = head + 4 + message.length();
        while self.read.len() < end {
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        message.body = self.read[head + 4..end].to_vec();
        self.read.drain(..end);
        Ok(Some(message))
    }

    async fn more(&mut self) -> io::Result<bool> {
        if self.read.len() > MESSAGE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut chunk = [0; CHUNK];
        let got = self.stream.read(&mut chunk).await?;
        self.read.extend_from_slice(&chunk[..got]);
        Ok(got > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_read_one_after_the_other() {
        let both =
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokGET /x HTTP/1.1\r\nHost: a\r\n\r\n".as_slice();
        let mut messages = Messages::new(both);
        let answer = messages.next().await.unwrap().unwrap();
        assert_eq!((answer.second(), answer.body.as_slice()), ("200", b"ok".as_slice()));
        let request = messages.next().await.unwrap().unwrap();
        assert_eq!((request.second(), request.header("host")), ("/x", Some("a")));
        assert!(messages.next().await.unwrap().is_none());
        let mut cut = Messages::new(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok".as_slice());
        assert!(cut.next().await.is_err());
    }
}
