//! Cut wires: a governed exchange is cut at every byte of what the agent writes and of what the provider answers.

use std::{net::SocketAddr, sync::Arc};

use oncegate_tests::{
    ca,
    conf::Conf,
    provider::Provider,
    script::{Act, Reply, When},
    sidecar::{Home, Sidecar},
};
use rustls::{ClientConfig, client::Resumption};

use crate::{
    cutting::{Cut, Cutter, Place, Told},
    naive::Naive,
    random::figure,
    verdicts::{Expected, HOST, Scripted, ask, judge_all, ledger, play, request, title, writes},
};

/// Exchanges that are under way at once.
const AT_A_TIME: usize = 6;

/// A sidecar before a provider that answers by title.
pub(crate) struct Bench {
    pub(crate) scripted: Scripted,
    pub(crate) provider: Provider,
    pub(crate) home: Home,
    pub(crate) sidecar: Sidecar,
}

impl Bench {
    pub(crate) fn new(change: impl FnOnce(Conf) -> Conf) -> Bench {
        let scripted = Scripted::default();
        let provider = scripted.serve();
        let conf = Conf::default().host(HOST, provider.addr()).with(&format!(
            "[actions.ticket]\nmethod = \"POST\"\nurl = \"https://{HOST}/v1/tickets\"\nsubject = \"{{{{input.title}}}}\"\n"
        ));
        let home = Home::new(&change(conf));
        let sidecar = home.serve();
        Bench { scripted, provider, home, sidecar }
    }

    fn cutter(&self) -> Cutter {
        let trusted = std::fs::read_to_string(self.home.path("ca/ca.pem")).unwrap();
        cutter(self.sidecar.proxy, &trusted)
    }

    #[track_caller]
    pub(crate) fn must_hold(&self, told: Vec<(Expected, Option<Told>)>) {
        let count = told.len();
        // The ledger first: it waits until nothing is on its way.
        let ledger = ledger(&self.home);
        let faults = judge_all(told, writes(&self.provider), ledger);
        let some: Vec<&String> = faults.iter().take(20).collect();
        assert!(faults.is_empty(), "{} faults in {count} exchanges, such as {some:#?}", faults.len());
        figure(&format!("cut wires: {count} exchanges"));
    }
}

pub(crate) fn cutter(proxy: SocketAddr, trusted: &str) -> Cutter {
    let mut tls = ClientConfig::clone(&ca::client_config(trusted));
    tls.resumption = Resumption::disabled();
    Cutter { proxy, tls: Arc::new(tls), host: HOST }
}

/// Cuts of what the agent writes; every `step`-th byte.
pub(crate) fn agents_cuts(cutter: &Cutter, step: usize) -> Vec<(Expected, Option<Told>)> {
    let uncut = cutter.exchange(&request(&title(0)), Cut::Fin, Place::Wire(usize::MAX));
    assert!(matches!(uncut.told, Told::Whole(200, _)), "{:?}", uncut.told);
    let length = request(&title(0)).len();
    let mut cases = Vec::new();
    for cut in [Cut::Fin, Cut::Reset] {
        cases.extend((0..=uncut.written).step_by(step).map(|bytes| (cut, Place::Wire(bytes), uncut.written)));
    }
    for cut in Cut::ALL {
        cases.extend((0..=length).step_by(step).map(|bytes| (cut, Place::Plaintext(bytes), length)));
    }
    let cases: Vec<_> = cases.into_iter().enumerate().collect();
    let mut told = play(AT_A_TIME, &cases, |(number, (cut, place, all))| {
        let title = title(number + 1);
        let exchanged = cutter.exchange(&request(&title), *cut, *place);
        let (Place::Wire(bytes) | Place::Plaintext(bytes)) = *place;
        let expected = Expected {
            title,
            what: format!("{cut:?} at {place:?} of {all}"),
            whole: if bytes < *all { Some(false) } else { Some(true).filter(|_| *cut != Cut::Reset) },
            outcomes: &["succeeded"],
            // Its own side is open as long as it did not reset it.
            hears: bytes == *all && *cut != Cut::Reset,
        };
        (expected, Some(exchanged.told))
    });
    let first = Expected {
        title: title(0),
        what: "uncut".into(),
        whole: Some(true),
        outcomes: &["succeeded"],
        hears: true,
    };
    told.push((first, Some(uncut.told)));
    told
}

#[test]
fn cut_at_every_byte_that_the_agent_writes() {
    let bench = Bench::new(|conf| conf);
    bench.must_hold(agents_cuts(&bench.cutter(), 1));
}

/// An answer of the provider, and what is to be recorded when all of it has come.
#[derive(Clone, Copy)]
pub(crate) struct Provided {
    pub(crate) bytes: &'static str,
    /// The first byte count at which it is whole, whatever comes then.
    pub(crate) whole_at: usize,
    pub(crate) outcome: &'static [&'static str],
    /// Whether its end is the end of the stream: whole at any byte from `whole_at` on, if TLS is ended too.
    pub(crate) until_closed: bool,
}

const SIZED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}";
const CHUNKED: &str = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\n{\"ok\"\r\n6\r\n:true}\r\n0\r\nX-Sum: 1\r\n\r\n";
const REFUSED: &str = "HTTP/1.1 402 Payment Required\r\nContent-Length: 14\r\n\r\n{\"error\":\"no\"}";
const HINTED: &str = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
const CLOSED: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"ok\":true}";
const BROKEN: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\n{}";

pub(crate) fn answers() -> [Provided; 6] {
    let whole = |bytes: &'static str, outcome| Provided {
        bytes,
        whole_at: bytes.len(),
        outcome,
        until_closed: false,
    };
    let head = CLOSED.find("\r\n\r\n").unwrap() + 4;
    [
        whole(SIZED, &["succeeded"]),
        whole(CHUNKED, &["succeeded"]),
        whole(REFUSED, &["failed"]),
        whole(HINTED, &["succeeded"]),
        Provided { bytes: CLOSED, whole_at: head, outcome: &["succeeded"], until_closed: true },
        whole(BROKEN, &["unknown"]),
    ]
}

impl Provided {
    fn outcomes(&self, bytes: usize, cut: Cut) -> &'static [&'static str] {
        if bytes < self.whole_at {
            return &["unknown"];
        }
        match cut {
            Cut::Fin | Cut::Reset if self.until_closed => &["unknown"],
            Cut::Goodbye | Cut::Fin => self.outcome,
            // The reset may overtake the last bytes.
            Cut::Reset => match self.outcome {
                ["succeeded"] => &["succeeded", "unknown"],
                ["failed"] => &["failed", "unknown"],
                other => other,
            },
        }
    }
}

pub(crate) fn act(cut: Cut) -> Act {
    match cut {
        Cut::Goodbye => Act::Close,
        Cut::Fin => Act::Fin,
        Cut::Reset => Act::Reset,
    }
}

/// Every cut of every answer, at every `step`-th byte; titles are counted from `first`.
pub(crate) fn providers_cuts(scripted: &Scripted, first: usize, step: usize) -> Vec<Expected> {
    let mut cases = Vec::new();
    for answer in answers() {
        for cut in Cut::ALL {
            for bytes in (0..=answer.bytes.len()).step_by(step) {
                let title = title(first + cases.len());
                scripted.on(&title, Reply::raw(&answer.bytes.as_bytes()[..bytes]).then(act(cut)));
                cases.push(Expected {
                    title,
                    what: format!("{cut:?} after {bytes} of {:?}", answer.bytes),
                    whole: Some(true),
                    outcomes: answer.outcomes(bytes, cut),
                    hears: true,
                });
            }
        }
    }
    cases
}

#[test]
fn cut_at_every_byte_that_the_provider_answers() {
    // A whole answer is followed by the cut at once: nobody else may be given that connection in between.
    let bench = Bench::new(|conf| conf.proxy("reuse_idle_within = \"0s\""));
    let cases = providers_cuts(&bench.scripted, 0, 1);
    let told = play(AT_A_TIME, &cases, |expected| {
        let mut tunnel = bench.sidecar.billing().tunnel(HOST);
        tunnel.start(&ask(&expected.title));
        (expected.clone(), Some(Told::of(tunnel.answer())))
    });
    bench.must_hold(told);
}

/// The agent goes while the provider holds the request, and at every byte of the answer.
#[test]
fn the_agent_goes_at_every_step_of_the_answer() {
    let bench = Bench::new(|conf| conf);
    let cutter = bench.cutter();
    let cuts = Cut::ALL.into_iter().flat_map(|cut| (0..=SIZED.len()).map(move |bytes| (cut, bytes)));
    let cases: Vec<_> = cuts.enumerate().collect();
    let told = play(AT_A_TIME, &cases, |(number, (cut, bytes))| {
        let title = title(*number);
        let (first, rest) = SIZED.as_bytes().split_at(*bytes);
        let gone = oncegate_tests::gate::Gate::default();
        let acts = vec![Act::Send(first.to_vec()), Act::Wait(gone.clone()), Act::Send(rest.to_vec())];
        let arrived = bench.scripted.on(&title, Reply { when: When::Whole, acts });
        let told = cutter.exchange_until(&request(&title), *cut, &arrived, &gone);
        let expected = Expected {
            title,
            what: format!("the agent goes by {cut:?} after {bytes} bytes of the answer have come"),
            whole: Some(true),
            outcomes: &["succeeded"],
            hears: *cut != Cut::Reset,
        };
        (expected, Some(told))
    });
    bench.must_hold(told);
}

/// The planted defect: see [`crate::naive`]. The same exchanges, fewer of them.
#[test]
fn a_proxy_that_streams_and_sends_again_is_caught() {
    let scripted = Scripted::default();
    let provider = scripted.serve();
    let naive = Naive::before(provider.addr());
    let cutter = cutter(naive.at, ca::pem());
    let mut told = agents_cuts(&cutter, 5);
    let cases = providers_cuts(&scripted, told.len(), 9);
    let whole = |expected: &Expected| {
        let exchanged = cutter.exchange(&request(&expected.title), Cut::Goodbye, Place::Wire(usize::MAX));
        (expected.clone(), Some(exchanged.told))
    };
    told.extend(play(AT_A_TIME, &cases, whole));
    let ledger = naive.ledger();
    let faults = judge_all(told, writes(&provider), ledger);
    for kind in [
        "more than one write",
        "part of a request was sent",
        "something came of a request that was not whole",
        "the wrong outcome",
        "the agent heard part of an answer",
        "the agent heard nothing",
        "the agent was told something else than is recorded",
    ] {
        let count = faults.iter().filter(|fault| fault.starts_with(kind)).count();
        assert!(count >= 5, "{kind}: only {count} of {}", faults.len());
    }
}
