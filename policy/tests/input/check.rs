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
    let root = strict(br#"{"n":120,"d":1.0,"s":"120","t":true,"null":null,"data":[{"id":"a"},{"id":"b"}]}"#)
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
        ("null", None, true, false),
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
