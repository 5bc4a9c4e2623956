//! Looks at several providers: one that does not answer, or asks for a pause, keeps only its own effects waiting.

use std::{net::SocketAddr, time::Instant};

use oncegate_tests::{
    agent::Ask,
    conf::Conf,
    gate::Gate,
    provider::Provider,
    script::{Act, Reply},
    sidecar::{Home, Sidecar},
    wait::until,
};

use crate::{
    law::detail,
    shop::{DESK, ticket, ticket_action},
};

const OTHER: &str = "other.test";
/// Of one look; what must not be waited for.
const LOOK: std::time::Duration = std::time::Duration::from_secs(20);

fn verified(name: &str, host: &str) -> String {
    let verify = format!(
        "verify = {{ url = \"https://{host}/v1/tickets?of={{{{effect.id}}}}\", match = [{{ path = \"data.*.of\", equals = \"{{{{effect.id}}}}\" }}] }}\n"
    );
    ticket_action(name, host) + &verify
}

fn two_desks(desk: SocketAddr, other: SocketAddr) -> Conf {
    let conf = Conf::default().host(DESK, desk).host(OTHER, other).reconcile("timeout = \"20s\"");
    let conf = Conf { first_after: "50ms".into(), ..conf };
    conf.with(&verified("open-ticket", DESK)).with(&verified("open-other", OTHER))
}

fn lost_at(provider: &Provider, sidecar: &Sidecar, host: &str, title: &str) -> String {
    provider.on_write(Reply::lost());
    sidecar.billing().ask(host, &Ask::json("/v1/tickets", &ticket(title))).assert_unknown().effect()
}

fn reads(provider: &Provider) -> usize {
    provider.record().requests().iter().filter(|request| !request.is_write()).count()
}

#[test]
fn a_provider_that_does_not_answer_keeps_nobody_elses_effects_waiting() {
    let (desk, other) = (Provider::tls(&[DESK]), Provider::tls(&[OTHER]));
    let home = Home::new(&two_desks(desk.addr(), other.addr()));
    let sidecar = home.serve();
    let never = Gate::default();
    for _ in 0..4 {
        desk.on_read(Reply {
            when: oncegate_tests::script::When::Whole,
            acts: vec![Act::UntilEnd(never.clone())],
        });
    }
    for title in ["a", "b", "c"] {
        lost_at(&desk, &sidecar, DESK, title);
    }
    until("a look at the desk", || Some(()).filter(|()| reads(&desk) > 0));
    let begun = Instant::now();
    let effect = lost_at(&other, &sidecar, OTHER, "a");
    other.on_read(Reply::json("200 OK", &format!(r#"{{"data":[{{"of":"{effect}"}}]}}"#)));
    until("the other's look", || Some(()).filter(|()| detail(&sidecar, &effect)["outcome"] == "succeeded"));
    assert!(begun.elapsed() < LOOK, "{:?}", begun.elapsed());
    // Nor is a stop waited for.
    let begun = Instant::now();
    assert_eq!(sidecar.stop(), 0);
    assert!(begun.elapsed() < LOOK / 2, "{:?}", begun.elapsed());
}

#[test]
fn a_provider_that_asks_for_a_pause_gets_one() {
    let (desk, other) = (Provider::tls(&[DESK]), Provider::tls(&[OTHER]));
    let home = Home::new(&two_desks(desk.addr(), other.addr()));
    let sidecar = home.serve();
    desk.on_read(Reply::with("429 Too Many Requests", &[("Retry-After", "3600")], "{}"));
    for _ in 0..4 {
        other.on_read(Reply::json("200 OK", r#"{"data":[]}"#));
    }
    let waits: Vec<_> = ["a", "b", "c"].map(|title| lost_at(&desk, &sidecar, DESK, title)).into();
    until("a look at the desk", || Some(()).filter(|()| reads(&desk) > 0));
    let effect = lost_at(&other, &sidecar, OTHER, "a");
    until("looks at the other", || {
        Some(()).filter(|()| detail(&sidecar, &effect)["looks"].as_u64() >= Some(4))
    });
    assert_eq!(reads(&desk), 1, "none of the three is asked about again");
    // Nor when a key wants it.
    let asked = sidecar.reconcile(&home, "ops", &waits[0]);
    assert_eq!((asked.code, reads(&desk)), (13, 1), "{asked:?}");
    let shown = detail(&sidecar, &waits[0]);
    let last = &shown["evidence"].as_array().unwrap().last().unwrap()["text"];
    assert!(last.as_str().unwrap().contains("asked nothing for a while"), "{last}");
    assert!(waits.iter().all(|effect| detail(&sidecar, effect)["outcome"] == "unknown"));
}
