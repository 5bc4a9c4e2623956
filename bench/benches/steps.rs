//! The steps of a request that are Oncegate's own, each alone: `cargo bench -p oncegate-bench`.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement that cannot begin ends; leaves are of today"
)]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::SystemTime;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use oncegate_bench::measure::ledger;
use oncegate_certs::{Authority, Leaves};
use oncegate_policy::authority::Authority as Server;
use oncegate_policy::classify::{ResponseRules, verdict};
use oncegate_policy::exchange::{Answer, Exchange};
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::path::CanonicalPath;
use oncegate_policy::router::{Route, Router};
use oncegate_policy::url_template::{Scheme, UrlTemplate};
use serde_json::json;

/// Declared actions among which one is found: more than the whole catalogue has.
const ACTIONS: usize = 200;

/// Which action a request means, among many on the same server.
fn matching(c: &mut Criterion) {
    let route = |number: usize| Route {
        action: format!("action-{number}"),
        method: "POST".to_owned(),
        url: UrlTemplate::parse(&format!("https://api.example/v1/kind{number}/{{{{input.id}}}}/refund"))
            .unwrap(),
        when: Vec::new(),
        governed: true,
        writes_by_get: false,
    };
    let (router, remarks) = Router::build((0..ACTIONS).map(route).collect());
    assert!(remarks.is_empty());
    let server = Server::parse("api.example:443", None).unwrap();
    let path = format!("/v1/kind{}/pi_123/refund", ACTIONS / 2);
    let canonical = CanonicalPath::parse(&path).unwrap();
    let find = |path: &CanonicalPath| router.candidates("POST", Scheme::Https, &server, path, &[]).len();
    assert_eq!(find(&canonical), 1);
    c.bench_function("matching/canonical path", |b| b.iter(|| CanonicalPath::parse(black_box(&path))));
    c.bench_function("matching/one of 200 actions", |b| b.iter(|| find(black_box(&canonical))));
}

/// What makes two requests the same.
fn fingerprint(c: &mut Criterion) {
    let input = json!({ "payment_intent": "pi_3Nn2", "amount": 12_000, "reason": "requested_by_customer",
        "metadata": { "order": "A-17", "agent": "desk" } });
    let scope = [("Stripe-Account".to_owned(), "acct_1".to_owned())];
    c.bench_function("fingerprint", |b| {
        b.iter(|| Fingerprint::of("stripe-refund", black_box(&input), black_box(&scope)));
    });
}

/// What an answer proves.
fn classification(c: &mut Criterion) {
    let answered = |status| {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Exchange::Answered(Answer { status, reason: None, headers, body: vec![b'y'; 400] })
    };
    let rules = ResponseRules::default();
    for status in [200, 402, 500] {
        let exchange = answered(status);
        c.bench_function(&format!("classification/{status}"), |b| {
            b.iter(|| verdict(black_box(&exchange), &rules));
        });
    }
}

/// Two durable commits, one caller: the disk is in it.
fn admission(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(ledger::open(&dir.path().join("bench.db"))).unwrap();
    let mut number = 0;
    c.bench_function("admission and outcome", |b| {
        b.iter(|| {
            number += 1;
            runtime.block_on(ledger::write(&store, number)).unwrap();
        });
    });
}

/// A leaf for a name that was never seen, with a key of its own; and one that is kept.
fn minting(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let authority = Arc::new(Authority::load_or_create(dir.path(), SystemTime::now()).unwrap());
    let leaves = Leaves::new(authority, NonZeroUsize::new(1_000).unwrap());
    let mut number = 0_u64;
    let mut fresh = || {
        number += 1;
        format!("host-{number}.example")
    };
    c.bench_function("minting/new host", |b| {
        b.iter_batched(
            &mut fresh,
            |name| leaves.server_config(&name, SystemTime::now()).unwrap(),
            BatchSize::SmallInput,
        );
    });
    c.bench_function("minting/known host", |b| {
        b.iter(|| leaves.server_config(black_box("known.example"), SystemTime::now()).unwrap());
    });
}

criterion_group!(steps, matching, fingerprint, classification, admission, minting);
criterion_main!(steps);
