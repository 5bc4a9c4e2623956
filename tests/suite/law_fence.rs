//! What is open on a subject keeps other writes from it: when they are claimed, and under whatever name they come.

use std::net::SocketAddr;

use oncegate_tests::{
    agent::Ask,
    conf::Conf,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
};

use crate::{
    elsewhere::reload,
    law::{approval_in, detail, lost, ops},
    shop::{DESK, REFUND, Shop, VARIED, desk_conf, ticket},
};

fn conf(at: SocketAddr) -> Conf {
    Conf::default().stripe_host(at).refund("approval_when = \"amount > 5000\"").daily_limit(90_000)
}

/// Stripe's reads are out: of which payment the charge is, nobody knows.
#[test]
fn p6_what_is_approved_does_not_pass_the_fence_of_the_payments_other_name() {
    let shop = Shop::open_with(conf);
    let sidecar = shop.home.serve();
    for _ in 0..4 {
        shop.provider.on_read(Reply::json("503 Service Unavailable", "{}"));
    }
    let parked = sidecar.billing().refund(None, "charge=ch_1&amount=6000");
    let approval = approval_in(&parked);
    shop.books.lose(1);
    let open = sidecar.billing().refund(None, "payment_intent=pi_1&amount=4000").assert_unknown().effect();
    let approved = ops(&shop.home, &sidecar, &["approve", &approval]);
    assert_eq!((approved.code, shop.writes()), (15, 1), "{approved:?}");
    assert!(approved.out.contains(&open), "{approved:?}");
    assert_eq!(detail(&sidecar, &parked.effect())["stage"], "rejected");
}

fn renamed(at: SocketAddr) -> Conf {
    let conf = Conf::default().stripe_host(at).refund("").daily_limit(90_000);
    Conf { rest: conf.rest.replace("[actions.refund]", "[actions.refunds]"), ..conf }
}

/// The same edit by a reload, and while nothing runs.
#[test]
fn p6_an_action_by_another_name_is_kept_from_what_is_open() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let open = lost(&shop, &sidecar);
    reload(&shop.home, &sidecar, &renamed(shop.provider.addr()));
    let fenced = |sidecar: &Sidecar| {
        for body in [REFUND, VARIED] {
            let again = sidecar.billing().refund(None, body);
            again.assert_own(422, "oncegate_unresolved_effect");
            assert_eq!((again.effect(), shop.writes()), (open.clone(), 1), "{again:?}");
        }
    };
    fenced(&sidecar);
    sidecar.kill9();
    let sidecar = shop.home.serve();
    fenced(&sidecar);
    let warned = sidecar.log();
    assert!(warned.contains("refund is no longer declared") && warned.contains(&open), "{warned}");
}

/// By a reload, and at a start: what an open effect was fenced by is not what a varied retry is compared with any more.
#[test]
fn p6_an_edit_that_takes_the_fence_from_what_is_open_is_warned_of() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    let sidecar = home.serve();
    provider.on_write(Reply::lost());
    let open = sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a"))).assert_unknown().effect();
    let conf = desk_conf(provider.addr());
    let other = Conf { rest: conf.rest.replace("\"{{input.title}}\"", "\"title/{{input.title}}\""), ..conf };
    reload(&home, &sidecar, &other);
    let warns = |sidecar: &Sidecar| {
        let log = sidecar.log();
        let warned = log.contains("another subject or operation key now") && log.contains(&open);
        assert!(warned, "{log}");
    };
    warns(&sidecar);
    sidecar.stop();
    warns(&home.serve());
    // Meant as it was: nothing to say.
    home.write(&desk_conf(provider.addr()).text());
    assert!(!home.serve().log().contains("not settled"));
}
