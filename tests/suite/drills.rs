//! Fault drills: each produces the fault that it names, on a request that the provider got whole and once.

use oncegate_tests::{agent::Ask, answer::Answer, conf::Conf, sidecar::Sidecar};
use serde_json::json;

use crate::{
    law::{call, call_under, data, detail, says_no},
    shop::{REFUND, Shop},
};

const HEADER: &str = "Oncegate-Fault-Drill";

fn shop(mode: &str, more: &str) -> Shop {
    Shop::open_with(|at| {
        let conf = Conf::default().stripe_host(at).timing("4s", "6s").refund(more).daily_limit(50_000);
        let rest = conf.rest.replace("mode = \"test\"", &format!("mode = \"{mode}\""));
        Conf { rest, ..conf }
    })
}

fn drilled(sidecar: &Sidecar, caller: &str, drill: &str) -> Answer {
    sidecar.agent(caller).ask("api.stripe.com", &Ask::refund(REFUND).field(HEADER, drill))
}

/// What the record says of the one dispatch: how it ended, the step and the status that was seen.
fn seen(sidecar: &Sidecar, effect: &str) -> serde_json::Value {
    let effect = detail(sidecar, effect);
    let attempt = &effect["attempts"][0];
    json!([effect["faultDrill"], attempt["seen"], attempt["step"], attempt["responseStatus"]])
}

#[test]
fn each_drill_is_the_fault_that_it_names() {
    for (drill, seen_as) in [
        ("drop_response_after_send", json!(["lost", "awaiting_head", null])),
        ("reset_after_send", json!(["lost", "awaiting_head", null])),
        ("truncate_answer", json!(["lost", "reading_body", 200])),
        ("status_500_after_send", json!(["answered", null, 500])),
    ] {
        let shop = shop("test", "");
        let sidecar = shop.home.serve();
        let effect = drilled(&sidecar, "ops", drill).assert_unknown().effect();
        let mut expected = vec![json!(drill)];
        expected.extend(seen_as.as_array().unwrap().iter().cloned());
        assert_eq!(seen(&sidecar, &effect), json!(expected), "{drill}");
        assert_eq!((shop.writes(), shop.home.money()), (1, (0, 12_000, 12_000)), "{drill}");
        let line = sidecar.log();
        assert!(line.contains("fault drill") && line.contains(drill), "it is in the log: {line}");
        // The provider did it, and a look finds it: the rehearsal ends as the real thing does.
        assert_eq!(sidecar.reconcile(&shop.home, "ops", &effect).code, 0, "{drill}");
        assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)), "{drill}");
    }
}

#[test]
fn a_time_out_makes_the_agent_wait_as_long_as_it_ever_does() {
    let shop = shop("test", "fault_drill = \"timeout\"");
    let sidecar = shop.home.serve();
    let began = std::time::Instant::now();
    let effect = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    assert!(began.elapsed().as_millis() >= 4_000, "respond_within");
    assert_eq!(seen(&sidecar, &effect)[0], "timeout");
    let ended = oncegate_tests::wait::until("upstream_timeout", || {
        Some(seen(&sidecar, &effect)).filter(|seen| seen[1] == "lost")
    });
    assert_eq!(ended, json!(["timeout", "lost", "awaiting_head", null]));
    assert_eq!((shop.writes(), shop.home.money()), (1, (0, 12_000, 12_000)));
}

#[test]
fn a_crash_leaves_what_a_crash_leaves() {
    let shop = shop("test", "fault_drill = \"crash_before_record\"");
    let mut sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    tunnel.start(&Ask::refund(REFUND));
    assert!(tunnel.answer().is_err(), "the process is gone");
    assert_ne!(sidecar.ended(), 0);
    let sidecar = shop.home.serve();
    let effect = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    assert_eq!((shop.writes(), shop.home.money()), (1, (0, 12_000, 12_000)));
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &effect).code, 0);
    assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)));
}

#[test]
fn who_may_not_ask_for_one_gets_none() {
    let shop = shop("test", "");
    let sidecar = shop.home.serve();
    drilled(&sidecar, "billing-agent", "timeout").assert_refused(403, "oncegate_denied");
    drilled(&sidecar, "ops", "nap").assert_refused(400, "oncegate_invalid_input");
    assert_eq!((shop.writes(), shop.home.effects().len()), (0, 0));

    let live = self::shop("live", "");
    let sidecar = live.home.serve();
    drilled(&sidecar, "ops", "timeout").assert_refused(403, "oncegate_denied");
    assert_eq!(live.writes(), 0);
}

#[test]
fn what_is_live_needs_a_word_of_the_operator() {
    let refused = shop("live", "fault_drill = \"timeout\"").home.run(&["check"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(format!("{refused:?}").contains("allow_live_drill"), "{refused:?}");
    let allowed = shop("live", "fault_drill = \"timeout\"\nallow_live_drill = true").home.run(&["check"]);
    assert!(!format!("{allowed:?}").contains("is refused with"), "{allowed:?}");
}

#[test]
fn the_api_takes_the_same_field_and_a_preview_shows_the_declared_one() {
    let shop = shop("test", "fault_drill = \"truncate_answer\"");
    let sidecar = shop.home.serve();
    let input = json!({ "input": { "payment_intent": "pi_3Pabc", "amount": 12_000 } }).to_string();
    let shown = data(&call(&sidecar, "billing-agent", "POST", "/actions/refund/previews", &input));
    assert_eq!(shown["faultDrill"], "truncate_answer");
    let lost =
        data(&call_under(&sidecar, "billing-agent", Some("a"), ("POST", "/actions/refund/invoke", &input)));
    assert_eq!(lost["status"], "unknown");
    assert_eq!(seen(&sidecar, lost["effectId"].as_str().unwrap())[0], "truncate_answer");
    says_no(&call(&sidecar, "ops", "POST", "/actions/refund/invoke", "{"), 400, "VALIDATION_ERROR", "");
    assert_eq!(shop.writes(), 1);
}
