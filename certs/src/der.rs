//! The little DER that is needed to name an issuer exactly as its own certificate spells it.
//!
//! rcgen keeps a distinguished name as a map: a CA under `DC=corp, DC=example`, with two `OU`s or with a
//! multi-valued part comes out changed, and then no client finds the issuer. So a leaf is drafted under a
//! stand-in issuer and given the CA's subject byte for byte before it is signed.

/// The tag of a `SEQUENCE`.
const SEQUENCE: u8 = 0x30;
/// The tag of a `BIT STRING`.
const BIT_STRING: u8 = 0x03;

/// The draft is not shaped like a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the draft is not shaped like a certificate")]
pub struct Misshapen;

/// One value: as it stands, and without its tag and length.
struct Value<'a> {
    whole: &'a [u8],
    content: &'a [u8],
}

/// A drafted certificate with its issuer replaced, not yet signed.
pub(crate) struct Unsigned {
    /// What the issuer signs.
    pub(crate) body: Vec<u8>,
    algorithm: Vec<u8>,
}

impl Unsigned {
    /// Takes a draft and puts `issuer` (a DER `Name`) in the place of its issuer.
    pub(crate) fn from_draft(draft: &[u8], issuer: &[u8]) -> Result<Unsigned, Misshapen> {
        let (certificate, _) = take(draft)?;
        let (body, after_body) = take(certificate.content)?;
        let (algorithm, _signature) = take(after_body)?;

        let (version, rest) = take(body.content)?;
        let (serial, rest) = take(rest)?;
        let (signed_with, rest) = take(rest)?;
        let (_stand_in, rest) = take(rest)?;
        let content = [version.whole, serial.whole, signed_with.whole, issuer, rest].concat();
        Ok(Unsigned { body: put(SEQUENCE, &content), algorithm: algorithm.whole.to_vec() })
    }

    /// The certificate under `signature`.
    pub(crate) fn signed(self, signature: &[u8]) -> Vec<u8> {
        // A bit string begins with how many bits of its last byte do not count: none.
        let signature = put(BIT_STRING, &[&[0], signature].concat());
        put(SEQUENCE, &[self.body, self.algorithm, signature].concat())
    }
}

/// Splits the first value off `input`.
fn take(input: &[u8]) -> Result<(Value<'_>, &[u8]), Misshapen> {
    let [_tag, first, rest @ ..] = input else { return Err(Misshapen) };
    let (length, header) = match first {
        0..0x80 => (usize::from(*first), 2),
        0x81..=0x84 => {
            let bytes = usize::from(first & 0x7F);
            let digits = rest.get(..bytes).ok_or(Misshapen)?;
            let length = digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit));
            (length, 2 + bytes)
        }
        // The indefinite form, which DER has not, and lengths that no certificate reaches.
        0x80 | 0x85.. => return Err(Misshapen),
    };
    let end = header.checked_add(length).ok_or(Misshapen)?;
    let (whole, rest) = input.split_at_checked(end).ok_or(Misshapen)?;
    let content = whole.get(header..).ok_or(Misshapen)?;
    Ok((Value { whole, content }, rest))
}

/// Puts a tag and a length before `content`.
fn put(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let leading = length.iter().take_while(|byte| **byte == 0).count();
    let digits = length.get(leading..).unwrap_or_default();
    let mut value = vec![tag];
    match digits {
        [] => value.push(0),
        [short @ 0..0x80] => value.push(*short),
        // At most eight digits, so the count fits beside the flag.
        long => {
            value.push(0x80 | u8::try_from(long.len()).unwrap_or(u8::MAX));
            value.extend_from_slice(long);
        }
    }
    value.extend_from_slice(content);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_every_form_come_back() {
        for length in [0, 1, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x1_0000] {
            let content = vec![7; length];
            let mut written = put(SEQUENCE, &content);
            written.push(9);
            let (value, rest) = take(&written).unwrap();
            assert_eq!(value.content, content);
            assert_eq!(rest, [9]);
        }
    }

    #[test]
    fn what_is_cut_short_or_indefinite_is_refused() {
        for input in [
            &[][..],
            &[0x30],
            &[0x30, 1],
            &[0x30, 0x80, 0, 0],
            &[0x30, 0x82, 1],
            &[0x30, 0x85, 0, 0, 0, 0, 0],
        ] {
            assert!(take(input).is_err(), "{input:02x?}");
        }
    }
}
