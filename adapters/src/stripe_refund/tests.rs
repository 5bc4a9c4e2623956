mod charges;
mod mode;

use oncegate_policy::body::{self, BodyKind};
use oncegate_policy::near::NearSubject;
use oncegate_policy::template::Scope;
use serde_json::json;

use super::*;
use crate::Adapter;

fn refund() -> StripeRefund {
    StripeRefund { account: Some("acct_1Nxyz".into()), currency: "usd".into(), live: false }
}

type Pairs = Vec<(String, String)>;

fn pairs(of: &[(&str, &str)]) -> Pairs {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A request as one of the listeners reads it.
struct Came {
    headers: Pairs,
    query: Pairs,
    kind: BodyKind,
    body: Vec<u8>,
    input: Value,
}

impl Came {
    fn form(form: &str) -> Self {
        Self::read("application/x-www-form-urlencoded", form, &[])
    }

    fn json(json: &Value) -> Self {
        Self::read("application/json", &json.to_string(), &[])
    }

    fn read(content_type: &str, body: &str, query: &[(&str, &str)]) -> Self {
        let (kind, members) = body::read(Some(content_type), body.as_bytes()).unwrap();
        let query = pairs(query);
        let input = body::merge(&[], &query, members).unwrap();
        Self { headers: vec![], query, kind, body: body.as_bytes().to_vec(), input }
    }

    fn with(mut self, headers: &[(&str, &str)]) -> Self {
        self.headers = pairs(headers);
        self
    }

    fn request(&self) -> Request<'_> {
        Request {
            method: "POST",
            headers: &self.headers,
            query: &self.query,
            body_kind: self.kind,
            body: &self.body,
            input: &self.input,
        }
    }
}

fn ready(planned: Planned) -> Plan {
    match planned {
        Planned::Ready(plan) => plan,
        Planned::NeedsRead(_) | Planned::Refused(_) => panic!("{planned:?}"),
    }
}

fn refused(planned: Planned) -> Option<Code> {
    match planned {
        Planned::Refused(refusal) => Some(refusal.code),
        Planned::Ready(_) | Planned::NeedsRead(_) => None,
    }
}

fn usd(amount: Option<i64>, bound: Bound) -> Impact {
    Impact { dimension: Dimension::Money { currency: "usd".into() }, amount, bound }
}

const MARKS: Marks<'_> = Marks { effect_id: "eff_1", provider_key: "key-1" };

/// As it goes out where the provider did not say how much is left.
fn going_out(came: &Came) -> Result<Prepared, Refusal> {
    let parts = Parts {
        target: Target::of(&json!({"charge": "ch_1"})).unwrap(),
        amount: None,
        account: vec![],
        version: vec![],
    };
    refund().prepare(&came.request(), &refund().ready(parts, refund().open(), None), &MARKS)
}

#[test]
fn a_plan_names_payment_money_and_key() {
    let came = Came::form("payment_intent=pi_3Pabc&amount=12000&metadata[order_id]=4417");
    assert_eq!(
        ready(refund().plan(&came.request())),
        Plan {
            subject: Some("payment_intent/pi_3Pabc".into()),
            near: vec![NearSubject::Beginning("unread_charge/".into())],
            resource: Some("acct_1Nxyz/pi_3Pabc\npi_3Pabc".into()),
            impact: Some(usd(Some(12_000), Bound::Exact)),
            fingerprint_scope: vec![],
            read_scope: vec![],
            provider_key: true,
            replay_window_ms: Some(86_400_000),
            drop_headers: vec!["idempotency-key".into()],
        }
    );
    let as_json =
        Came::json(&json!({"payment_intent": "pi_3Pabc", "amount": 12000, "metadata": {"order_id": "4417"}}));
    assert_eq!(refund().plan(&as_json.request()), refund().plan(&came.request()));
}

#[test]
fn what_is_read_in_one_way_only_is_planned() {
    use Code::{Ambiguous, InvalidInput};
    let long = format!("payment_intent=pi_{}&amount=1", "x".repeat(253));
    for (form, code) in [
        ("payment_intent=pi_1&amount=1", None),
        ("charge=ch_1&amount=1", None),
        ("charge=py_1&amount=1", None),
        ("payment_intent=pi_1&amount=0", None),
        ("payment_intent=pi_1&amount=1&currency=USD", None),
        ("payment_intent=pi_1&amount=1&expand[]=charge", None),
        ("payment_intent=pi_1&charge=ch_1&amount=1", Some(InvalidInput)),
        ("payment_intent=pi_1&charge=&amount=1", Some(InvalidInput)),
        ("amount=1", Some(InvalidInput)),
        ("payment_intent=&amount=1", Some(InvalidInput)),
        ("payment_intent=ch_1&amount=1", Some(InvalidInput)),
        ("payment_intent=pi_&amount=1", Some(InvalidInput)),
        ("payment_intent=pi_1/../x&amount=1", Some(InvalidInput)),
        ("payment_intent=pi_1%3Fa&amount=1", Some(InvalidInput)),
        ("payment_intent[]=pi_1&amount=1", Some(InvalidInput)),
        (long.as_str(), Some(InvalidInput)),
        ("payment_intent=pi_1&amount=", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=1.5", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=1e3", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=-1", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=%2B1", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=+1", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=01", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=9223372036854775808", Some(InvalidInput)),
        ("payment_intent=pi_1&amount[]=1", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=1&currency=eur", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=1&metadata=", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=1&metadata[]=x", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=1&metadata[oncegate_effect]=eff_2", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=1&metadata[oncegate_effect][a]=eff_2", Some(InvalidInput)),
        ("payment_intent=pi_1&amount=1&Amount=2", Some(Ambiguous)),
    ] {
        assert_eq!(refused(refund().plan(&Came::form(form).request())), code, "{form}");
    }
    // In a form such a name is refused when it is read, whichever action it is for.
    for name in [" amount", "amount\0"] {
        let came = Came::json(&json!({"payment_intent": "pi_1", "amount": 1, name: 2}));
        assert_eq!(refused(refund().plan(&came.request())), Some(Ambiguous), "{name:?}");
    }
}

#[test]
fn the_query_holds_nothing_but_expand() {
    let form = "payment_intent=pi_1&amount=1";
    for (query, code) in [
        (("expand[]", "charge"), None),
        (("expand[0]", "charge"), None),
        (("reason", "duplicate"), Some(Code::Ambiguous)),
        (("expand", "charge"), Some(Code::Ambiguous)),
    ] {
        let came = Came::read("application/x-www-form-urlencoded", form, &[query]);
        assert_eq!(refused(refund().plan(&came.request())), code, "{query:?}");
    }
}

#[test]
fn accounts_make_another_request_and_versions_do_not() {
    let form = "payment_intent=pi_1&amount=1";
    for (headers, scope, resource) in [
        (vec![], vec![], "acct_1Nxyz/pi_1\npi_1"),
        (vec![("user-agent", "x"), ("stripe-version", "v1")], vec![], "acct_1Nxyz/pi_1\npi_1"),
        (
            vec![("stripe-version", "v1"), ("stripe-account", "acct_2")],
            vec![("stripe-account", "acct_2")],
            "acct_2/pi_1\npi_1",
        ),
        (vec![("stripe-context", "acct_3")], vec![("stripe-context", "acct_3")], "acct_3/pi_1\npi_1"),
    ] {
        let plan = ready(refund().plan(&Came::form(form).with(&headers).request()));
        assert_eq!(plan.fingerprint_scope, pairs(&scope), "{headers:?}");
        let version: Vec<_> = headers.iter().copied().filter(|(name, _)| *name == "stripe-version").collect();
        assert_eq!(plan.read_scope, pairs(&version));
        assert_eq!(plan.resource.as_deref(), Some(resource), "{headers:?}");
    }
    for headers in
        [vec![("stripe-account", "acct_1"), ("stripe-account", "acct_2")], vec![("stripe-account", "")]]
    {
        let came = Came::form(form).with(&headers);
        assert_eq!(refused(refund().plan(&came.request())), Some(Code::Ambiguous), "{headers:?}");
    }
    let nowhere = StripeRefund { account: None, ..refund() };
    assert_eq!(ready(nowhere.plan(&Came::form(form).request())).resource.as_deref(), Some("pi_1"));
}

#[test]
fn without_an_amount_the_payment_is_read_first() {
    for (form, path) in [
        ("payment_intent=pi_1", "/v1/payment_intents/pi_1?expand[]=latest_charge"),
        ("charge=ch_1", "/v1/charges/ch_1"),
    ] {
        let came = Came::form(form).with(&[("stripe-account", "acct_2")]);
        let Planned::NeedsRead(read) = refund().plan(&came.request()) else { panic!("{form}") };
        assert_eq!(read.read_back.path_and_query(), path);
        assert_eq!(read.read_back.headers(), pairs(&[("stripe-account", "acct_2")]));
    }
    let null = Came::json(&json!({"charge": "ch_1", "amount": null}));
    assert!(matches!(refund().plan(&null.request()), Planned::NeedsRead(_)));
    let unsendable = Came::form("charge=ch_1").with(&[("stripe-account", "acct\r\nx: y")]);
    assert_eq!(refused(refund().plan(&unsendable.request())), Some(Code::InvalidRequest));
}

#[test]
fn what_is_left_is_what_a_refund_without_an_amount_takes() {
    let charge = |amount: Value, refunded: Value| json!({"object": "charge", "amount": amount, "amount_refunded": refunded, "currency": "usd"});
    let intent = |latest: Value| json!({"object": "payment_intent", "amount_received": 900, "currency": "usd", "latest_charge": latest});
    let open = usd(None, Bound::UpperBound);
    let mut euros = charge(json!(900), json!(400));
    euros["currency"] = json!("EUR");
    for (status, body, impact) in [
        (200, charge(json!(900), json!(0)), usd(Some(900), Bound::Exact)),
        (200, charge(json!(900), json!(900)), usd(Some(0), Bound::Exact)),
        (200, intent(charge(json!(900), json!(400))), usd(Some(500), Bound::Exact)),
        (200, intent(json!("ch_1")), usd(Some(900), Bound::UpperBound)),
        (200, intent(Value::Null), usd(Some(900), Bound::UpperBound)),
        (200, charge(json!(900), json!(901)), open.clone()),
        (200, charge(json!(900.5), json!(0)), open.clone()),
        (200, charge(json!(900), Value::Null), open.clone()),
        (200, json!({"object": "refund", "amount": 5, "currency": "usd"}), open.clone()),
        (200, json!("garbled"), open.clone()),
        (404, charge(json!(900), json!(0)), open.clone()),
        (500, json!({}), open.clone()),
    ] {
        let read = Answer { status, reason: None, headers: vec![], body: body.to_string().into_bytes() };
        let came = Came::form("payment_intent=pi_1");
        assert_eq!(
            ready(refund().plan_with(&came.request(), Some(&read))).impact,
            Some(impact),
            "{status} {body}"
        );
    }
    // A payment in another currency would be counted by no limit of this one.
    let read = Answer { status: 200, reason: None, headers: vec![], body: euros.to_string().into_bytes() };
    let came = Came::form("payment_intent=pi_1");
    assert_eq!(refused(refund().plan_with(&came.request(), Some(&read))), Some(Code::InvalidInput));
}

#[test]
fn what_goes_out_is_what_came_and_the_marks() {
    let effect = "metadata%5Boncegate_effect%5D=eff_1";
    let form = "payment_intent=pi_3Pabc&amount=12000&metadata%5Bnote%5D=a+b";
    let prepared = going_out(&Came::form(form)).unwrap();
    assert_eq!(String::from_utf8(prepared.body).unwrap(), format!("{form}&{effect}"));
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("idempotency-key", "key-1")];
    assert_eq!(prepared.headers, pairs(&headers));

    let input = json!({"payment_intent": "pi_1", "amount": 120, "metadata": {"b": "x y", "a": true}, "expand": ["charge"], "reason": null});
    let prepared = going_out(&Came::json(&input)).unwrap();
    assert_eq!(
        String::from_utf8(prepared.body).unwrap(),
        format!(
            "amount=120&expand%5B0%5D=charge&metadata%5Ba%5D=true&metadata%5Bb%5D=x%20y&payment_intent=pi_1&{effect}"
        )
    );
}

/// What is approved and held is what is sent, whatever is left by then.
#[test]
fn a_refund_without_an_amount_is_pinned_to_what_was_planned() {
    let charge = json!({"object": "charge", "amount": 900, "amount_refunded": 800, "currency": "usd"});
    let intent = |latest: Value| json!({"object": "payment_intent", "amount_received": 900, "currency": "usd", "latest_charge": latest});
    let mark = "metadata%5Boncegate_effect%5D=eff_1";
    for (came, read, sent) in [
        (Came::form("charge=ch_1"), charge.clone(), "charge=ch_1&amount=100&"),
        (
            Came::form("payment_intent=pi_1&reason=a+b"),
            intent(charge.clone()),
            "payment_intent=pi_1&reason=a+b&amount=100&",
        ),
        // At most so much, and nothing.
        (Came::form("payment_intent=pi_1"), intent(json!("ch_1")), "payment_intent=pi_1&"),
        (
            Came::form("charge=ch_1"),
            json!({"object": "charge", "amount": 900, "amount_refunded": 900, "currency": "usd"}),
            "charge=ch_1&",
        ),
        (Came::form("payment_intent=pi_1"), intent(Value::Null), "payment_intent=pi_1&"),
        (Came::json(&json!({"charge": "ch_1", "amount": null})), charge.clone(), "charge=ch_1&amount=100&"),
        (
            Came::form("charge=ch_1").with(&[("stripe-account", "acct_2")]),
            charge.clone(),
            "charge=ch_1&amount=100&",
        ),
        (Came::form("charge=ch_1&amount=7"), charge, "charge=ch_1&amount=7&"),
        (Came::form("charge=ch_1"), json!("garbled"), "charge=ch_1&"),
    ] {
        let read = Answer { status: 200, reason: None, headers: vec![], body: read.to_string().into_bytes() };
        let plan = ready(refund().plan_with(&came.request(), Some(&read)));
        let adapter = Adapter::StripeRefund(refund());
        let prepared = adapter.prepare(&came.request(), &plan, &MARKS).unwrap();
        assert_eq!(String::from_utf8(prepared.body).unwrap(), format!("{sent}{mark}"), "{}", came.input);
    }
}

#[test]
fn a_body_that_cannot_carry_the_mark_does_not_go_out() {
    for came in [
        Came::form("payment_intent=pi_1&metadata="),
        Came::form("payment_intent=pi_1&metadata[oncegate_effect]=x"),
        Came::json(&json!({"payment_intent": "pi_1", "metadata": "x"})),
        Came::json(&json!({"payment_intent": "pi_1", "metadata": {"a[b": "x"}})),
        Came::read("text/plain", "payment_intent=pi_1", &[]),
    ] {
        assert!(going_out(&came).is_err(), "{}", came.input);
    }
}

#[test]
fn what_stands_in_the_query_is_not_sent_twice() {
    let came = Came::read("application/json", r#"{"charge":"ch_1","amount":1}"#, &[("expand[]", "charge")]);
    let prepared = going_out(&came).unwrap();
    assert_eq!(prepared.body, b"amount=1&charge=ch_1&metadata%5Boncegate_effect%5D=eff_1");
}

#[test]
fn an_input_without_a_request_becomes_the_form_that_a_client_sends() {
    let form = "application/x-www-form-urlencoded";
    for (input, headers, body) in [
        (
            json!({"payment_intent": "pi_1", "amount": 12000, "metadata": {"order_id": "4417"}}),
            vec![("content-type", form)],
            "amount=12000&metadata%5Border_id%5D=4417&payment_intent=pi_1",
        ),
        (
            json!({"charge": "ch_1", "stripe_account": "acct_2", "amount": null}),
            vec![("content-type", form), ("stripe-account", "acct_2")],
            "charge=ch_1",
        ),
        (json!({"charge": "ch_1", "stripe_account": null}), vec![("content-type", form)], "charge=ch_1"),
        // As the published API's own clients ask for it.
        (
            json!({"paymentIntent": "pi_1", "amount": 1250, "currency": "usd"}),
            vec![("content-type", form)],
            "amount=1250&payment_intent=pi_1",
        ),
    ] {
        let adapter = Adapter::StripeRefund(refund());
        let spelled = adapter.spelled(input.clone()).unwrap();
        let built = adapter.build(&spelled, &Scope::of_input(&Value::Null)).unwrap();
        assert_eq!(
            (built.method.as_str(), built.url.as_str()),
            ("POST", "https://api.stripe.com/v1/refunds")
        );
        let sent: Pairs = built.headers.iter().map(|(n, v)| (n.clone(), v.to_string())).collect();
        assert_eq!(sent, pairs(&headers));
        assert_eq!(built.body.as_deref(), Some(body.as_bytes()), "{input}");
        // The rest of the pipeline reads it as a proxied request.
        let mut came = Came::form(body);
        came.headers = sent;
        assert!(
            matches!(refund().plan(&came.request()), Planned::Ready(_) | Planned::NeedsRead(_)),
            "{input}"
        );
    }
    for input in [
        json!("pi_1"),
        json!({"charge": "ch_1", "stripe_account": ""}),
        json!({"charge": "ch_1", "stripe_account": 7}),
        json!({"charge": "ch_1", "stripe_account": "acct\r\nx: y"}),
        json!({"charge": "ch_1", "metadata": {"a[b": "x"}}),
        json!({"payment_intent": "pi_1", "paymentIntent": "pi_2"}),
        json!({"paymentIntent": "pi_1", "currency": "eur"}),
    ] {
        assert!(spelled(input.clone()).and_then(|input| refund().build(&input)).is_err(), "{input}");
    }
}
