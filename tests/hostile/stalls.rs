//! Stalls: an agent or a provider that stops in the middle and keeps its wire open.

use oncegate_tests::{
    gate::Gate,
    script::{Act, Reply, When},
};

use crate::{
    cuts::{Bench, answers},
    cutting::Told,
    verdicts::{Expected, HOST, ask, play, request, title},
};

/// All at once: each of them waits for a time-out.
const AT_A_TIME: usize = 64;

/// After every byte of the body: the head has come, and the rest never does.
#[test]
fn an_agent_that_stops_in_its_body() {
    let bench = Bench::new(|conf| conf.proxy("request_timeout = \"700ms\""));
    let bytes = request(&title(0));
    let head = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let cases: Vec<usize> = (head..bytes.len()).collect();
    let told = play(AT_A_TIME, &cases, |upto| {
        let mut tunnel = bench.sidecar.billing().tunnel(HOST);
        tunnel.send(&request(&title(*upto))[..*upto]).unwrap();
        let answer = tunnel.answer().unwrap();
        answer.assert_refused(400, "oncegate_incomplete_request");
        let expected = Expected {
            title: title(*upto),
            what: format!("the agent stalls after {upto} bytes"),
            whole: Some(false),
            outcomes: &[],
            hears: true,
        };
        (expected, Some(Told::of(Ok(answer))))
    });
    bench.must_hold(told);
}

/// Before the answer, in its head, between head and body, in the body: at every byte.
#[test]
fn a_provider_that_stops_in_its_answer() {
    let bench = Bench::new(|conf| conf.timing("3s", "4s"));
    let mut cases = Vec::new();
    for answer in answers() {
        let last = if answer.until_closed { answer.bytes.len() + 1 } else { answer.bytes.len() };
        for bytes in 0..last {
            let title = title(cases.len());
            let gone = Gate::default();
            let acts =
                vec![Act::Send(answer.bytes.as_bytes()[..bytes].to_vec()), Act::UntilEnd(gone.clone())];
            bench.scripted.on(&title, Reply { when: When::Whole, acts });
            let expected = Expected {
                title,
                what: format!("the provider stalls after {bytes} of {:?}", answer.bytes),
                whole: Some(true),
                outcomes: &["unknown"],
                hears: true,
            };
            cases.push((expected, gone));
        }
    }
    let told = play(AT_A_TIME, &cases, |(expected, gone)| {
        let answer = bench.sidecar.billing().ask(HOST, &ask(&expected.title));
        answer.assert_unknown();
        assert!(gone.pass(), "the provider is listened to for a bounded time");
        (expected.clone(), Some(Told::of(Ok(answer))))
    });
    bench.must_hold(told);
}
