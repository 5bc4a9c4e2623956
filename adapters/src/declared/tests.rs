use oncegate_policy::body;
use oncegate_policy::check::Expected;
use oncegate_policy::exchange::Answer;
use oncegate_policy::reconcile::Finding;
use serde_json::json;

use super::*;
use crate::Adapter;
use crate::read_back::ReadBack;

const TICKETS: &str = "https://tickets.example/v1/projects/{{input.project}}/tickets";

fn ticket() -> Declared {
    Declared {
        method: "POST".into(),
        url: UrlTemplate::parse(TICKETS).unwrap(),
        headers: vec![],
        scope_headers: vec![],
        body: None,
        subject: Some(template("{{input.project}}/{{input.title}}")),
        impact: Some((Dimension::ResourceMutations, AmountRule::parse("1").unwrap(), Bound::Exact)),
        idempotency: None,
        verify: None,
        response: ResponseRules::default(),
    }
}

fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

fn headers(of: &[(&str, &str)]) -> Vec<(String, Template)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), template(value))).collect()
}

fn request<'a>(kind: BodyKind, body: &'a [u8], input: &'a Value) -> Request<'a> {
    Request { method: "POST", headers: &[], query: &[], body_kind: kind, body, input }
}

fn plan(declared: &Declared, input: &Value) -> Result<Plan, Code> {
    match declared.plan(&request(BodyKind::Empty, b"", input)) {
        Planned::Ready(plan) => Ok(plan),
        Planned::Refused(refusal) => Err(refusal.code),
        Planned::NeedsRead(_) => panic!("a declared action reads nothing first"),
    }
}

#[test]
fn headers_that_were_declared_make_another_request() {
    let input = json!({ "project": "p", "title": "t" });
    let scoped = Declared { scope_headers: vec!["x-region".into(), "x-tenant".into()], ..ticket() };
    let planned = |headers: &[(&str, &str)]| {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let request = Request { headers: &headers, ..request(BodyKind::Empty, b"", &input) };
        scoped.try_plan(&request).map(|plan| plan.fingerprint_scope).map_err(|refusal| refusal.code)
    };
    let kept = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(planned(&[("x-trace", "1")]), Ok(vec![]));
    assert_eq!(planned(&[("x-tenant", "one"), ("x-trace", "1")]), Ok(vec![kept("x-tenant", "one")]));
    let both = [("x-tenant", "two"), ("x-region", "eu")];
    assert_eq!(planned(&both), Ok(vec![kept("x-region", "eu"), kept("x-tenant", "two")]));
    assert_eq!(planned(&[("x-tenant", " ")]), Err(Code::Ambiguous));
    assert_eq!(planned(&[("x-tenant", "one"), ("x-tenant", "one")]), Err(Code::Ambiguous));
    assert_eq!(planned(&[("x_tenant", "two")]), Err(Code::Ambiguous));
    assert_eq!(planned(&[("x-tenant", "one"), ("x_tenant", "two")]), Err(Code::Ambiguous));
}

#[test]
fn a_plan_is_what_was_declared() {
    let keyed = Declared { idempotency: Some((KeyPlace::Header("x-key".into()), 5)), ..ticket() };
    let input = json!({"project": "p", "title": "t"});
    let expected = Plan {
        subject: Some("p/t".into()),
        near: Vec::new(),
        resource: Some("p/t".into()),
        impact: Some(Impact {
            dimension: Dimension::ResourceMutations,
            amount: Some(1),
            bound: Bound::Exact,
        }),
        fingerprint_scope: vec![],
        read_scope: vec![],
        provider_key: false,
        replay_window_ms: None,
        drop_headers: vec!["x-fields".into(), "range".into(), "if-range".into()],
    };
    assert_eq!(plan(&ticket(), &input), Ok(expected.clone()));
    let with_key = Plan {
        provider_key: true,
        replay_window_ms: Some(5),
        drop_headers: vec!["x-key".into(), "x-fields".into(), "range".into(), "if-range".into()],
        ..expected
    };
    assert_eq!(plan(&keyed, &input), Ok(with_key));
}

#[test]
fn an_input_that_a_rule_cannot_read_is_refused() {
    let counted = |amount: &str| {
        let rule = (Dimension::ResourceMutations, AmountRule::parse(amount).unwrap(), Bound::UpperBound);
        Declared { impact: Some(rule), subject: None, ..ticket() }
    };
    let amount = |plan: Plan| plan.impact.unwrap().amount;
    for (declared, input, expected) in [
        (ticket(), json!({"project": "p"}), Err(Code::InvalidInput)),
        (ticket(), json!({"project": "p", "title": ""}), Err(Code::InvalidInput)),
        (ticket(), json!({"project": "p", "title": ["t"]}), Err(Code::InvalidInput)),
        (counted("input.n * 2"), json!({"n": 3}), Ok(Some(6))),
        (counted("input.n"), json!({}), Ok(None)),
        (counted("input.n"), json!({"n": "1.5"}), Err(Code::InvalidInput)),
        (counted("input.n * 3"), json!({"n": i64::MAX}), Err(Code::InvalidInput)),
        (counted("count(input.n)"), json!({"n": [1, 2]}), Ok(Some(2))),
    ] {
        assert_eq!(plan(&declared, &input).map(amount), expected, "{input}");
    }
}

#[test]
fn what_goes_out_carries_the_key_where_the_provider_reads_it() {
    let header = Some((KeyPlace::Header("idempotency-key".into()), 1));
    let member = Some((KeyPlace::Body("request_id".into()), 1));
    let key = [("idempotency-key", "key-1")];
    let spaced = r#"{ "b": 1.50, "a": 2 }"#;
    for (place, content_type, body, expected) in [
        (None, "application/json", spaced, Some((&[][..], spaced))),
        (header.clone(), "application/json", spaced, Some((&key[..], spaced))),
        (header, "text/plain", "x", Some((&key[..], "x"))),
        (
            member.clone(),
            "application/json",
            spaced,
            Some((&[][..], r#"{"a":2,"b":1.50,"request_id":"key-1"}"#)),
        ),
        (
            member.clone(),
            "application/json",
            r#"{"request_id":"mine"}"#,
            Some((&[][..], r#"{"request_id":"key-1"}"#)),
        ),
        (member.clone(), "application/json", "[]", None),
        (member.clone(), "application/x-www-form-urlencoded", "a=1", None),
        (member, "application/json", "", None),
    ] {
        let declared = Declared { idempotency: place, ..ticket() };
        let (kind, input) = body::read(Some(content_type), body.as_bytes()).unwrap();
        let marks = Marks { effect_id: "eff_1", provider_key: "key-1" };
        let prepared = declared.prepare(&request(kind, body.as_bytes(), &input), &marks);
        let expected = expected.map(|(headers, body)| Prepared {
            headers: headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            body: body.as_bytes().to_vec(),
        });
        assert_eq!(prepared.ok(), expected, "{body}");
    }
}

#[test]
fn declared_headers_are_set_on_proxied_requests_too() {
    let declared = Declared {
        headers: headers(&[
            ("x-ref", "{{input.project}}:{{effect.id}}"),
            ("x-account", "ops"),
            ("x-other", "{{input.other}}"),
            ("content-type", "application/json"),
            ("x-both", "{{secret:S}} {{effect.id}}"),
            ("x-key", "mine-{{effect.key}}"),
        ]),
        idempotency: Some((KeyPlace::Header("x-key".into()), 1)),
        ..ticket()
    };
    let marks = Marks { effect_id: "eff_1", provider_key: "key-1" };
    let input = json!({"project": "p"});
    let prepared = declared.prepare(&request(BodyKind::Empty, b"", &input), &marks).unwrap();
    let set =
        |list: &[(&str, &str)]| list.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect::<Vec<_>>();
    let of_all = [("x-ref", "p:eff_1"), ("x-account", "ops"), ("x-key", "key-1")];
    assert_eq!(prepared.headers, set(&of_all));
    let prepared = declared.prepare(&request(BodyKind::Json, b"{}", &input), &marks).unwrap();
    let of_json = [of_all[0], of_all[1], ("content-type", "application/json"), of_all[2]];
    assert_eq!(prepared.headers, set(&of_json));
    let split = json!({"project": "p\r\nx: y"});
    let refused = declared.prepare(&request(BodyKind::Empty, b"", &split), &marks).unwrap_err();
    assert_eq!(refused.code, Code::InvalidInput);
}

fn build(declared: &Declared, input: &Value) -> Result<Built, Code> {
    let nothing = Value::Null;
    let scope =
        Scope { input: &nothing, effect_id: Some("eff_1"), effect_key: Some("key-1"), response: None };
    declared.build(input, &scope).map_err(|refusal| refusal.code)
}

#[test]
fn without_a_body_template_the_body_is_what_the_url_did_not_take() {
    let of = |method: &str, url: &str| Declared {
        method: method.into(),
        url: UrlTemplate::parse(url).unwrap(),
        ..ticket()
    };
    let nested = "https://tickets.example/v1/{{input.at.project}}?q={{input.q}}";
    for (declared, input, url, body) in [
        (
            ticket(),
            json!({"project": "a b", "title": "t"}),
            "v1/projects/a%20b/tickets",
            Some(json!({"title": "t"})),
        ),
        (ticket(), json!({"project": 7}), "v1/projects/7/tickets", Some(json!({}))),
        (
            of("POST", nested),
            json!({"at": {"project": "p"}, "q": "x", "n": 1}),
            "v1/p?q=x",
            Some(json!({"n": 1})),
        ),
        (
            of("POST", nested),
            json!({"at": {"project": "p", "b": 1}, "q": "x"}),
            "v1/p?q=x",
            Some(json!({"at": {"b": 1}})),
        ),
        (of("DELETE", TICKETS), json!({"project": "p"}), "v1/projects/p/tickets", None),
        (
            of("DELETE", TICKETS),
            json!({"project": "p", "hard": true}),
            "v1/projects/p/tickets",
            Some(json!({"hard": true})),
        ),
    ] {
        let built = build(&declared, &input).unwrap();
        assert_eq!(built.method, declared.method);
        assert_eq!(built.url, format!("https://tickets.example/{url}"), "{input}");
        assert_eq!(built.body, body.as_ref().map(|body| body.to_string().into_bytes()), "{input}");
        let typed = if body.is_some() { headers(&[("content-type", "application/json")]) } else { vec![] };
        assert_eq!(built.headers, typed, "{input}");
    }
}

#[test]
fn a_lone_placeholder_keeps_its_type_and_any_other_becomes_text() {
    let text = r#"{"project":"p","n":1.50,"l":[1],"t":true,"z":null,"s":"{{secret:S}}"}"#;
    let input = json::strict(text.as_bytes()).unwrap();
    for (body, expected) in [
        (json!("{{input.n}}"), Ok(r#"1.50"#)),
        (json!("no {{input.n}}"), Ok(r#""no 1.50""#)),
        (json!(["{{ input.l }}", "{{input.t}}", "{{input.z}}"]), Ok("[[1],true,null]")),
        (json!({"a": {"b": "{{effect.id}}"}, "c": 3}), Ok(r#"{"a":{"b":"eff_1"},"c":3}"#)),
        (json!("{{effect.key}}"), Ok(r#""key-1""#)),
        (json!("{{input.s}}"), Ok(r#""{{secret:S}}""#)),
        (json!("a {{input.s}}"), Ok(r#""a {{secret:S}}""#)),
        (json!(""), Ok(r#""""#)),
        (json!("{{input.absent}}"), Err(Code::InvalidInput)),
        (json!("a {{input.l}}"), Err(Code::InvalidInput)),
        (json!("{{response.id}}"), Err(Code::InvalidInput)),
        (json!("{{secret:S}}"), Err(Code::CredentialUnavailable)),
    ] {
        let declared = Declared { body: Some(body.clone()), ..ticket() };
        let built = build(&declared, &input).map(|built| String::from_utf8(built.body.unwrap()).unwrap());
        assert_eq!(built.as_deref(), expected.as_deref(), "{body}");
    }
}

#[test]
fn headers_stay_templates_and_a_declared_form_is_sent_as_one() {
    let form = Declared {
        headers: headers(&[
            ("content-type", "application/x-www-form-urlencoded"),
            ("x-auth", "Key {{secret:S}}"),
            ("x-project", "{{input.project}}"),
        ]),
        ..ticket()
    };
    let built = build(&form, &json!({"project": "p", "m": {"a": "b c"}})).unwrap();
    assert_eq!(built.headers, form.headers);
    assert_eq!(built.body.as_deref(), Some(&b"m%5Ba%5D=b%20c"[..]));
    for input in [json!({"project": "p\n"}), json!({"project": "é"}), json!({"project": ".."}), json!({})] {
        assert_eq!(build(&form, &input), Err(Code::InvalidInput), "{input}");
    }
}

fn verify(url: &str, status: u16, checks: &[(&str, &str)]) -> Adapter {
    let checks = checks
        .iter()
        .map(|(path, equals)| Check {
            path: (*path).to_owned(),
            equals: Some(Expected::Template(template(equals))),
            absent: false,
        })
        .collect();
    let verify = Verify { url: UrlTemplate::parse(url).unwrap(), status, checks };
    Adapter::Declared(Declared { verify: Some(verify), ..ticket() })
}

fn step(adapter: &Adapter, response: Option<&Value>, step: LookStep<'_>) -> Look {
    let input = json!({"project": "p", "title": "t&u"});
    adapter.look(
        &Memory {
            effect_id: "eff_1",
            provider_key: "key-1",
            input: &input,
            headers: &[],
            response,
            sent_at_ms: 0,
        },
        step,
    )
}

#[test]
fn a_verify_rule_asks_what_can_be_asked() {
    let answered = json!({"id": "t_1"});
    let other = json!({"error": "x"});
    let base = "https://tickets.example/v1";
    for (url, check, response, path) in [
        ("/t?ref={{effect.id}}", "x", None, Some("/v1/t?ref=eff_1")),
        ("/t/{{input.project}}?q={{input.title}}", "x", None, Some("/v1/t/p?q=t%26u")),
        ("/t/{{effect.key}}", "x", None, Some("/v1/t/key-1")),
        ("/t/{{response.id}}", "x", Some(&answered), Some("/v1/t/t_1")),
        ("/t/{{response.id}}", "x", None, None),
        ("/t/{{response.id}}", "x", Some(&other), None),
        ("/t", "{{response.id}}", Some(&answered), Some("/v1/t")),
        ("/t", "{{response.id}}", None, None),
        ("/t/{{input.absent}}", "x", None, None),
    ] {
        let adapter = verify(&format!("{base}{url}"), 200, &[("id", check)]);
        let asked = match step(&adapter, response, LookStep::First) {
            Look::Ask(read) => Some(read.path_and_query().to_owned()),
            Look::Impossible(_) => None,
            Look::Found(finding) => panic!("{finding:?}"),
        };
        assert_eq!(asked.as_deref(), path, "{url} {check}");
    }
    assert!(matches!(step(&Adapter::Declared(ticket()), None, LookStep::First), Look::Impossible(_)));
}

#[test]
fn only_the_declared_status_with_every_check_is_a_match() {
    let checked = || {
        verify(
            "https://tickets.example/t",
            200,
            &[("data.*.title", "{{input.title}}"), ("data.*.by", "{{effect.id}}")],
        )
    };
    let gone = || verify("https://tickets.example/t", 404, &[]);
    let unchecked = || verify("https://tickets.example/t", 200, &[]);
    let ours = json!({"data": [{"title": "x"}, {"title": "t&u", "by": "eff_1"}]}).to_string();
    let half = json!({"data": [{"title": "t&u"}]}).to_string();
    for (adapter, status, body, found) in [
        (checked(), 200, ours.as_str(), "matched"),
        (checked(), 200, half.as_str(), "no match"),
        (checked(), 200, r#"{"data":[]}"#, "no match"),
        (checked(), 200, "<html>", "unreadable"),
        (checked(), 200, "", "unreadable"),
        (checked(), 204, "", "no match"),
        (checked(), 404, ours.as_str(), "no match"),
        (checked(), 410, "", "no match"),
        (checked(), 302, "", "unreadable"),
        (checked(), 400, "", "unreadable"),
        (checked(), 401, "", "unreadable"),
        (checked(), 403, "", "unreadable"),
        (checked(), 429, "", "unreadable"),
        (checked(), 500, ours.as_str(), "unreadable"),
        (gone(), 404, "<html>", "matched"),
        (gone(), 200, "{}", "no match"),
        (gone(), 503, "", "unreadable"),
        (unchecked(), 200, "anything", "matched"),
    ] {
        let request = ReadBack::get("/t".into(), vec![]).unwrap();
        let answer = Answer { status, reason: None, headers: vec![], body: body.as_bytes().to_vec() };
        let next = LookStep::Next { request: &request, answer: &answer, page: 1 };
        let seen = match step(&adapter, None, next) {
            Look::Found(Finding::Matched { .. }) => "matched",
            Look::Found(Finding::NoMatch { .. }) => "no match",
            Look::Found(Finding::Unreadable { .. }) => "unreadable",
            other @ (Look::Ask(_) | Look::Found(_) | Look::Impossible(_)) => panic!("{other:?}"),
        };
        assert_eq!(seen, found, "{status} {body}");
    }
}

#[test]
fn an_adapter_says_where_keys_come_and_how_it_can_be_asked() {
    let with = |place: KeyPlace| Adapter::Declared(Declared { idempotency: Some((place, 1)), ..ticket() });
    let header = with(KeyPlace::Header("x-key".into()));
    let body = with(KeyPlace::Body("request_id".into()));
    assert_eq!((header.key_header(), header.key_member()), (Some("x-key"), None));
    assert_eq!((body.key_header(), body.key_member()), (None, Some("request_id")));
    assert_eq!(header.key_reuse_status(), 422);
    assert!(!header.can_read_back());
    assert!(verify("https://tickets.example/t", 200, &[]).can_read_back());
}
