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
    law::{approval_in, call, detail, lost, ops, says_no},
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
