//! Providers that pack their answers although they were asked not to: the credential is found all the same, and what
//! cannot be searched is not shown.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use oncegate_tests::{
    agent::Ask,
    conf::{CREDENTIAL, Conf, stripe_conf},
    provider::{Brain, Provider},
    record::Request,
    script::{Act, Reply},
    sidecar::Home,
    stripe::Stripe,
};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::shop::{DESK, REFUND, Shop, desk_conf, ticket};

/// `{"says":"sk_test_9fJcR7uWq2LzXb4T","again":"sk_test_9fJcR7uWq2LzXb4T"}` in brotli.
const BROTLI: &str = "G0UA+MWoa+TLR5GAN0/fVkmVqQgxI5UMaywv1uJeYbFO2dasW2ZaV/lqT2bqPWnJQxDM/A==";
/// 100 MiB of zeros in brotli.
const BROTLI_BOMB: &str = "y///P/gnAOKxQCD3/o///3/wTwDEYRGA7v0f////4J8AiMMCAN37P/7//8E/ARCHBQC693/8//+DfwIgDgsAdO//+P//B/8EQBwWAOje//H//w/+CYA4LADQvf/j//8f/BMAcVgAoHv/x///P/gnAOKwAED3/o///3/wTwDEYQGA7v0f////4J8AiMMCAN37P/7//8E/ARCHBQC693/5//+DfwIgDgsAdO9/AA==";

fn says() -> String {
    format!(r#"{{"says":"{CREDENTIAL}","again":"{CREDENTIAL}"}}"#)
}

const CLEAN: &str = r#"{"says":"{{secret:STRIPE_KEY}}","again":"{{secret:STRIPE_KEY}}"}"#;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn packed() -> [(&'static str, Vec<u8>); 4] {
    [
        ("gzip", gzip(says().as_bytes())),
        ("deflate", deflate(says().as_bytes())),
        ("br", STANDARD.decode(BROTLI).unwrap()),
        ("zstd", compress_to_vec(says().as_bytes(), CompressionLevel::Fastest)),
    ]
}

fn answer(coding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// In two chunks, cut anywhere.
fn chunked(coding: &str, body: &[u8]) -> Vec<u8> {
    let (first, second) = body.split_at(body.len() / 2);
    let mut all = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {coding}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for part in [first, second] {
        all.extend(format!("{:x}\r\n", part.len()).into_bytes());
        all.extend_from_slice(part);
        all.extend_from_slice(b"\r\n");
    }
    all.extend_from_slice(b"0\r\n\r\n");
    all
}

#[test]
fn what_is_passed_on_is_unpacked_and_searched() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    for (coding, body) in packed() {
        for bytes in [answer(coding, &body), chunked(coding, &body)] {
            shop.provider.on_read(Reply::raw(bytes));
            let answer = tunnel.ask(&Ask::get("/v1/refunds").field("Accept-Encoding", "gzip, br"));
            assert_eq!((answer.text().as_str(), answer.complete), (CLEAN, true), "{coding}: {answer:?}");
            assert_eq!(answer.header("content-encoding"), None, "{coding}");
        }
    }
    let asked = shop.provider.record().requests().pop().unwrap();
    assert_eq!(asked.head.field("accept-encoding"), Some("identity"));
    assert_eq!(shop.provider.record().connections(), 1, "the connection is used again");
    // An answer to HEAD speaks of the same answer.
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\n\r\n";
    shop.provider.on_read(Reply::raw(head));
    let answer = tunnel.ask(&Ask::new("HEAD", "/v1/refunds"));
    assert_eq!(
        (answer.header("content-encoding"), answer.header("content-length")),
        (None, None),
        "{answer:?}"
    );
}

#[test]
fn what_is_cut_broken_or_a_bomb_is_told_to_be_a_part() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let whole = gzip(says().as_bytes());
    let bomb = STANDARD.decode(BROTLI_BOMB).unwrap();
    for (what, bytes) in [
        ("cut", chunked("gzip", &whole[..whole.len() - 9])),
        ("cut, with a length", answer("gzip", &whole[..whole.len() - 9])),
        ("not packed", answer("gzip", says().as_bytes())),
        ("a bomb", answer("br", &bomb)),
    ] {
        shop.provider.on_read(Reply::raw(bytes));
        let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
        tunnel.start(&Ask::get("/v1/refunds"));
        // It may break before its head has gone.
        let Ok(answer) = tunnel.answer() else { continue };
        assert!(!answer.complete, "{what}: {answer:?}");
        assert!(answer.body.len() < 16 * 1024 * 1024, "{what}: {} bytes", answer.body.len());
        assert!(!answer.text().contains(CREDENTIAL), "{what}");
    }
}

#[test]
fn what_cannot_be_searched_is_withheld_where_a_credential_was_placed() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let part = "HTTP/1.1 206 Partial Content\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\n\x1f\x1f";
    for bytes in
        [answer("compress", b"??"), answer("gzip, gzip", &gzip(&gzip(b"x"))), part.as_bytes().to_vec()]
    {
        shop.provider.on_read(Reply::raw(bytes));
        let answer = sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/refunds"));
        answer.assert_own(422, "oncegate_answer_withheld");
    }
    // Without a credential there is nothing to look for: it is passed on as it came, packed in whatever way.
    let desk = Provider::tls(&[DESK]);
    let home = Home::new(&Conf::default().host(DESK, desk.addr()));
    let sidecar = home.serve();
    desk.on_read(Reply::raw(answer("compress", b"??")));
    let passed = sidecar.billing().ask(DESK, &Ask::get("/").field("Accept-Encoding", "compress"));
    assert_eq!((passed.header("content-encoding"), passed.text().as_str()), (Some("compress"), "??"));
    assert_eq!(desk.record().requests()[0].head.field("accept-encoding"), Some("compress"));
}

/// A coding of the framing goes off with the framing: an agent could not even tell that the body is packed.
#[test]
fn p7_what_the_framing_packs_is_not_shown_and_not_kept() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let framed = |codings: &str| {
        let whole = String::from("Transfer-Encoding: chunked");
        let head = format!("Transfer-Encoding: {codings}");
        let bytes = chunked("identity", &gzip(says().as_bytes()));
        let at = bytes.windows(whole.len()).position(|at| at == whole.as_bytes()).unwrap();
        [&bytes[..at], head.as_bytes(), &bytes[at + whole.len()..]].concat()
    };
    for (number, codings) in ["gzip, chunked", "gzip\r\nTransfer-Encoding: chunked"].iter().enumerate() {
        shop.provider.on_read(Reply::raw(framed(codings)));
        let read = sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/refunds"));
        read.assert_own(422, "oncegate_answer_withheld");
        shop.provider.on_write(Reply::raw(framed(codings)));
        let form = format!("payment_intent=pi_{number}&amount=100");
        sidecar.billing().refund(None, &form).assert_unknown();
    }
    assert_eq!(shop.home.query("SELECT * FROM response"), Vec::<serde_json::Value>::new());
    // Without a credential it cannot be passed on as it came either.
    let desk = Provider::tls(&[DESK]);
    let home = Home::new(&Conf::default().host(DESK, desk.addr()));
    let sidecar = home.serve();
    desk.on_read(Reply::raw(framed("gzip, chunked")));
    sidecar.billing().ask(DESK, &Ask::get("/")).assert_own(422, "oncegate_answer_withheld");
    desk.on_read(Reply::raw(framed("Chunked")));
    let passed = sidecar.billing().ask(DESK, &Ask::get("/"));
    assert_eq!((passed.status, passed.body), (200, gzip(says().as_bytes())));
}

/// It carries no credential; who answers may know one all the same, from the requests before it.
#[test]
fn p7_the_answer_to_options_is_searched_too() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let options = Ask::new("OPTIONS", "/v1/refunds").field("Accept-Encoding", "gzip");
    for (coding, body) in packed() {
        shop.provider.on_read(Reply::raw(answer(coding, &body)));
        let answer = sidecar.billing().ask("api.stripe.com", &options);
        assert_eq!((answer.status, answer.text().as_str()), (200, CLEAN), "{coding}: {answer:?}");
    }
    let asked = shop.provider.record().requests().pop().unwrap();
    assert_eq!(
        (asked.head.field("authorization"), asked.head.field("accept-encoding")),
        (None, Some("identity"))
    );
}

#[test]
fn a_governed_answer_is_kept_unpacked_and_judged() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    for (number, (coding, body)) in packed().into_iter().enumerate() {
        shop.provider.on_write(Reply::raw(chunked(coding, &body)));
        let form = format!("payment_intent=pi_{number}&amount=100");
        let first = sidecar.billing().refund(None, &form);
        assert_eq!(
            (first.status, first.outcome(), first.text().as_str()),
            (200, "succeeded", CLEAN),
            "{coding}"
        );
        assert_eq!(first.header("content-encoding"), None, "{coding}");
        let repeat = sidecar.billing().refund(None, &form);
        assert_eq!(repeat.body, first.body, "{coding}: what is kept is for every client");
    }
    assert_eq!(shop.writes(), 4);
}

/// An API that speaks inside a 2xx is understood when it packs what it says, and not taken for one that says nothing.
#[test]
fn what_is_said_inside_a_packed_success_counts() {
    let desk = Provider::tls(&[DESK]);
    let rules = r#"response = { succeeded_when = [{ path = "ok", equals = true }], failed_when = [{ path = "ok", equals = false }] }"#;
    let mut conf = desk_conf(desk.addr());
    conf.rest = conf.rest.replace("impact = {", &format!("{rules}\nimpact = {{"));
    let home = Home::new(&conf);
    let sidecar = home.serve();
    let said = |bytes: Vec<u8>, title: &str| {
        desk.on_write(Reply::raw(bytes));
        sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket(title))).outcome().to_owned()
    };
    assert_eq!(said(answer("gzip", &gzip(br#"{"ok":true}"#)), "one"), "succeeded");
    assert_eq!(said(answer("deflate", &deflate(br#"{"ok":false}"#)), "two"), "failed");
    assert_eq!(
        said(answer("compress", br#"{"ok":true}"#), "three"),
        "succeeded",
        "no credential, nothing to withhold"
    );
}

#[test]
fn a_governed_answer_that_cannot_be_read_is_no_proof_and_one_that_cannot_be_searched_is_not_shown() {
    let shop = Shop::open_with(|at| stripe_conf(at).proxy("max_response_body = \"1MiB\""));
    let sidecar = shop.home.serve();
    let whole = gzip(says().as_bytes());
    let bomb = STANDARD.decode(BROTLI_BOMB).unwrap();
    let zeros = gzip(&vec![b' '; 2 * 1024 * 1024]);
    for (number, bytes) in [
        chunked("gzip", &whole[..whole.len() - 1]),
        answer("gzip", says().as_bytes()),
        answer("br", &bomb),
        answer("gzip", &zeros),
    ]
    .into_iter()
    .enumerate()
    {
        shop.provider.on_write(Reply::raw(bytes));
        sidecar.billing().refund(None, &format!("payment_intent=pi_{number}&amount=100")).assert_unknown();
    }
    // The status is the provider's, and so is the verdict; the body is not shown.
    shop.provider.on_write(Reply::raw(answer("compress", says().as_bytes())));
    let form = "payment_intent=pi_8&amount=100";
    let first = sidecar.billing().refund(None, form);
    assert_eq!((first.status, first.outcome()), (200, "succeeded"), "{first:?}");
    assert!(first.text().contains("withholds") && !first.everything().contains(CREDENTIAL), "{first:?}");
    assert_eq!(first.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(sidecar.billing().refund(None, form).body, first.body);
    // An empty body has nothing to hide, whatever it is said to be packed in.
    shop.provider.on_write(Reply::raw(answer("compress", b"")));
    let empty = sidecar.billing().refund(None, "payment_intent=pi_9&amount=100");
    assert_eq!((empty.status, empty.text().as_str()), (200, ""), "{empty:?}");
}

/// Stripe, with every answer to a read packed.
struct Packing {
    books: Stripe,
    packed: Arc<AtomicBool>,
}

impl Brain for Packing {
    fn answer(&self, request: &Request) -> Reply {
        let reply = self.books.answer(request);
        let [Act::Send(bytes)] = reply.acts.as_slice() else { return reply };
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        if request.is_write() || !bytes.starts_with(b"HTTP/1.1 200") {
            return reply;
        }
        self.packed.store(true, SeqCst);
        Reply::raw(answer("gzip", &gzip(&bytes[end..])))
    }
}

#[test]
fn a_read_back_reads_what_is_packed() {
    let books = Stripe::default();
    let packed = Arc::new(AtomicBool::new(false));
    let brain = Packing { books: books.clone(), packed: Arc::clone(&packed) };
    let provider = Provider::tls_with(&["api.stripe.com"], Arc::new(brain));
    let home = Home::new(&stripe_conf(provider.addr()));
    let sidecar = home.serve();
    books.lose(1);
    let effect = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    assert_eq!(sidecar.reconcile(&home, "ops", &effect).code, 0, "the refund is found");
    assert!(packed.load(SeqCst), "the list was packed");
    assert_eq!(home.effect(&effect)["outcome"], "succeeded");
}
