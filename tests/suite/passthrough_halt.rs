//! A halt and what is being passed on while it is still written.

use oncegate_tests::{
    conf::Conf,
    gate::Gate,
    provider::Provider,
    script::{Act, Reply, When},
    sidecar::Home,
};

use crate::shop::DESK;

/// An upload of lines, each of which its provider may apply as it comes: no more of them goes out, and the agent is told that
/// some may have been applied.
#[test]
fn an_upload_that_is_open_ends_with_a_halt_and_a_read_goes_on() {
    let desk = Provider::tls(&[DESK]);
    let action =
        format!("[actions.bulk]\nmethod = \"POST\"\nurl = \"https://{DESK}/_bulk\"\ngoverned = false\n");
    let conf = Conf::default().host(DESK, desk.addr());
    let home = Home::new(&conf.with(&action));
    let sidecar = home.serve();
    let (begun, ended, asked) = (Gate::default(), Gate::default(), Gate::default());
    let mut reply = Reply::raw("").at(When::Head);
    reply.acts = vec![Act::Drain(5), Act::CheckIn(begun.clone()), Act::UntilEnd(ended.clone())];
    desk.on_write(reply);
    desk.on_read(Reply::json("200 OK", "{}").after(&asked));
    let (mut upload, mut read) = (sidecar.billing().tunnel(DESK), sidecar.billing().tunnel(DESK));
    let head = format!(
        "POST /_bulk HTTP/1.1\r\nHost: {DESK}\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    upload.send(head.as_bytes()).unwrap();
    upload.send(b"3\r\n{}\n\r\n").unwrap();
    assert!(begun.pass(), "the first line is there");
    let read_head =
        format!("GET /x HTTP/1.1\r\nHost: {DESK}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n");
    read.send(read_head.as_bytes()).unwrap();

    let halted = sidecar.cli(&home, "ops", &["halt", "--reason", "stop"]);
    assert_eq!(halted.code, 0, "{halted:?}");
    assert!(ended.pass(), "the provider sees the request break");
    let told = upload.answer().unwrap();
    assert_eq!(
        (told.status, told.header("oncegate-code")),
        (422, Some("oncegate_outcome_unknown")),
        "{told:?}"
    );
    let streams = desk.record().streams();
    let sent = streams.iter().find(|sent| sent.starts_with(b"POST /_bulk")).unwrap();
    assert!(sent.ends_with(b"{}\n\r\n"), "no end of it was sent: {}", String::from_utf8_lossy(sent));

    read.send(b"0\r\n\r\n").unwrap();
    asked.open();
    assert_eq!(read.answer().unwrap().status, 200, "a read that is open goes on");
}
