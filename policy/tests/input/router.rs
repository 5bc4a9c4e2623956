use oncegate_policy::authority::Authority;
use oncegate_policy::check::{Check, Expected};
use oncegate_policy::path::CanonicalPath;
use oncegate_policy::query;
use oncegate_policy::router::{Route, RouteRemark, Router};
use oncegate_policy::url_template::{Scheme, UrlTemplate};
use serde_json::{Value, json};

fn route(action: &str, method: &str, url: &str, when: Vec<Check>) -> Route {
    Route {
        action: action.to_owned(),
        method: method.to_owned(),
        url: UrlTemplate::parse(url).unwrap(),
        when,
        governed: true,
        writes_by_get: false,
    }
}

fn equals(path: &str, value: Value) -> Check {
    Check { path: path.to_owned(), equals: Some(Expected::Literal(value)), absent: false }
}

fn absent(path: &str) -> Check {
    Check { path: path.to_owned(), equals: None, absent: true }
}

fn present(path: &str) -> Check {
    Check { absent: false, ..absent(path) }
}

fn not(path: &str, value: Value) -> Check {
    Check { absent: true, ..equals(path, value) }
}

fn actions(router: &Router, method: &str, path: &str) -> Vec<String> {
    let authority = Authority::parse("a.example", Some(443)).unwrap();
    let path = CanonicalPath::parse(path).unwrap();
    let found = router.candidates(method, Scheme::Https, &authority, &path, &[]);
    found.iter().map(|candidate| candidate.action.to_owned()).collect()
}

fn routes() -> Vec<Route> {
    vec![
        route("any", "POST", "https://a.example/{{input.a}}/{{input.b}}", vec![]),
        route("left", "POST", "https://a.example/x/{{input.b}}", vec![]),
        route("right", "POST", "https://a.example/{{input.a}}/y", vec![]),
        route("both", "POST", "https://a.example/x/y", vec![]),
        route("read", "GET", "https://a.example/x/y", vec![]),
        route("elsewhere", "POST", "https://b.example/x/y", vec![]),
    ]
}

#[test]
fn the_most_specific_comes_first_in_any_order_of_declaration() {
    let mut declared = routes();
    for turn in 0..declared.len() {
        declared.rotate_left(1);
        let (router, remarks) = Router::build(declared.clone());
        assert_eq!(remarks, [], "turn {turn}");
        assert_eq!(actions(&router, "POST", "/x/y"), ["both", "left", "right", "any"]);
        assert_eq!(actions(&router, "POST", "/x/z"), ["left", "any"]);
        assert_eq!(actions(&router, "POST", "/z/y"), ["right", "any"]);
        assert_eq!(actions(&router, "POST", "/X/Y"), ["any"]);
    }
}

#[test]
fn a_method_never_stands_in_for_another() {
    let (router, _) = Router::build(routes());
    assert_eq!(actions(&router, "GET", "/x/y"), ["read"]);
    for method in ["HEAD", "post", "PUT", "TRACE", ""] {
        assert!(actions(&router, method, "/x/y").is_empty(), "{method}");
    }
}

#[test]
fn the_input_tells_actions_on_one_route_apart() {
    let url = "https://a.example/graphql";
    let (router, remarks) = Router::build(vec![
        route("other", "POST", url, vec![]),
        route("refund", "POST", url, vec![equals("input.operationName", json!("refundCreate"))]),
        route("cancel", "POST", url, vec![equals("operationName", json!("orderCancel"))]),
        route(
            "dry",
            "POST",
            url,
            vec![equals("operationName", json!("refundCreate")), equals("dry", json!(true))],
        ),
    ]);
    assert_eq!(remarks, []);
    let table = [
        (json!({ "operationName": "refundCreate" }), "refund"),
        (json!({ "operationName": "refundCreate", "dry": "true" }), "dry"),
        (json!({ "operationName": "orderCancel" }), "cancel"),
        (json!({ "operationName": "search" }), "other"),
        (json!({}), "other"),
    ];
    let authority = Authority::parse("a.example:443", None).unwrap();
    let path = CanonicalPath::parse("/graphql").unwrap();
    for (input, action) in table {
        let candidates = router.candidates("POST", Scheme::Https, &authority, &path, &[]);
        let meant = candidates.iter().find(|candidate| candidate.applies_to(&input)).map(|c| c.action);
        assert_eq!(meant, Some(action), "{input}");
    }
}

/// What is asked of a candidate besides whether it applies.
#[test]
fn a_candidate_tells_what_its_conditions_leave_open() {
    let url = "https://a.example/graphql";
    let (router, _) = Router::build(vec![
        route("rest", "POST", "https://a.example/{{input.any}}", vec![]),
        route("other", "POST", url, vec![]),
        route("refund", "POST", url, vec![equals("operationName", json!("refundCreate"))]),
        route("cancel", "POST", url, vec![equals("operationName", json!("orderCancel"))]),
    ]);
    let authority = Authority::parse("a.example:443", None).unwrap();
    let path = CanonicalPath::parse("/graphql").unwrap();
    let candidates = router.candidates("POST", Scheme::Https, &authority, &path, &[]);
    let named = |name: &str| candidates.iter().find(|candidate| candidate.action == name).unwrap();
    let (refund, other) = (named("refund"), named("other"));
    // In rank: the same URL with as many conditions.
    assert!(refund.ranks_with(named("cancel")) && refund.ranks_with(refund));
    assert!(
        !refund.ranks_with(other) && !other.ranks_with(named("rest")) && !refund.ranks_with(named("rest"))
    );
    // Another spelling of the member that is asked about.
    assert_eq!(refund.lookalike(&json!({ "OperationName": "x" })).as_deref(), Some("OperationName"));
    assert_eq!(refund.lookalike(&json!({ "operationName": "x", "other": 1 })), None);
    assert_eq!(other.lookalike(&json!({ "OperationName": "x" })), None);
    // What servers read in two ways is told from what is not there.
    let url = "https://a.example/graphql";
    let (told, _) = Router::build(vec![
        route("there", "POST", url, vec![present("flag")]),
        route("true", "POST", url, vec![not("dry", json!(true))]),
        route("false", "POST", url, vec![equals("dry", json!(false))]),
        route("both", "POST", url, vec![equals("name", json!("pay")), equals("dry", json!(true))]),
    ]);
    let told = told.candidates("POST", Scheme::Https, &authority, &path, &[]);
    for (action, member, values, unclear) in [
        (
            "there",
            "flag",
            json!([null, "", [], {}, false, 0, "0", "false", " No ", "f", "0.0", " ", [null], [0]]),
            true,
        ),
        ("there", "flag", json!([true, 1, "x", [1], {"a": "b"}, "1"]), false),
        ("true", "dry", json!([1, 0, "1", "", "on", "TRUE", [true], {}]), true),
        ("true", "dry", json!([true, false, "true", "false", null]), false),
        ("false", "dry", json!([null, "", 0]), true),
        ("false", "dry", json!([true, false]), false),
    ] {
        let candidate = told.iter().find(|candidate| candidate.action == action).unwrap();
        assert_eq!(candidate.unclear(&json!({ "other": "" })), None);
        for value in values.as_array().unwrap() {
            let input = json!({ member: value });
            assert_eq!(candidate.unclear(&input), unclear.then_some(member), "{action} {input}");
        }
    }
    let both = told.iter().find(|candidate| candidate.action == "both").unwrap();
    assert_eq!(both.unclear(&json!({ "name": "pay", "dry": 1 })), Some("dry"));
    assert_eq!(
        both.unclear(&json!({ "name": "find", "dry": 1 })),
        None,
        "it is not this action in any reading"
    );
    // A part of the input may say enough.
    assert_eq!(refund.applies_to_part(&json!({ "operationName": "refundCreate" })), Some(true));
    assert_eq!(refund.applies_to_part(&json!({ "operationName": "orderCancel" })), Some(false));
    assert_eq!(refund.applies_to_part(&json!({ "id": 1 })), None);
    assert_eq!(other.applies_to_part(&json!({})), Some(true));
}

#[test]
fn overlaps_and_shadows_are_remarked() {
    let op = |value: &str| equals("input.op", json!(value));
    let overlap = |a: &str, b: &str| RouteRemark::Overlap { a: a.to_owned(), b: b.to_owned() };
    let shadowed =
        |action: &str, by: &str| RouteRemark::Shadowed { action: action.to_owned(), by: by.to_owned() };
    let x = "https://a.example/x";
    let table = [
        // (url and when of `a`, url and when of `b`, remark)
        ((x, vec![]), (x, vec![]), Some(shadowed("b", "a"))),
        (
            ("https://a.example/{{input.p}}", vec![]),
            ("https://a.example/{{input.q}}", vec![]),
            Some(shadowed("b", "a")),
        ),
        ((x, vec![op("1")]), (x, vec![op("1")]), Some(shadowed("b", "a"))),
        ((x, vec![op("1")]), (x, vec![op("2")]), None),
        ((x, vec![equals("op", json!(1))]), (x, vec![equals("op", json!("1"))]), Some(shadowed("b", "a"))),
        ((x, vec![op("1")]), (x, vec![]), None),
        ((x, vec![op("1")]), (x, vec![absent("input.op")]), None),
        ((x, vec![absent("op")]), (x, vec![absent("input.op")]), Some(shadowed("b", "a"))),
        ((x, vec![present("op")]), (x, vec![absent("op")]), None),
        ((x, vec![op("1")]), (x, vec![not("op", json!(1))]), None),
        ((x, vec![op("1")]), (x, vec![not("op", json!(2))]), Some(overlap("a", "b"))),
        ((x, vec![not("op", json!(1))]), (x, vec![present("op")]), Some(overlap("a", "b"))),
        ((x, vec![op("1")]), (x, vec![equals("input.kind", json!("k"))]), Some(overlap("a", "b"))),
        ((x, vec![equals("l.*", json!(1))]), (x, vec![equals("l.*", json!(2))]), Some(overlap("a", "b"))),
        (("https://a.example/x?k=1", vec![]), ("https://a.example/x?k=2", vec![]), None),
        (("https://a.example/x?k=1", vec![]), ("https://a.example/x?l=1", vec![]), Some(overlap("a", "b"))),
        ((x, vec![]), ("https://a.example/y", vec![]), None),
        ((x, vec![]), ("https://a.example/{{input.p}}", vec![]), None),
        ((x, vec![]), ("http://a.example/x", vec![]), None),
    ];
    for ((url_a, when_a), (url_b, when_b), remark) in table {
        let a = route("a", "POST", url_a, when_a);
        let b = route("b", "POST", url_b, when_b);
        let wanted: Vec<RouteRemark> = remark.into_iter().collect();
        assert_eq!(Router::build(vec![a.clone(), b.clone()]).1, wanted, "{url_a} {url_b}");
        assert_eq!(Router::build(vec![b, a]).1, wanted, "{url_b} {url_a}");
    }
}

#[test]
fn a_url_that_only_builds_is_remarked() {
    let built = route("a", "POST", "https://a.example/{{effect.id}}", vec![]);
    let (router, remarks) = Router::build(vec![built]);
    assert_eq!(remarks, [RouteRemark::NeverMatches { action: "a".to_owned() }]);
    assert!(actions(&router, "POST", "/eff_1").is_empty());
}

#[test]
fn what_takes_the_rest_comes_last_and_is_known_by_any_method() {
    let files = Route {
        url: UrlTemplate::parse("https://a.example/x").unwrap().with_rest("path"),
        ..routes()[4].clone()
    };
    let files = Route { action: "files".to_owned(), method: "POST".to_owned(), ..files };
    let (router, remarks) = Router::build([routes(), vec![files]].concat());
    assert_eq!(remarks, []);
    assert_eq!(actions(&router, "POST", "/x/y"), ["both", "left", "right", "any", "files"]);
    assert_eq!(actions(&router, "POST", "/x/y/z"), ["files"]);
    let authority = Authority::parse("a.example", Some(443)).unwrap();
    for (path, known) in [("/x/y%2Fz", true), ("/y/x%2Fz", false)] {
        let path = CanonicalPath::spread(path).unwrap();
        assert_eq!(router.knows_path(Scheme::Https, &authority, &path), known, "{path:?}");
        assert_eq!(router.candidates("GET", Scheme::Https, &authority, &path, &[]), []);
    }
}

/// Where the host lets unclaimed writes through, a governed one may not slip through in another spelling.
#[test]
fn another_spelling_of_a_governed_path_is_told_from_another_path() {
    let list = Route { governed: false, ..route("list", "POST", "https://a.example/list", vec![]) };
    let sheet =
        Route { governed: false, ..route("sheet", "POST", "https://a.example/v2/payouts.csv", vec![]) };
    let slack = Route { writes_by_get: true, ..route("say", "POST", "https://a.example/say", vec![]) };
    let (router, _) = Router::build(vec![
        route("refund", "POST", "https://a.example/v1/refunds", vec![]),
        route("one", "POST", "https://a.example/v1/things/{{input.id}}", vec![]),
        route("built", "POST", "https://a.example/v1/built/{{effect.id}}", vec![]),
        route("files", "POST", "https://a.example/files/{{input.path}}", vec![]),
        route("wide", "POST", "https://a.example/v2/{{input.kind}}", vec![]),
        route("narrow", "POST", "https://a.example/v2/payouts", vec![]),
        list,
        sheet,
        slack,
    ]);
    for (method, path, respelled) in [
        ("POST", "/v1/refunds", false),
        ("POST", "/v1/refunds/", true),
        ("POST", "/V1/refunds", true),
        ("POST", "/v1/Refunds/", true),
        ("POST", "/v1/refund", false),
        ("POST", "/v1/refunds/x", false),
        ("PUT", "/v1/refunds/", false),
        ("POST", "/v1/things/9", false),
        ("POST", "/v1/things/9/", true),
        ("POST", "/v1/THINGS/9", true),
        ("POST", "/v1/built/eff_1", false),
        ("POST", "/v1/Built/eff_1", true),
        ("POST", "/list/", false),
        ("POST", "/v1/refunds%20", true),
        ("POST", "/v1/refunds.", true),
        ("POST", "/v1/refunds.json", true),
        ("POST", "/v1/Refunds.XML", true),
        ("POST", "/v1/refunds.json/", true),
        ("POST", "/v1/refunds.list", false),
        ("POST", "/v1/refunds%252e", true),
        ("POST", "/v1/refund%2573", true),
        ("POST", "/v1/refunds%3Fx", true),
        ("POST", "/v1/refunds%2523", true),
        ("POST", "/v1/refunds%25", false),
        ("POST", "/v1.json/refunds", false),
        ("POST", "/v2/payouts.json", true),
        // Declared to the letter.
        ("POST", "/v2/payouts.csv", false),
        ("POST", "/v2/9", false),
        ("POST", "/v2/payouts", false),
        ("POST", "/v2/Payouts", true),
        ("POST", "/V2/9", true),
    ] {
        let authority = Authority::parse("a.example", Some(443)).unwrap();
        let path = CanonicalPath::parse(path).unwrap();
        let respells = |scheme| {
            let candidates = router.candidates(method, scheme, &authority, &path, &[]);
            router.respells(method, scheme, &authority, (&path, &[]), &candidates)
        };
        assert_eq!(respells(Scheme::Https), respelled, "{method} {path:?}");
        assert!(!respells(Scheme::Http), "of another scheme: {path:?}");
    }
    let authority = Authority::parse("a.example", Some(443)).unwrap();
    for (path, claimed) in [("/say", true), ("/Say/", true), ("/v1/refunds", false)] {
        let path = CanonicalPath::parse(path).unwrap();
        assert_eq!(router.governs_reads(Scheme::Https, &authority, &path), claimed, "{path:?}");
    }
}

/// By the path alone: what fits none of them exactly may still be read as one of them by the server.
#[test]
fn the_path_of_a_governed_read_is_claimed_in_every_spelling() {
    let ungoverned = Route { governed: false, ..route("list", "GET", "https://a.example/list", vec![]) };
    let (router, _) = Router::build(vec![
        route("post", "GET", "https://a.example/chat.post?to={{input.to}}", vec![present("input.text")]),
        route("item", "HEAD", "https://a.example/items/{{input.id}}/drop", vec![]),
        route("built", "OPTIONS", "https://a.example/built/{{effect.id}}", vec![]),
        route("slash", "GET", "https://a.example/slash/", vec![]),
        route("root", "GET", "https://root.example/", vec![]),
        route("write", "POST", "https://a.example/write", vec![]),
        ungoverned,
    ]);
    for (host, path, claimed) in [
        ("a.example", "/chat.post", true),
        ("a.example", "/chat.post/", true),
        ("a.example", "/Chat.POST", true),
        ("a.example", "/chat%2Epost", true),
        ("a.example", "/chat.post/x", false),
        ("a.example", "/chat.posts", false),
        ("a.example", "/items/9/drop", true),
        ("a.example", "/items/9/drop/", true),
        ("a.example", "/items/9", false),
        ("a.example", "/built/eff_1", true),
        ("a.example", "/slash", true),
        ("a.example", "/slash/", true),
        ("a.example", "/", false),
        ("root.example", "/", true),
        ("root.example", "/x", false),
        ("a.example", "/write", false),
        ("a.example", "/list", false),
        ("b.example", "/chat.post", false),
    ] {
        let authority = Authority::parse(host, Some(443)).unwrap();
        let path = CanonicalPath::parse(path).unwrap();
        assert_eq!(router.governs_reads(Scheme::Https, &authority, &path), claimed, "{host} {path:?}");
        assert!(!router.governs_reads(Scheme::Http, &authority, &path), "of another scheme: {path:?}");
    }
}

/// The same for a governed action that its query tells from others.
#[test]
fn another_spelling_of_a_governed_query_is_told_from_another_query() {
    let governed = vec![
        route("refund", "POST", "https://a.example/api.php?action=refund", vec![]),
        route("pay", "POST", "https://a.example/api.php?action=pay&to={{input.to}}", vec![]),
        route("send", "POST", "https://a.example/send?amount={{input.amount}}", vec![]),
    ];
    let any = Route { governed: false, ..route("any", "POST", "https://a.example/{{input.any}}", vec![]) };
    let (alone, _) = Router::build(governed.clone());
    let (beside, _) = Router::build([governed, vec![any]].concat());
    let authority = Authority::parse("a.example", Some(443)).unwrap();
    // Where some action is at the URL to the letter, and where none is.
    for (target, claimed, unclaimed) in [
        ("/api.php?action=refund", false, false),
        ("/api.php?action=refund&trace=1", false, false),
        ("/api.php?action=pay&to=bob", false, false),
        ("/api.php?action=search", false, false),
        ("/api.php?Action=search", false, false),
        ("/api.php?action=refund&action=refund", true, true),
        ("/api.php?action=search&action=refund", true, true),
        ("/api.php?Action=refund", true, true),
        ("/api.php?action=Refund", true, true),
        ("/api.php?action=refund%20", true, true),
        ("/api.php?action[]=refund", true, true),
        ("/api.php?action=search&Action=refund", true, true),
        ("/api.php?action=pay", true, true),
        ("/api.php?action=pay&To=bob", true, true),
        ("/api.php", false, true),
        ("/send?amount=5", false, false),
        ("/send?Amount=5", true, true),
        ("/send?amount=5&amount=6", true, true),
        ("/send", false, true),
        ("/other?action=Refund", false, false),
    ] {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (CanonicalPath::parse(path).unwrap(), query::parse(Some(query)).unwrap());
        let respells = |router: &Router| {
            let candidates = router.candidates("POST", Scheme::Https, &authority, &path, &query);
            router.respells("POST", Scheme::Https, &authority, (&path, &query), &candidates)
        };
        assert_eq!((respells(&beside), respells(&alone)), (claimed, unclaimed), "{target}");
    }
}
