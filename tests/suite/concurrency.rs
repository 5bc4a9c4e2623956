//! Many at once: one dispatch, equal answers, and no limit overshot, for one caller and for two.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use oncegate_tests::{
    agent::{Agent, Ask},
    answer::Answer,
    conf::stripe_conf,
    gate::Gate,
    script::Reply,
    sidecar::Sidecar,
    wait::until,
};
use serde_json::json;

use crate::{
    law,
    shop::{REFUND, Shop},
};

const MANY: usize = 200;
const MADE: &str = r#"{"id":"re_only","object":"refund","status":"succeeded","amount":12000}"#;

/// Agents wait long enough for a crowd on a busy machine.
fn shop() -> Shop {
    Shop::open_with(|at| stripe_conf(at).timing("30s", "60s").control("respond_within = \"30s\""))
}

/// All ask at the same moment; `gate` opens when all have asked.
fn crowd(asks: Vec<(Agent, Ask)>, gate: &Gate) -> Vec<Answer> {
    let (all, start) = (asks.len(), Gate::default());
    let [ready, asked] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = asks
        .into_iter()
        .map(|(agent, ask)| {
            let (start, ready, asked) = (start.clone(), Arc::clone(&ready), Arc::clone(&asked));
            thread::spawn(move || {
                let mut tunnel = agent.tunnel("api.stripe.com");
                ready.fetch_add(1, SeqCst);
                assert!(start.pass(), "the others are there");
                tunnel.start(&ask);
                asked.fetch_add(1, SeqCst);
                tunnel.answer().expect("an answer")
            })
        })
        .collect();
    until("all to be connected", || Some(()).filter(|()| ready.load(SeqCst) == all));
    start.open();
    until("all to have asked", || Some(()).filter(|()| asked.load(SeqCst) == all));
    gate.open();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// The two callers of the configuration in turn, or always the first.
fn caller(sidecar: &Sidecar, number: usize, two: bool) -> Agent {
    sidecar.agent(if two && number % 2 == 1 { "ops" } else { "billing-agent" })
}

/// A key of a library's own making, another one for each call.
fn generated(number: usize) -> String {
    format!("0b8a7e0e-3c4d-4d0e-9b57-{number:012x}")
}

/// 200 identical refunds at once, of which the provider answers the first with `reply`.
fn identical(shop: &Shop, two: bool, key: impl Fn(usize) -> Option<String>, reply: Reply) -> Vec<Answer> {
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    shop.provider.on_write(reply.after(&gate));
    let asks = (0..MANY).map(|number| {
        let ask = Ask::refund(REFUND);
        let ask = key(number).map_or(ask.clone(), |key| ask.key(&key));
        (caller(&sidecar, number, two), ask)
    });
    let answers = crowd(asks.collect(), &gate);
    assert_eq!(answers.len(), MANY);
    for answer in &answers {
        let got = (answer.status, &answer.body, answer.outcome(), answer.effect());
        let first = &answers[0];
        assert_eq!(got, (first.status, &first.body, first.outcome(), first.effect()), "{answer:?}");
    }
    assert_eq!(shop.writes(), 1, "one dispatch");
    assert_eq!(shop.home.effects().len(), 1, "of one effect");
    answers
}

fn all_succeed(two: bool, key: impl Fn(usize) -> Option<String>) {
    let shop = shop();
    let answers = identical(&shop, two, key, Reply::json("200 OK", MADE));
    assert_eq!((answers[0].status, &answers[0].json()["id"]), (200, &json!("re_only")));
    assert_eq!(shop.home.money(), (12_000, 0, 0), "counted once");
}

#[test]
fn two_hundred_without_a_key() {
    all_succeed(false, |_| None);
}

#[test]
fn two_hundred_under_keys_that_a_library_made() {
    all_succeed(false, |number| Some(generated(number)));
}

#[test]
fn two_hundred_under_one_chosen_key() {
    all_succeed(false, |_| Some("refund:ord_42".to_owned()));
}

#[test]
fn two_hundred_by_two_callers() {
    all_succeed(true, |_| None);
}

#[test]
fn two_hundred_whose_answer_is_lost() {
    let shop = shop();
    for answer in identical(&shop, true, |number| Some(generated(number)), Reply::lost()) {
        answer.assert_unknown();
    }
    assert_eq!(shop.home.money(), (0, 12_000, 12_000), "held once");
}

/// Ten refunds of 60 dollars on ten payments, under a limit of 100 dollars a day.
fn one_fits(two: bool) {
    let shop = Shop::open_with(|at| stripe_conf_with_limit(at, 10_000));
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    shop.provider.on_write(Reply::json("200 OK", MADE).after(&gate));
    let asks = (0..10).map(|number| {
        (caller(&sidecar, number, two), Ask::refund(&format!("payment_intent=pi_{number}&amount=6000")))
    });
    let answers = crowd(asks.collect(), &gate);
    let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((made.len(), refused.len(), shop.writes()), (1, 9, 1), "{answers:?}");
    for answer in refused {
        answer.assert_refused(403, "oncegate_limit_exceeded");
    }
    assert_eq!(shop.home.money(), (6_000, 0, 0));
}

#[test]
fn ten_of_sixty_dollars_under_a_hundred() {
    one_fits(false);
}

#[test]
fn ten_of_sixty_dollars_under_a_hundred_by_two_callers() {
    one_fits(true);
}

/// One call of the API, begun and waiting for its answer.
fn invoking(sidecar: &Sidecar, number: usize, body: serde_json::Value) -> thread::JoinHandle<Answer> {
    let (control, caller) = (sidecar.control, if number % 2 == 1 { "ops" } else { "billing-agent" });
    thread::spawn(move || {
        let path = "/actions/refund/invoke";
        law::call_at(control, caller, Some(&generated(number)), ("POST", path, &body.to_string()))
    })
}

/// The same crowd through both listeners, by two callers.
#[test]
fn a_hundred_through_either_listener() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    shop.provider.on_write(Reply::json("200 OK", MADE).after(&gate));
    let body = json!({ "input": { "payment_intent": "pi_3Pabc", "amount": 12_000 } });
    let invoked: Vec<_> = (0..100).map(|number| invoking(&sidecar, number, body.clone())).collect();
    let asks = (0..100).map(|number| (caller(&sidecar, number, true), Ask::refund(REFUND)));
    let proxied = crowd(asks.collect(), &gate);
    let effect = proxied[0].effect();
    for answer in &proxied {
        assert_eq!(
            (answer.status, answer.effect(), &answer.json()["id"]),
            (200, effect.clone(), &json!("re_only"))
        );
    }
    for thread in invoked {
        let data = law::data(&thread.join().unwrap());
        let got = json!([data["status"], data["effectId"], data["body"]["id"]]);
        assert_eq!(got, json!(["succeeded", effect, "re_only"]));
    }
    assert_eq!((shop.writes(), shop.home.effects().len(), shop.home.money()), (1, 1, (12_000, 0, 0)));
}

#[test]
fn ten_of_sixty_dollars_under_a_hundred_through_both_listeners() {
    let shop = Shop::open_with(|at| stripe_conf_with_limit(at, 10_000));
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    shop.provider.on_write(Reply::json("200 OK", MADE).after(&gate));
    let of = |number: usize| format!("pi_{number}");
    let invoked: Vec<_> = (0..5)
        .map(|number| {
            let body = json!({ "input": { "payment_intent": of(number), "amount": 6_000 } });
            invoking(&sidecar, number, body)
        })
        .collect();
    let asks = (5..10).map(|number| {
        (caller(&sidecar, number, true), Ask::refund(&format!("payment_intent={}&amount=6000", of(number))))
    });
    let proxied = crowd(asks.collect(), &gate);
    let made = proxied.iter().filter(|answer| answer.status == 200).count();
    let invoked: Vec<_> = invoked.into_iter().map(|thread| law::data(&thread.join().unwrap())).collect();
    let made = made + invoked.iter().filter(|data| data["status"] == "succeeded").count();
    assert_eq!((made, shop.writes(), shop.home.money()), (1, 1, (6_000, 0, 0)));
    for data in invoked.iter().filter(|data| data["status"] != "succeeded") {
        assert_eq!(json!([data["grade"], data["decision"]["code"]]), json!(["refused", "limit_exceeded"]));
    }
}

/// The usual configuration for a crowd, with another limit.
fn stripe_conf_with_limit(at: std::net::SocketAddr, amount: u64) -> oncegate_tests::conf::Conf {
    oncegate_tests::conf::Conf::default()
        .stripe_host(at)
        .refund("")
        .daily_limit(amount)
        .timing("30s", "60s")
        .control("respond_within = \"30s\"")
}

/// The second try of a model, many times over, while the first is in flight and after it was lost.
#[test]
fn varied_ones_at_once() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    shop.provider.on_write(Reply::lost().after(&gate));
    let mut first = sidecar.billing().tunnel("api.stripe.com");
    first.start(&Ask::refund(REFUND));
    shop.provider.record().wait_writes(1);
    let vary = || {
        let asks = (0..40).map(|number| {
            let form = format!("payment_intent=pi_3Pabc&amount={}", 11_000 + number);
            (caller(&sidecar, number, true), Ask::refund(&form).key(&format!("try:{number}")))
        });
        crowd(asks.collect(), &Gate::default())
    };
    let in_flight = vary();
    gate.open();
    let effect = first.answer().unwrap().assert_unknown().effect();
    for answer in in_flight.iter().chain(&vary()) {
        answer.assert_refused(422, "oncegate_unresolved_effect");
        assert!(answer.text().contains(&effect), "it names the open one: {answer:?}");
    }
    until("the hold", || Some(()).filter(|()| shop.home.money() == (0, 12_000, 12_000)));
    assert_eq!((shop.writes(), shop.home.effects().len()), (1, 1));
}
