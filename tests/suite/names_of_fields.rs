//! A provider that writes the credential into the name of a field.

use oncegate_tests::{agent::Ask, conf::CREDENTIAL, script::Reply};

use crate::shop::{REFUND, Shop};

/// As names are told: without case.
fn shows_it(text: &str) -> bool {
    text.to_lowercase().contains(&CREDENTIAL.to_lowercase())
}

#[test]
fn p7_a_field_that_is_named_after_the_credential_is_left_out() {
    let shop = Shop::open();
    let sidecar = shop.home.serve_traced();
    let named = format!("X-Echo-{CREDENTIAL}");
    let fields = [(named.as_str(), "1"), ("X-Kept", "2")];
    shop.provider.on_read(Reply::with("200 OK", &fields, "{}"));
    let read = sidecar.billing().ask("api.stripe.com", &Ask::get("/v1/refunds"));
    let books = r#"{"id":"re_1","object":"refund","status":"succeeded","amount":12000}"#;
    shop.provider.on_write(Reply::with("200 OK", &fields, books));
    let write = sidecar.billing().refund(None, REFUND);
    let repeat = sidecar.billing().refund(None, REFUND);
    for answer in [&read, &write, &repeat] {
        assert_eq!((answer.status, answer.header("x-kept")), (200, Some("2")), "{answer:?}");
        assert!(!shows_it(&answer.everything()), "{answer:?}");
    }
    let kept = shop.home.query("SELECT * FROM response");
    assert!(kept.len() == 1 && !shows_it(&kept[0].to_string()), "{kept:?}");

    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    shop.provider.on_read(Reply::raw(format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, {named}\r\n\r\n0\r\nX-Sum: 3\r\n{named}: 1\r\n\r\n"
    )));
    tunnel.start(&Ask::get("/v1/events").field("TE", "trailers").field("Connection", "te"));
    let head = tunnel.wire.head().unwrap().unwrap();
    assert_eq!(head.field("trailer"), Some("x-sum"));
    assert_eq!(tunnel.wire.chunk().unwrap(), b"");
    assert_eq!(tunnel.wire.trailers().unwrap(), ["x-sum: 3"]);
    drop(tunnel);
    assert!(!shows_it(&sidecar.log()));
}
