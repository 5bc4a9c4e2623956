//! Approvals: parked durably, joined, decided by another key, sent once by Oncegate itself.

use std::{net::SocketAddr, thread, time::Instant};

use oncegate_tests::{binary::Build, conf::Conf, sidecar::Sidecar, wait::until};
use serde_json::json;

use crate::{
    law::{approval_in, call, data, detail, ops, says_no},
    shop::{KEYS, REFUND, Shop, VARIED},
};

fn conf(more: &str) -> impl FnOnce(SocketAddr) -> Conf {
    move |at| Conf::default().stripe_host(at).refund(more).daily_limit(50_000)
}

fn shop() -> Shop {
    Shop::open_with(conf("requires_approval = true"))
}

/// The identical call reads what the provider said; nothing more is sent.
#[track_caller]
fn reads_the_result(shop: &Shop, sidecar: &Sidecar, effect: &str) {
    let read = sidecar.billing().refund(None, REFUND);
    assert_eq!((read.status, read.json()), (200, shop.books.refunds()[0].clone()), "{read:?}");
    assert_eq!((read.effect().as_str(), read.header("x-idempotent-replay")), (effect, Some("current-state")));
    assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)));
}

#[test]
fn parked_joined_approved_and_sent_once() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(None, REFUND);
    let approval = approval_in(&first);
    // Every client library makes another key for its next try.
    for key in [None, Some(KEYS[0]), Some(KEYS[2])] {
        let again = sidecar.billing().refund(key, REFUND);
        assert_eq!((approval_in(&again), again.effect()), (approval.clone(), first.effect()), "{key:?}");
    }
    assert_eq!((shop.writes(), shop.home.money()), (0, (0, 0, 0)), "nothing sent, nothing held");
    let pending = ops(&shop.home, &sidecar, &["approvals", "--status", "pending", "--json"]).json();
    assert_eq!(pending.as_array().map(Vec::len), Some(1), "{pending}");
    assert_eq!(
        json!([pending[0]["id"], pending[0]["effectId"], pending[0]["requestedBy"]]),
        json!([approval, first.effect(), "billing-agent"]),
    );

    let approved = ops(&shop.home, &sidecar, &["approve", &approval, "--note", "ticket 4711"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    assert!(approved.out.contains("succeeded"), "{approved:?}");
    reads_the_result(&shop, &sidecar, &first.effect());
    let again = ops(&shop.home, &sidecar, &["approve", &approval]);
    assert_eq!((again.code, shop.writes()), (15, 1), "decided already: {again:?}");
    assert_eq!(ops(&shop.home, &sidecar, &["deny", &approval]).code, 15);

    let show = ops(&shop.home, &sidecar, &["effect", "show", &first.effect()]).out;
    for fact in [approval.as_str(), "approved by ops: ticket 4711", "sha256", "acknowledged"] {
        assert!(show.contains(fact), "{fact} is not in the receipt:\n{show}");
    }
    let decided = data(&call(&sidecar, "billing-agent", "GET", &format!("/approvals/{approval}"), ""));
    assert_eq!(
        json!([decided["status"], decided["decidedBy"], decided["decisionNote"]]),
        json!(["approved", "ops", "ticket 4711"])
    );
}

/// What a person saw and what is held is what leaves, whatever is left to refund by then.
#[test]
fn p5_more_that_is_left_by_then_is_not_refunded() {
    let shop = shop();
    let sidecar = shop.home.serve();
    // All but a dollar was refunded elsewhere; while a person thinks, that failed.
    shop.books.made_elsewhere("pi_1", 49_900);
    let waits = sidecar.billing().refund(None, "charge=ch_of_the_payment");
    let approval = approval_in(&waits);
    shop.books.forget();
    let approved = ops(&shop.home, &sidecar, &["approve", &approval]);
    assert_eq!(approved.code, 0, "{approved:?}");
    assert_eq!(shop.provider.record().writes()[0].text().split('&').nth(1), Some("amount=100"));
    assert_eq!((&shop.books.refunds()[0]["amount"], shop.home.money()), (&json!(100), (100, 0, 0)));
    let again = sidecar.billing().refund(None, "charge=ch_of_the_payment");
    assert_eq!((again.effect(), shop.writes()), (waits.effect(), 1), "the same request as before: {again:?}");
}

#[test]
fn the_key_that_asked_never_decides() {
    let shop = shop();
    let sidecar = shop.home.serve();
    // An agent's key has no scope for it; an operator's has, and still not for what it asked for itself.
    let theirs = approval_in(&sidecar.billing().refund(None, REFUND));
    let own = approval_in(&sidecar.agent("ops").refund(None, "payment_intent=pi_own&amount=100"));
    for step in ["approve", "deny"] {
        let answer = call(&sidecar, "billing-agent", "POST", &format!("/approvals/{theirs}/{step}"), "{}");
        says_no(&answer, 403, "AUTHORIZATION_ERROR", "");
        let answer = call(&sidecar, "ops", "POST", &format!("/approvals/{own}/{step}"), "{}");
        says_no(&answer, 403, "AUTHORIZATION_ERROR", "own_request");
        assert_eq!(ops(&shop.home, &sidecar, &[step, &own]).code, 15);
    }
    assert_eq!(shop.writes(), 0);
    assert_eq!(ops(&shop.home, &sidecar, &["approve", &theirs]).code, 0);
    assert_eq!(shop.writes(), 1);
}

#[test]
fn denied_is_not_sent_and_a_new_request_asks_anew() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    let approval = approval_in(&first);
    assert_eq!(ops(&shop.home, &sidecar, &["deny", &approval, "--note", "not this one"]).code, 0);
    let effect = shop.home.effect(&first.effect());
    assert_eq!(
        json!([effect["stage"], effect["grade"], effect["status"], effect["error"]]),
        json!(["rejected", "denied", "denied", "A person has denied this. Nothing was sent. Do not retry."])
    );
    // The caller's key stays bound to what it asked for, for life.
    let same = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    same.assert_own(403, "oncegate_denied");
    assert_eq!((same.outcome(), same.effect()), ("denied", first.effect()));
    let anew = sidecar.billing().refund(Some("refund:ord_1b"), REFUND);
    assert_ne!(approval_in(&anew), approval, "a denial frees the way for another question");
    assert_eq!((shop.writes(), shop.home.money()), (0, (0, 0, 0)));
}

#[test]
fn nobody_decides_in_time() {
    let shop = Shop::open_with(conf("requires_approval = true\napproval_expires = \"1s\""));
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    let approval = approval_in(&first);
    until("the question to lapse", || {
        let asked = data(&call(&sidecar, "ops", "GET", &format!("/approvals/{approval}"), ""));
        Some(()).filter(|()| asked["status"] == "expired")
    });
    let late = call(&sidecar, "ops", "POST", &format!("/approvals/{approval}/approve"), "");
    says_no(&late, 409, "CONFLICT", "already_decided");
    let same = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    same.assert_own(403, "oncegate_denied");
    let effect = shop.home.effect(&first.effect());
    let said = json!([effect["status"], effect["error"]]);
    assert_eq!(said, json!(["expired", "Nobody approved this in time. Nothing was sent."]));
    assert_ne!(approval_in(&sidecar.billing().refund(Some("refund:ord_2"), REFUND)), approval);
    assert_eq!(shop.writes(), 0);
}

/// Every view says so from then on, and whoever waits is told.
#[test]
fn a_question_ends_when_its_time_is_over() {
    let shop = Shop::open_with(conf("requires_approval = true\napproval_expires = \"1s\""));
    let sidecar = shop.home.serve();
    let begun = Instant::now();
    let first = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    let approval = approval_in(&first);
    let asked = data(&call(&sidecar, "ops", "GET", &format!("/approvals/{approval}?waitSeconds=12"), ""));
    assert_eq!(asked["status"], "expired", "{asked}");
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    assert_eq!(detail(&sidecar, &first.effect())["stage"], "rejected");
    let same = sidecar.billing().refund(Some("refund:ord_1"), REFUND);
    same.assert_own(403, "oncegate_denied");
    // A question of an agent's own, the same.
    let own =
        call(&sidecar, "billing-agent", "POST", "/approvals", r#"{"title":"may I?","expiresInSeconds":1}"#);
    let own = data(&own)["id"].as_str().unwrap().to_owned();
    let asked = data(&call(&sidecar, "ops", "GET", &format!("/approvals/{own}?waitSeconds=12"), ""));
    assert_eq!(asked["status"], "expired", "{asked}");
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn questions_of_an_agents_own_are_bounded() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let ask = |payload: usize| {
        let body = json!({ "title": "may I?", "payload": "x".repeat(payload) }).to_string();
        call(&sidecar, "billing-agent", "POST", "/approvals", &body)
    };
    says_no(&ask(9_000), 400, "VALIDATION_ERROR", "");
    let made: Vec<_> = (0..64).map(|_| data(&ask(10))["id"].as_str().unwrap().to_owned()).collect();
    says_no(&ask(10), 409, "CONFLICT", "full");
    approval_in(&sidecar.billing().refund(None, REFUND));
    assert_eq!(call(&sidecar, "ops", "POST", "/approvals", r#"{"title":"another's"}"#).status, 201);
    assert_eq!(ops(&shop.home, &sidecar, &["deny", &made[0]]).code, 0);
    assert_eq!(ask(10).status, 201);
}

#[test]
fn a_late_decision_does_not_count() {
    let shop = Shop::open_with(conf("requires_approval = true\napproval_expires = \"1s\""));
    let sidecar = shop.home.serve();
    let approval = approval_in(&sidecar.billing().refund(None, REFUND));
    let asked = data(&call(&sidecar, "ops", "GET", &format!("/approvals/{approval}?waitSeconds=3"), ""));
    // Swept or not by now: it has lapsed.
    assert_ne!(asked["status"], "approved");
    assert_eq!(ops(&shop.home, &sidecar, &["approve", &approval]).code, 15);
    assert_eq!(shop.writes(), 0);
}

#[test]
fn a_parked_request_survives_kill_9() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(None, REFUND);
    let approval = approval_in(&first);
    sidecar.kill9();
    let sidecar = shop.home.serve();
    assert_eq!(approval_in(&sidecar.billing().refund(None, REFUND)), approval, "it still waits");
    assert_eq!(ops(&shop.home, &sidecar, &["approve", &approval]).code, 0);
    reads_the_result(&shop, &sidecar, &first.effect());
    let sent = shop.provider.record().writes().remove(0);
    assert!(sent.text().starts_with(REFUND), "as it was asked: {}", sent.text());
    let rows = shop.home.query("select count(*) as n from request where length(body) > 0");
    assert_eq!(rows[0]["n"], 0, "the body is erased once it is settled");
}

#[test]
fn an_approval_survives_a_crash_before_its_dispatch() {
    let shop = shop();
    let failing = [("ONCEGATE_FAILPOINT", "after_approve_commit=abort")];
    let mut doomed = shop.home.serve_with(Build::Failpoints, &failing);
    let first = doomed.billing().refund(None, REFUND);
    let approval = approval_in(&first);
    let told = ops(&shop.home, &doomed, &["approve", &approval]);
    assert_eq!((doomed.ended(), told.code, shop.writes()), (-1, 13, 0), "{told:?}");
    // Nobody repeats the approval: it was recorded, so the next start sends it.
    let sidecar = shop.home.serve();
    shop.home.wait_outcome(&first.effect(), "succeeded");
    reads_the_result(&shop, &sidecar, &first.effect());
    assert_eq!(ops(&shop.home, &sidecar, &["approve", &approval]).code, 15);
}

#[test]
fn approval_when_looks_at_the_amount() {
    let shop = Shop::open_with(conf("approval_when = \"amount > 5000\""));
    let sidecar = shop.home.serve();
    let small = sidecar.billing().refund(None, "payment_intent=pi_1&amount=5000");
    assert_eq!(small.status, 200, "{small:?}");
    approval_in(&sidecar.billing().refund(None, "payment_intent=pi_2&amount=5001"));
    // Without an amount, all that is left is meant, and that is read first.
    approval_in(&sidecar.billing().refund(None, "payment_intent=pi_3"));
    assert_eq!((shop.writes(), shop.home.money()), (1, (5_000, 0, 0)));
}

#[test]
fn anything_changed_is_another_question() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(None, REFUND);
    let approvals = [REFUND, VARIED, "payment_intent=pi_3Pabc&amount=12000&reason=duplicate"]
        .map(|form| approval_in(&sidecar.billing().refund(None, form)));
    assert!(approvals[0] != approvals[1] && approvals[1] != approvals[2] && approvals[0] != approvals[2]);
    assert_eq!(ops(&shop.home, &sidecar, &["approve", &approvals[0]]).code, 0);
    assert_eq!(approval_in(&sidecar.billing().refund(None, VARIED)), approvals[1], "this one still waits");
    reads_the_result(&shop, &sidecar, &first.effect());
}

#[test]
fn limits_are_looked_at_when_it_is_sent() {
    let shop = Shop::open_with(|at| {
        Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(20_000)
    });
    let sidecar = shop.home.serve();
    let forms = ["payment_intent=pi_1&amount=12000", "payment_intent=pi_2&amount=12000"];
    let approvals = forms.map(|form| approval_in(&sidecar.billing().refund(None, form)));
    assert_eq!(ops(&shop.home, &sidecar, &["approve", &approvals[0]]).code, 0);
    let second = ops(&shop.home, &sidecar, &["approve", &approvals[1], "--json"]);
    assert_eq!(second.code, 15, "{second:?}");
    let invocation = second.json()["invocation"].clone();
    assert_eq!(
        json!([invocation["status"], invocation["grade"]]),
        json!(["failed", "refused"]),
        "{invocation}"
    );
    assert!(invocation["error"].as_str().unwrap().contains("refunds-per-day"), "{invocation}");
    let effect = detail(&sidecar, invocation["effectId"].as_str().unwrap());
    let last = effect["evidence"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        json!([effect["error"], last["kind"], last["source"]]),
        json!(["This was refused when it was to be sent. Nothing was sent.", "rejected", "dispatch"])
    );
    assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)));
}

#[test]
fn an_approved_refund_whose_answer_is_lost_is_unknown() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(None, REFUND);
    shop.books.lose(1);
    let approved = ops(&shop.home, &sidecar, &["approve", &approval_in(&first)]);
    assert_eq!(approved.code, 13, "{approved:?}");
    sidecar.billing().refund(None, REFUND).assert_unknown();
    assert_eq!((shop.writes(), shop.home.money()), (1, (0, 12_000, 12_000)));
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &first.effect()).code, 0);
    reads_the_result(&shop, &sidecar, &first.effect());
}

#[test]
fn a_waiting_call_hears_of_the_decision_and_of_the_end() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(None, REFUND);
    let path = format!("/approvals/{}?waitSeconds=30", approval_in(&first));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| data(&call(&sidecar, "billing-agent", "GET", &path, "")));
        assert_eq!(ops(&shop.home, &sidecar, &["approve", &approval_in(&first)]).code, 0);
        assert_eq!(waiting.join().unwrap()["status"], "approved");
    });
    let path = format!(
        "/approvals/{}?waitSeconds=30",
        approval_in(&sidecar.billing().refund(None, "payment_intent=pi_9&amount=1"))
    );
    let start = Instant::now();
    let waiting = call(&sidecar, "billing-agent", "GET", &path.replace("=30", "=1"), "");
    assert_eq!(data(&waiting)["status"], "pending", "still pending is an ordinary answer");
    assert!(start.elapsed().as_secs() >= 1);
    says_no(&call(&sidecar, "ops", "GET", &path.replace("=30", "=x"), ""), 400, "VALIDATION_ERROR", "");
    assert_eq!(sidecar.stop(), 0);
}

#[test]
fn an_agent_may_ask_on_its_own_account() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let asked = call(
        &sidecar,
        "billing-agent",
        "POST",
        "/approvals",
        r#"{"title":"May I close the account?","payload":{"account":"a_1"},"expiresInSeconds":600}"#,
    );
    assert_eq!(asked.status, 201, "{asked:?}");
    let id = data(&asked)["id"].as_str().unwrap().to_owned();
    says_no(&call(&sidecar, "billing-agent", "POST", "/approvals", "{}"), 400, "VALIDATION_ERROR", "");
    let approved = ops(&shop.home, &sidecar, &["approve", &id, "--json"]);
    assert_eq!((approved.code, &approved.json()["invocation"]), (0, &json!(null)), "{approved:?}");
    let asked = data(&call(&sidecar, "billing-agent", "GET", &format!("/approvals/{id}"), ""));
    assert_eq!(json!([asked["status"], asked["payload"]["account"]]), json!(["approved", "a_1"]));
    let missing = call(&sidecar, "ops", "POST", "/approvals/apr_01ARZ3NDEKTSV4RRFFQ69G5FAV/approve", "");
    says_no(&missing, 404, "NOT_FOUND", "");
}

#[test]
fn an_invocation_can_be_looked_up() {
    let shop = shop();
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(None, REFUND);
    let id = first.header("oncegate-invocation").unwrap().to_owned();
    let path = format!("/actions/invocations/{id}");
    let waiting = data(&call(&sidecar, "billing-agent", "GET", &path, ""));
    assert_eq!(
        json!([
            waiting["id"],
            waiting["invocationId"],
            waiting["status"],
            waiting["pendingApproval"],
            waiting["approvalId"]
        ]),
        json!([id, id, "pending_approval", true, approval_in(&first)]),
    );
    assert_eq!(ops(&shop.home, &sidecar, &["approve", &approval_in(&first)]).code, 0);
    let done = data(&call(&sidecar, "billing-agent", "GET", &path, ""));
    assert_eq!(
        json!([done["status"], done["grade"], done["responseStatus"], done["body"]["id"], done["error"]]),
        json!(["succeeded", "acknowledged", 200, "re_1", null]),
    );
    for (query, number) in [("status=succeeded", 1), ("status=failed", 0), ("action=refund", 1)] {
        let list = call(&sidecar, "ops", "GET", &format!("/actions/invocations?{query}"), "").json();
        assert_eq!(list["pagination"]["total"], number, "{query}: {list}");
    }
    says_no(&call(&sidecar, "ops", "GET", "/actions/invocations?status=x", ""), 400, "VALIDATION_ERROR", "");
    let resolve =
        call(&sidecar, "ops", "POST", &format!("{path}/resolve"), r#"{"outcome":"failed","evidence":"x"}"#);
    says_no(&resolve, 409, "CONFLICT", "governed");
    let none =
        call(&sidecar, "ops", "POST", "/actions/invocations/inv_01ARZ3NDEKTSV4RRFFQ69G5FAV/resolve", "{}");
    says_no(&none, 404, "NOT_FOUND", "");
    let action = data(&call(&sidecar, "billing-agent", "GET", "/actions/refund", ""));
    assert_eq!(
        json!([
            action["name"],
            action["governed"],
            action["requiresApproval"],
            action["inputSchema"]["type"]
        ]),
        json!(["refund", true, true, "object"]),
    );
    assert_eq!(data(&call(&sidecar, "billing-agent", "GET", "/actions", ""))[0], action);
    assert_eq!(detail(&sidecar, &first.effect())["approvalId"], done["approvalId"]);
}
