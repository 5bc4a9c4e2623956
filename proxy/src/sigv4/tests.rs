//! Known answers: AWS's own test suite for Signature Version 4 and the examples of S3's documentation.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderValue;

use super::*;

/// 2015-08-30T12:36:00Z, the moment of the test suite.
const SUITE: u64 = 1_440_938_160;
/// 2013-05-24T00:00:00Z, the moment of S3's examples.
const EXAMPLES: u64 = 1_369_353_600;
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const SECRET_OF_S3: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

struct Case<'a> {
    signer: Signer,
    host: &'a str,
    at: u64,
}

impl Case<'_> {
    fn suite(session: Option<&str>) -> Case<'static> {
        let signer = Signer::new(("AKIDEXAMPLE", SECRET), session, "us-east-1", "service");
        Case { signer, host: "example.amazonaws.com", at: SUITE }
    }

    fn s3() -> Case<'static> {
        let signer = Signer::new(("AKIAIOSFODNN7EXAMPLE", SECRET_OF_S3), None, "us-east-1", "s3");
        Case { signer, host: "examplebucket.s3.amazonaws.com", at: EXAMPLES }
    }

    fn sign(
        &self,
        method: &str,
        target: &str,
        fields: &[(&'static str, &str)],
        payload: Payload<'_>,
    ) -> Result<Request<()>, Refusal> {
        let mut head =
            Request::builder().method(method).uri(target).header("host", self.host).body(()).unwrap();
        for (name, value) in fields {
            head.headers_mut().append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let authority = Authority { host: self.host.to_owned(), port: 443 };
        let at = UNIX_EPOCH + Duration::from_secs(self.at);
        self.signer.sign(&mut head, (&authority, Scheme::Https), payload, at)?;
        Ok(head)
    }
}

fn signature(head: &Request<()>) -> &str {
    let text = head.headers()["authorization"].to_str().unwrap();
    text.split_once("Signature=").unwrap().1
}

const NOTHING: Payload<'_> = Payload::Whole(b"");

#[test]
fn the_test_suite_of_aws() {
    let form = [("content-type", "application/x-www-form-urlencoded"), ("content-length", "13")];
    let body = Payload::Whole(b"Param1=value1");
    for (method, target, fields, payload, expected) in [
        ("GET", "/", &[][..], NOTHING, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", &[], NOTHING, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            &[],
            NOTHING,
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        ("POST", "/", &form, body, "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"),
    ] {
        let head = Case::suite(None).sign(method, target, fields, payload).unwrap();
        assert_eq!(signature(&head), expected, "{method} {target}");
        assert_eq!(head.headers()["x-amz-date"], "20150830T123600Z");
    }
    let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
    let head = Case::suite(Some(token)).sign("GET", "/", &[], NOTHING).unwrap();
    assert_eq!(signature(&head), "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8");
    assert_eq!(head.headers()["x-amz-security-token"], token);
}

#[test]
fn the_examples_of_s3() {
    // https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
    let date = [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
    for (method, target, fields, body, expected) in [
        (
            "GET",
            "/test.txt",
            &[("range", "bytes=0-9")][..],
            &b""[..],
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            &date,
            b"Welcome to Amazon S3.",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        ("GET", "/?lifecycle", &[], b"", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ] {
        let head = Case::s3().sign(method, target, fields, Payload::Whole(body)).unwrap();
        assert_eq!(signature(&head), expected, "{method} {target}");
    }
    // Servers of S3 decode and encode before they check: another spelling of the same key has the same signature.
    let plain = Case::s3().sign("PUT", "/test$file.text", &date, Payload::Whole(b"Welcome to Amazon S3."));
    assert_eq!(
        signature(&plain.unwrap()),
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
    );
}

#[test]
fn the_agents_own_signature_goes_off() {
    let theirs = [
        ("authorization", "AWS4-HMAC-SHA256 Credential=AKIADUMMY/x, Signature=00"),
        ("x-amz-date", "20990101T000000Z"),
        ("x-amz-security-token", "dummy"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ("user-agent", "sdk"),
        ("accept-encoding", "identity"),
    ];
    let presigned = "/test.txt?X-Amz-Signature=00&X%2DAmz-Credential=AKIADUMMY&X-Amz-Expires=60";
    let ours = Case::s3().sign("GET", "/test.txt", &[], NOTHING).unwrap();
    for (target, fields) in [("/test.txt", &theirs[..]), (presigned, &[])] {
        let head = Case::s3().sign("GET", target, fields, NOTHING).unwrap();
        assert_eq!(signature(&head), signature(&ours));
        assert_eq!(head.uri(), "/test.txt");
        assert!(!format!("{:?}", head.headers()).contains("ummy"), "{:?}", head.headers());
    }
}

#[test]
fn a_body_that_streams() {
    let s3 = Case::s3();
    let none = HeaderMap::new();
    assert!(s3.signer.may_stream(Scheme::Https, &none));
    assert!(!s3.signer.may_stream(Scheme::Http, &none), "what is not signed is not protected without TLS");
    assert!(!Case::suite(None).signer.may_stream(Scheme::Https, &none));
    let head = s3.sign("PUT", "/a", &[], Payload::Streaming).unwrap();
    assert_eq!(head.headers()[DIGEST], "UNSIGNED-PAYLOAD");
    // Chunks without signatures pass as they are; chunks that the agent has signed would be stored as they are.
    let chunks = [(DIGEST, UNSIGNED_CHUNKS)];
    let head = s3.sign("PUT", "/a", &chunks, Payload::Whole(b"5\r\nhello\r\n0\r\n\r\n")).unwrap();
    assert_eq!(head.headers()[DIGEST], UNSIGNED_CHUNKS);
    for kind in ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"] {
        let refused = s3.sign("PUT", "/a", &[(DIGEST, kind)], Payload::Streaming).unwrap_err();
        assert_eq!(refused.code, Code::InvalidRequest);
    }
    let latin = [("x-amz-meta-name", "\u{e4}")];
    assert_eq!(s3.sign("PUT", "/a", &latin, NOTHING).unwrap_err().code, Code::InvalidRequest);
    assert!(s3.sign("PUT", "/a", &[("x-note", "\u{e4}")], NOTHING).is_ok());
}
