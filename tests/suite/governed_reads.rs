//! A write that its provider takes by GET: on its path nothing passes as a read that is not exactly the action.

use oncegate_tests::{agent::Ask, conf::Conf, provider::Provider, sidecar::Home};

use crate::shop::DESK;

/// One that counts, and one that is told from others by what it says.
const ACTIONS: &str = r#"
[actions.post]
method = "GET"
url = "https://tickets.test/chat.post?to={{input.to}}"
impact = { dimension = "resource_mutations", amount = "1" }

[actions.drop]
method = "GET"
url = "https://tickets.test/items/{{input.id}}"
governed = true
when = [{ path = "input.drop", equals = "yes" }]

[actions.list]
method = "GET"
url = "https://tickets.test/items/{{input.id}}"
governed = false
when = [{ path = "input.drop", equals = "no" }]
"#;

/// What its provider would take for one of them, or could.
const STRAYS: [(&str, &str); 13] = [
    ("GET", "/chat.post"),
    ("GET", "/chat.post?to=a&to=b"),
    ("GET", "/chat.post?to=a&to=a"),
    ("GET", "/chat.post?to="),
    ("GET", "/chat.post/?to=c"),
    ("GET", "/Chat.Post?to=c"),
    ("GET", "/chat%2Epost/?to=c"),
    ("HEAD", "/chat.post?to=a"),
    ("OPTIONS", "/chat.post?to=a"),
    ("GET", "/items/9"),
    ("GET", "/items/9/?drop=yes"),
    ("GET", "/items/9?drop=Yes"),
    ("HEAD", "/items/9?drop=no"),
];

#[test]
fn a_governed_get_is_nowhere_a_read_also_while_halted() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&Conf::default().host(DESK, provider.addr()).with(ACTIONS));
    let sidecar = home.serve();
    let mut tunnel = sidecar.billing().tunnel(DESK);
    let mut strays = |when: &str| {
        for (method, target) in STRAYS {
            let before = provider.record().requests().len();
            let answer = tunnel.ask(&Ask::new(method, target));
            let got = (answer.status, answer.code(), answer.outcome());
            assert_eq!(got, (403, "oncegate_undeclared", "refused"), "{when}: {method} {target}");
            assert_eq!(provider.record().requests().len(), before, "{when}: {method} {target} was sent");
        }
    };
    let ask = |target: &str| sidecar.billing().ask(DESK, &Ask::get(target));
    strays("at first");
    for target in ["/chat.post?to=a", "/chat%2Epost?to=b", "/items/9?drop=yes"] {
        let answer = ask(target);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(home.effect(&answer.effect())["outcome"] == "succeeded", "{target}");
    }
    for read in ["/items/9?drop=no", "/items", "/items/", "/chat.posts", "/chat.post/a"] {
        let answer = ask(read);
        assert_eq!((answer.status, answer.header("oncegate-effect")), (200, None), "{read}: {answer:?}");
    }
    assert_eq!(sidecar.cli(&home, "ops", &["halt", "--reason", "stop"]).code, 0);
    strays("while halted");
    ask("/chat.post?to=halted").assert_refused(403, "oncegate_halted");
    assert_eq!(ask("/items").status, 200, "reads go on");
    assert_eq!(home.effects().len(), 3);
}
