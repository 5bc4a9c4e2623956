//! Every page of `docs/refusals/`: a request that earns the code, over a real socket, and an answer that is as the
//! page says. Nothing but what the page admits reaches the provider.

use std::{fs, net::SocketAddr, path::PathBuf};

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    binary::Build,
    conf::{Conf, FILE_FIRST, stripe_conf},
    dead::Refusing,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
    wait::PATIENCE,
};
use rusqlite::Connection;

use crate::degraded::ready;
use crate::law::{approval_in, call};
use crate::shop::{DESK, REFUND, Shop, VARIED, desk_conf, ticket};

/// What earns a code: plays in a shop of its own and gives the answer.
type Scene = fn() -> Answer;

const SCENES: [(&str, Scene); 25] = [
    ("outcome_unknown", outcome_unknown),
    ("not_sent", not_sent),
    ("failed", failed_by_a_person),
    ("failed", failed_without_an_answer),
    ("key_reuse", key_reuse),
    ("unresolved_effect", unresolved_effect),
    ("approval_required", approval_required),
    ("denied", denied),
    ("limit_exceeded", limit_exceeded),
    ("amount_unbounded", amount_unbounded),
    ("halted", halted),
    ("undeclared", undeclared),
    ("ambiguous", ambiguous),
    ("invalid_input", invalid_input),
    ("invalid_request", invalid_request),
    ("incomplete_request", incomplete_request),
    ("body_too_large", body_too_large),
    ("credential_unavailable", credential_unavailable),
    ("retry_refused", retry_refused),
    ("dependency_unmet", dependency_unmet),
    ("store_unavailable", store_unavailable),
    ("in_flight", in_flight),
    ("overloaded", overloaded),
    ("answer_withheld", answer_withheld),
    ("key_reuse", key_reuse_elsewhere),
];

/// Codes that no request earns at the proxy listener, and which test produces them over a socket instead.
const NOT_HERE: [(&str, &str); 1] =
    [("stale_preview", "previews belong to the API listener: `api_previews::one_invocation_is_bound_to_it`")];

fn pages() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/refusals")
}

#[test]
fn every_page_has_a_scene() {
    let mut pages: Vec<String> = fs::read_dir(pages())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "README")
        .collect();
    let mut known: Vec<&str> = SCENES.iter().map(|(code, _)| *code).collect();
    known.extend(NOT_HERE.iter().map(|(code, _)| *code));
    known.sort_unstable();
    known.dedup();
    pages.sort_unstable();
    assert_eq!(pages, known);
}

#[test]
fn every_code_is_produced_as_its_page_says() {
    for (code, scene) in SCENES {
        let page = fs::read_to_string(pages().join(format!("{code}.md"))).unwrap();
        let row = |name: &str| -> &str {
            let line = page.lines().find(|line| line.starts_with(name));
            line.unwrap_or_else(|| panic!("{code}: no {name}")).strip_prefix(name).unwrap()
        };
        let answer = scene();
        answer.assert_own(answer.status, &format!("oncegate_{code}"));
        let statuses = row("| Status at the proxy listener |");
        assert!(statuses.contains(&answer.status.to_string()), "{code}: {statuses}: {answer:?}");
        assert_eq!(row("| `Oncegate-Outcome` |"), format!(" `{}` |", answer.outcome()), "{code}: {answer:?}");
        assert!(
            answer.text().contains(&format!("urn:oncegate:refusal:{code}\"")),
            "it names its page: {answer:?}"
        );
        assert!(!answer.reason.contains("(no"), "{code}: {answer:?}");
    }
}

/// A shop with a sidecar; `sent` writes may reach the provider, and no more.
fn play(
    conf: impl FnOnce(SocketAddr) -> Conf,
    sent: usize,
    scene: impl FnOnce(&Shop, &Sidecar) -> Answer,
) -> Answer {
    let shop = Shop::open_with(conf);
    let mut sidecar = shop.home.serve();
    let answer = scene(&shop, &sidecar);
    assert_eq!(shop.writes(), sent, "writes that reached the provider: {answer:?}");
    assert!(sidecar.alive(), "{}", sidecar.log());
    answer
}

fn asks(ask: Ask) -> Answer {
    play(stripe_conf, 0, |_, sidecar| sidecar.billing().ask("api.stripe.com", &ask))
}

fn outcome_unknown() -> Answer {
    play(stripe_conf, 1, |shop, sidecar| {
        shop.books.lose(1);
        sidecar.billing().refund(None, REFUND)
    })
}

fn not_sent() -> Answer {
    let nobody = Refusing::default();
    play(|_| stripe_conf(nobody.addr()), 0, |_, sidecar| sidecar.billing().refund(None, REFUND))
}

/// The provider has answered, and a person has the last word.
fn failed_by_a_person() -> Answer {
    play(stripe_conf, 1, |shop, sidecar| {
        shop.provider.on_write(Reply::json("500 Internal Server Error", "{}"));
        let effect = sidecar.billing().refund(Some("refund:ord_1"), REFUND).assert_unknown().effect();
        let word = r#"{"outcome":"failed","reason":"the dashboard shows no refund"}"#;
        let path = format!("/actions/effects/{effect}/resolve");
        assert_eq!(call(sidecar, "ops", "POST", &path, word).status, 200);
        sidecar.billing().refund(Some("refund:ord_1"), REFUND)
    })
}

/// The provider's own refusal, which is kept no more.
fn failed_without_an_answer() -> Answer {
    play(stripe_conf, 1, |shop, sidecar| {
        shop.provider.on_write(Reply::json("402 Payment Required", "{}"));
        let first = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
        assert_eq!((first.status, first.outcome()), (402, "failed"));
        let record = Connection::open(shop.home.path("oncegate.db")).unwrap();
        assert_eq!(record.execute("DELETE FROM response", []).unwrap(), 1);
        sidecar.billing().refund(Some("refund:ord_1"), REFUND)
    })
}

fn key_reuse() -> Answer {
    play(stripe_conf, 1, |_, sidecar| {
        sidecar.billing().refund(Some("refund:ord_1"), REFUND);
        let reused = sidecar.billing().refund(Some("refund:ord_1"), VARIED);
        assert_eq!((reused.status, &reused.json()["error"]["type"]), (400, &"idempotency_error".into()));
        reused
    })
}

fn key_reuse_elsewhere() -> Answer {
    let desk = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(desk.addr()));
    let sidecar = home.serve();
    let open = |title| sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket(title)).key("ticket:1"));
    assert_eq!(open("one").outcome(), "succeeded");
    let reused = open("another");
    assert_eq!((reused.status, desk.record().writes().len()), (422, 1), "{reused:?}");
    reused
}

fn unresolved_effect() -> Answer {
    play(stripe_conf, 1, |shop, sidecar| {
        shop.books.lose(1);
        sidecar.billing().refund(None, REFUND);
        sidecar.billing().refund(None, VARIED)
    })
}

fn approval_required() -> Answer {
    play(approval_conf, 0, |_, sidecar| sidecar.billing().refund(None, REFUND))
}

fn approval_conf(at: SocketAddr) -> Conf {
    Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000)
}

fn limit_exceeded() -> Answer {
    asks(Ask::refund("payment_intent=pi_1&amount=50001"))
}

fn amount_unbounded() -> Answer {
    let pay = r#"
[actions.pay]
method = "POST"
url = "https://api.stripe.com/v1/payouts"
impact = { dimension = "money", unit = "usd", amount = "input.amount", bound = "exact" }
"#;
    let conf = |at| Conf::default().stripe_host(at).with(pay).daily_limit(1_000);
    play(conf, 0, |_, sidecar| sidecar.billing().ask("api.stripe.com", &Ask::form("/v1/payouts", "note=x")))
}

fn halted() -> Answer {
    play(stripe_conf, 0, |shop, sidecar| {
        let halt = sidecar.cli(&shop.home, "ops", &["halt", "--reason", "the books are being closed"]);
        assert_eq!(halt.code, 0, "{halt:?}");
        let answer = sidecar.billing().refund(None, REFUND);
        assert!(answer.text().contains("the books are being closed"), "{answer:?}");
        answer
    })
}

/// A key that somebody chose stays with what was denied; without one, the next request asks anew.
fn denied() -> Answer {
    play(approval_conf, 0, |shop, sidecar| {
        let chosen = Some("refund:ord_1");
        sidecar.billing().refund(chosen, REFUND).assert_own(403, "oncegate_approval_required");
        let asked = sidecar.cli(&shop.home, "ops", &["approvals", "--json"]).json();
        let approval = asked[0]["id"].as_str().expect("its id").to_owned();
        let own = sidecar.cli(&shop.home, "billing-agent", &["deny", &approval]);
        assert_ne!(own.code, 0, "not the asker's to decide: {own:?}");
        let deny = sidecar.cli(&shop.home, "ops", &["deny", &approval, "--note", "not this customer"]);
        assert!(deny.out.contains("denied"), "{deny:?}");
        sidecar.billing().refund(chosen, REFUND)
    })
}

fn undeclared() -> Answer {
    asks(Ask::form("/v1/customers", "name=x"))
}

fn ambiguous() -> Answer {
    asks(Ask::form("/v1//refunds", REFUND))
}

fn invalid_input() -> Answer {
    asks(Ask::refund("payment_intent=pi_1&amount=-1"))
}

fn invalid_request() -> Answer {
    asks(Ask::refund(REFUND).field("Expect", "200-maybe").field("Transfer-Encoding", "gzip"))
}

fn incomplete_request() -> Answer {
    let conf = |at| stripe_conf(at).proxy("request_timeout = \"500ms\"");
    play(conf, 0, |_, sidecar| {
        let bytes = Ask::refund(REFUND).bytes("api.stripe.com");
        let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
        tunnel.send(&bytes[..bytes.len() - 1]).unwrap();
        tunnel.answer().unwrap()
    })
}

fn body_too_large() -> Answer {
    let conf = |at| stripe_conf(at).proxy("max_request_body = \"1KiB\"");
    play(conf, 0, |_, sidecar| {
        sidecar.billing().refund(None, &format!("{REFUND}&metadata[x]={}", "x".repeat(2_000)))
    })
}

fn credential_unavailable() -> Answer {
    let shop = Shop::open_with(|at| {
        let conf = stripe_conf(at);
        let rest = conf.rest.replace("{ env = \"STRIPE_SECRET_KEY\" }", "{ file = \"stripe.key\" }");
        assert_ne!(rest, conf.rest);
        Conf { rest, ..conf }
    });
    let file = shop.home.path("stripe.key");
    shop.home.write_secret("stripe.key", FILE_FIRST);
    let sidecar = shop.home.serve_with(Build::Plain, &[]);
    fs::remove_file(&file).unwrap();
    let answer = sidecar.billing().refund(None, REFUND);
    assert_eq!((shop.writes(), shop.home.money()), (0, (0, 0, 0)));
    shop.home.write_secret("stripe.key", FILE_FIRST);
    let next = sidecar.billing().refund(None, REFUND);
    assert_eq!((next.status, shop.writes()), (200, 1), "it is there again: {next:?}");
    answer
}

fn retry_refused() -> Answer {
    play(stripe_conf, 1, |_, sidecar| {
        let made = sidecar.billing().refund(None, REFUND);
        let invocation = made.header("oncegate-invocation").expect("its invocation").to_owned();
        let again = Ask::refund(REFUND).field("Oncegate-Retry-Of", &invocation).key("refund:again");
        sidecar.billing().ask("api.stripe.com", &again)
    })
}

fn dependency_unmet() -> Answer {
    play(stripe_conf, 1, |shop, sidecar| {
        shop.books.lose(1);
        let first = sidecar.billing().refund(None, REFUND).effect();
        let next = Ask::refund("payment_intent=pi_other&amount=100").field("Oncegate-Depends-On", &first);
        sidecar.billing().ask("api.stripe.com", &next)
    })
}

/// Approved, and a halt keeps it from being sent: whoever repeats it is not made to wait.
fn in_flight() -> Answer {
    let approval =
        |at| Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000);
    play(approval, 0, |shop, sidecar| {
        let parked = approval_in(&sidecar.billing().refund(None, REFUND));
        for command in [["halt", "--reason", "wait"].as_slice(), &["approve", &parked]] {
            sidecar.cli(&shop.home, "ops", command);
        }
        sidecar.billing().refund(None, REFUND)
    })
}

/// One may wait, and another process holds the database's write lock: of many, all but a few are turned away at once,
/// and what was admitted is sent when the lock is gone.
fn overloaded() -> Answer {
    let shop = Shop::open_with(|at| {
        let conf = stripe_conf(at);
        Conf { store: [conf.store.clone(), vec!["max_waiting = 1".into()]].concat(), ..conf }
    });
    let sidecar = shop.home.serve();
    let mut other = Connection::open(shop.home.path("oncegate.db")).unwrap();
    let lock = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let (give, answers) = std::sync::mpsc::channel();
    for number in 0..8 {
        let (agent, give) = (sidecar.billing(), give.clone());
        std::thread::spawn(move || {
            give.send(agent.refund(None, &format!("payment_intent=pi_{number}&amount=100"))).unwrap();
        });
    }
    drop(give);
    let first = answers.recv_timeout(PATIENCE).unwrap();
    assert_eq!(shop.writes(), 0);
    lock.rollback().unwrap();
    let rest: Vec<Answer> = answers.iter().collect();
    let turned_away = |answer: &&Answer| answer.code() == "oncegate_overloaded";
    let made = rest.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(made + rest.iter().filter(turned_away).count(), 7, "{rest:?}");
    assert!(made > 0, "what waited is sent: {rest:?}");
    assert_eq!(shop.writes(), made, "and nothing else");
    first
}

/// A provider that packs its answer in a way that nobody here can unpack.
fn answer_withheld() -> Answer {
    play(stripe_conf, 0, |shop, sidecar| {
        let packed = "HTTP/1.1 200 OK\r\nContent-Encoding: compress\r\nContent-Length: 2\r\n\r\n??";
        shop.provider.on_read(Reply::raw(packed));
        sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/refunds"))
    })
}

/// Another process holds the database's write lock for longer than the sidecar waits for it.
fn store_unavailable() -> Answer {
    play(stripe_conf, 1, |shop, sidecar| {
        let mut other = Connection::open(shop.home.path("oncegate.db")).unwrap();
        let lock = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let answer = sidecar.billing().refund(None, REFUND);
        assert_eq!(shop.writes(), 0, "nothing is sent that cannot be recorded");
        let read = sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/payment_intents/pi_1"));
        assert_eq!(read.status, 200, "reads pass: {read:?}");
        let told = ready(&shop.home, sidecar);
        assert!(told.code == 1 && told.err.contains("another program holds its lock"), "{told:?}");
        lock.rollback().unwrap();
        assert_eq!(ready(&shop.home, sidecar).code, 0, "without a start, and before anybody writes");
        let next = sidecar.billing().refund(None, REFUND);
        assert_eq!(next.status, 200, "and it goes on by itself: {next:?}");
        answer
    })
}
