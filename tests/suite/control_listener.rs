//! The control listener itself: TLS, calls that come to it through the proxy, and the tokens of runs.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::Stdio,
    sync::Arc,
};

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    binary::Build,
    ca,
    conf::{OPS_KEY, key_of, stripe_conf, upstream_ca},
    sidecar::{Home, finish},
    wait::{PATIENCE, until},
    wire::Wire,
};
use rustls::{ClientConnection, StreamOwned};

use crate::shop::{REFUND, Shop};

const LIMITS: &str = "/api/v2/impact-limits";

fn connect(at: SocketAddr) -> TcpStream {
    let tcp = TcpStream::connect(at).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp
}

fn get(host: &str, key: &str) -> String {
    format!("GET {LIMITS} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\r\n")
}

/// A shop whose control listener has a certificate for these names.
fn with_tls(names: &[&str]) -> Shop {
    let shop = Shop::open_with(|at| {
        stripe_conf(at).control("tls = { cert = \"control.pem\", key = \"control.key\" }")
    });
    let (cert, key) = ca::server_pem(names);
    std::fs::write(shop.home.path("control.pem"), cert).unwrap();
    std::fs::write(shop.home.path("control.key"), key).unwrap();
    shop
}

fn tls(tcp: TcpStream, name: &str) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = rustls_pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let mut conn = ClientConnection::new(Arc::clone(&ca::client_config(upstream_ca())), name).unwrap();
    let mut tcp = tcp;
    while conn.is_handshaking() {
        conn.complete_io(&mut tcp)?;
    }
    Ok(StreamOwned::new(conn, tcp))
}

#[test]
fn tls_with_the_operators_certificate_and_nothing_in_clear() {
    let shop = with_tls(&["sidecar.internal", "127.0.0.1"]);
    let sidecar = shop.home.serve();
    // A name of the certificate may stand in Host: nobody else could have proved it.
    for name in ["sidecar.internal", "127.0.0.1"] {
        let mut stream = tls(connect(sidecar.control), name).unwrap();
        stream.write_all(get(name, OPS_KEY).as_bytes()).unwrap();
        let answer = Answer::read(&mut Wire::new(stream), false).unwrap();
        assert_eq!((answer.status, &answer.json()["data"][0]["name"]), (200, &"refunds-per-day".into()));
    }
    assert!(tls(connect(sidecar.control), "other.internal").is_err(), "another name is not proved");
    let mut clear = connect(sidecar.control);
    clear.write_all(get(&sidecar.control.to_string(), OPS_KEY).as_bytes()).unwrap();
    let mut said = Vec::new();
    drop(clear.read_to_end(&mut said));
    assert!(!said.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&said));
    // Commands read the configuration and the roots that they are told of.
    let command = |roots: bool| {
        let mut command = shop.home.command(Build::Plain, &["limits", "--json"]);
        command.env("ONCEGATE_KEY", OPS_KEY);
        if roots {
            command.env("ONCEGATE_CA", shop.home.path("upstream-ca.pem"));
        }
        finish(command)
    };
    let done = command(true);
    assert_eq!((done.code, &done.json()[0]["name"]), (0, &"refunds-per-day".into()), "{done:?}");
    assert_eq!(command(false).code, 1, "roots that nobody named are not trusted");
    assert_eq!(sidecar.stop(), 0);
}

#[test]
fn beyond_this_machine_only_with_tls() {
    let shop = Shop::open();
    let open = stripe_conf(shop.provider.addr())
        .text()
        .replace("[control]\nlisten = \"127.0.0.1:0\"", "[control]\nlisten = \"0.0.0.0:0\"");
    shop.home.write(&open);
    let line = open.lines().position(|line| line == "listen = \"0.0.0.0:0\"").unwrap() + 1;
    let place = format!("oncegate.toml:{line}:1: ");
    let check = shop.home.run(&["check"]);
    assert_eq!(check.code, 2, "{check:?}");
    assert!(check.out.contains(&place) && check.out.contains("it needs `tls = {"), "{check:?}");
    let served = shop.home.try_serve(Build::Plain, &[]).err().expect("it does not start");
    assert_eq!(served.code, 2, "{served:?}");
    assert!(served.err.contains(&place), "{served:?}");

    // With TLS it starts, but not with a key that belongs to another certificate.
    shop.home.write(&open.replace(
        "listen = \"0.0.0.0:0\"",
        "listen = \"0.0.0.0:0\"\ntls = { cert = \"control.pem\", key = \"control.key\" }",
    ));
    let ((cert, key), (_, other)) = (ca::server_pem(&["a.test"]), ca::server_pem(&["a.test"]));
    std::fs::write(shop.home.path("control.pem"), cert).unwrap();
    std::fs::write(shop.home.path("control.key"), other).unwrap();
    let check = shop.home.run(&["check"]);
    assert_eq!((check.code, check.out.contains("cannot be used together")), (2, true), "{check:?}");
    assert_eq!(shop.home.try_serve(Build::Plain, &[]).err().expect("it does not start").code, 2);
    std::fs::write(shop.home.path("control.key"), key).unwrap();
    assert_eq!(shop.home.run(&["check"]).code, 0);
    assert_eq!(shop.home.serve().stop(), 0);
}

/// Every spelling of the control listener that a client on this machine may use.
fn spellings(port: u16) -> [String; 3] {
    [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")]
}

#[test]
fn calls_through_the_proxy_reach_the_control_listener_with_their_own_key_only() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    for host in spellings(sidecar.control.port()) {
        let target = format!("http://{host}{LIMITS}");
        // Whoever the proxy takes it for has no rights behind it.
        let ops = sidecar.agent("ops");
        let without = ops.absolute(&host, &Ask::get(&target)).unwrap();
        assert_eq!(
            (without.status, without.json()["error"]["code"].as_str()),
            (401, Some("AUTHENTICATION_FAILED"))
        );
        let key = format!("Bearer {OPS_KEY}");
        let with =
            sidecar.billing().absolute(&host, &Ask::get(&target).field("Authorization", &key)).unwrap();
        assert_eq!(with.status, 200, "{host}: {with:?}");
        assert_eq!(with.json()["data"][0]["name"], "refunds-per-day");
        let agents = format!("Bearer {}", key_of("billing-agent"));
        let halt = Ask::json(&format!("http://{host}/api/v2/environment/halt"), "{}");
        let refused = ops.absolute(&host, &halt.field("Authorization", &agents)).unwrap();
        assert_eq!(refused.json()["error"]["code"], "AUTHORIZATION_ERROR", "{host}");
    }
    let stranger = sidecar.billing().authorized(None);
    let host = sidecar.control.to_string();
    let unknown = stranger.absolute(&host, &Ask::get(&format!("http://{host}{LIMITS}"))).unwrap();
    assert_eq!(unknown.status, 407, "who is nobody at the proxy gets no further");
    assert_eq!(shop.provider.record().connections(), 0);
}

#[test]
fn a_tunnel_to_the_control_listener_ends_in_it() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let basic = format!("billing-agent:{}", key_of("billing-agent"));
    let basic = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, basic);
    for host in spellings(sidecar.control.port()) {
        let mut tcp = connect(sidecar.proxy);
        let head =
            format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Basic {basic}\r\n\r\n");
        tcp.write_all(head.as_bytes()).unwrap();
        let mut wire = Wire::new(tcp);
        assert_eq!(Answer::read(&mut wire, true).unwrap().status, 200);
        wire.stream.write_all(get(&host, "og_wrong").as_bytes()).unwrap();
        assert_eq!(Answer::read(&mut wire, false).unwrap().status, 401);
        wire.stream.write_all(get(&host, OPS_KEY).as_bytes()).unwrap();
        assert_eq!(Answer::read(&mut wire, false).unwrap().status, 200);
    }
    // Not a byte of a tunnel is taken for a word of the proxy's.
    let broken = |mut wire: Wire<TcpStream>| {
        wire.stream.write_all(b"BROKEN\r\n\r\n").unwrap();
        let answer = Answer::read(&mut wire, false).unwrap();
        (answer.status, answer.header("oncegate-code").map(str::to_owned))
    };
    let mut wire = Wire::new(connect(sidecar.proxy));
    let host = sidecar.control;
    let head =
        format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Basic {basic}\r\n\r\n");
    wire.stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut wire, true).unwrap().status, 200);
    assert_eq!(broken(wire), broken(Wire::new(connect(sidecar.control))), "as if it had come directly");
    assert_eq!(sidecar.stop(), 0, "such a tunnel does not hold up the end");
}

#[test]
fn a_request_to_the_proxy_itself_is_a_loop() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    for host in spellings(sidecar.proxy.port()) {
        let answer = sidecar.billing().absolute(&host, &Ask::get(&format!("http://{host}/"))).unwrap();
        answer.assert_own(400, "oncegate_invalid_request");
        assert!(answer.reason.contains("own address"), "{answer:?}");
        let connect = sidecar.billing().tunnel_to(&host, "localhost").err().expect("no tunnel");
        connect.assert_own(400, "oncegate_invalid_request");
    }
}

/// A token is as good as the run that it was made for.
#[test]
fn a_runs_token_ends_with_the_run() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let noted = shop.home.path("proxy-url");
    let script = format!("echo $HTTPS_PROXY > {}; read line", noted.display());
    let mut command =
        shop.home.command(Build::Plain, &["run", "--as", "billing-agent", "--", "sh", "-c", &script]);
    let mut run = command.stdin(Stdio::piped()).spawn().unwrap();
    let url = until("the command to say its proxy", || {
        std::fs::read_to_string(&noted).ok().filter(|text| text.ends_with('\n'))
    });
    let token = url.trim().split_once("billing-agent:").unwrap().1.split_once('@').unwrap().0.to_owned();
    assert!(token.starts_with("ogr_"), "{token}");
    let agent = sidecar.billing().authorized(Some(&format!("Bearer {token}")));
    assert_eq!(agent.refund(None, REFUND).status, 200, "while it runs");
    drop(run.stdin.take());
    run.wait().unwrap();
    until("the token to end", || {
        agent.tunnel_to("api.stripe.com:443", "api.stripe.com").err().filter(|answer| answer.status == 407)
    });
    let other = finish(shop.home.command(Build::Plain, &["run", "--as", "billing-agent", "--", "true"]));
    assert_eq!(other.code, 0, "{other:?}");
    assert_eq!(sidecar.stop(), 0);
}

/// Clients on this machine find the control listener without the proxy.
#[test]
fn the_environment_of_an_agent_names_this_machine_as_no_matter_of_the_proxy() {
    let home = Home::new(&stripe_conf("127.0.0.1:1".parse().unwrap()));
    let seen = finish(home.command(Build::Plain, &["run", "--as", "billing-agent", "--", "env"]));
    for name in ["NO_PROXY", "no_proxy"] {
        let line = format!("{name}=127.0.0.1,localhost,::1");
        assert!(seen.out.lines().any(|seen| seen == line), "{seen:?}");
    }
}
