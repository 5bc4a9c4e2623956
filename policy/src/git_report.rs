//! What git's servers say of a push, inside an answer whose status is 200 whether it was taken or not
//! (<https://git-scm.com/docs/gitprotocol-pack#_report_status>).

use crate::classify::Verdict;

/// The media type of such an answer.
pub(crate) const MEDIA: &str = "application/x-git-receive-pack-result";
/// Digits of a packet's length, which they count themselves.
const LENGTH: usize = 4;
/// The side band of the report.
const REPORT: u8 = 1;

/// - Unpacked, and every ref was updated: succeeded.
/// - Not unpacked, or no ref was updated: failed.
/// - Some were updated, or nobody asked for a report, or it cannot be read: unknown.
pub(crate) fn verdict(body: &[u8]) -> Verdict {
    report(body).unwrap_or(Verdict::Unknown)
}

fn report(body: &[u8]) -> Option<Verdict> {
    let outer = packets(body)?;
    let lines = match outer.first()?.starts_with(b"unpack ") {
        true => outer,
        false => return report_of_lines(&packets(&banded(&outer)?)?),
    };
    report_of_lines(&lines)
}

/// What came on the band of the report. A fatal error on its own band leaves open how far the server came.
fn banded(outer: &[&[u8]]) -> Option<Vec<u8>> {
    let mut inner = Vec::new();
    for packet in outer {
        match packet.split_first()? {
            (&REPORT, part) => inner.extend_from_slice(part),
            // Progress, for people.
            (2, _) => {}
            (_, _) => return None,
        }
    }
    Some(inner)
}

fn report_of_lines(lines: &[&[u8]]) -> Option<Verdict> {
    let (unpacked, refs) = lines.split_first()?;
    let unpacked = unpacked.strip_prefix(b"unpack ")?.trim_ascii_end();
    let (mut taken, mut refused) = (0_usize, 0_usize);
    for line in refs {
        if line.starts_with(b"ok ") {
            taken += 1;
        } else if line.starts_with(b"ng ") {
            refused += 1;
        } else if !line.starts_with(b"option ") {
            return None;
        }
    }
    match (unpacked == b"ok", taken, refused) {
        (true, 1.., 0) => Some(Verdict::Succeeded),
        (true, 0, 1..) | (false, 0, _) => Some(Verdict::Failed),
        (true, _, _) | (false, _, _) => None,
    }
}

/// The packets up to the one that ends them (<https://git-scm.com/docs/protocol-common#_pkt_line_format>).
fn packets(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut packets = Vec::new();
    loop {
        let (digits, rest) = bytes.split_at_checked(LENGTH)?;
        let length = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if length == 0 {
            return Some(packets);
        }
        let (packet, rest) = rest.split_at_checked(length.checked_sub(LENGTH)?)?;
        packets.push(packet);
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &[u8]) -> Vec<u8> {
        [format!("{:04x}", text.len() + LENGTH).as_bytes(), text].concat()
    }

    fn plain(lines: &[&str]) -> Vec<u8> {
        let mut body: Vec<u8> = lines.iter().flat_map(|line| packet(line.as_bytes())).collect();
        body.extend_from_slice(b"0000");
        body
    }

    fn in_bands(lines: &[&str]) -> Vec<u8> {
        let inner = plain(lines);
        let (first, second) = inner.split_at(inner.len() / 2);
        let band = |number: u8, part: &[u8]| packet(&[&[number], part].concat());
        [band(2, b"resolving\r"), band(1, first), band(2, b"done\n"), band(1, second), b"0000".to_vec()]
            .concat()
    }

    #[test]
    fn a_push_is_what_its_report_says() {
        use Verdict::{Failed, Succeeded, Unknown};
        let declined = "ng refs/heads/main pre-receive hook declined\n";
        for (lines, wanted) in [
            (&["unpack ok\n", "ok refs/heads/main\n"][..], Succeeded),
            (
                &["unpack ok", "ok refs/heads/main", "option refname refs/heads/x", "ok refs/heads/b"],
                Succeeded,
            ),
            (&["unpack ok\n", declined], Failed),
            (&["unpack index-pack abnormal exit\n", "ng refs/heads/main unpacker error\n"], Failed),
            (&["unpack index-pack abnormal exit\n"], Failed),
            (&["unpack ok\n", "ok refs/heads/a\n", declined], Unknown),
            (&["unpack no\n", "ok refs/heads/a\n"], Unknown),
            (&["unpack ok\n"], Unknown),
            (&["unpack ok\n", "what is this"], Unknown),
            (&["no report"], Unknown),
            (&[], Unknown),
        ] {
            assert_eq!(verdict(&plain(lines)), wanted, "{lines:?}");
            assert_eq!(verdict(&in_bands(lines)), wanted, "{lines:?}");
        }
        let fatal = packet(b"\x03out of space");
        for body in [&b""[..], b"0000", b"00", b"zzzz", b"0003", b"ffffx", &[&fatal[..], b"0000"].concat()] {
            assert_eq!(verdict(body), Unknown, "{body:?}");
        }
    }

    #[test]
    fn a_report_that_is_cut_off_proves_nothing() {
        for whole in [
            plain(&["unpack ok\n", "ok refs/heads/main\n"]),
            in_bands(&["unpack ok\n", "ok refs/heads/main\n"]),
        ] {
            for end in 0..whole.len() {
                assert_eq!(verdict(&whole[..end]), Verdict::Unknown, "{end}");
            }
        }
    }
}
