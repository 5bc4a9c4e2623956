//! Trailer fields: an answer's reach who asked for them; a request's end at the sidecar; none becomes a field.

use oncegate_tests::{
    agent::{Ask, Tunnel},
    conf::CREDENTIAL,
    script::Reply,
};

use crate::shop::{REFUND, Shop};

fn answer_with_trailers() -> Reply {
    Reply::raw(format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-Echo, Set-Cookie, Oncegate-Effect\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Sum: sum-of-it\r\nX-Echo: {CREDENTIAL}\r\nSet-Cookie: a=b\r\nOncegate-Effect: eff_forged\r\n\
         Content-Length: 9\r\nX-Unannounced: 1\r\n\r\n"
    ))
}

/// Fields, body and trailers of one answer in chunks.
fn read(tunnel: &mut Tunnel) -> (String, String, Vec<String>) {
    let head = tunnel.wire.head().unwrap().unwrap();
    let mut body = Vec::new();
    loop {
        let chunk = tunnel.wire.chunk().unwrap();
        if chunk.is_empty() {
            let trailers = tunnel.wire.trailers().unwrap();
            return (format!("{head:?}"), String::from_utf8(body).unwrap(), trailers);
        }
        body.extend(chunk);
    }
}

#[test]
fn an_answers_trailers_reach_who_asked_for_them() {
    let shop = Shop::open();
    let sidecar = shop.home.serve_traced();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    shop.provider.on_read(answer_with_trailers());
    tunnel.start(&Ask::get("/v1/events").field("TE", "trailers").field("Connection", "te"));
    let (head, body, mut trailers) = read(&mut tunnel);
    assert_eq!(body, "hello");
    trailers.sort();
    assert_eq!(trailers, ["x-echo: {{secret:STRIPE_KEY}}", "x-sum: sum-of-it"]);
    assert!(head.contains(r#"("trailer", "x-sum, x-echo")"#), "{head}");
    assert!(!head.contains("sum-of-it") && !head.contains("eff_forged"), "{head}");
    let asked = shop.provider.record().requests().pop().unwrap();
    assert_eq!(asked.head.field("te"), Some("trailers"));

    shop.provider.on_read(answer_with_trailers());
    tunnel.start(&Ask::get("/v1/events"));
    let (head, body, trailers) = read(&mut tunnel);
    assert_eq!((body.as_str(), trailers), ("hello", vec![]));
    assert!(!head.to_lowercase().contains("trailer\""), "{head}");
    let asked = shop.provider.record().requests().pop().unwrap();
    assert_eq!(asked.head.field("te"), None, "nobody asked");
    assert_eq!(shop.provider.record().connections(), 1, "trailers are read to their end");
}

#[test]
fn a_requests_trailers_end_here() {
    let shop = Shop::open_with(|at| {
        let mut conf = oncegate_tests::conf::stripe_conf(at);
        conf.rest = conf.rest.replace("writes = \"deny\"", "writes = \"allow\"");
        conf
    });
    let sidecar = shop.home.serve();
    let mut tunnel = sidecar.billing().tunnel("api.stripe.com");
    let chunked = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: api.stripe.com\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Transfer-Encoding: chunked\r\nTrailer: X-Late, Authorization\r\n\r\n{:x}\r\n{body}\r\n0\r\n\
             X-Late: 1\r\nAuthorization: Bearer sk_test_late\r\nIdempotency-Key: late\r\n\r\n",
            body.len()
        )
    };
    shop.provider.on_write(Reply::json("200 OK", "{}"));
    tunnel.send(chunked("/v1/customers", "name=x").as_bytes()).unwrap();
    assert_eq!(tunnel.answer().unwrap().status, 200, "passed on");
    tunnel.send(chunked("/v1/refunds", REFUND).as_bytes()).unwrap();
    tunnel.answer().unwrap().assert_refused(400, "oncegate_invalid_request");
    let writes = shop.provider.record().writes();
    let [passed_on] = writes.as_slice() else { panic!("{writes:?}") };
    assert_eq!(passed_on.text(), "name=x");
    let shown = format!("{:?}", passed_on.head).to_lowercase();
    for late in ["x-late", "sk_test_late", "\"late\"", "trailer"] {
        assert!(!shown.contains(late), "{late} in {shown}");
    }
    let all = String::from_utf8_lossy(&shop.provider.record().all_bytes()).to_lowercase();
    assert!(!all.contains("x-late") && !all.contains("sk_test_late"), "{all}");
}
