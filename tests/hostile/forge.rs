//! Forged requests: the corpus, and mutations of it, against the real sidecar.

use std::{collections::BTreeMap, net::SocketAddr, sync::Mutex, thread};

use oncegate_tests::{
    agent::Ask,
    ca,
    conf::Conf,
    sidecar::{Home, Sidecar},
};

use crate::{
    attack::{Database, Target},
    corpus::{Case, Expect, cases},
    lax::Lax,
    one_reading::judge,
    origin::Origin,
    random::{Random, figure, mutations},
};

/// The fewest cases that the corpus may come down to.
const CASES_MIN: usize = 500;
/// Sidecars that are attacked at once: each case is judged by all that reached the provider behind its own.
const SIDECARS: usize = 2;

fn conf(tls: SocketAddr, plain: SocketAddr) -> Conf {
    let conf = Conf::default().proxy("request_timeout = \"2s\"").stripe_host(tls).refund("");
    let conf = conf.host("tickets.test", tls).host("other.test", tls);
    conf.with(&format!(
        r#"
[hosts."plain.test:80"]
plain = true
connect_to = "{plain}"

[actions.ticket]
method = "POST"
url = "https://tickets.test/v1/tickets"
subject = "{{{{input.title}}}}"

[actions.close]
method = "POST"
url = "https://tickets.test/v1/tickets/{{{{input.id}}}}/close"
subject = "{{{{input.title}}}}"

[actions.upload]
method = "POST"
url = "https://tickets.test/v1/uploads"

[actions.note]
method = "POST"
url = "http://plain.test/v1/notes"
"#
    ))
}

/// A sidecar and what it is judged by.
fn sidecar() -> (Sidecar, Target<Database>) {
    let origin = Origin::open(&["tickets.test", "other.test", "api.stripe.com"]);
    let home = Home::new(&conf(origin.tls, origin.plain));
    let sidecar = home.serve();
    let trusted = std::fs::read_to_string(home.path("ca/ca.pem")).unwrap();
    let tls = ca::client_config(&trusted);
    let target = Target { proxy: sidecar.proxy, tls, origin, ledger: Database::of(home) };
    (sidecar, target)
}

/// Plays cases on all sidecars; what went wrong, one line for each.
fn played(cases: &[(Case, String, Vec<u8>)]) -> Vec<String> {
    let faults = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for worker in 0..SIDECARS {
            let faults = &faults;
            scope.spawn(move || {
                let (mut sidecar, mut target) = sidecar();
                for (case, id, bytes) in cases.iter().skip(worker).step_by(SIDECARS) {
                    let outcome = target.attack(case, id, bytes);
                    faults.lock().unwrap().extend(judge(case, &outcome));
                }
                assert!(sidecar.alive(), "it died: {}", sidecar.log());
            });
        }
    });
    faults.into_inner().unwrap()
}

#[track_caller]
fn must_be_none(faults: &[String], count: usize) {
    let some: Vec<String> = faults.iter().take(40).map(|fault| fault.chars().take(900).collect()).collect();
    assert!(faults.is_empty(), "{} faults in {count} requests:\n{}", faults.len(), some.join("\n"));
}

#[test]
fn refused_or_read_in_one_way() {
    let all: Vec<_> = cases()
        .into_iter()
        .enumerate()
        .map(|(number, case)| {
            let id = format!("k{number:05}");
            let bytes = case.bytes(&id);
            (case, id, bytes)
        })
        .collect();
    assert!(all.len() >= CASES_MIN, "only {}", all.len());
    must_be_none(&played(&all), all.len());
    figure(&format!("forged requests: {}", all.len()));
}

/// Who is refused in the middle of writing hears why: no reset overtakes the answer.
#[test]
fn a_refusal_is_heard_by_who_is_still_writing() {
    let (sidecar, _target) = sidecar();
    for round in 0..24 {
        let mut tunnel = sidecar.billing().tunnel("tickets.test");
        let long = "v".repeat(100_000 + 20_000 * round);
        // The sidecar may stop reading before all of it is written.
        drop(tunnel.send(&Ask::get("/v1/tickets").field("X", &long).bytes("tickets.test")));
        let answer = tunnel.answer().unwrap_or_else(|e| panic!("round {round}: {e}"));
        answer.assert_refused(400, "oncegate_invalid_request");
    }
}

/// The planted defect: see [`crate::lax`]. It must be caught in every kind of forgery, and must pass where nothing is
/// forged, else the judge would only be hard to please.
#[test]
fn a_proxy_that_reads_in_a_lax_way_is_caught() {
    let origin = Origin::open(&["tickets.test", "other.test", "api.stripe.com"]);
    let lax = Lax::before(origin.tls);
    let tls = ca::client_config(ca::pem());
    let mut target = Target { proxy: lax.at, tls, origin, ledger: lax.books };
    let mut caught: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (number, case) in cases().into_iter().enumerate().filter(|(_, case)| case.connect.is_some()) {
        // Names that its certificate does not hold are not what it is lax about.
        if !["tickets.test", "other.test", "api.stripe.com"].contains(&case.sni.as_str()) {
            continue;
        }
        let id = format!("x{number:05}");
        let outcome = target.attack(&case, &id, &case.bytes(&id));
        let family = case.name.split(": \"").next().unwrap_or_default().to_owned();
        let entry = caught.entry(family).or_default();
        entry.0 += usize::from(!judge(&case, &outcome).is_empty());
        entry.1 += 1;
    }
    for family in [
        "length against coding, the body as it is",
        "codings, the body in chunks",
        "chunks",
        "HTTP/1.0 with chunks",
        "bare line feeds all through",
        "request lines",
        "fields",
        "fields of the next hop",
        "fields twice",
        "another method or path than the line says",
        "another method in the query",
        "paths with more than one reading",
        "Host fields that do not",
        "absolute targets that do not agree",
        "tunnels to somewhere else",
        "TLS for somewhere else",
        "JSON with more than one reading, or none",
        "forms with more than one reading, or none",
        "fields of a refund",
    ] {
        let (faults, all) = caught.get(family).copied().unwrap_or_default();
        assert!(faults > 0, "{family}: nothing was found in {all} requests: {caught:#?}");
    }
    let (faults, all) = caught["JSON with one reading"];
    assert_eq!((faults, all > 20), (0, true), "found where nothing was forged");
}

/// `ONCEGATE_MUTATIONS` of them, else a few.
#[test]
fn mutations_are_refused_or_read_in_one_way() {
    let mut random = Random::seeded();
    let corpus = cases();
    let all: Vec<_> = (0..mutations(300))
        .map(|number| {
            let mut case = corpus[random.below(corpus.len())].clone();
            let other = &corpus[random.below(corpus.len())];
            let id = format!("m{number:05}");
            let bytes = mutated(&mut random, case.bytes(&id), &other.bytes(&id));
            case.expect = Expect::Either;
            (case, id, bytes)
        })
        .collect();
    must_be_none(&played(&all), all.len());
    figure(&format!("mutated requests: {}", all.len()));
}

/// Bytes that have brought other readers down.
const TOKENS: [&[u8]; 24] = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"\"",
    b"%2f",
    b"%2e",
    b"%00",
    b"..",
    b"//",
    b"\\",
    b"#",
    b"?",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n",
    b"\xff",
    b"&amount=1",
    b"\"title\":\"x\",",
];

/// One to four changes: bytes put in, taken out, changed, doubled, or taken from another request.
fn mutated(random: &mut Random, mut bytes: Vec<u8>, other: &[u8]) -> Vec<u8> {
    // What is very long is long all over; nobody needs to wait for it.
    bytes.truncate(8 * 1024);
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = at + random.below(12).min(bytes.len() - at);
        let replacement: Vec<u8> = match random.below(6) {
            0 => TOKENS[random.below(TOKENS.len())].to_vec(),
            1 => Vec::new(),
            2 => bytes[at..end].iter().map(|b| b ^ (1 << random.below(8))).collect(),
            3 => bytes[at..end].repeat(2),
            4 => bytes[at..end].to_ascii_uppercase(),
            _ => {
                let from = random.below(other.len() + 1);
                other[from..other.len().min(from + random.below(40))].to_vec()
            }
        };
        let keep = random.below(2) == 0;
        bytes.splice(if keep { at..at } else { at..end }, replacement);
    }
    bytes
}
