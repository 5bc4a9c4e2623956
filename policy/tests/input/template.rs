use oncegate_policy::json::strict;
use oncegate_policy::template::{Piece, RenderFault, Scope, Template, TemplateFault};
use oncegate_policy::url_template::percent_encode;
use serde_json::json;

fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

#[test]
fn placeholders_are_read_once() {
    let text = |t: &str| Piece::Text(t.to_owned());
    let input = |p: &str| Piece::Input(p.to_owned());
    let table = [
        ("", vec![]),
        ("plain }} {text}", vec![text("plain }} {text}")]),
        ("refund:{{input.metadata.order_id}}", vec![text("refund:"), input("metadata.order_id")]),
        ("{{ input.a }}{{input.b.0}}!", vec![input("a"), input("b.0"), text("!")]),
        ("Bearer {{secret:STRIPE_KEY}}", vec![text("Bearer "), Piece::Secret("STRIPE_KEY".to_owned())]),
        (
            "{{effect.id}}/{{effect.key}}/{{response.data.id}}",
            vec![
                Piece::EffectId,
                text("/"),
                Piece::EffectKey,
                text("/"),
                Piece::Response("data.id".to_owned()),
            ],
        ),
    ];
    for (written, pieces) in table {
        assert_eq!(template(written).pieces(), pieces, "{written}");
    }
}

#[test]
fn what_is_no_placeholder_is_refused() {
    let unknown = |t: &str| TemplateFault::Unknown { text: t.to_owned() };
    let name = |t: &str| TemplateFault::Name { text: t.to_owned() };
    let table = [
        ("a {{input.a", TemplateFault::Unclosed { text: "{{input.a".to_owned() }),
        ("{{}}", unknown("")),
        ("{{input}}", unknown("input")),
        ("{{inputs.a}}", unknown("inputs.a")),
        ("{{effect.name}}", unknown("effect.name")),
        ("{{env.HOME}}", unknown("env.HOME")),
        ("{{input.}}", name("")),
        ("{{input.a..b}}", name("a..b")),
        ("{{input.a b}}", name("a b")),
        ("{{input.*}}", name("*")),
        ("{{input.{{input.a}}}}", name("{{input.a")),
        ("{{secret:}}", name("")),
        ("{{secret:A B}}", name("A B")),
    ];
    for (written, fault) in table {
        assert_eq!(Template::parse(written), Err(fault), "{written}");
    }
    assert!(Template::parse(&"x".repeat(65_536)).is_ok());
    assert_eq!(Template::parse(&"x".repeat(65_537)), Err(TemplateFault::TooLong));
}

#[test]
fn scalars_are_placed_as_written() {
    let input = strict(r#"{"s":"a/b","n":1.20,"b":true,"list":[{"id":"x"}]}"#.as_bytes()).unwrap();
    let response = json!({ "id": 7 });
    let scope = Scope {
        input: &input,
        effect_id: Some("eff_1"),
        effect_key: Some("key_1"),
        response: Some(&response),
    };
    let table = [
        ("constant", "constant"),
        ("{{input.s}}", "a/b"),
        ("{{input.n}}", "1.20"),
        ("{{input.b}}", "true"),
        ("{{input.list.0.id}}", "x"),
        ("{{effect.id}}:{{effect.key}}:{{response.id}}", "eff_1:key_1:7"),
    ];
    for (written, text) in table {
        assert_eq!(template(written).render(&scope).as_deref(), Ok(text), "{written}");
    }
    let encoded = template("/x/{{input.s}}").render_encoded(&scope, percent_encode);
    assert_eq!(encoded.as_deref(), Ok("/x/a%2Fb"));
}

#[test]
fn what_is_not_there_is_named() {
    let input = json!({ "null": null, "empty": "", "object": {}, "list": [1] });
    let path = |p: &str| p.to_owned();
    let table = [
        ("{{input.gone}}", RenderFault::Absent { path: path("input.gone") }),
        ("{{input.gone.too}}", RenderFault::Absent { path: path("input.gone.too") }),
        ("{{input.null}}", RenderFault::Null { path: path("input.null") }),
        ("{{input.empty}}", RenderFault::Empty { path: path("input.empty") }),
        ("{{input.object}}", RenderFault::NotScalar { path: path("input.object") }),
        ("{{input.list}}", RenderFault::NotScalar { path: path("input.list") }),
        ("{{effect.id}}", RenderFault::Absent { path: path("effect.id") }),
        ("{{effect.key}}", RenderFault::Absent { path: path("effect.key") }),
        ("{{response.id}}", RenderFault::Absent { path: path("response.id") }),
        ("{{secret:KEY}}", RenderFault::Secret { name: path("KEY") }),
    ];
    for (written, fault) in table {
        assert_eq!(template(written).render(&Scope::of_input(&input)), Err(fault), "{written}");
    }
}

#[test]
fn identity_takes_a_number_by_its_value() {
    for number in ["42", "42.0", "4.2e1", "\"42\""] {
        let input = strict(format!(r#"{{"order": {number}}}"#).as_bytes()).unwrap();
        let scope = Scope::of_input(&input);
        let key = template("order:{{input.order}}").render_identity(&scope);
        assert_eq!(key.as_deref(), Ok("order:42"), "{number}");
    }
    let nothing = json!({ "order": null });
    let fault = template("{{input.order}}").render_identity(&Scope::of_input(&nothing));
    assert!(matches!(fault, Err(RenderFault::Null { .. })), "{fault:?}");
}

#[test]
fn a_placed_value_is_never_read_as_a_template() {
    let input = json!({ "a": "{{input.b}}{{secret:KEY}}", "b": "x" });
    let rendered = template("{{input.a}}").render(&Scope::of_input(&input));
    assert_eq!(rendered.as_deref(), Ok("{{input.b}}{{secret:KEY}}"));
}

#[test]
fn secrets_and_constancy_are_known_without_rendering() {
    let secret = template("{{secret:A}}:{{secret:B}}");
    assert_eq!(secret.secrets(), ["A", "B"]);
    assert!(!secret.is_constant());
    assert!(template("x").is_constant());
    assert!(template("").is_constant());
    assert_eq!(template("{{input.a}}{{input.b}}").inputs(), ["a", "b"]);
}

#[test]
fn a_template_prints_as_it_was_written() {
    for written in ["", "a", "{{input.a}}-{{secret:K}}-{{effect.id}}-{{effect.key}}-{{response.x}}"] {
        assert_eq!(template(written).to_string(), written);
    }
}
