//! Bad input: each a clear error with its code, nothing sent, and the process stays up.

use std::{fs, net::TcpListener};

use oncegate_tests::{
    agent::{Agent, Ask},
    binary::Build,
    conf::{CREDENTIAL_ENV, Conf, stripe_conf},
    sidecar::{Home, Sidecar, finish},
};

use crate::shop::{DESK, REFUND, Shop, desk_conf};

fn anywhere() -> std::net::SocketAddr {
    "127.0.0.1:9".parse().unwrap()
}

/// `check` fails, and names these things.
#[track_caller]
fn check_names(conf_text: &str, named: &[&str]) {
    let home = Home::new(&Conf::default());
    home.write(conf_text);
    let done = home.run(&["check"]);
    assert_eq!(done.code, 2, "{done:?}");
    let said = format!("{}{}", done.out, done.err);
    for name in named {
        assert!(said.contains(name), "{name} is not in: {said}");
    }
    let Err(served) = home.try_serve(Build::Plain, &[]) else {
        panic!("it serves on a faulty configuration")
    };
    assert_eq!(served.code, 2, "{served:?}");
}

#[test]
fn a_sound_configuration_passes() {
    let home = Home::new(&stripe_conf(anywhere()));
    let done = home.run(&["check"]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn unknown_key() {
    let text = stripe_conf(anywhere()).text().replace("reads = \"allow\"", "raeds = \"allow\"");
    let line = text.lines().position(|l| l.starts_with("raeds")).unwrap() + 1;
    check_names(&text, &["raeds", "reads", &format!("oncegate.toml:{line}")]);
}

#[test]
fn all_faults_at_once() {
    let text = stripe_conf(anywhere())
        .text()
        .replace("reads = \"allow\"", "raeds = \"allow\"")
        .replace("period = \"day\"", "period = \"fortnight\"")
        .replace("credential_secret = \"STRIPE_KEY\"", "credential_secret = \"STRIPE_KYE\"");
    check_names(&text, &["raeds", "fortnight", "STRIPE_KYE"]);
}

#[test]
fn not_toml() {
    check_names("[proxy\nlisten = 1", &["oncegate.toml:1"]);
}

#[test]
fn negative_and_fractional_limits() {
    let text = stripe_conf(anywhere()).text();
    check_names(&text.replace("amount = 50000", "amount = -1"), &["amount"]);
    check_names(&text.replace("amount = 50000", "amount = 0.5"), &["amount"]);
}

#[test]
fn no_configuration() {
    let home = Home::new(&Conf::default());
    fs::remove_file(home.config()).unwrap();
    let done = home.run(&["check"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("oncegate.toml"), "{done:?}");
}

/// A secret that the configuration names and the machine does not have: said at the start, or refused by its code;
/// never a request without the credential.
#[test]
fn missing_secret() {
    let shop = Shop::open();
    let mut bare = shop.home.command(Build::Plain, &["check"]);
    bare.env_remove(CREDENTIAL_ENV);
    let checked = finish(bare);
    assert!(format!("{checked:?}").contains(CREDENTIAL_ENV), "check names the variable: {checked:?}");
    shop.home.write(&stripe_conf(shop.provider.addr()).text().replace(CREDENTIAL_ENV, "NO_SUCH_VARIABLE"));
    match shop.home.try_serve(Build::Plain, &[]) {
        Err(done) => {
            assert_eq!(done.code, 2, "{done:?}");
            assert!(done.err.contains("NO_SUCH_VARIABLE"), "{done:?}");
        }
        Ok(sidecar) => {
            let answer = sidecar.billing().refund(None, REFUND);
            answer.assert_refused(403, "oncegate_credential_unavailable");
            let read = sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/refunds/re_1"));
            assert_eq!((read.status, read.code()), (403, "oncegate_credential_unavailable"), "{read:?}");
            assert_eq!(shop.home.money(), (0, 0, 0));
        }
    }
    assert!(shop.provider.record().requests().is_empty());
}

#[test]
fn port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = Home::new(&Conf::default());
    home.write(&Conf::default().text().replacen(
        "listen = \"127.0.0.1:0\"",
        &format!("listen = \"{address}\""),
        1,
    ));
    let Err(done) = home.try_serve(Build::Plain, &[]) else { panic!("it serves on a port that is taken") };
    assert!([1, 2].contains(&done.code), "{done:?}");
    assert!(done.err.contains(&address) && done.err.contains("in use"), "{done:?}");
}

#[test]
fn unreadable_ca() {
    for (file, text) in [("ca/ca.pem", "not a certificate"), ("ca/ca.key", "not a key")] {
        let home = Home::new(&Conf::default());
        assert_eq!(home.serve().stop(), 0);
        fs::write(home.path(file), text).unwrap();
        let Err(done) = home.try_serve(Build::Plain, &[]) else { panic!("it serves with a broken {file}") };
        assert!([1, 2].contains(&done.code), "{done:?}");
        assert!(done.err.contains(file), "it names the file: {done:?}");
    }
}

#[test]
fn unreadable_upstream_ca() {
    let shop = Shop::open();
    fs::write(shop.home.path("upstream-ca.pem"), "nothing of use").unwrap();
    let Err(done) = shop.home.try_serve(Build::Plain, &[]) else { panic!("it serves without the host's CA") };
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("upstream-ca.pem"), "{done:?}");
}

/// Stripe and the desk behind one sidecar, and what they must not get.
struct Door {
    shop: Shop,
    sidecar: Sidecar,
}

impl Door {
    fn new() -> Door {
        let shop = Shop::open_with(|at| {
            let conf =
                stripe_conf(at).proxy("max_request_body = \"64KiB\"").proxy("request_timeout = \"1s\"");
            conf.with(&desk_conf(anywhere()).rest)
        });
        let sidecar = shop.home.serve();
        Door { shop, sidecar }
    }

    fn agent(&self) -> Agent {
        self.sidecar.billing()
    }

    /// Nothing was sent, nothing is held, and the next honest refund goes through.
    #[track_caller]
    fn still_fine(mut self) {
        assert!(self.shop.provider.record().requests().is_empty(), "something was sent");
        assert_eq!(self.shop.home.money(), (0, 0, 0));
        assert!(self.sidecar.alive(), "it died: {}", self.sidecar.log());
        assert_eq!(self.agent().refund(None, REFUND).status, 200);
    }
}

#[test]
fn body_over_the_bound() {
    let door = Door::new();
    let form = format!("{REFUND}&metadata[x]={}", "x".repeat(65 * 1024));
    door.agent().refund(None, &form).assert_refused(400, "oncegate_body_too_large");
    let chunk = format!("{:x}\r\n{form}\r\n0\r\n\r\n", form.len());
    let ask = Ask::refund("").field("Transfer-Encoding", "chunked");
    let mut tunnel = door.agent().tunnel("api.stripe.com");
    drop(tunnel.send(&[ask.bytes("api.stripe.com"), chunk.into_bytes()].concat()));
    tunnel.answer().unwrap().assert_refused(400, "oncegate_body_too_large");
    door.still_fine();
}

#[test]
fn body_that_never_comes() {
    let door = Door::new();
    let mut tunnel = door.agent().tunnel("api.stripe.com");
    let bytes = Ask::refund(REFUND).bytes("api.stripe.com");
    tunnel.send(&bytes[..bytes.len() - 3]).unwrap();
    tunnel.answer().unwrap().assert_refused(400, "oncegate_incomplete_request");
    door.still_fine();
}

#[test]
fn malformed_connect() {
    let door = Door::new();
    for line in [
        "CONNECT api.stripe.com",
        "CONNECT :443",
        "CONNECT api.stripe.com:0",
        "CONNECT api.stripe.com:99999",
        "CONNECT http://api.stripe.com:443/",
        "CONNECT a b:443",
    ] {
        let answer = door.agent().raw(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(answer.status, 400, "{line}: {answer:?}");
    }
    door.still_fine();
}

#[test]
fn broken_http() {
    let door = Door::new();
    let twice = Ask::refund(REFUND).field("Content-Length", "3");
    let both = Ask::refund(REFUND).field("Transfer-Encoding", "chunked");
    let hosts = Ask::refund(REFUND).field("Host", "api.stripe.com").field("Host", "files.stripe.com");
    for ask in [twice, both, hosts] {
        let mut tunnel = door.agent().tunnel("api.stripe.com");
        tunnel.start(&ask);
        let answer = tunnel.answer().unwrap();
        assert!([400, 403].contains(&answer.status), "{ask:?}: {answer:?}");
    }
    let mut tunnel = door.agent().tunnel("api.stripe.com");
    tunnel.send(b"\x00\x01\x02 nonsense\r\n\r\n").unwrap();
    assert_eq!(tunnel.answer().unwrap().status, 400);
    door.still_fine();
}

#[test]
fn broken_forms() {
    let door = Door::new();
    for form in [
        "payment_intent=pi_1&amount=%zz",
        "payment_intent=pi_1&amount=1&amount=2",
        "payment_intent=pi_1&amount=%ff",
        "amount=12000",
        "",
    ] {
        let answer = door.agent().refund(None, form);
        assert!(
            ["oncegate_invalid_input", "oncegate_ambiguous"].contains(&answer.code()),
            "{form}: {answer:?}"
        );
        assert_eq!(answer.outcome(), "refused", "{form}: {answer:?}");
    }
    door.still_fine();
}

#[test]
fn broken_json() {
    let door = Door::new();
    let bad = [
        "{",
        "[]",
        "{\"title\":1}",
        "{\"title\":\"a\",\"title\":\"b\"}",
        "{\"title\":\"\\ud800\"}",
        "{\"title\":\"a\",\"n\":1e999}",
        "",
    ];
    for json in bad {
        let ask = Ask::json("/v1/tickets", json);
        let answer = door.agent().ask(DESK, &ask);
        assert!(
            ["oncegate_invalid_input", "oncegate_ambiguous"].contains(&answer.code()),
            "{json}: {answer:?}"
        );
        assert_eq!(answer.outcome(), "refused", "{json}: {answer:?}");
    }
    let latin = Ask::json("/v1/tickets", "").body(&b"{\"title\":\"\xff\"}"[..]);
    assert_eq!(door.agent().ask(DESK, &latin).outcome(), "refused");
    door.still_fine();
}

#[test]
fn amounts() {
    let door = Door::new();
    let bad = [
        "-1",
        "12.5",
        "12.0",
        "1e4",
        "+5",
        "%2B5",
        "0x10",
        "007",
        "",
        "%2012",
        "9223372036854775808",
        "99999999999999999999999",
        "twelve",
        "1_000",
        "12,000",
        "NaN",
        "%D9%A1%D9%A2",
    ];
    for amount in bad {
        let answer = door.agent().refund(None, &format!("payment_intent=pi_1&amount={amount}"));
        answer.assert_refused(400, "oncegate_invalid_input");
        assert!(
            answer.json()["error"]["message"].as_str().unwrap().contains("amount"),
            "{amount}: {answer:?}"
        );
    }
    let huge = door.agent().refund(None, "payment_intent=pi_1&amount=9223372036854775807");
    huge.assert_refused(403, "oncegate_limit_exceeded");
    door.still_fine();
}
