use oncegate_policy::body::{
    BodyKind, asks_for_another_method, is_form, is_opaque, merge, read, shows_members,
};
use oncegate_policy::fingerprint::digest_hex;
use oncegate_policy::json::BodyFault;
use serde_json::{Value, json};

#[test]
fn the_type_decides_how_a_body_is_read() {
    let opaque = |bytes: &str| json!({ "body_sha256": digest_hex(bytes.as_bytes()) });
    let table = [
        // (content type, body, kind, input)
        (None, "", BodyKind::Empty, json!({})),
        (Some("application/json"), "", BodyKind::Empty, json!({})),
        (Some("application/json"), r#"{"a":1}"#, BodyKind::Json, json!({ "a": 1 })),
        (Some("Application/JSON; charset=UTF-8"), r#"{"a":1}"#, BodyKind::Json, json!({ "a": 1 })),
        (Some("application/json;charset=\"utf-8\""), r#"{"a":1}"#, BodyKind::Json, json!({ "a": 1 })),
        (Some("application/vnd.api+json"), "[1]", BodyKind::Json, json!({ "body": [1] })),
        (Some("application/json"), "null", BodyKind::Json, json!({ "body": null })),
        (Some("application/x-www-form-urlencoded"), "a[b]=1", BodyKind::Form, json!({ "a": { "b": "1" } })),
        (
            Some("application/x-www-form-urlencoded+json"),
            "{}",
            BodyKind::Opaque,
            json!({ "body_sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" }),
        ),
        (Some("multipart/form-data; boundary=x"), "--x--", BodyKind::Opaque, opaque("----")),
        (
            Some("Multipart/Form-Data; boundary=\"a b\""),
            "--a b\r\n\r\n--a b is text\r\n--a b--\r\n",
            BodyKind::Opaque,
            opaque("--\r\n\r\n-- is text\r\n----\r\n"),
        ),
        (
            Some("multipart/mixed; boundary=x"),
            "--x\r\n\r\nx --x\r\n--x--",
            BodyKind::Opaque,
            opaque("--\r\n\r\nx --x\r\n----"),
        ),
        (
            Some("multipart/mixed; boundary=x"),
            "--x\r\nContent-Type: multipart/mixed;\r\n boundary=\"in\"\r\n\r\n--in\r\n\r\ny\r\n--in--\r\n--x--",
            BodyKind::Opaque,
            opaque(
                "--\r\nContent-Type: multipart/mixed;\r\n boundary=\"\"\r\n\r\n--\r\n\r\ny\r\n----\r\n----",
            ),
        ),
        (
            Some("multipart/mixed; boundary=x"),
            "--x\r\ncontent-type: multipart/a; BOUNDARY=in; z=1\r\n\r\n--in--\r\n--x\r\n\r\nboundary=t\r\n--t\r\n--x--",
            BodyKind::Opaque,
            opaque(
                "--\r\ncontent-type: multipart/a; BOUNDARY=; z=1\r\n\r\n----\r\n--\r\n\r\nboundary=t\r\n--t\r\n----",
            ),
        ),
        (Some("multipart/mixed"), "--x--", BodyKind::Opaque, opaque("--x--")),
        (Some("image/png; boundary=x"), "--x--", BodyKind::Opaque, opaque("--x--")),
        (Some("text/plain; charset=iso-8859-1"), "{}", BodyKind::Opaque, opaque("{}")),
        (None, r#"{"a":1}"#, BodyKind::Json, json!({ "a": 1 })),
        (Some(" "), r#"{"a":1}"#, BodyKind::Json, json!({ "a": 1 })),
        (None, "[1]", BodyKind::Opaque, opaque("[1]")),
        (None, r#"{"a":1,"a":2}"#, BodyKind::Opaque, opaque(r#"{"a":1,"a":2}"#)),
        (None, "a=1", BodyKind::Opaque, opaque("a=1")),
    ];
    for (content_type, body, kind, input) in table {
        assert_eq!(read(content_type, body.as_bytes()), Ok((kind, input)), "{content_type:?} {body}");
    }
}

#[test]
fn the_boundaries_of_parts_do_not_enter() {
    let opaque = |text: &str| json!({ "body_sha256": digest_hex(text.as_bytes()) });
    for (content_type, body, kind, input) in [
        (
            Some("multipart/mixed; boundary=x"),
            "--x\r\nContent-Type: multipart/a; boundary=p\r\n\r\n--p--\r\n--x\r\nContent-Type: multipart/b; boundary=q\r\n\r\n--q--\r\n--x--",
            BodyKind::Opaque,
            opaque(
                "--\r\nContent-Type: multipart/a; boundary=\r\n\r\n----\r\n--\r\nContent-Type: multipart/b; boundary=\r\n\r\n----\r\n----",
            ),
        ),
        (
            Some("multipart/mixed; boundary=x"),
            "--x\r\nContent-Type: multipart/a; boundary=\"in",
            BodyKind::Opaque,
            opaque("--\r\nContent-Type: multipart/a; boundary=\""),
        ),
    ] {
        assert_eq!(read(content_type, body.as_bytes()), Ok((kind, input)), "{content_type:?} {body}");
    }
}

#[test]
fn only_objects_and_forms_show_their_members() {
    for (content_type, body, shows) in [
        (Some("application/json"), "", true),
        (Some("application/json"), " \r\n\t{}", true),
        (Some("application/json"), r#"[{"a":1}]"#, false),
        (Some("application/json"), r#""{""#, false),
        (Some("application/json"), "null", false),
        (Some("application/x-www-form-urlencoded"), "a=1", true),
        (Some("text/plain"), "{}", false),
        (None, "{}", true),
        (None, "[{}]", false),
    ] {
        let (kind, _) = read(content_type, body.as_bytes()).unwrap();
        assert_eq!(shows_members(kind, body.as_bytes()), shows, "{content_type:?} {body}");
    }
}

#[test]
fn some_types_are_known_by_their_digest_only() {
    for (content_type, opaque) in [
        ("application/json", false),
        ("Application/JSON; charset=utf-8", false),
        ("application/problem+json", false),
        ("multipart/form-data+json", true),
        ("application/x-www-form-urlencoded,a+json", true),
        (" application/x-www-form-urlencoded ;a=b", false),
        ("", false),
        (" ;charset=utf-8", false),
        ("text/plain", true),
        ("application/jsonl", true),
        ("multipart/form-data; boundary=x", true),
    ] {
        assert_eq!(is_opaque(content_type), opaque, "{content_type:?}");
        let form = content_type.contains("urlencoded") && !content_type.contains("json");
        assert_eq!(is_form(content_type), form, "{content_type:?}");
    }
}

#[test]
fn a_body_of_a_known_type_must_be_readable() {
    let table = [
        ("application/json", "{", BodyFault::Syntax { at: 1 }),
        ("application/json; charset=utf-16", "{}", BodyFault::Charset),
        ("application/json; charset=utf-8; charset=latin1", "{}", BodyFault::Charset),
        ("application/x-www-form-urlencoded; charset=iso-8859-1", "a=1", BodyFault::Charset),
        ("application/x-www-form-urlencoded", "a=1;b=2", BodyFault::Semicolon),
    ];
    for (content_type, body, fault) in table {
        assert_eq!(read(Some(content_type), body.as_bytes()), Err(fault), "{content_type} {body}");
    }
}

type Pairs = &'static [(&'static str, &'static str)];

fn pairs(list: Pairs) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn url_and_body_make_one_input() {
    let table: [(Pairs, Pairs, Value, Value); 6] = [
        // (captured, rest of the query, body, input)
        (&[("charge", "ch_1")], &[], json!({}), json!({ "charge": "ch_1" })),
        (&[("charge", "ch_1")], &[], json!({ "amount": 1 }), json!({ "charge": "ch_1", "amount": 1 })),
        (&[("m.id", "1")], &[], json!({ "m": { "n": "x" } }), json!({ "m": { "id": "1", "n": "x" } })),
        (&[], &[("expand[]", "a"), ("expand[]", "b")], json!({}), json!({ "expand": ["a", "b"] })),
        (&[("m.id", "1")], &[("m[n]", "x")], json!({}), json!({ "m": { "id": "1", "n": "x" } })),
        (&[("a", "1")], &[], json!([1]), json!({ "a": "1", "body": [1] })),
    ];
    for (captured, rest, body, input) in table {
        assert_eq!(merge(&pairs(captured), &pairs(rest), body), Ok(input.clone()), "{input}");
    }
}

#[test]
fn a_member_in_two_places_is_refused() {
    let table: [(Pairs, Pairs, Value, &str); 6] = [
        (&[("charge", "ch_1")], &[], json!({ "charge": "ch_1" }), "charge"),
        (&[("m.id", "1")], &[], json!({ "m": { "id": "2" } }), "m.id"),
        (&[("m.id", "1")], &[], json!({ "m": "x" }), "m.id"),
        (&[("a", "1")], &[("a", "2")], json!({}), "a"),
        (&[], &[("amount", "1")], json!({ "amount": 2 }), "amount"),
        (&[], &[("m[a]", "1")], json!({ "m": { "b": 2 } }), "m"),
    ];
    for (captured, rest, body, name) in table {
        let wanted = BodyFault::TwoPlaces { name: name.to_owned() };
        assert_eq!(merge(&pairs(captured), &pairs(rest), body), Err(wanted), "{name}");
    }
    let twice = merge(&[], &pairs(&[("a", "1"), ("a", "2")]), json!({}));
    assert_eq!(twice, Err(BodyFault::Duplicate { name: "a".to_owned() }));
}

#[test]
fn a_body_that_names_a_method_is_known_in_every_shape() {
    const PARTS: Option<&str> = Some("Multipart/Form-Data; boundary=b");
    const FORM: Option<&str> = Some("application/x-www-form-urlencoded");
    const JSON: Option<&str> = Some("application/json");
    for (content_type, bytes, named) in [
        (FORM, "a=1&_method=PUT", true),
        (FORM, "a=_method", false),
        (JSON, r#"{"_method":"PUT"}"#, true),
        (JSON, r#"{"a":{"_method":"PUT"}}"#, false),
        (PARTS, "--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nPUT\r\n--b--", true),
        (PARTS, "--b\nCONTENT-DISPOSITION : form-data;name='_method'\n\nPUT\n--b--", true),
        (PARTS, "--other\r\ncontent-disposition: form-data;\r\n\tname=_method\r\n\r\nPUT", true),
        (PARTS, "--b\r\nContent-Disposition: form-data; name*=utf-8''_%6dethod\r\n\r\nPUT", true),
        (PARTS, "--b\r\nContent-Disposition: form-data; name=\"my_method\"\r\n\r\n_method\r\n--b--", false),
        (PARTS, "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nname=\"_method\"", false),
        (Some("text/plain"), "Content-Disposition: form-data; name=\"_method\"", false),
    ] {
        let (_, members) = read(content_type, bytes.as_bytes()).unwrap();
        assert_eq!(asks_for_another_method(content_type, bytes.as_bytes(), &members), named, "{bytes}");
    }
}
