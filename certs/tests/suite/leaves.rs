//! The cache of leaves.

use crate::support::{DAY, HOUR, authority, chain, leaves, now};
use oncegate_certs::{MintError, NameFault};
use std::sync::{Arc, Barrier};

#[test]
fn thirty_two_callers_of_one_name_share_one_leaf() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 8);
    let start = Barrier::new(32);
    let configs: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..32)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    leaves.server_config("api.example", now()).unwrap()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(leaves.minted(), 1);
    assert!(configs.iter().all(|config| Arc::ptr_eq(config, &configs[0])));
}

#[test]
fn thirty_two_callers_of_as_many_names_get_their_own() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 32);
    let start = Barrier::new(32);
    std::thread::scope(|scope| {
        for number in 0..32 {
            let (start, leaves) = (&start, &leaves);
            scope.spawn(move || {
                start.wait();
                leaves.server_config(&format!("host{number}.example"), now()).unwrap();
            });
        }
    });
    assert_eq!(leaves.minted(), 32);
}

#[test]
fn the_least_recently_used_is_forgotten() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 2);
    let ask = |name: &str| {
        leaves.server_config(name, now()).unwrap();
        leaves.minted()
    };
    assert_eq!([ask("a.example"), ask("b.example"), ask("a.example")], [1, 2, 2]);
    assert_eq!(ask("c.example"), 3, "which takes the place of b");
    assert_eq!(ask("a.example"), 3);
    assert_eq!(ask("b.example"), 4);
}

#[test]
fn a_name_has_one_place_however_it_is_spelled() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 8);
    for name in ["api.example", "API.example", "::1", "0:0:0:0:0:0:0:1"] {
        leaves.server_config(name, now()).unwrap();
    }
    assert_eq!(leaves.minted(), 2);
}

#[test]
fn a_leaf_is_replaced_a_day_before_its_end() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 8);
    let first = chain(&authority, &leaves, "api.example", now());
    // It began an hour ago and ends with the ninetieth day.
    let due = now() - HOUR + 89 * DAY;
    let kept = chain(&authority, &leaves, "api.example", due - 2 * HOUR);
    assert_eq!((leaves.minted(), &kept), (1, &first));
    let next = chain(&authority, &leaves, "api.example", due);
    assert_eq!(leaves.minted(), 2);
    assert_ne!(next, first);
    chain(&authority, &leaves, "api.example", due + DAY);
    assert_eq!(leaves.minted(), 2);
}

#[test]
fn a_leaf_from_the_future_is_replaced() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 8);
    chain(&authority, &leaves, "api.example", now() + 30 * DAY);
    // The clock was set right; clients would call the leaf not yet valid.
    chain(&authority, &leaves, "api.example", now());
    assert_eq!(leaves.minted(), 2);
}

#[test]
fn what_is_no_server_name_is_refused_and_not_remembered() {
    let (_dir, authority) = authority();
    let leaves = leaves(&authority, 1);
    leaves.server_config("api.example", now()).unwrap();
    for (name, fault) in [
        ("", NameFault::Empty),
        ("*.example", NameFault::Wildcard),
        (&*"a".repeat(254), NameFault::TooLong),
        ("a b", NameFault::Malformed),
        ("api.example:443", NameFault::Malformed),
    ] {
        let error = leaves.server_config(name, now()).unwrap_err();
        assert!(matches!(error, MintError::Name { source } if source == fault), "{name:?}: {error:?}");
    }
    leaves.server_config("api.example", now()).unwrap();
    assert_eq!(leaves.minted(), 1, "a refused name takes nobody's place");
}
