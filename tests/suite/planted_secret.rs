//! A secret that is planted shows up nowhere: answers, logs at trace level, files, commands' output.

use std::{fs, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    binary::Build,
    conf::{BILLING_KEY, CREDENTIAL, OPS_KEY},
    script::{Act, Reply},
};

use crate::shop::{KEYS, REFUND, Shop, VARIED};

/// The ways in which a secret may be spelt: as it is, in hex, and in base64 wherever it may start in the text.
fn spellings(secret: &str) -> Vec<Vec<u8>> {
    let hex: String = secret.bytes().map(|b| format!("{b:02x}")).collect();
    let mut all = vec![secret.as_bytes().to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes()];
    for shift in 0..3 {
        let padded = [&b"xxx"[..shift], secret.as_bytes()].concat();
        let text = STANDARD.encode(padded);
        // Without the ends, which depend on what stands before and after.
        all.push(text.as_bytes()[4..text.len() - 4].to_vec());
    }
    all
}

#[track_caller]
fn nowhere_in(place: &str, bytes: &[u8]) {
    for secret in [CREDENTIAL, BILLING_KEY, OPS_KEY] {
        for spelling in spellings(secret) {
            let found = bytes.windows(spelling.len()).any(|window| window == spelling);
            assert!(!found, "{secret}, as {}, is in {place}", String::from_utf8_lossy(&spelling));
        }
    }
}

fn nowhere_below(dir: &Path) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += nowhere_below(&path);
        } else if path.is_file() {
            nowhere_in(&path.display().to_string(), &fs::read(&path).unwrap());
            files += 1;
        }
    }
    files
}

#[test]
fn the_search_finds_what_is_there() {
    for shift in 0..3 {
        let text = STANDARD.encode(format!("{}user:{CREDENTIAL}!", "-".repeat(shift)));
        let found = spellings(CREDENTIAL).iter().any(|s| text.as_bytes().windows(s.len()).any(|w| w == s));
        assert!(found, "not found in {text}");
    }
}

#[test]
fn planted_secret() {
    let shop = Shop::open();
    let sidecar =
        shop.home.serve_with(Build::Plain, &[("ONCEGATE_LOG", "trace"), ("RUST_BACKTRACE", "full")]);
    let agent = sidecar.billing();
    let mut answers: Vec<Answer> = Vec::new();

    answers.push(agent.refund(None, REFUND));
    answers.push(agent.refund(None, REFUND));
    shop.books.lose(1);
    answers.push(agent.refund(Some(KEYS[0]), "payment_intent=pi_2&amount=100"));
    let lost = answers[2].effect();
    answers.push(agent.refund(Some(KEYS[1]), "payment_intent=pi_2&amount=200"));
    // A provider that shows what it was given: in a header, in a success, in a refusal, in a garbled answer.
    let shown = format!(r#"{{"error":{{"message":"Invalid API Key provided: {CREDENTIAL}"}}}}"#);
    let header = [("X-You-Sent", CREDENTIAL)];
    shop.provider.on_write(Reply::with("401 Unauthorized", &header, &shown));
    answers.push(agent.refund(None, "payment_intent=pi_3&amount=100"));
    shop.provider.on_write(Reply::with("200 OK", &header, &shown));
    answers.push(agent.refund(None, "payment_intent=pi_4&amount=100"));
    shop.provider.on_write(Reply::with("500 Internal Server Error", &header, &shown));
    answers.push(agent.refund(None, "payment_intent=pi_5&amount=100"));
    let cut = format!("HTTP/1.1 200 OK\r\nX-You-Sent: {CREDENTIAL}\r\nContent-Length: 900\r\n\r\n{shown}");
    shop.provider.on_write(Reply::raw(cut).then(Act::Fin));
    answers.push(agent.refund(None, "payment_intent=pi_6&amount=100"));
    shop.provider.on_read(Reply::with("200 OK", &header, &shown));
    answers.push(agent.ask("api.stripe.com", &Ask::get("/v1/refunds/re_1")));
    // Where a scrubber could forget to look: the reason phrase, and a field that is no text.
    let odd =
        format!("HTTP/1.1 400 No {CREDENTIAL}\r\nX-You-Sent: é{CREDENTIAL}\r\nContent-Length: 2\r\n\r\n{{}}");
    shop.provider.on_read(Reply::raw(odd));
    answers.push(agent.ask("api.stripe.com", &Ask::get("/v1/refunds/re_1")));
    // Refusals on the way in, and a wrong key.
    answers.push(agent.refund(None, VARIED));
    answers.push(agent.ask("api.stripe.com", &Ask::form("/v1/refunds", "amount=-1&payment_intent=pi_7")));
    answers.push(
        agent
            .authorized(Some("Basic d3Jvbmc6d3Jvbmc="))
            .raw(b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n")
            .unwrap(),
    );

    let sent = String::from_utf8_lossy(&shop.provider.record().all_bytes()).into_owned();
    assert!(sent.contains(CREDENTIAL), "the provider did get it");
    for (number, answer) in answers.iter().enumerate() {
        nowhere_in(&format!("answer {number}"), answer.everything().as_bytes());
    }
    for args in
        [&["effect", "reconcile", &lost][..], &["effect", "show", &lost, "--json"], &["effects", "--json"]]
    {
        let done = sidecar.cli(&shop.home, "ops", args);
        nowhere_in(&format!("output of {args:?}"), format!("{done:?}").as_bytes());
    }
    assert!(sidecar.log().contains("TRACE"), "the log is at trace level");
    assert!(shop.home.path("oncegate.db-wal").exists(), "the log of the database is looked at too");
    assert!(nowhere_below(shop.home.dir()) >= 6, "database, WAL, logs, certificates, configuration");
    assert_eq!(sidecar.stop(), 0);
    nowhere_below(shop.home.dir());
}
