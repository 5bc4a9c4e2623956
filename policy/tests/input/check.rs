use oncegate_policy::check::{Check, Expected};
use oncegate_policy::json::strict;
use oncegate_policy::template::{Scope, Template};
use serde_json::{Value, json};

fn check(path: &str, equals: Option<Expected>, absent: bool) -> Check {
    Check { path: path.to_owned(), equals, absent }
}

fn literal(value: Value) -> Option<Expected> {
    Some(Expected::Literal(value))
}

fn text(template: &str) -> Option<Expected> {
    Some(Expected::Template(Template::parse(template).unwrap()))
}

#[test]
fn a_condition_compares_what_values_mean() {
    let root = strict(
        br#"{"n":120,"d":1.0,"s":"120","t":true,"null":null,"data":[{"id":"a"},{"id":"b"}],"no":false,"zero":0.0,
            "list":[],"object":{},"text":"","some":[{"x":null},{"x":1}],"none":[{"x":null},{"x":""}],"perhaps":[{"x":null},{"x":0}]}"#,
    )
    .unwrap();
    let input = json!({ "n": 120, "s": "120", "one": 1, "id": "b", "other": "z" });
    let scope = Scope::of_input(&input);
    let table = [
        // (path, equals, holds, holds with absent)
        ("n", literal(json!("120")), true, false),
        ("s", literal(json!(120)), true, false),
        ("t", literal(json!("true")), true, false),
        ("n", literal(json!(121)), false, true),
        ("n", text("{{input.s}}"), true, false),
        ("s", text("{{input.n}}"), true, false),
        ("d", text("{{input.one}}"), true, false),
        ("s", text("1{{input.one}}0"), false, true),
        ("data.*.id", literal(json!("b")), true, false),
        ("data.*.id", text("{{input.id}}"), true, false),
        ("data.*.id", text("{{input.other}}"), false, true),
        ("data.0.id", literal(json!("b")), false, true),
        ("gone", literal(json!(null)), false, true),
        ("null", literal(json!(null)), true, false),
        ("n", None, true, false),
        // Nothing, however it is said: an applied write's `errors: null` is no error, a refused one's `refund: null` no refund.
        ("null", None, false, true),
        ("list", None, false, true),
        ("object", None, false, true),
        ("text", None, false, true),
        ("none.*.x", None, false, true),
        ("some.*.x", None, true, false),
        // `error: 0` is none with some, `count: 0` is one with others.
        ("no", None, false, false),
        ("zero", None, false, false),
        ("perhaps.*.x", None, false, false),
        ("t", None, true, false),
        ("list", literal(json!([])), true, false),
        ("no", literal(json!(false)), true, false),
        ("gone", None, false, true),
        ("data.*.gone", None, false, true),
        // What cannot be rendered is an open question, and neither holds.
        ("n", text("{{input.gone}}"), false, false),
        ("n", text("{{effect.id}}"), false, false),
    ];
    for (path, equals, holds, holds_absent) in table {
        assert_eq!(check(path, equals.clone(), false).holds(&root, &scope), holds, "{path} {equals:?}");
        assert_eq!(
            check(path, equals.clone(), true).holds(&root, &scope),
            holds_absent,
            "not {path} {equals:?}"
        );
    }
}

#[test]
fn a_condition_on_the_input_may_say_so() {
    let input = json!({ "operationName": "refundCreate" });
    for path in ["input.operationName", "operationName"] {
        assert!(check(path, literal(json!("refundCreate")), false).holds_for_input(&input), "{path}");
    }
}

/// What is settled by a part stays so, whatever objects there are added to.
#[test]
fn a_part_settles_what_the_rest_cannot_change() {
    let part = json!({ "verb": "pay", "n": "5", "o": { "a": "1" }, "list": [{ "x": "1" }, {}] });
    let more = json!({
        "verb": "pay", "n": "5", "o": { "a": "1", "b": "2" }, "list": [{ "x": "1" }, {}], "new": "pay",
    });
    let table = [
        // (path, equals, settled, settled with absent)
        ("input.verb", literal(json!("pay")), Some(true), Some(false)),
        ("verb", literal(json!("find")), Some(false), Some(true)),
        ("n", literal(json!(5)), Some(true), Some(false)),
        ("verb", None, Some(true), Some(false)),
        ("o", None, Some(true), Some(false)),
        ("o", literal(json!({ "a": "1" })), None, None),
        ("o.b", literal(json!("2")), None, None),
        ("list.*.x", literal(json!("1")), Some(true), Some(false)),
        ("list.*.x", literal(json!("2")), Some(false), Some(true)),
        ("new", literal(json!("pay")), None, None),
        ("new", None, None, None),
        ("verb", text("{{input.new}}"), None, None),
        ("verb", text("{{input.n}}"), Some(false), Some(true)),
    ];
    for (path, equals, settled, settled_absent) in table {
        for (absent, settled) in [(false, settled), (true, settled_absent)] {
            let check = check(path, equals.clone(), absent);
            assert_eq!(check.settled_by(&part), settled, "{path} {equals:?} {absent}");
            for input in [&part, &more] {
                let holds = check.holds_for_input(input);
                assert!(settled.is_none_or(|settled| settled == holds), "{path} {equals:?} {absent} {input}");
            }
        }
    }
}
