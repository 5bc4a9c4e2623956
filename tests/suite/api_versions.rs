//! What a definition was before, and what becomes of a change whose version cannot be kept.

use std::fs;

use serde_json::json;

use crate::{
    api_actions::{bare, create, desk, open_ticket, patch},
    law::{call, data, says_no},
};

/// Where its version cannot be kept, a change is not made, as the answer says.
#[test]
fn what_is_answered_as_not_changed_is_not() {
    let (_provider, home) = desk(bare);
    let sidecar = home.serve();
    assert_eq!(create(&sidecar, &open_ticket()).status, 201);
    let described = |to: &str| patch(&sidecar, json!({ "description": to }));
    assert_eq!(described("the last one").status, 200);
    let folder = home.path("managed/versions/open-ticket");
    let version = |number: u32| folder.join(format!("{number:06}.json"));
    let last = fs::read_to_string(version(2)).unwrap();
    for number in 3..=1_000 {
        let text = last.replace("\"version\": 2,", &format!("\"version\": {number},"));
        fs::write(version(number), text).unwrap();
    }
    says_no(&described("one more"), 409, "CONFLICT", "full");
    let shown = data(&call(&sidecar, "ops", "GET", "/actions/open-ticket", ""));
    assert_eq!(shown["description"], "the last one");
    fs::remove_file(version(1_000)).unwrap();
    assert_eq!(described("one more").status, 200);
}
