//! What one effect has to do with another, and answers that come late.

use oncegate_tests::{agent::Ask, answer::Answer, gate::Gate, script::Reply, sidecar::Sidecar};
use serde_json::json;

use crate::{
    law::{detail, kinds, lost, ops},
    shop::{REFUND, Shop},
};

const NEXT: &str = "payment_intent=pi_2&amount=100";

fn with(sidecar: &Sidecar, name: &str, value: &str, form: &str) -> Answer {
    sidecar.billing().ask("api.stripe.com", &Ask::refund(form).field(name, value))
}

#[test]
fn a_dependency_is_met_by_the_named_outcome_and_nothing_else() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let first = lost(&shop, &sidecar);
    for value in [first.clone(), format!("{first}=succeeded"), format!("{first}=failed")] {
        let refused = with(&sidecar, "Oncegate-Depends-On", &value, NEXT);
        refused.assert_own(403, "oncegate_dependency_unmet");
        assert!(refused.reason.contains(&first) && refused.reason.contains("unknown"), "{refused:?}");
    }
    for value in ["nonsense", &format!("{first}=unknown"), &format!("{first}=pending"), ""] {
        with(&sidecar, "Oncegate-Depends-On", value, NEXT).assert_own(400, "oncegate_invalid_input");
    }
    let none = "eff_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    with(&sidecar, "Oncegate-Depends-On", none, NEXT).assert_own(403, "oncegate_dependency_unmet");
    assert_eq!(shop.writes(), 1);

    assert_eq!(sidecar.reconcile(&shop.home, "ops", &first).code, 0);
    with(&sidecar, "Oncegate-Depends-On", &format!("{first}=failed"), NEXT)
        .assert_own(403, "oncegate_dependency_unmet");
    let next = with(&sidecar, "Oncegate-Depends-On", &first, NEXT);
    assert_eq!((next.status, shop.writes()), (200, 2), "{next:?}");
    let shown = detail(&sidecar, &next.effect());
    assert_eq!(shown["dependsOn"], json!([{"effect": first, "outcome": "succeeded"}]));
    let sent = shop.provider.record().writes().remove(1);
    assert_eq!(sent.head.field("oncegate-depends-on"), None, "it is for us, not for the provider");
}

/// Clients write a list as lines of its own, and some write `_` for `-`: a condition is never passed over.
#[test]
fn every_line_of_a_condition_counts() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let good = sidecar.billing().refund(None, REFUND).effect();
    let none = "eff_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let two = |name: [&str; 2], value: [&str; 2]| {
        let ask = Ask::refund(NEXT).field(name[0], value[0]).field(name[1], value[1]);
        sidecar.billing().ask("api.stripe.com", &ask)
    };
    let (name, other) = ("Oncegate-Depends-On", "Oncegate_Depends_On");
    for value in [[&good, none], [none, &good]] {
        two([name, name], value).assert_own(403, "oncegate_dependency_unmet");
        two([name, other], value).assert_own(403, "oncegate_dependency_unmet");
    }
    with(&sidecar, other, none, NEXT).assert_own(403, "oncegate_dependency_unmet");
    // What names one thing names it once.
    let once =
        [("Oncegate-Compensates", good.as_str()), ("Oncegate-Retry-Of", "inv_01ARZ3NDEKTSV4RRFFQ69G5FAV")];
    for (name, value) in once {
        two([name, name], [value, value]).assert_own(403, "oncegate_ambiguous");
        two([name, &name.replace('-', "_")], [value, value]).assert_own(403, "oncegate_ambiguous");
    }
    let ops = sidecar.agent("ops");
    let drill = Ask::refund(NEXT).field("Oncegate-Fault-Drill", "timeout");
    let drill = drill.field("Oncegate-Fault-Drill", "drop_response_after_send");
    ops.ask("api.stripe.com", &drill).assert_own(403, "oncegate_ambiguous");
    assert_eq!(shop.writes(), 1);
    let next = two([name, name], [&good, &format!("{good}=succeeded")]);
    assert_eq!((next.status, shop.writes()), (200, 2), "{next:?}");
}

#[test]
fn a_compensation_is_recorded_on_both() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(None, REFUND).effect();
    let undo = with(&sidecar, "Oncegate-Compensates", &first, NEXT);
    assert_eq!(undo.status, 200, "{undo:?}");
    assert_eq!(detail(&sidecar, &undo.effect())["compensates"], json!(first));
    assert_eq!(detail(&sidecar, &first)["compensatedBy"], json!([undo.effect()]));
    let receipt = ops(&shop.home, &sidecar, &["effect", "show", &first]).out;
    assert!(receipt.contains("compensated by") && receipt.contains(&undo.effect()), "{receipt}");
    for value in ["nonsense", "eff_01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
        with(&sidecar, "Oncegate-Compensates", value, "payment_intent=pi_3&amount=1")
            .assert_own(400, "oncegate_invalid_input");
    }
    assert_eq!(shop.writes(), 2);
}

/// Told unknown after `respond_within`, settled by the answer that came later.
fn late(reply: Reply, outcome: &str, money: (u64, u64, u64)) {
    let shop = Shop::open_with(|at| oncegate_tests::conf::stripe_conf(at).timing("4s", "30s"));
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    shop.provider.on_write(reply.after(&gate));
    let told = sidecar.billing().refund(None, REFUND);
    told.assert_unknown();
    assert_eq!(shop.home.money(), (0, 12_000, 12_000));
    sidecar.billing().refund(None, REFUND).assert_unknown();
    gate.open();
    shop.home.wait_outcome(&told.effect(), outcome);
    let shown = detail(&sidecar, &told.effect());
    let said = shown["evidence"].as_array().unwrap().last().unwrap();
    assert!(said["text"].as_str().unwrap().starts_with("late"), "{said}; {:?}", kinds(&shown));
    assert_eq!((shop.home.money(), shop.writes()), (money, 1));
    assert_eq!(sidecar.stop(), 0);
}

#[test]
fn a_late_success_settles_it() {
    let body = r#"{"id":"re_late","object":"refund","status":"succeeded","amount":12000}"#;
    late(Reply::json("200 OK", body), "succeeded", (12_000, 0, 0));
}

#[test]
fn a_late_refusal_settles_it() {
    let body = r#"{"error":{"type":"card_error","code":"x","message":"no"}}"#;
    late(Reply::json("402 Payment Required", body), "failed", (0, 0, 0));
}

#[test]
fn a_late_answer_after_a_persons_word_changes_nothing() {
    let shop = Shop::open_with(|at| oncegate_tests::conf::stripe_conf(at).timing("4s", "30s"));
    let sidecar = shop.home.serve();
    let gate = Gate::default();
    let body = r#"{"id":"re_late","object":"refund","status":"succeeded","amount":12000}"#;
    shop.provider.on_write(Reply::json("200 OK", body).after(&gate));
    let effect = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    let reason = "the bank says that it never arrived";
    let resolved =
        ops(&shop.home, &sidecar, &["effect", "resolve", &effect, "--outcome", "failed", "--reason", reason]);
    assert_eq!(resolved.code, 1, "{resolved:?}");
    gate.open();
    oncegate_tests::wait::until("the late answer to be kept", || {
        let shown = detail(&sidecar, &effect);
        let last = shown["evidence"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned();
        Some(()).filter(|()| last.starts_with("late, after the effect was settled as failed"))
    });
    let shown = detail(&sidecar, &effect);
    assert_eq!(json!([shown["outcome"], shown["verification"]]), json!(["failed", "manual"]));
    assert_eq!(shop.home.money(), (0, 0, 0), "settled stays settled");
}
