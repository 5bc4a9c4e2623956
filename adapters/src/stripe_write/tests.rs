use oncegate_policy::body::{self, BodyKind};
use oncegate_policy::classify::ResponseRules;
use oncegate_policy::exchange::Answer;
use oncegate_policy::impact::{AmountRule, Bound};
use oncegate_policy::reconcile::Finding;
use oncegate_policy::refusal::Code;
use oncegate_policy::template::Template;
use oncegate_policy::url_template::UrlTemplate;
use serde_json::json;

use super::*;
use crate::Adapter;
use crate::declared::Verify;
use crate::read_back::ReadBack;

/// 2026-03-30T13:43:54Z, an hour before it, and a day and an hour after it.
const SENT_AT_MS: i64 = 1_774_878_234_000;
const SINCE: &str = "created[gte]=1774874634&created[lte]=1774968234";

fn write(path: &str) -> StripeWrite {
    let usd = Dimension::Money { currency: "usd".into() };
    let route = Declared {
        method: "POST".into(),
        url: UrlTemplate::parse(&format!("https://api.stripe.com/v1/{path}")).unwrap(),
        headers: vec![],
        scope_headers: vec![],
        body: None,
        subject: Some(Template::parse("{{input.destination}}").unwrap()),
        impact: Some((usd, AmountRule::parse("input.amount").unwrap(), Bound::Exact)),
        idempotency: None,
        verify: None,
        response: ResponseRules::default(),
    };
    StripeWrite { live: false, route }
}

fn request<'a>(kind: BodyKind, body: &'a str, input: &'a Value) -> Request<'a> {
    Request { method: "POST", headers: &[], query: &[], body_kind: kind, body: body.as_bytes(), input }
}

fn form(body: &str) -> Value {
    body::read(Some(stripe::FORM), body.as_bytes()).unwrap().1
}

#[test]
fn a_plan_is_as_declared_with_stripe_s_key() {
    let body = "destination=acct_2&amount=1200&currency=usd";
    let input = form(body);
    let plan = write("transfers").try_plan(&request(BodyKind::Form, body, &input)).unwrap();
    assert_eq!(plan.subject.as_deref(), Some("acct_2"));
    assert_eq!(plan.impact.unwrap().amount, Some(1200));
    assert_eq!((plan.provider_key, plan.replay_window_ms), (true, Some(86_400_000)));
    assert_eq!(plan.drop_headers, ["idempotency-key"]);
    for (path, body, code) in [
        ("transfers", "destination=acct_2&amount=1&currency=eur", Some(Code::InvalidInput)),
        ("transfers", "amount=1&currency=usd", Some(Code::InvalidInput)),
        ("transfers", "destination=a&amount=1&metadata[oncegate_effect]=eff_2", Some(Code::InvalidInput)),
        ("transfers", "destination=a&amount=1&Amount=2", Some(Code::Ambiguous)),
        ("transfers", "destination=a&amount=1&metadata=", Some(Code::InvalidInput)),
        // Where no mark goes, too: these change what another effect made.
        ("refunds/{{input.refund}}", "destination=a&amount=1&metadata=", Some(Code::InvalidInput)),
        (
            "refunds/{{input.refund}}",
            "destination=a&amount=1&metadata[oncegate_effect]=",
            Some(Code::InvalidInput),
        ),
        (
            "refunds/{{input.refund}}",
            "destination=a&amount=1&metadata[oncegate_effect]=eff_2",
            Some(Code::InvalidInput),
        ),
        (
            "checkout/sessions",
            "destination=a&amount=1&payment_intent_data[metadata][oncegate_effect]=eff_2",
            Some(Code::InvalidInput),
        ),
        ("refunds/{{input.refund}}", "destination=a&amount=1&metadata[note]=", None),
    ] {
        let input = form(body);
        let refused = write(path).try_plan(&request(BodyKind::Form, body, &input)).err();
        assert_eq!(refused.map(|refusal| refusal.code), code, "{path} {body}");
    }
}

#[test]
fn the_mark_goes_where_metadata_is_taken_and_the_key_goes_everywhere() {
    let marks = Marks { effect_id: "eff_1", provider_key: "key-1" };
    let mark = "metadata%5Boncegate_effect%5D=eff_1";
    for (path, kind, body, sent) in [
        ("transfers", BodyKind::Form, "amount=1", format!("amount=1&{mark}")),
        (
            "transfers",
            BodyKind::Json,
            r#"{"amount":1,"metadata":{"a":"b"}}"#,
            format!("amount=1&metadata%5Ba%5D=b&{mark}"),
        ),
        ("customers/{{input.id}}", BodyKind::Json, r#"{"name":"x"}"#, format!("name=x&{mark}")),
        ("payment_intents/{{input.id}}/capture", BodyKind::Empty, "", mark.to_owned()),
        ("payment_intents/{{input.id}}/confirm", BodyKind::Form, "a=b", "a=b".to_owned()),
        ("invoices/{{input.id}}/pay", BodyKind::Empty, "", String::new()),
        ("topups", BodyKind::Form, "amount=1", "amount=1".to_owned()),
    ] {
        // What the URL captured is no part of the body.
        let input = json!({"id": "x_1"});
        let prepared = write(path).prepare(&request(kind, body, &input), &marks).unwrap();
        assert_eq!(String::from_utf8(prepared.body).unwrap(), sent, "{path}");
        assert!(prepared.headers.contains(&("idempotency-key".to_owned(), "key-1".to_owned())), "{path}");
        let adapter = Adapter::StripeWrite(Box::new(write(path)));
        assert_eq!(adapter.can_read_back(), sent.contains("oncegate"), "{path}");
    }
}

#[test]
fn an_input_without_a_request_becomes_a_form() {
    let adapter = Adapter::StripeWrite(Box::new(write("customers/{{input.id}}")));
    let input = json!({"id": "cus_1", "name": "x", "stripe_account": "acct_2"});
    let built = adapter.build(&input, &Scope::of_input(&Value::Null)).unwrap();
    assert_eq!(
        (built.method.as_str(), built.url.as_str()),
        ("POST", "https://api.stripe.com/v1/customers/cus_1")
    );
    assert_eq!(built.body.as_deref(), Some(&b"name=x"[..]));
    let headers: Vec<_> = built.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(headers, [format!("content-type: {}", stripe::FORM), "stripe-account: acct_2".to_owned()]);
}

fn looked(
    write: &StripeWrite,
    input: &Value,
    response: Option<&Value>,
    after: Option<(&str, u16, &Value)>,
) -> String {
    let memory = Memory {
        effect_id: "eff_1",
        provider_key: "k",
        input,
        headers: &[],
        response,
        sent_at_ms: SENT_AT_MS,
    };
    let look = match after {
        None => write.look(&memory, LookStep::First),
        Some((path, status, body)) => {
            let request = ReadBack::get(path.to_owned(), vec![]).unwrap();
            let answer =
                Answer { status, reason: None, headers: vec![], body: body.to_string().into_bytes() };
            write.look(&memory, LookStep::Next { request: &request, answer: &answer, page: 1 })
        }
    };
    match look {
        Look::Ask(read) => format!("ask {}", read.path_and_query()),
        Look::Impossible(_) => "impossible".into(),
        Look::Found(Finding::Matched { reference, .. }) => {
            format!("matched {}", reference.unwrap())
        }
        Look::Found(Finding::ProviderSaysFailed { .. }) => "failed".into(),
        Look::Found(Finding::NoMatch { .. }) => "no match".into(),
        Look::Found(Finding::Unreadable { .. }) => "unreadable".into(),
    }
}

#[test]
fn what_is_asked_first() {
    let transfer = json!({"object": "transfer", "id": "tr_1"});
    for (path, input, response, asked) in [
        (
            "transfers",
            json!({"destination": "acct_2"}),
            None,
            format!("ask /v1/transfers?limit=100&destination=acct_2&{SINCE}"),
        ),
        ("transfers", json!({}), Some(&transfer), "ask /v1/transfers/tr_1".to_owned()),
        ("transfers", json!({}), Some(&json!({"error": {}})), format!("ask /v1/transfers?limit=100&{SINCE}")),
        (
            "customers",
            json!({"email": "a+b@c.example"}),
            None,
            format!("ask /v1/customers?limit=100&email=a%2Bb%40c.example&{SINCE}"),
        ),
        (
            "credit_notes",
            json!({"invoice": "in_1"}),
            None,
            "ask /v1/credit_notes?limit=100&invoice=in_1".to_owned(),
        ),
        ("customers/{{input.id}}", json!({"id": "cus_1"}), None, "ask /v1/customers/cus_1".to_owned()),
        (
            "payment_intents/{{input.id}}/capture",
            json!({"id": "pi_1"}),
            None,
            "ask /v1/payment_intents/pi_1".to_owned(),
        ),
        ("payment_intents/{{input.id}}/confirm", json!({"id": "pi_1"}), None, "impossible".to_owned()),
        ("topups", json!({}), None, "impossible".to_owned()),
    ] {
        assert_eq!(looked(&write(path), &input, response, None), asked, "{path} {input}");
    }
    let mut declared = write("topups");
    let url = UrlTemplate::parse("https://api.stripe.com/v1/topups/{{input.id}}").unwrap();
    declared.route.verify = Some(Verify { url, status: 200, checks: vec![] });
    assert!(declared.can_read_back());
    assert_eq!(looked(&declared, &json!({"id": "tu_1"}), None, None), "ask /v1/topups/tu_1");
}

/// Of an object that bears a mark.
fn marked(id: &str, mark: &str, status: &str) -> Value {
    json!({"id": id, "status": status, "created": 1_774_877_934, "metadata": {"oncegate_effect": mark}})
}

#[test]
fn a_mark_is_no_deed() {
    let page = format!("/v1/payment_intents?limit=100&{SINCE}");
    let at_once = json!({"confirm": "true"});
    for status in ["requires_payment_method", "requires_confirmation"] {
        let waits = json!({"object": "list", "data": [marked("x_1", "eff_1", status)], "has_more": false});
        let seen = looked(&write("payment_intents"), &at_once, None, Some((&page, 200, &waits)));
        assert_eq!(seen, "unreadable", "it is there and did not go through: {status}");
    }
    // A mark is written before the money is taken.
    let capture = write("payment_intents/{{input.id}}/capture");
    for (status, found) in [
        ("requires_capture", "unreadable"),
        ("requires_action", "unreadable"),
        ("processing", "matched pi_1"),
        ("succeeded", "matched pi_1"),
        ("canceled", "failed"),
    ] {
        let intent = marked("pi_1", "eff_1", status);
        let seen =
            looked(&capture, &json!({"id": "pi_1"}), None, Some(("/v1/payment_intents/pi_1", 200, &intent)));
        assert_eq!(seen, found, "a capture: {status}");
    }
}

#[test]
fn the_mark_decides_and_then_the_object_s_own_state() {
    let object = marked;
    let list = |objects: &[Value], more: bool| json!({"object": "list", "data": objects, "has_more": more});
    let ours = |status: &str| list(&[object("x_0", "eff_2", "paid"), object("x_1", "eff_1", status)], false);
    let page = |path: &str| format!("/v1/{path}?limit=100&{SINCE}");
    for (path, body, found) in [
        ("transfers", ours(""), "matched x_1".to_owned()),
        ("charges", ours("succeeded"), "matched x_1".to_owned()),
        ("charges", ours("failed"), "failed".to_owned()),
        ("payouts", ours("canceled"), "failed".to_owned()),
        ("payouts", ours("in_transit"), "matched x_1".to_owned()),
        ("payment_intents", ours("requires_payment_method"), "matched x_1".to_owned()),
        (
            "payouts",
            list(&[object("x_0", "eff_2", "paid")], true),
            format!("ask {}&starting_after=x_0", page("payouts")),
        ),
        ("payouts", list(&[], false), "no match".to_owned()),
        ("payouts", json!({"data": []}), "unreadable".to_owned()),
    ] {
        assert_eq!(
            looked(&write(path), &json!({}), None, Some((&page(path), 200, &body))),
            found,
            "{path} {body}"
        );
    }
    // A mark that was moved to an object of another amount, or to an older one whose amount says nothing.
    for (asked, created, amount, found) in [
        (json!(1200), 1_774_877_934, 1200, "failed"),
        (json!(1200), 1_774_877_933, 1200, "failed"),
        (json!(1200), 1_774_877_934, 1, "no match"),
        (json!(null), 1_774_877_934, 1, "failed"),
        (json!(null), 1_774_877_933, 1, "no match"),
    ] {
        let mut payout = object("po_1", "eff_1", "failed");
        payout["created"] = created.into();
        payout["amount"] = amount.into();
        let listed = list(&[payout], false);
        let asked = json!({"amount": asked});
        let seen = looked(&write("payouts"), &asked, None, Some((&page("payouts"), 200, &listed)));
        assert_eq!(seen, found, "{created} {amount}");
    }

    // What became of the payout undoes nothing of a change of its metadata.
    let noted = write("payouts/{{input.id}}");
    let failed = object("po_1", "eff_1", "failed");
    let seen = looked(&noted, &json!({"id": "po_1"}), None, Some(("/v1/payouts/po_1", 200, &failed)));
    assert_eq!(seen, "matched po_1");

    let update = write("customers/{{input.id}}");
    let answered = json!({"object": "transfer", "id": "x_1"});
    for (status, body, changed, created) in [
        (200, object("x_1", "eff_1", ""), "matched x_1", "matched x_1"),
        (200, object("x_1", "eff_2", ""), "no match", "list"),
        (200, json!({"id": "x_1"}), "no match", "matched x_1"),
        (404, json!({}), "unreadable", "list"),
        (500, json!({}), "unreadable", "unreadable"),
    ] {
        let seen = looked(&update, &json!({"id": "x_1"}), None, Some(("/v1/customers/x_1", status, &body)));
        assert_eq!(seen, changed, "{status} {body}");
        let created =
            if created == "list" { format!("ask {}", page("transfers")) } else { created.to_owned() };
        let seen = looked(
            &write("transfers"),
            &json!({}),
            Some(&answered),
            Some(("/v1/transfers/x_1", status, &body)),
        );
        assert_eq!(seen, created, "{status} {body}");
    }
}
