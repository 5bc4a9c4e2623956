//! One credential per place, chosen by rule, named wherever an effect is told of, and the same for whatever is sent later.

use std::fs;

use oncegate_tests::{
    conf::{CREDENTIAL, Conf},
    sidecar::{Home, Sidecar},
    wait::until,
};
use serde_json::{Value, json};

use crate::{
    law::{approval_in, call, data, detail, lost, ops, says_no},
    shop::{REFUND, Shop},
};

const PLACED: &str = "header authorization";

/// The same configuration, with the action's secret under another name.
fn renamed(home: &Home, sidecar: &Sidecar) {
    let text = fs::read_to_string(home.config()).unwrap();
    home.write(&text.replace("STRIPE_KEY", "OTHER_KEY"));
    until("the configuration to be read", || {
        let listed = data(&call(sidecar, "ops", "GET", "/secrets", ""));
        Some(()).filter(|()| listed[0]["name"] == "OTHER_KEY")
    });
}

#[test]
fn an_effect_says_which_secrets_it_carries_and_where() {
    let shop = Shop::open();
    let sidecar =
        shop.home.serve_with(oncegate_tests::binary::Build::Plain, &[("ONCEGATE_LOG_FORMAT", "json")]);
    let effect = sidecar.billing().refund(None, REFUND).effect();
    let named = json!({ PLACED: ["STRIPE_KEY"] });
    assert_eq!(detail(&sidecar, &effect)["credential"], named);
    assert_eq!(shop.home.effect(&effect)["credential"], named, "and from the database itself");
    let receipt = ops(&shop.home, &sidecar, &["effect", "show", &effect]).out;
    assert!(receipt.contains("STRIPE_KEY in header authorization"), "{receipt}");
    let lines: Vec<Value> =
        sidecar.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let line = lines.iter().find(|line| line["effect.id"] == effect.as_str()).expect("a line of the request");
    assert_eq!(line["credential"], "STRIPE_KEY", "{line}");
    let events = shop.home.query("select detail from event where kind = 'admitted'");
    let event: Value = serde_json::from_str(events[0]["detail"].as_str().unwrap()).unwrap();
    assert_eq!(event["credential"], named, "part of the chain");
    assert_eq!(ops(&shop.home, &sidecar, &["audit", "verify"]).code, 0);
    assert!(!sidecar.log().contains(CREDENTIAL));
}

#[test]
fn what_was_approved_is_not_sent_as_somebody_else() {
    let conf = |at| Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000);
    let shop = Shop::open_with(conf);
    let sidecar = shop.home.serve();
    let parked = sidecar.billing().refund(None, REFUND);
    let approval = approval_in(&parked);
    renamed(&shop.home, &sidecar);
    let approved = ops(&shop.home, &sidecar, &["approve", &approval]);
    assert_eq!(approved.code, 15, "{approved:?}");
    let shown = detail(&sidecar, &parked.effect());
    assert_eq!(json!([shown["stage"], shown["credential"]]), json!(["rejected", { PLACED: ["STRIPE_KEY"] }]));
    let said = "The secrets that this was prepared with are not those that are declared for it now";
    assert!(shown["evidence"].to_string().contains(said), "{shown}");
    assert_eq!((shop.writes(), shop.home.money()), (0, (0, 0, 0)));
}

#[test]
fn a_replay_is_not_sent_as_somebody_else() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    renamed(&shop.home, &sidecar);
    let refused = call(&sidecar, "ops", "POST", &format!("/actions/effects/{effect}/replay"), "");
    says_no(&refused, 409, "REPLAY_REFUSED", "credential_unavailable");
    assert_eq!((shop.writes(), shop.home.money()), (1, (0, 12_000, 12_000)), "still unknown, still held");
    assert_eq!(
        detail(&sidecar, &effect)["attempts"].as_array().unwrap().len(),
        1,
        "nothing was recorded of it"
    );
}
