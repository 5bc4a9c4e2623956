//! What an agent or a provider wrote is shown to the person who decides over it, and obeyed by no terminal.

use oncegate_tests::{agent::Ask, conf::Conf, provider::Provider, script::Reply, sidecar::Home};
use serde_json::{Value, json};

use crate::{
    law::{approval_in, ops},
    shop::{DESK, ticket_action},
};

/// A title that would be a second question in a list, clear the screen, and turn the text after it.
const TITLE: &str = "small\napr_01ARZ3NDEKTSV4RRFFQ69G5FAV  approved\u{1b}[2J\u{9b}31m\u{202e}ksir";

fn is_shown(character: char) -> bool {
    character == '\n' || !(character.is_control() || character == '\u{202e}')
}

/// A desk whose tickets wait for a person.
fn home(desk: &Provider) -> Home {
    let named = "[actions.open-ticket]\n";
    let asks =
        ticket_action("open-ticket", DESK).replace(named, &format!("{named}requires_approval = true\n"));
    Home::new(&Conf::default().host(DESK, desk.addr()).with(&asks))
}

#[test]
fn no_text_of_an_agents_is_obeyed_by_the_terminal_of_who_decides() {
    let desk = Provider::tls(&[DESK]);
    let home = home(&desk);
    let sidecar = home.serve();
    let body = json!({ "title": TITLE, "amount": 12 }).to_string();
    let parked = sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &body));
    let (approval, effect) = (approval_in(&parked), parked.effect());
    let before = [
        vec!["approvals"],
        vec!["approvals", &approval],
        vec!["approvals", "--json"],
        vec!["effects"],
        vec!["effects", "--json"],
        vec!["effect", "show", &effect],
    ];
    for command in before {
        let done = ops(&home, &sidecar, &command);
        let all = format!("{}{}", done.out, done.err);
        assert!(done.code == 0 && all.chars().all(is_shown), "{command:?}: {done:?}");
        let questions = done.out.lines().filter(|line| line.starts_with("apr_01ARZ3NDEKTSV4RRFFQ69G5FAV"));
        assert_eq!(questions.count(), 0, "{command:?}: {done:?}");
    }
    // A program reads it as it was written.
    let listed = ops(&home, &sidecar, &["effects", "--json"]).json();
    assert_eq!(listed[0]["subject"], TITLE);

    desk.on_write(Reply::json("400 Bad Request", r#"{"message":"no\u001b[2J\u009b31m"}"#));
    let approved = ops(&home, &sidecar, &["approve", &approval]);
    let after = ops(&home, &sidecar, &["effect", "show", &effect]);
    for done in [approved, after] {
        assert!(format!("{}{}", done.out, done.err).chars().all(is_shown), "{done:?}");
    }
}

#[test]
fn who_decides_sees_the_whole_request_before_it_is_sent() {
    let desk = Provider::tls(&[DESK]);
    let home = home(&desk);
    let sidecar = home.serve();
    let parked =
        sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", r#"{"title":"one","to":"everybody"}"#));
    let approval = approval_in(&parked);
    let shown = ops(&home, &sidecar, &["approvals", &approval]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in [approval.as_str(), "pending", "billing-agent", "POST", "/v1/tickets", r#""to": "everybody""#]
    {
        assert!(shown.out.contains(part), "{part} is not in\n{}", shown.out);
    }
    let document: Value = ops(&home, &sidecar, &["approvals", &approval, "--json"]).json();
    assert_eq!(document["payload"]["request"]["body"]["to"], "everybody", "{document}");
    // What has been decided is over: its request is erased, and the rest stays.
    assert_eq!(ops(&home, &sidecar, &["deny", &approval, "--note", "to nobody"]).code, 0);
    let over = ops(&home, &sidecar, &["approvals", &approval]);
    assert!(over.out.contains("denied") && over.out.contains("to nobody"), "{over:?}");
    assert!(!over.out.contains("everybody"), "{over:?}");
    assert_eq!(ops(&home, &sidecar, &["approvals", "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV"]).code, 2);
}
