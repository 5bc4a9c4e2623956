//! A secret that is planted shows up nowhere: answers, logs at trace level, files, commands' output.

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    canary::Finder,
    conf::{CREDENTIAL, OPS_KEY},
    script::{Act, Reply},
};

use crate::{
    observed::metrics,
    shop::{KEYS, REFUND, Shop, VARIED},
};

#[test]
fn planted_secret() {
    let shop = Shop::open();
    let sidecar = shop.home.serve_traced();
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
    answers.push(metrics(&sidecar, Some(OPS_KEY)));
    for (number, answer) in answers.iter().enumerate() {
        // Each was looked through while it was read. Once more as it is understood, without its framing.
        Finder::everything().nowhere_in(&format!("answer {number}"), answer.everything().as_bytes());
    }
    for args in
        [&["effect", "reconcile", &lost][..], &["effect", "show", &lost, "--json"], &["effects", "--json"]]
    {
        let done = sidecar.cli(&shop.home, "ops", args);
        Finder::everything().nowhere_in(&format!("output of {args:?}"), format!("{done:?}").as_bytes());
    }
    assert!(sidecar.log().contains("TRACE"), "the log is at trace level");
    assert!(shop.home.path("oncegate.db-wal").exists(), "the log of the database is looked at too");
    assert!(shop.home.shows_no_secret() >= 6, "database, WAL, logs, certificates, configuration");
    assert_eq!(sidecar.stop(), 0);
}
