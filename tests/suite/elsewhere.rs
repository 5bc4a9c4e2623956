//! What was asked for is sent, and looked for, where it was asked for and nowhere else, whatever the configuration says since.

use std::{fs, net::SocketAddr};

use oncegate_tests::{
    agent::Ask,
    conf::{Conf, FILE_FIRST},
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
    wait::until,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    law::{approval_in, call, data, detail, lost, ops, says_no},
    shop::{DESK, REFUND, Shop, ticket, ticket_action},
};

/// Takes another configuration, and waits until it is in force.
pub(crate) fn reload(home: &Home, sidecar: &Sidecar, conf: &Conf) {
    let taken = "the configuration was reloaded";
    let before = sidecar.log().matches(taken).count();
    fs::write(home.path("new.tmp"), conf.text()).unwrap();
    fs::rename(home.path("new.tmp"), home.config()).unwrap();
    kill_process(Pid::from_raw(sidecar.pid().cast_signed()).unwrap(), Signal::HUP).unwrap();
    until("the reload", || Some(()).filter(|()| sidecar.log().matches(taken).count() > before));
}

fn in_mode(at: SocketAddr, mode: &str) -> Conf {
    let conf =
        Conf::default().stripe_host(at).refund("approval_when = \"amount > 20000\"").daily_limit(90_000);
    let from_a_file =
        |text: &str| text.replace("{ env = \"STRIPE_SECRET_KEY\" }", "{ file = \"stripe.key\" }");
    let in_mode = |text: &str| text.replace("mode = \"test\"", &format!("mode = \"{mode}\""));
    Conf { rest: in_mode(&from_a_file(&conf.rest)), ..conf }
}

#[test]
fn p2_what_was_asked_for_in_test_mode_is_not_sent_live() {
    let shop = Shop::open_with(|at| in_mode(at, "test"));
    shop.home.write_secret("stripe.key", FILE_FIRST);
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    let parked = sidecar.billing().refund(None, "payment_intent=pi_2&amount=30000");
    let approval = approval_in(&parked);
    shop.home.write_secret("stripe.key", "sk_live_made_up_5Vd2");
    reload(&shop.home, &sidecar, &in_mode(shop.provider.addr(), "live"));

    let replay = call(&sidecar, "ops", "POST", &format!("/actions/effects/{effect}/replay"), "");
    says_no(&replay, 409, "REPLAY_REFUSED", "undeclared");
    assert_eq!(ops(&shop.home, &sidecar, &["effect", "reconcile", &effect]).code, 13);
    let approved = ops(&shop.home, &sidecar, &["approve", &approval]);
    assert_eq!(approved.code, 15, "{approved:?}");
    assert!(approved.out.contains("other mode"), "{approved:?}");
    assert_eq!(detail(&sidecar, &parked.effect())["stage"], "rejected");
    assert_eq!((shop.writes(), shop.home.money()), (1, (0, 12_000, 12_000)));

    // Nor is it looked for there; back in its own mode, it is.
    shop.home.write_secret("stripe.key", FILE_FIRST);
    reload(&shop.home, &sidecar, &in_mode(shop.provider.addr(), "test"));
    assert_eq!(ops(&shop.home, &sidecar, &["effect", "reconcile", &effect]).code, 0);
}

const OTHER: &str = "other.test";

fn desk_at(host: &str, at: SocketAddr) -> Conf {
    let verify = "verify = { url = \"https://HOST/v1/tickets?of={{input.title}}\", match = [{ path = \"data.*.title\", equals = \"{{input.title}}\" }] }\n";
    let conf = Conf::default().host(DESK, at).host(OTHER, at).with(&ticket_action("open-ticket", host));
    conf.with(&verify.replace("HOST", host))
}

#[test]
fn p3_another_servers_record_is_no_record_of_what_was_sent_here() {
    let provider = Provider::tls(&[DESK, OTHER]);
    let home = Home::new(&desk_at(DESK, provider.addr()));
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let effect =
        sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a"))).assert_unknown().effect();
    reload(&home, &sidecar, &desk_at(OTHER, provider.addr()));
    // The other one has such a ticket.
    let found = r#"{"data":[{"title":"a"}]}"#;
    provider.on_read(Reply::json("200 OK", found));
    assert_eq!(ops(&home, &sidecar, &["effect", "reconcile", &effect]).code, 13);
    let shown = detail(&sidecar, &effect);
    let last = shown["evidence"].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("another server"), "{last}");
    let reads = || provider.record().requests().iter().filter(|request| !request.is_write()).count();
    assert_eq!((reads(), &shown["outcome"]), (0, &json!("unknown")));

    reload(&home, &sidecar, &desk_at(DESK, provider.addr()));
    assert_eq!(ops(&home, &sidecar, &["effect", "reconcile", &effect]).code, 0);
    assert_eq!(reads(), 1);
}

/// A person has said yes: a secret that cannot be had for a moment does not undo that.
#[test]
fn what_is_approved_waits_for_its_secret() {
    let conf = |at| {
        let conf = in_mode(at, "test");
        Conf { rest: conf.rest.replace("amount > 20000", "amount > 0"), first_after: "1s".into(), ..conf }
    };
    let shop = Shop::open_with(conf);
    shop.home.write_secret("stripe.key", FILE_FIRST);
    let sidecar = shop.home.serve();
    let parked = sidecar.billing().refund(None, REFUND);
    let approval = approval_in(&parked);
    fs::remove_file(shop.home.path("stripe.key")).unwrap();
    let approved = ops(&shop.home, &sidecar, &["approve", &approval]);
    assert_eq!((approved.code, shop.writes()), (14, 0), "{approved:?}");
    assert!(approved.out.contains("secret"), "{approved:?}");
    assert_eq!(detail(&sidecar, &parked.effect())["stage"], "ready");
    shop.home.write_secret("stripe.key", FILE_FIRST);
    until("the approved refund", || Some(()).filter(|()| shop.writes() == 1));
    until("its end", || {
        Some(()).filter(|()| detail(&sidecar, &parked.effect())["outcome"] == json!("succeeded"))
    });
}

/// What waits for a person, at a route of which a special action takes some requests, with the limit.
fn special(at: SocketAddr, more: &str) -> Conf {
    let pay = |name: &str, more: &str| {
        format!(
            "[actions.{name}]\nmethod = \"POST\"\nurl = \"https://{DESK}/pay\"\nrequires_approval = true\n\
             impact = {{ dimension = \"money\", currency = \"usd\", amount = \"input.amount\" }}\n{more}\n"
        )
    };
    let limit = |action: &str| {
        format!(
            "[limits.most]\ndimension = \"money\"\ncurrency = \"usd\"\nperiod = \"day\"\namount = 5000\naction = \"{action}\"\n"
        )
    };
    let conf = Conf::default().host(DESK, at).with(&pay("pay", "")).with(&pay("pay-too", ""));
    match more {
        "" => conf.with(&limit("pay")),
        when => conf.with(&pay("large", when)).with(&limit("large")),
    }
}

#[test]
fn p5_what_is_approved_passes_no_limit_of_the_action_that_it_is_by_then() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&special(provider.addr(), ""));
    let sidecar = home.serve();
    let ask = |amount: u32| {
        let body = format!(r#"{{"amount":{amount}}}"#);
        sidecar.billing().ask(DESK, &Ask::json("/pay", &body))
    };
    let (large, small) = (ask(90_000), ask(10));
    let input = json!({ "input": { "amount": 20 } }).to_string();
    let named = data(&call(&sidecar, "billing-agent", "POST", "/actions/pay-too/invoke", &input));
    reload(
        &home,
        &sidecar,
        &special(provider.addr(), "when = [{ path = \"input.amount\", equals = 90000 }]"),
    );

    let refused = ops(&home, &sidecar, &["approve", &approval_in(&large)]);
    assert_eq!(refused.code, 15, "{refused:?}");
    assert!(refused.out.contains("it is action large's now"), "{refused:?}");
    assert_eq!(detail(&sidecar, &large.effect())["stage"], "rejected");
    assert_eq!(provider.record().writes().len(), 0);
    // What it is not, and what was asked for by a name that a request does not say, goes as it was approved.
    for approval in [approval_in(&small).as_str(), named["approvalId"].as_str().unwrap()] {
        let sent = ops(&home, &sidecar, &["approve", approval]);
        assert_eq!(sent.code, 0, "{sent:?}");
    }
    assert_eq!(provider.record().writes().len(), 2);
}

/// The mark that a refund leaves with is ours, and says nothing of which action was asked for.
#[test]
fn what_was_added_to_a_request_does_not_make_it_another_actions() {
    let shop = Shop::open_with(|at| {
        let unmarked = "\n[actions.unmarked]\n\
                        adapter = { type = \"stripe.refund\", account = \"acct_1Nxyz\", mode = \"test\", currency = \"usd\" }\n\
                        credential_secret = \"STRIPE_KEY\"\nwhen = [{ path = \"input.metadata\", absent = true }]\n\
                        requires_approval = true\n";
        Conf::default().stripe_host(at).refund(unmarked).daily_limit(90_000)
    });
    let sidecar = shop.home.serve();
    let parked = sidecar.billing().refund(None, REFUND);
    assert_eq!(shop.home.effect(&parked.effect())["action"], "unmarked");
    let approved = ops(&shop.home, &sidecar, &["approve", &approval_in(&parked)]);
    assert_eq!((approved.code, shop.writes()), (0, 1), "{approved:?}");
}
