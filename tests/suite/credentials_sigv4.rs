//! Requests that are signed for AWS: each is checked here as a service would, with nothing of ours but its bytes.

use std::{collections::BTreeMap, net::SocketAddr};

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    binary::Build,
    conf::{AWS_KEY_ID as KEY_ID, AWS_SECRET as SECRET, AWS_SESSION as SESSION, Conf},
    provider::Provider,
    record::Request,
    script::Reply,
    sidecar::{Home, Sidecar, TRACED},
};
use ring::hmac;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::law::{approval_in, ops};

const BUCKET: &str = "bucket.s3.eu-central-1.amazonaws.com";
const QUEUE: &str = "sqs.eu-central-1.amazonaws.com";
/// What the agent's library signs with.
const DUMMY: &str = "AWS4-HMAC-SHA256 Credential=AKIADUMMY/20200101/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=00";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// Percent-decodes, then encodes all but the unreserved.
fn spelled(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits =
            after.get(..2).and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match (first, digits) {
            (b'%', Some(byte)) => (bytes.push(byte), rest = &after[2..]).1,
            (byte, _) => (bytes.push(*byte), rest = after).1,
        }
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    bytes.iter().map(|b| if plain(*b) { char::from(*b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// What a service does with a request before it reads it. Gives the payload that was signed for.
#[track_caller]
fn check(request: &Request, service: &str) -> String {
    let fields: BTreeMap<String, &str> =
        request.head.fields.iter().map(|(name, value)| (name.to_lowercase(), value.as_str())).collect();
    let authorization = fields["authorization"];
    let part = |name: &str| {
        let rest = authorization.split_once(name).unwrap_or_else(|| panic!("no {name} in {authorization}")).1;
        rest.split(',').next().unwrap().trim()
    };
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let path: Vec<String> = path.split('/').map(spelled).collect();
    // All but S3 encode the path as it came once more.
    let again = |path: String| if service == "s3" { path } else { path.replace('%', "%25") };
    let mut pairs: Vec<String> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| format!("{}={}", spelled(name), spelled(value)))
        .collect();
    pairs.sort();
    let signed = part("SignedHeaders=");
    for needed in ["host", "x-amz-date"]
        .into_iter()
        .chain(fields.keys().map(String::as_str).filter(|f| f.starts_with("x-amz-")))
    {
        assert!(signed.split(';').any(|name| name == needed), "{needed} is not signed: {signed}");
    }
    let headers: String = signed.split(';').map(|name| format!("{name}:{}\n", fields[name].trim())).collect();
    let digest = hex(&Sha256::digest(&request.body));
    let payload = fields.get("x-amz-content-sha256").map_or(digest.clone(), |said| (*said).to_owned());
    let canonical =
        [&request.method, &again(path.join("/")), &pairs.join("&"), &headers, signed, &payload].join("\n");
    let (moment, scope) = (fields["x-amz-date"], part("Credential=").split_once('/').unwrap());
    assert_eq!(scope.0, KEY_ID);
    assert_eq!(scope.1, format!("{}/eu-central-1/{service}/aws4_request", &moment[..8]));
    let text = ["AWS4-HMAC-SHA256", moment, scope.1, &hex(&Sha256::digest(canonical.as_bytes()))].join("\n");
    let key = scope.1.split('/').fold(format!("AWS4{SECRET}").into_bytes(), |key, part| mac(&key, part));
    assert_eq!(part("Signature="), hex(&mac(&key, &text)), "signed for:\n{canonical}");
    assert!(
        payload == digest
            || ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"].contains(&payload.as_str()),
        "{payload}"
    );
    payload
}

fn host(name: &str, at: SocketAddr, service: &str, more: &str) -> String {
    format!(
        r#"
[hosts."{name}"]
credential = {{ sigv4 = {{ region = "eu-central-1", service = "{service}", access_key = "AWS_ID", secret_key = "AWS_SECRET"{more} }} }}
writes = "allow"
connect_to = "{at}"
ca_file = "upstream-ca.pem"
"#
    )
}

const SECRETS: &str = r#"
[secrets.AWS_ID]
from = { env = "AWS_ID" }
allowed_hosts = [".amazonaws.com"]
[secrets.AWS_SECRET]
from = { env = "AWS_SECRET" }
allowed_hosts = [".amazonaws.com"]
[secrets.AWS_SESSION]
from = { env = "AWS_SESSION" }
allowed_hosts = [".amazonaws.com"]
"#;

fn put_object(more: &str) -> String {
    format!(
        r#"
[actions.put-object]
method = "PUT"
url = "https://{BUCKET}/reports/{{{{input.name}}}}"
subject = "{{{{input.name}}}}"
idempotency = {{ header = "x-amz-meta-key", window = "1h" }}
{more}
"#
    )
}

struct Cloud {
    provider: Provider,
    home: Home,
}

impl Cloud {
    fn open(action: &str) -> Cloud {
        let provider = Provider::tls(&[BUCKET, QUEUE]);
        let at = provider.addr();
        let session = ", session_token = \"AWS_SESSION\"";
        let conf = Conf::default()
            .proxy("max_request_body = \"64KiB\"")
            .with(&host(BUCKET, at, "s3", ""))
            .with(&host(QUEUE, at, "sqs", session))
            .with(&format!("{SECRETS}{action}"));
        Cloud { provider, home: Home::new(&conf) }
    }

    fn serve(&self) -> Sidecar {
        let env = [("AWS_ID", KEY_ID), ("AWS_SECRET", SECRET), ("AWS_SESSION", SESSION)];
        self.home.serve_with(Build::Plain, &[&env[..], &TRACED].concat())
    }

    fn last(&self) -> Request {
        self.provider.record().requests().pop().expect("a request")
    }
}

fn put(sidecar: &Sidecar, target: &str) -> Answer {
    let ask = Ask::json(target, r#"{"total":12}"#)
        .field("Authorization", DUMMY)
        .field("X-Amz-Date", "20200101T000000Z")
        .field("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
        .field("X-Amz-Security-Token", "dummy-session")
        .field("X-Amz-Storage-Class", "STANDARD_IA");
    sidecar.billing().ask(BUCKET, &Ask { method: "PUT".into(), ..ask })
}

#[test]
fn a_governed_write_is_signed_over_what_is_sent() {
    let cloud = Cloud::open(&put_object(""));
    let sidecar = cloud.serve();
    // A service that says what it was given.
    let echo = format!("<Error><AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId></Error>");
    cloud.provider.on_write(Reply::json("403 Forbidden", &echo));
    let answer = put(&sidecar, "/reports/q%201.json");
    assert_eq!((answer.status, answer.outcome()), (403, "failed"), "{answer:?}");
    assert!(
        !answer.everything().contains(KEY_ID) && answer.text().contains("{{secret:AWS_ID}}"),
        "{answer:?}"
    );
    let sent = cloud.last();
    let digest = check(&sent, "s3");
    assert_eq!(
        digest,
        hex(&Sha256::digest(br#"{"total":12}"#)),
        "the body itself is signed, whatever the agent said"
    );
    let text = String::from_utf8_lossy(&cloud.provider.record().all_bytes()).into_owned();
    assert!(
        !text.contains("AKIADUMMY") && !text.contains("dummy-session") && !text.contains("20200101T"),
        "{text}"
    );
    assert!(!text.contains(SECRET), "the secret key never leaves");
    assert_eq!(sent.head.field("x-amz-storage-class"), Some("STANDARD_IA"));
    assert!(!sidecar.log().contains(SECRET) && !sidecar.log().contains(KEY_ID), "{}", sidecar.log());
}

#[test]
fn what_is_taken_off_makes_no_other_request_and_what_is_said_to_amazon_does() {
    let cloud = Cloud::open(
        r#"
[actions.put-item]
method = "POST"
url = "https://sqs.eu-central-1.amazonaws.com/"
headers = { "X-Amz-Target" = "DynamoDB_20120810.PutItem" }
"#,
    );
    let sidecar = cloud.serve();
    let agent = sidecar.billing();
    let ask = |target: &str, said: &[(&str, &str)]| {
        let ask = Ask::json(target, r#"{"TableName":"t"}"#);
        agent.ask(QUEUE, &said.iter().fold(ask, |ask, (name, value)| ask.field(name, value)))
    };
    let put = ("X-Amz-Target", "DynamoDB_20120810.PutItem");
    cloud.provider.on_write(Reply::lost());
    ask("/?X-Amz-Date=20200101T000000Z&X-Amz-Signature=00", &[put]).assert_unknown();
    for signature in ["01", "02"] {
        let again = ask(&format!("/?x-amz-date=20200102T000000Z&X-Amz-Signature={signature}"), &[put]);
        again.assert_unknown();
    }
    assert_eq!(cloud.provider.record().writes().len(), 1, "presigned anew, it is the same request");
    for (name, value) in [
        ("X-Amz-Target", "DynamoDB_20120810.DeleteTable"),
        ("X-Amz-Copy-Source", "/other/secret"),
        ("X-Amz-Acl", "public-read"),
        ("X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ] {
        ask("/", &[(name, value)]).assert_refused(400, "oncegate_invalid_request");
    }
    for parameter in
        ["acl", "retention", "versionId=1&legal-hold", "partNumber=1&uploadId=x", "x-amz-acl=public-read"]
    {
        ask(&format!("/?{parameter}"), &[put]).assert_refused(400, "oncegate_invalid_request");
    }
    // Described otherwise, it is another request; a library says which operation it means.
    let other = ask("/?x-id=PutItem", &[put, ("X-Amz-Meta-Colour", "red")]);
    assert_eq!((other.status, other.outcome()), (200, "succeeded"), "{other:?}");
    let writes = cloud.provider.record().writes();
    let targets: Vec<_> = writes.iter().map(|write| write.target.as_str()).collect();
    assert_eq!(targets, ["/", "/?x-id=PutItem"]);
}

#[test]
fn a_replay_and_an_approved_write_are_signed_when_they_are_sent() {
    let cloud = Cloud::open(&put_object("requires_approval = true"));
    let sidecar = cloud.serve();
    let parked = put(&sidecar, "/reports/a.json");
    cloud.provider.on_write(Reply::lost());
    assert_eq!(ops(&cloud.home, &sidecar, &["approve", &approval_in(&parked)]).code, 13);
    assert_eq!(ops(&cloud.home, &sidecar, &["effect", "replay", &parked.effect()]).code, 0);
    let writes = cloud.provider.record().writes();
    assert_eq!(writes.len(), 2);
    assert_eq!(check(&writes[0], "s3"), check(&writes[1], "s3"));
    let key = |at: usize| writes[at].head.field("x-amz-meta-key").map(str::to_owned);
    assert!(key(0).is_some() && key(0) == key(1), "the key that the replay stands on is signed as well");
    let shown = cloud.home.effect(&parked.effect());
    assert_eq!(shown["credential"], json!({ "signature": ["AWS_ID", "AWS_SECRET"] }));
}

#[test]
fn reads_queries_and_a_session() {
    let cloud = Cloud::open("");
    let sidecar = cloud.serve();
    let agent = sidecar.billing();
    for (host, service, target) in [
        (BUCKET, "s3", "/?list-type=2&prefix=a%2Fb%20c&acl"),
        (BUCKET, "s3", "/a%20b/c(1).txt?versionId=3%2F4"),
        (
            BUCKET,
            "s3",
            "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIADUMMY&X-Amz-Signature=00&prefix=x",
        ),
        (QUEUE, "sqs", "/123/name%20x?Action=ReceiveMessage&Attribute.1=All&empty="),
    ] {
        assert_eq!(agent.ask(host, &Ask::get(target).field("Range", "bytes=0-9")).status, 200, "{target}");
        let sent = cloud.last();
        check(&sent, service);
        assert!(!sent.target.contains("X-Amz-"), "{}", sent.target);
        assert_eq!(sent.head.field("x-amz-security-token"), Some(SESSION).filter(|_| service == "sqs"));
    }
}

#[test]
fn bodies_that_stream() {
    let cloud = Cloud::open("");
    let sidecar = cloud.serve();
    let agent = sidecar.billing();
    let chunked = |target: &str, size: usize| {
        let chunk = "x".repeat(size);
        let body = format!("{size:x}\r\n{chunk}\r\n0\r\n\r\n");
        // Written by hand: `Ask` would announce a length.
        let mut tunnel = agent.tunnel(if target.starts_with("/q") { QUEUE } else { BUCKET });
        let host = if target.starts_with("/q") { QUEUE } else { BUCKET };
        let head =
            format!("PUT {target} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        drop(tunnel.send(head.as_bytes()));
        tunnel.answer().unwrap()
    };
    // To S3, inside TLS, a body of any size goes on as it comes.
    assert_eq!(chunked("/big", 100_000).status, 200);
    let sent = cloud.last();
    assert_eq!((check(&sent, "s3").as_str(), sent.body.len()), ("UNSIGNED-PAYLOAD", 100_000));
    // Others check the body: it is read whole first, as large as a governed one may be.
    assert_eq!(chunked("/queue", 1_000).status, 200);
    let sent = cloud.last();
    assert_eq!((check(&sent, "sqs"), sent.body.len()), (hex(&Sha256::digest(&sent.body)), 1_000));
    chunked("/queue", 100_000).assert_refused(400, "oncegate_body_too_large");
    // In chunks of its own, with a checksum and without signatures; and with signatures, which are the agent's.
    let aws_chunked = |kind: &str| {
        let body = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
        let ask = Ask::new("PUT", "/chunks")
            .body(body)
            .field("X-Amz-Content-Sha256", kind)
            .field("Content-Encoding", "aws-chunked");
        agent.ask(BUCKET, &ask)
    };
    assert_eq!(aws_chunked("STREAMING-UNSIGNED-PAYLOAD-TRAILER").status, 200);
    assert_eq!(check(&cloud.last(), "s3"), "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
    aws_chunked("STREAMING-AWS4-HMAC-SHA256-PAYLOAD").assert_refused(400, "oncegate_invalid_request");
}
