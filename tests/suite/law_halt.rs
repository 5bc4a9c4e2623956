//! The emergency stop: every new write is refused, everything else goes on.

use oncegate_tests::{agent::Ask, conf::Conf};
use serde_json::json;

use crate::{
    law::{approval_in, call, data, lost, ops, says_no},
    shop::{DESK, REFUND, Shop, VARIED},
};

const OTHER: &str = "payment_intent=pi_2&amount=100";

#[test]
fn a_halt_refuses_writes_and_nothing_else() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let unknown = lost(&shop, &sidecar);
    let done = sidecar.billing().refund(None, OTHER);
    assert_eq!(done.status, 200);
    assert_eq!(sidecar.cli(&shop.home, "billing-agent", &["halt", "--reason", "me too"]).code, 15);
    let halted = ops(&shop.home, &sidecar, &["halt", "--reason", "duplicate refunds reported"]);
    assert_eq!(halted.code, 0, "{halted:?}");
    // Safe to repeat: the first halt stands, with its reason.
    let again = ops(&shop.home, &sidecar, &["halt", "--reason", "another", "--json"]).json();
    assert_eq!(
        json!([again["halted"], again["haltReason"], again["haltedBy"]]),
        json!([true, "duplicate refunds reported", "ops"])
    );

    let refused = sidecar.billing().refund(None, "payment_intent=pi_3&amount=100");
    refused.assert_refused(403, "oncegate_halted");
    assert!(refused.reason.contains("duplicate refunds reported"), "{refused:?}");
    let repeat = sidecar.billing().refund(None, OTHER);
    assert_eq!((repeat.status, &repeat.body), (200, &done.body), "a repeat is still answered: {repeat:?}");
    sidecar.billing().refund(None, REFUND).assert_unknown();
    assert_eq!(shop.writes(), 2);
    assert_eq!(data(&call(&sidecar, "billing-agent", "GET", "/environment", ""))["status"], "halted");

    sidecar.kill9();
    let sidecar = shop.home.serve();
    sidecar.billing().refund(None, "payment_intent=pi_3&amount=100").assert_refused(403, "oncegate_halted");
    assert_eq!(ops(&shop.home, &sidecar, &["effect", "note", &unknown, "asked the bank"]).code, 0);
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &unknown).code, 0, "looking goes on");
    assert_eq!(ops(&shop.home, &sidecar, &["resume"]).code, 0);
    assert_eq!(ops(&shop.home, &sidecar, &["resume"]).code, 0, "safe to repeat");
    assert_eq!(sidecar.billing().refund(None, "payment_intent=pi_3&amount=100").status, 200);
    assert_eq!(shop.writes(), 3);
}

#[test]
fn a_halt_stops_what_is_not_governed_too_and_reads_where_wanted() {
    for (reads, status) in [("allow", 200), ("deny", 403)] {
        let provider = oncegate_tests::provider::Provider::tls(&[DESK]);
        let conf = Conf::default()
            .proxy(&format!("reads_while_halted = \"{reads}\""))
            .host(DESK, provider.addr())
            .with("[actions.search]\nmethod = \"POST\"\nurl = \"https://tickets.test/v1/search\"\ngoverned = false\n");
        let home = oncegate_tests::sidecar::Home::new(&conf);
        let sidecar = home.serve();
        let search = Ask::json("/v1/search", "{}");
        assert_eq!(sidecar.billing().ask(DESK, &search).status, 200);
        assert_eq!(sidecar.cli(&home, "ops", &["halt", "--reason", "stop"]).code, 0);
        sidecar.billing().ask(DESK, &search).assert_refused(403, "oncegate_halted");
        assert_eq!(sidecar.billing().ask(DESK, &Ask::get("/v1/tickets")).status, status, "{reads}");
        assert_eq!(provider.record().writes().len(), 1);
    }
}

#[test]
fn what_is_approved_under_a_halt_is_sent_after_it() {
    let shop = Shop::open_with(|at| {
        Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000)
    });
    let sidecar = shop.home.serve();
    let first = sidecar.billing().refund(None, REFUND);
    assert_eq!(ops(&shop.home, &sidecar, &["halt", "--reason", "stop"]).code, 0);
    let path = format!("/approvals/{}/approve", approval_in(&first));
    let approved = data(&call(&sidecar, "ops", "POST", &path, r#"{"note":"fine"}"#));
    assert_eq!(
        json!([
            approved["approval"]["status"],
            approved["invocation"]["status"],
            approved["invocation"]["decision"]["code"]
        ]),
        json!(["approved", "running", "halted"]),
    );
    says_no(&call(&sidecar, "ops", "POST", &path, ""), 409, "CONFLICT", "already_decided");
    assert_eq!((shop.writes(), shop.home.effect(&first.effect())["stage"].clone()), (0, json!("ready")));
    let varied = sidecar.billing().refund(None, VARIED);
    varied.assert_refused(422, "oncegate_unresolved_effect");
    assert!(varied.reason.contains("it is approved and has not been sent yet"), "{varied:?}");
    assert_eq!(ops(&shop.home, &sidecar, &["resume"]).code, 0);
    shop.home.wait_outcome(&first.effect(), "succeeded");
    assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)));
}

#[test]
fn what_is_approved_under_a_halt_waits_and_can_still_be_denied() {
    let shop = Shop::open_with(|at| {
        Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000)
    });
    let sidecar = shop.home.serve();
    let (kept, stopped) = (sidecar.billing().refund(None, REFUND), sidecar.billing().refund(None, OTHER));
    assert_eq!(ops(&shop.home, &sidecar, &["halt", "--reason", "stop"]).code, 0);
    for first in [&kept, &stopped] {
        let approved = ops(&shop.home, &sidecar, &["approve", &approval_in(first)]);
        assert_eq!(approved.code, 14, "it waits: {approved:?}");
        let then = format!("sent when writes are resumed; `oncegate deny {}` stops it", approval_in(first));
        assert!(approved.out.contains(&then), "{approved:?}");
    }
    let own = ops(&shop.home, &sidecar, &["deny", &approval_in(&stopped), "--note", "not this one"]);
    assert!(own.code == 0 && own.out.contains("denied"), "{own:?}");
    let effect = shop.home.effect(&stopped.effect());
    assert_eq!(json!([effect["stage"], effect["grade"]]), json!(["rejected", "denied"]));
    assert_eq!(ops(&shop.home, &sidecar, &["deny", &approval_in(&stopped)]).code, 15, "once");

    let resumed = ops(&shop.home, &sidecar, &["resume"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert!(resumed.out.contains(&kept.effect()) && !resumed.out.contains(&stopped.effect()), "{resumed:?}");
    shop.home.wait_outcome(&kept.effect(), "succeeded");
    assert_eq!((shop.writes(), shop.home.money()), (1, (12_000, 0, 0)));
    let shown = ops(&shop.home, &sidecar, &["effect", "show", &stopped.effect()]).out;
    assert!(
        shown.contains("denied by ops after it was approved, and before it was sent: not this one"),
        "{shown}"
    );
}
