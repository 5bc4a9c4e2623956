//! The reconciler goes on: past an effect that it cannot record on, and past a pass that was full.

use std::time::{Duration, Instant};

use oncegate_tests::{
    agent::Ask,
    conf::{Conf, stripe_conf},
    provider::Provider,
    script::Reply,
    sidecar::Home,
    wait::until,
};
use rusqlite::Connection;
use serde_json::json;

use crate::{
    api_actions::desk,
    law::{detail, ops},
    shop::{DESK, REFUND, Shop, TICKETS_PER_DAY, desk_conf, ticket, ticket_action},
};

#[test]
fn an_effect_that_cannot_be_recorded_on_keeps_no_other_waiting() {
    let shop = Shop::open_with(|at| {
        let mut conf = stripe_conf(at);
        conf.first_after = "1s".into();
        conf
    });
    let sidecar = shop.home.serve();
    let db = Connection::open(shop.home.path("oncegate.db")).unwrap();
    db.execute_batch(
        "CREATE TRIGGER no BEFORE INSERT ON attempt WHEN NEW.kind = 'reconcile' AND NEW.effect = 1
         BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .unwrap();
    shop.books.lose(2);
    let spoilt = sidecar.billing().refund(None, REFUND);
    let other = sidecar.billing().refund(None, "payment_intent=pi_2&amount=100");
    spoilt.assert_unknown();
    other.assert_unknown();
    shop.home.wait_outcome(&other.effect(), "succeeded");
    assert_eq!(shop.home.effect(&spoilt.effect())["outcome"], "unknown");

    // Its provider is not asked again and again.
    let looks = || {
        let record = shop.provider.record();
        record.requests().iter().filter(|r| !r.is_write() && r.target.contains("pi_3Pabc")).count()
    };
    let (before, start) = (looks(), Instant::now());
    until("two more looks", || Some(()).filter(|()| looks() >= before + 2));
    assert!(start.elapsed() > Duration::from_millis(800), "two looks within {:?}", start.elapsed());

    db.execute_batch("DROP TRIGGER no").unwrap();
    shop.home.wait_outcome(&spoilt.effect(), "succeeded");
}

/// It sends nothing more, and what it has sent may have been applied all the same.
#[test]
fn p3_what_an_action_has_sent_is_looked_for_while_it_is_disabled() {
    let conf = |at, more: &str| {
        let mut conf = Conf::default().stripe_host(at).refund(more).daily_limit(50_000);
        conf.first_after = "1s".into();
        conf
    };
    let shop = Shop::open_with(|at| conf(at, ""));
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let lost = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    let made = sidecar.billing().refund(None, "payment_intent=pi_2&amount=100");
    shop.home.write(&conf(shop.provider.addr(), "enabled = false").text());
    until("the file to be taken", || sidecar.log().contains("action refund changed").then_some(()));
    let refused = sidecar.billing().refund(None, "payment_intent=pi_3&amount=100");
    assert_eq!((refused.status, shop.writes()), (403, 2), "{refused:?}");
    shop.home.wait_outcome(&lost, "succeeded");
    until("the other one to be confirmed", || {
        (detail(&sidecar, &made.effect())["grade"] == "confirmed").then_some(())
    });
    assert_eq!((shop.home.money(), shop.writes()), ((12_100, 0, 0), 2));
}

/// How was declared after it was sent, and that helps it: with no further word from anybody.
#[test]
fn p3_what_could_not_be_looked_for_is_once_a_read_back_is_declared() {
    let conf = |at, verify: &str| {
        let action = format!("{}{verify}", ticket_action("open-ticket", DESK));
        Conf::default().host(DESK, at).with(&action).with(TICKETS_PER_DAY)
    };
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&conf(provider.addr(), ""));
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let ask = Ask::json("/v1/tickets", &ticket("a"));
    let effect = sidecar.billing().ask(DESK, &ask).assert_unknown().effect();
    assert_eq!(detail(&sidecar, &effect)["nextLookAt"], json!(null));
    let verify = r#"verify = { url = "https://tickets.test/v1/tickets?title={{input.title}}", match = [{ path = "title", equals = "{{input.title}}" }] }"#;
    provider.on_read(Reply::json("200 OK", r#"{"title":"a"}"#));
    home.write(&conf(provider.addr(), verify).text());
    home.wait_outcome(&effect, "succeeded");
    assert_eq!(provider.record().writes().len(), 1);
}

#[test]
fn what_a_full_pass_leaves_over_waits_for_no_usual_wake() {
    const SUCCESSES: u32 = 20;
    let shop = Shop::open_with(|at| {
        let mut conf = stripe_conf(at).reconcile("max_per_pass = 1");
        conf.first_after = "2s".into();
        conf
    });
    let sidecar = shop.home.serve();
    for number in 0..SUCCESSES {
        let done = sidecar.billing().refund(None, &format!("payment_intent=pi_{number}&amount=100"));
        assert_eq!(done.status, 200, "{done:?}");
    }
    let start = Instant::now();
    let confirmed =
        || shop.home.effects().iter().filter(|effect| effect["grade"] == json!("confirmed")).count();
    until("every look after a success", || Some(()).filter(|()| confirmed() == SUCCESSES as usize));
    // One for each usual wake takes as many times two seconds.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

/// The id in a conflict is that of the object that was there already.
#[test]
fn what_a_refusal_names_is_not_what_was_made() {
    let verify =
        format!("verify = {{ url = \"https://{DESK}/v1/tickets/{{{{response.id}}}}\" }}\nsubject = ");
    let (provider, home) = desk(|at| {
        let conf = desk_conf(at);
        let rest = conf.rest.replace("subject = ", &verify);
        Conf { rest, ..conf }
    });
    let sidecar = home.serve();
    provider.on_write(Reply::json("409 Conflict", r#"{"error":"there is one of this title","id":"t_1"}"#));
    let effect =
        sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a"))).assert_unknown().effect();
    assert_eq!(ops(&home, &sidecar, &["effect", "reconcile", &effect]).code, 13);
    assert_eq!(detail(&sidecar, &effect)["outcome"], "unknown");
    assert!(provider.record().requests().iter().all(|asked| asked.is_write()), "nothing else is looked at");
}
