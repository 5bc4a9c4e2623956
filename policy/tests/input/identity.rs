use oncegate_policy::fingerprint::{Fingerprint, digest_hex};
use oncegate_policy::form;
use oncegate_policy::identity::{is_generated_key, valid_key};
use oncegate_policy::json::strict;
use oncegate_policy::template::{Scope, Template};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    operation_key: Option<String>,
    first: Request,
    first_state: String,
    second: Request,
    expect: String,
}

#[derive(Deserialize)]
struct Request {
    key: Option<String>,
    form: String,
}

impl Request {
    fn input(&self) -> Value {
        form::parse(self.form.as_bytes()).unwrap()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of("refund", &self.input(), &[])
    }

    /// The key that is taken at its word, if the caller chose one.
    fn chosen_key(&self) -> Option<&str> {
        self.key.as_deref().filter(|key| !is_generated_key(key))
    }
}

/// What the pure parts say: are the two the same request, and is one a varied try of the other?
#[test]
fn every_identity_case_compares_as_it_implies() {
    let cases: Cases = toml::from_str(include_str!("../cases/identity.toml")).unwrap();
    assert_eq!(cases.case.len(), 16);
    for Case { name, operation_key, first, first_state, second, expect } in cases.case {
        let same = first.fingerprint() == second.fingerprint();
        let declared = operation_key.map(|template| {
            let template = Template::parse(&template).unwrap();
            let key = |request: &Request| template.render(&Scope::of_input(&request.input())).unwrap();
            (key(&first), key(&second))
        });
        let same_key = match (&declared, first.chosen_key(), second.chosen_key()) {
            (Some((a, b)), _, _) => a == b,
            (None, Some(a), Some(b)) => a == b,
            (None, None, _) | (None, _, None) => false,
        };
        let same_subject = first.input()["payment_intent"] == second.input()["payment_intent"];
        match expect.as_str() {
            "repeat" => assert!(same, "{name}"),
            "key_reuse" => assert!(!same && same_key, "{name}"),
            "unresolved_effect" => assert!(!same && !same_key && same_subject, "{name}"),
            "new" => {
                let freed = matches!(first_state.as_str(), "failed" | "refused");
                let two_chosen = first.chosen_key().is_some() && second.chosen_key().is_some() && !same_key;
                assert!(freed || two_chosen || !same_subject, "{name}");
            }
            other => panic!("{name}: unknown expectation {other}"),
        }
    }
}

#[test]
fn form_and_json_of_one_request_have_one_fingerprint() {
    let of = |input: &Value| Fingerprint::of("refund", input, &[]);
    let form = form::parse(b"amount=12000&metadata[note]=a+b&expand[0]=charge&live=true").unwrap();
    for written in [
        r#"{"amount":12000,"metadata":{"note":"a b"},"expand":["charge"],"live":true}"#,
        r#"{ "live": true, "expand": ["charge"], "metadata": {"note":"a\u0020b"}, "amount": 1.2e4 }"#,
    ] {
        assert_eq!(of(&strict(written.as_bytes()).unwrap()), of(&form), "{written}");
    }
    let other = strict(br#"{"amount":12000.5,"metadata":{"note":"a b"},"expand":["charge"],"live":true}"#);
    assert_ne!(of(&other.unwrap()), of(&form));
}

#[test]
fn action_and_scope_enter_the_fingerprint() {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let input = json!({ "a": 1 });
    let plain = Fingerprint::of("refund", &input, &[]);
    let scoped = Fingerprint::of("refund", &input, &[header("Stripe-Account", "acct_1"), header("X-B", "2")]);
    assert_ne!(Fingerprint::of("charge", &input, &[]), plain);
    assert_ne!(scoped, plain);
    assert_eq!(
        Fingerprint::of("refund", &input, &[header("x-b", "2"), header("stripe-account", "acct_1")]),
        scoped
    );
    assert_ne!(
        Fingerprint::of("refund", &input, &[header("x-b", "2"), header("stripe-account", "acct_2")]),
        scoped
    );
}

#[test]
fn a_fingerprint_is_stable_and_read_back() {
    let text = r#"{"action":"refund","input":{"amount":"12000"},"scope":[["stripe-account","acct_1"]]}"#;
    let scope = [("Stripe-Account".to_owned(), "acct_1".to_owned())];
    let fingerprint = Fingerprint::of("refund", &json!({ "amount": 12000 }), &scope);
    assert_eq!(fingerprint.to_string(), digest_hex(text.as_bytes()));
    assert_eq!(Fingerprint::from_hex(fingerprint.as_str()), Some(fingerprint.clone()));
    assert_eq!(Fingerprint::from_hex(&fingerprint.as_str().to_uppercase()), Some(fingerprint));
    for bad in ["", "abc", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65)] {
        assert_eq!(Fingerprint::from_hex(bad), None, "{bad}");
    }
    assert_eq!(digest_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn a_library_made_key_is_told_from_a_chosen_one() {
    let table = [
        ("0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", true),
        ("0B8A7E0E-3C4D-4D0E-9B57-0F6A1E2D3C4B", true),
        ("018f4d5e-0000-7000-8000-000000000000", true),
        ("0b8a7e0e3c4d4d0e9b570f6a1e2d3c4b", true),
        ("stripe-node-retry-0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", true),
        ("stainless-node-retry-0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", true),
        ("stainless-python-retry-0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", true),
        ("idempotency-key-0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", true),
        ("stainless-ruby-retry-0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", true),
        ("stainless-java-retry-0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", true),
        ("stainless-csharp-retry-0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", true),
        ("stainless-php-retry-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", true),
        ("\"0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b\"", true),
        ("stainless-ruby-retry-order-42", false),
        ("stainless-my-own-retry-0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", false),
        ("\"refund:ord_42\"", false),
        ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", false),
        ("1536097382345678901_aB3-_x", true),
        ("refund:ord_42", false),
        ("refund:0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b", false),
        ("stripe-node-retry-order-42", false),
        ("0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4", false),
        ("0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4g", false),
        ("0b8a7e0e3c4d-4d0e-9b57-0f6a-1e2d3c4b", false),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", false),
        ("1536097382345678901_order42", false),
        ("", false),
    ];
    for (key, generated) in table {
        assert_eq!(is_generated_key(key), generated, "{key}");
    }
}

#[test]
fn a_key_is_printable_and_bounded() {
    let longest = "k".repeat(255);
    let too_long = "k".repeat(256);
    let table = [
        ("k", true),
        ("refund: ord 42 ~!", true),
        (longest.as_str(), true),
        ("", false),
        (" ", false),
        (" k", false),
        ("k ", false),
        ("k\n", false),
        ("k\u{7f}", false),
        ("ké", false),
        (too_long.as_str(), false),
    ];
    for (key, valid) in table {
        assert_eq!(valid_key(key), valid, "{key:?}");
    }
}
