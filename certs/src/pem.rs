//! Certificates as text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;

/// Characters to a line, as RFC 7468 wants it: some readers refuse longer ones.
const LINE: usize = 64;

/// Appends one certificate to `text`.
pub(crate) fn push_certificate(text: &mut String, certificate: &CertificateDer<'_>) {
    let encoded = STANDARD.encode(certificate);
    let mut rest = encoded.as_str();
    text.push_str("-----BEGIN CERTIFICATE-----\n");
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str("-----END CERTIFICATE-----\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::pem::PemObject;

    #[test]
    fn what_is_written_reads_back_for_every_length_around_a_line() {
        for length in 1..200_usize {
            let certificate = CertificateDer::from(vec![0xA5; length]);
            let mut text = String::new();
            push_certificate(&mut text, &certificate);
            assert!(text.lines().all(|line| line.len() <= LINE));
            let read = CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
            assert_eq!(read, certificate);
        }
    }
}
