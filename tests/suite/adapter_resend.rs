//! Mails through Resend: sent once, found again in the logs, sent again only under their key.

use oncegate_tests::{
    agent::{Agent, Ask},
    answer::Answer,
    conf::Conf,
    provider::Provider,
    resend::{READ_KEY, Resend, SEND_KEY},
    sidecar::{Home, Sidecar},
};
use serde_json::{Value, json};

use crate::{api_invoke::invoke, law::data};

const HOST: &str = "api.resend.com";

/// A mail as the provider's own clients send it.
const MAIL: &str = r#"{"from":"Acme <billing@acme.example>","to":["alice@example.com"],"subject":"Your refund","html":"<p>120 dollars</p>"}"#;
/// What a model makes of it on its second try.
const VARIED: &str = r#"{"from":"Acme <billing@acme.example>","to":["alice@example.com"],"subject":"Your refund","html":"<p>We have refunded $120</p>"}"#;

struct Post {
    books: Resend,
    provider: Provider,
    home: Home,
}

impl Post {
    /// `more` are further keys of the adapter.
    fn open(more: &str) -> Post {
        let books = Resend::default();
        let provider = books.serve();
        let conf = Conf::default().host(HOST, provider.addr()).with(&format!(
            r#"
[secrets.RESEND_SEND]
from = {{ file = "send.key" }}
allowed_hosts = ["{HOST}"]

[secrets.RESEND_READ]
from = {{ file = "read.key" }}
allowed_hosts = ["{HOST}"]

[actions.mail]
adapter = {{ type = "resend.email_send"{more} }}
credential_secret = "RESEND_SEND"

[limits.no-mail-to-the-chief]
dimension = "resource_mutations"
period = "day"
amount = 0
resource_prefix = "billing@acme.example/chief@example.com"

[limits.mails-per-day]
dimension = "resource_mutations"
period = "day"
amount = 3
"#
        ));
        let home = Home::new(&conf);
        home.write_secret("send.key", SEND_KEY);
        home.write_secret("read.key", READ_KEY);
        Post { books, provider, home }
    }

    fn writes(&self) -> usize {
        self.provider.record().writes().len()
    }

    fn settled(&self, sidecar: &Sidecar, effect: &str) -> Value {
        let shown = sidecar.cli(&self.home, "ops", &["effect", "show", effect, "--json"]).json();
        json!([shown["outcome"], shown["grade"], shown["verification"]])
    }
}

fn send(agent: &Agent, mail: &str) -> Answer {
    let ask = Ask::json("/emails", mail)
        .field("Authorization", "Bearer re_placeholder")
        .field("User-Agent", "resend-node:6.38.0");
    agent.ask(HOST, &ask)
}

const READER: &str = ", read_secret = \"RESEND_READ\"";

#[test]
fn what_resend_gets() {
    let post = Post::open(READER);
    let sidecar = post.home.serve();
    let answer = send(&sidecar.billing(), MAIL);
    assert_eq!((answer.status, answer.outcome()), (200, "succeeded"), "{answer:?}");
    assert_eq!(answer.json()["id"], post.books.emails()[0]["id"]);
    let effect = answer.effect();
    let writes = post.provider.record().writes();
    let head = &writes[0].head;
    assert_eq!(head.field("authorization"), Some(format!("Bearer {SEND_KEY}").as_str()));
    assert_eq!(head.field("idempotency-key"), Some(format!("oncegate-{effect}").as_str()));
    assert_eq!(head.field("user-agent"), Some(format!("resend-node:6.38.0 oncegate/{effect}").as_str()));
    let mut sent: Value = serde_json::from_slice(&writes[0].body).unwrap();
    assert_eq!(sent["tags"], json!([{"name": "oncegate_effect", "value": effect}]));
    sent.as_object_mut().unwrap().remove("tags");
    assert_eq!(sent, serde_json::from_str::<Value>(MAIL).unwrap());
}

#[test]
fn a_lost_mail_is_found_in_the_logs() {
    let post = Post::open(READER);
    let sidecar = post.home.serve();
    let agent = sidecar.billing();
    post.books.lose(1);
    let lost = send(&agent, MAIL);
    lost.assert_unknown();
    assert_eq!(
        (&lost.json()["statusCode"], &lost.json()["name"]),
        (&json!(422), &json!("oncegate_outcome_unknown"))
    );
    assert_eq!(lost.json()["message"], lost.reason);
    let effect = lost.effect();

    assert_eq!(send(&agent, MAIL).assert_unknown().effect(), effect, "a repeat");
    let varied = send(&agent, VARIED);
    varied.assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(varied.json()["name"], "oncegate_unresolved_effect");
    assert!(varied.json()["message"].as_str().unwrap().contains(&effect), "{varied:?}");
    assert_eq!(post.writes(), 1);
    let held = post.home.exposure("mails-per-day");
    assert_eq!(json!([held["reserved"], held["unknown_exposure"]]), json!([1, 1]));

    let looked = sidecar.reconcile(&post.home, "ops", &effect);
    assert_eq!(looked.code, 0, "{looked:?}");
    assert_eq!(post.settled(&sidecar, &effect), json!(["succeeded", "confirmed", "provider"]));
    let reads: Vec<_> =
        post.provider.record().requests().into_iter().filter(|request| !request.is_write()).collect();
    let reader = format!("Bearer {READ_KEY}");
    assert!(reads.iter().all(|read| read.head.field("authorization") == Some(&reader)), "{reads:?}");

    let again = send(&agent, MAIL);
    assert_eq!(
        (again.status, again.header("x-idempotent-replay")),
        (200, Some("current-state")),
        "{again:?}"
    );
    assert_eq!(again.json(), json!({"id": post.books.emails()[0]["id"]}), "what the write answers");
    assert_eq!((post.writes(), post.books.emails().len()), (1, 1), "one mail");
    // It is known what became of the first one: another text to the same person is another mail.
    assert_eq!(send(&agent, VARIED).status, 200);
}

#[test]
fn where_there_are_no_logs_the_mail_says_whose_it_is() {
    let post = Post::open(READER);
    post.books.without_logs();
    let sidecar = post.home.serve();
    assert_eq!(send(&sidecar.billing(), MAIL).status, 200);
    post.books.lose(1);
    let lost = send(&sidecar.billing(), VARIED);
    lost.assert_unknown();
    assert_eq!(sidecar.reconcile(&post.home, "ops", &lost.effect()).code, 0);
    let again = send(&sidecar.billing(), VARIED);
    assert_eq!(again.json()["id"], post.books.emails()[1]["id"], "its own, not the one before it");
    assert_eq!(post.writes(), 2);
}

#[test]
fn a_key_that_may_only_send_leaves_it_unknown_and_a_replay_settles_it() {
    let post = Post::open("");
    let sidecar = post.home.serve();
    post.books.lose(1);
    let lost = send(&sidecar.billing(), MAIL);
    lost.assert_unknown();
    let effect = lost.effect();
    assert_eq!(sidecar.reconcile(&post.home, "ops", &effect).code, 13, "nothing can be read");
    assert_eq!(post.settled(&sidecar, &effect), json!(["unknown", "unknown", "unverified"]));

    let replayed = sidecar.cli(&post.home, "ops", &["effect", "replay", &effect]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    let writes = post.provider.record().writes();
    assert_eq!(writes.len(), 2);
    assert_eq!(writes[0].body, writes[1].body);
    let key = |at: usize| writes[at].head.field("idempotency-key").map(str::to_owned);
    assert_eq!(key(0), key(1));
    assert_eq!(post.books.emails().len(), 1, "Resend sent it once");
    assert_eq!(send(&sidecar.billing(), MAIL).json()["id"], post.books.emails()[0]["id"]);
}

#[test]
fn asked_for_by_name_it_is_the_same_mail() {
    let post = Post::open(READER);
    let sidecar = post.home.serve();
    let input = json!({ "input": serde_json::from_str::<Value>(MAIL).unwrap() });
    let sent = data(&invoke(&sidecar, "billing-agent", None, "mail", &input));
    assert_eq!(json!([sent["status"], sent["grade"]]), json!(["succeeded", "acknowledged"]), "{sent}");
    let again = send(&sidecar.billing(), MAIL);
    assert_eq!((again.status, again.effect()), (200, sent["effectId"].as_str().unwrap().to_owned()));
    assert_eq!(post.writes(), 1);
}

#[test]
fn a_conflict_on_the_key_proves_nothing() {
    let post = Post::open(READER);
    let sidecar = post.home.serve();
    let busy = r#"{"statusCode":409,"name":"concurrent_idempotent_requests","message":"in progress"}"#;
    post.provider.on_write(oncegate_tests::script::Reply::json("409 Conflict", busy));
    send(&sidecar.billing(), MAIL).assert_unknown();
}

#[test]
fn every_recipient_counts_against_the_limit() {
    let post = Post::open(READER);
    let sidecar = post.home.serve();
    let four = MAIL.replace(
        r#"["alice@example.com"]"#,
        r#"["a@example.com","b@example.com"],"cc":"c@example.com","bcc":["d@example.com"]"#,
    );
    let over = send(&sidecar.billing(), &four);
    over.assert_refused(403, "oncegate_limit_exceeded");
    assert_eq!(over.json()["statusCode"], 403);
    let two = MAIL.replace(r#""subject""#, r#""cc":["b@example.com"],"subject""#);
    assert_eq!(send(&sidecar.billing(), &two).status, 200);
    assert_eq!(post.home.exposure("mails-per-day")["consumed"], 2);
    assert_eq!(post.writes(), 1);
}

/// Neither the order of the addresses, nor a copy, nor the sender of a template leads past a limit on one person.
#[test]
fn p5_a_limit_on_a_recipient_is_left_by_no_way_to_name_one() {
    let post = Post::open(READER);
    let sidecar = post.home.serve();
    let to = r#"["alice@example.com"]"#;
    for mail in [
        MAIL.replace(to, r#"["Chief <Chief@example.com>","alice@example.com"]"#),
        MAIL.replace(r#""subject""#, r#""cc":"chief@example.com","subject""#),
        r#"{"to":"chief@example.com","template":{"id":"t1"}}"#.to_owned(),
    ] {
        send(&sidecar.billing(), &mail).assert_refused(403, "oncegate_limit_exceeded");
    }
    assert_eq!(send(&sidecar.billing(), r#"{"to":"alice@example.com","template":{"id":"t1"}}"#).status, 200);
    assert_eq!(post.writes(), 1);
}

#[test]
fn the_strict_fence_also_stops_another_subject_line() {
    let post = Post::open(", fence = \"recipients\"");
    let sidecar = post.home.serve();
    post.books.lose(1);
    send(&sidecar.billing(), MAIL).assert_unknown();
    let other = send(&sidecar.billing(), &MAIL.replace("Your refund", "120 dollars are on their way"));
    other.assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(post.writes(), 1);
}
