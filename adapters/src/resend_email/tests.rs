use oncegate_policy::body;
use oncegate_policy::template::Scope;

use super::*;
use crate::Adapter;

const EMAIL: ResendEmail = ResendEmail { fence: Fence::RecipientsAndSubject };
const MARKS: Marks<'_> = Marks { effect_id: "eff_1", provider_key: "key-1" };

/// As resend-python and resend-node send it.
fn mail() -> Value {
    json!({
        "from": "Acme <Billing@acme.example>", "to": ["Alice <alice@Example.com>"], "subject": "Your refund, #4417",
        "html": "<p>120</p>",
    })
}

fn with(member: &str, value: Value) -> Value {
    let mut mail = mail();
    mail[member] = value;
    mail
}

struct Came {
    headers: Vec<(String, String)>,
    kind: BodyKind,
    body: Vec<u8>,
    input: Value,
}

impl Came {
    fn json(mail: &Value) -> Self {
        Self::read("application/json", &mail.to_string())
    }

    fn read(content_type: &str, body: &str) -> Self {
        let (kind, input) = body::read(Some(content_type), body.as_bytes()).unwrap();
        Self { headers: vec![], kind, body: body.as_bytes().to_vec(), input }
    }

    fn agent(mut self, value: &str) -> Self {
        self.headers = vec![("user-agent".to_owned(), value.to_owned())];
        self
    }

    fn request(&self) -> Request<'_> {
        Request {
            method: "POST",
            headers: &self.headers,
            query: &[],
            body_kind: self.kind,
            body: &self.body,
            input: &self.input,
        }
    }
}

fn plan(email: ResendEmail, mail: &Value) -> Result<Plan, Code> {
    email.try_plan(&Came::json(mail).request()).map_err(|refusal| refusal.code)
}

#[test]
fn a_plan_names_recipients_subject_line_and_key() {
    assert_eq!(
        plan(EMAIL, &mail()),
        Ok(Plan {
            subject: Some("alice@example.com/your refund 4417".into()),
            near: Vec::new(),
            resource: Some("billing@acme.example/alice@example.com".into()),
            impact: Some(Impact {
                dimension: Dimension::ResourceMutations,
                amount: Some(1),
                bound: Bound::Exact
            }),
            fingerprint_scope: vec![],
            read_scope: vec![],
            provider_key: true,
            replay_window_ms: Some(86_400_000),
            drop_headers: vec!["idempotency-key".into()],
        })
    );
}

/// A limit on what one person gets is left by no order of the addresses, and one on a sender not by a template's own.
#[test]
fn every_recipient_is_a_name_that_limits_look_at() {
    let mut copied = with("to", json!(["ceo@big.example", "Aaa <aaa@x.example>"]));
    copied["cc"] = json!("ceo@big.example");
    copied["bcc"] = json!(["zoe@x.example"]);
    let mut own_sender = mail();
    own_sender.as_object_mut().unwrap().remove("from");
    let from = "billing@acme.example";
    for (mail, resource) in [
        (copied, format!("{from}/aaa@x.example\n{from}/ceo@big.example\n{from}/zoe@x.example")),
        (own_sender, "*/alice@example.com".to_owned()),
    ] {
        assert_eq!(plan(EMAIL, &mail).unwrap().resource, Some(resource));
    }
}

#[test]
fn p5_an_address_has_one_spelling_whoever_it_is() {
    for (written, one) in [
        ("Acme <Billing@acme.example>", true),
        ("billing@acme.example", true),
        ("\"billing\"@acme.example", false),
        ("x@acme.example, billing@acme.example", false),
        ("billing(x)@acme.example", false),
        ("billing", false),
    ] {
        for member in ["from", "to"] {
            assert_eq!(plan(EMAIL, &with(member, json!(written))).is_ok(), one, "{member}: {written}");
        }
    }
    assert!(plan(EMAIL, &with("from", json!(["a@acme.example"]))).is_err());
}

#[test]
fn a_retry_with_other_words_acts_on_the_same() {
    let fence = |email: ResendEmail, mail: &Value| plan(email, mail).unwrap().subject;
    let loose = ResendEmail { fence: Fence::Recipients };
    for (varied, same, same_people) in [
        (with("html", json!("<p>We have refunded 120 dollars</p>")), true, true),
        (with("text", json!("hello")), true, true),
        (with("to", json!("alice@example.com")), true, true),
        (with("to", json!(["ALICE@EXAMPLE.COM", "alice@example.com"])), true, true),
        (with("subject", json!("your  Refund #4417!")), true, true),
        (with("cc", json!("bob@example.com")), true, true),
        (with("from", json!("other@acme.example")), true, true),
        (with("subject", json!("Refund processed")), false, true),
        (with("to", json!("bob@example.com")), false, false),
        (with("to", json!(["alice@example.com", "bob@example.com"])), false, false),
    ] {
        assert_eq!(fence(EMAIL, &varied) == fence(EMAIL, &mail()), same, "{varied}");
        assert_eq!(fence(loose, &varied) == fence(loose, &mail()), same_people, "{varied}");
    }
    let template =
        json!({"from": "a@b.example", "to": "alice@example.com", "template": {"id": "refund-notice"}});
    assert_eq!(fence(EMAIL, &template).as_deref(), Some("alice@example.com/refund notice"));
    let long = with("subject", json!("word ".repeat(60)));
    assert!(fence(EMAIL, &long).unwrap().starts_with("sha256/"));
}

#[test]
fn every_recipient_counts() {
    let many: Vec<String> = (0..51).map(|n| format!("a{n}@example.com")).collect();
    let amount = |mail: &Value| plan(EMAIL, mail).map(|plan| plan.impact.unwrap().amount.unwrap());
    for (mail, counted) in [
        (with("cc", json!(["b@example.com", "c@example.com"])), Ok(3)),
        (with("bcc", json!("b@example.com")), Ok(2)),
        (with("to", json!(many[..50])), Ok(50)),
        (with("to", json!(many)), Err(Code::InvalidInput)),
        (with("cc", json!(null)), Ok(1)),
        (with("to", json!([])), Err(Code::InvalidInput)),
        (with("to", json!(7)), Err(Code::InvalidInput)),
        (with("to", json!([7])), Err(Code::InvalidInput)),
        (with("to", json!("a@x.example, b@x.example")), Err(Code::InvalidInput)),
        (with("to", json!("a@x.example;b")), Err(Code::InvalidInput)),
        (with("bcc", json!("Bob")), Err(Code::InvalidInput)),
        (with("BCC", json!("b@example.com")), Err(Code::InvalidInput)),
        (with("Cc", json!("b@example.com")), Err(Code::InvalidInput)),
        (with("headers", json!({"bcc": "b@example.com"})), Err(Code::InvalidInput)),
        (with("headers", json!({"X-Entity-Ref-ID": "7"})), Ok(1)),
        (json!({"from": "a@b.example"}), Err(Code::InvalidInput)),
    ] {
        assert_eq!(amount(&mail), counted, "{mail}");
    }
}

#[test]
fn what_goes_out_is_what_came_and_the_marks() {
    let own = json!({"name": "category", "value": "refund"});
    let came = Came::json(&with("tags", json!([own]))).agent("resend-node:6.38.0");
    let prepared = EMAIL.prepare(&came.request(), &MARKS).unwrap();
    let expected = with("tags", json!([own, {"name": "oncegate_effect", "value": "eff_1"}]));
    assert_eq!(serde_json::from_slice::<Value>(&prepared.body).unwrap(), expected);
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "resend-node:6.38.0 oncegate/eff_1"),
        ("idempotency-key", "key-1"),
    ];
    assert_eq!(prepared.headers, headers.map(|(n, v)| (n.to_owned(), v.to_owned())));
    let silent = EMAIL.prepare(&Came::json(&mail()).request(), &MARKS).unwrap();
    assert!(silent.headers.contains(&("user-agent".to_owned(), "oncegate/eff_1".to_owned())));
}

#[test]
fn marks_of_its_own_and_bodies_that_cannot_carry_them_are_refused() {
    let full: Vec<Value> = (0..75).map(|n| json!({"name": format!("t{n}"), "value": "x"})).collect();
    for (tags, refused) in [
        (json!([{"name": "oncegate_effect", "value": "eff_2"}]), true),
        (json!({"name": "oncegate_effect"}), true),
        (json!(full), true),
        (json!(full[..74]), false),
        (json!(null), false),
    ] {
        assert_eq!(plan(EMAIL, &with("tags", tags.clone())).is_err(), refused, "{tags}");
    }
    let forged = Came::json(&mail()).agent("x oncegate/eff_2");
    assert_eq!(EMAIL.try_plan(&forged.request()).map_err(|r| r.code), Err(Code::InvalidInput));
    let own = Came::json(&mail()).agent("oncegate/0.1.0");
    assert!(EMAIL.try_plan(&own.request()).is_ok(), "what the API listener says of itself");
    let form = Came::read("application/x-www-form-urlencoded", "from=a%40b.example&to=c%40d.example");
    assert!(EMAIL.prepare(&form.request(), &MARKS).is_err());
    let query = [("to".to_owned(), "eve@example.com".to_owned())];
    let came = Came::json(&mail());
    let request = Request { query: &query, ..came.request() };
    assert_eq!(EMAIL.try_plan(&request).map_err(|refusal| refusal.code), Err(Code::Ambiguous));
}

#[test]
fn an_input_without_a_request_becomes_the_json_that_a_client_sends() {
    let adapter = Adapter::ResendEmail(EMAIL);
    let built = adapter.build(&mail(), &Scope::of_input(&Value::Null)).unwrap();
    assert_eq!((built.method.as_str(), built.url.as_str()), ("POST", "https://api.resend.com/emails"));
    let body = String::from_utf8(built.body.unwrap()).unwrap();
    assert_eq!(Came::read("application/json", &body).input, mail());
    assert!(adapter.build(&json!([]), &Scope::of_input(&Value::Null)).is_err());
}
