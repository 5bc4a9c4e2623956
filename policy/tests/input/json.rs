use oncegate_policy::json::{
    AmountFault, BodyFault, amount, canonical, get, lookalike, of_answer, select, strict,
};
use serde_json::{Value, json};

fn canonical_of(text: &str) -> String {
    canonical(&strict(text.as_bytes()).unwrap())
}

#[test]
fn values_of_one_meaning_have_one_spelling() {
    let table = [
        ("1", r#""1""#),
        ("1.0", r#""1""#),
        ("1e0", r#""1""#),
        ("10e-1", r#""1""#),
        ("0.1e1", r#""1""#),
        (r#""1""#, r#""1""#),
        ("1.20", r#""1.2""#),
        ("120", r#""120""#),
        ("1.2E+2", r#""120""#),
        ("-0", r#""0""#),
        ("-0.0", r#""0""#),
        ("0e999999999999999999999", r#""0""#),
        ("-5e-3", r#""-0.005""#),
        ("100.001", r#""100.001""#),
        ("9007199254740993", r#""9007199254740993""#),
        ("9007199254740993.0", r#""9007199254740993""#),
        ("0.1000000000000000055511151231257827", r#""0.1000000000000000055511151231257827""#),
        ("18446744073709551615", r#""18446744073709551615""#),
        ("1e3", r#""1000""#),
        ("true", r#""true""#),
        ("false", r#""false""#),
        ("null", "null"),
        (r#""""#, r#""""#),
        (r#""1.0""#, r#""1.0""#),
        (r#""\u00e9\n\"\\\u0000""#, r#""é\n\"\\\u0000""#),
        (r#"{"b":1,"a":[true,null]}"#, r#"{"a":["true",null],"b":"1"}"#),
        (r#"{"é":1,"z":2,"Z":3}"#, r#"{"Z":"3","z":"2","é":"1"}"#),
        (r#"{"1":"b","0":"a"}"#, r#"["a","b"]"#),
        (r#"{"1":"b","00":"a"}"#, r#"{"00":"a","1":"b"}"#),
        (r#"{"0":"a","2":"b"}"#, r#"{"0":"a","2":"b"}"#),
        ("{}", "{}"),
        ("[]", "[]"),
    ];
    for (written, spelling) in table {
        assert_eq!(canonical_of(written), spelling, "{written}");
    }
}

#[test]
fn texts_are_not_folded() {
    assert_ne!(canonical_of(r#""\u00e9""#), canonical_of(r#""e\u0301""#));
    assert_ne!(canonical_of(r#""a""#), canonical_of(r#""A""#));
    assert_ne!(canonical_of("null"), canonical_of(r#""null""#));
}

#[test]
fn numbers_keep_their_digits() {
    for written in ["12000", "1.20", "-0", "0.10000000000000000000000000001"] {
        let value = strict(written.as_bytes()).unwrap();
        assert_eq!(value.as_number().unwrap().as_str(), written);
    }
}

#[test]
fn what_two_parsers_could_read_differently_is_refused() {
    let duplicate = |name: &str| BodyFault::Duplicate { name: name.to_owned() };
    let reserved = |name: &str| BodyFault::Reserved { name: name.to_owned() };
    let range = |number: &str| BodyFault::NumberRange { number: number.to_owned() };
    let table: Vec<(&[u8], BodyFault)> = vec![
        (br#"{"a":1,"a":2}"#, duplicate("a")),
        (br#"{"a":1,"\u0061":2}"#, duplicate("a")),
        (br#"[{"x":{"y":1,"y":1}}]"#, duplicate("y")),
        (br#"{"$serde_json::private::Number":"5"}"#, reserved("$serde_json::private::Number")),
        (br#"{"$serde_json::private::RawValue":"5"}"#, reserved("$serde_json::private::RawValue")),
        (br#"{"\u0024serde_json::private::Number":"5"}"#, reserved("$serde_json::private::Number")),
        (b"\xef\xbb\xbf{}", BodyFault::ByteOrderMark),
        (b"{\"a\":\"\xff\"}", BodyFault::BadUtf8),
        (b"{\"a\":\"\xed\xa0\x80\"}", BodyFault::BadUtf8),
        (br#"{"a":"\ud800"}"#, BodyFault::BadString { at: 5 }),
        (br#"{"a":"\ud800\u0041"}"#, BodyFault::BadString { at: 5 }),
        (br#"{"a":"\udc00"}"#, BodyFault::BadString { at: 5 }),
        (b"{\"a\":\"\n\"}", BodyFault::BadString { at: 5 }),
        (br#"{"a":"\x"}"#, BodyFault::BadString { at: 5 }),
        (br#"{"a":"x"#, BodyFault::BadString { at: 5 }),
        (br#"{"a":"\"#, BodyFault::BadString { at: 5 }),
        (br#"{"a":1} x"#, BodyFault::Trailing { at: 8 }),
        (b"{}{}", BodyFault::Trailing { at: 2 }),
        (b"{}\0", BodyFault::Trailing { at: 2 }),
        (b"", BodyFault::Syntax { at: 0 }),
        (b"{\"a\":1,}", BodyFault::Syntax { at: 7 }),
        (b"[1,]", BodyFault::Syntax { at: 3 }),
        (b"[1 2]", BodyFault::Syntax { at: 3 }),
        (b"{a:1}", BodyFault::Syntax { at: 1 }),
        (b"{\"a\" 1}", BodyFault::Syntax { at: 5 }),
        (b"[", BodyFault::Syntax { at: 1 }),
        (b"nul", BodyFault::Syntax { at: 0 }),
        (b"NaN", BodyFault::Syntax { at: 0 }),
        (b"01", BodyFault::Syntax { at: 0 }),
        (b"1.", BodyFault::Syntax { at: 0 }),
        (b"+1", BodyFault::Syntax { at: 0 }),
        (b"1-2", BodyFault::Syntax { at: 0 }),
        (b"// x\n1", BodyFault::Syntax { at: 0 }),
        (b"18446744073709551616", range("18446744073709551616")),
        (b"-9223372036854775809", range("-9223372036854775809")),
        (b"1e400", range("1e400")),
        (b"-1e400", range("-1e400")),
        (b"1e-400", range("1e-400")),
    ];
    for (written, fault) in table {
        assert_eq!(strict(written), Err(fault), "{}", String::from_utf8_lossy(written));
    }
}

#[test]
fn the_ends_of_the_range_are_inside() {
    for written in ["-9223372036854775808", "18446744073709551615", "1.7976931348623157e308", "5e-324"] {
        assert!(strict(written.as_bytes()).is_ok(), "{written}");
    }
    assert!(strict("1".repeat(401).as_bytes()).is_err());
    assert!(strict(format!("0.{}", "1".repeat(398)).as_bytes()).is_ok());
    assert!(strict(format!("0.{}", "1".repeat(399)).as_bytes()).is_err());
}

#[test]
fn nesting_ends_at_64_levels_whatever_follows() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(strict(nested(64).as_bytes()).is_ok());
    assert_eq!(strict(nested(65).as_bytes()), Err(BodyFault::TooDeep { max: 64 }));
    assert_eq!(strict("[".repeat(1 << 20).as_bytes()), Err(BodyFault::TooDeep { max: 64 }));
    assert!(strict(format!("\"{}\"", "[".repeat(100)).as_bytes()).is_ok());
}

#[test]
fn a_fault_repeats_at_most_64_characters() {
    let name = "n".repeat(500);
    let fault = strict(format!(r#"{{"{name}":1,"{name}":2}}"#).as_bytes()).unwrap_err();
    let BodyFault::Duplicate { name } = fault else { panic!("{fault}") };
    assert_eq!(name.chars().count(), 64);
}

#[test]
fn an_amount_is_plain_digits() {
    let good = [
        (json!(0), 0),
        (json!("0"), 0),
        (json!(12000), 12_000),
        (json!("12000"), 12_000),
        (json!(i64::MAX), 9_223_372_036_854_775_807),
    ];
    for (value, wanted) in good {
        assert_eq!(amount(&value), Ok(wanted), "{value}");
    }
    let bad = [
        ("-1", AmountFault::Spelling),
        ("-0", AmountFault::Spelling),
        ("1.0", AmountFault::Spelling),
        ("1e3", AmountFault::Spelling),
        (r#""+1""#, AmountFault::Spelling),
        (r#"" 1""#, AmountFault::Spelling),
        (r#""1 ""#, AmountFault::Spelling),
        (r#""01""#, AmountFault::Spelling),
        (r#""00""#, AmountFault::Spelling),
        (r#""1_000""#, AmountFault::Spelling),
        (r#""1,000""#, AmountFault::Spelling),
        (r#""١٢""#, AmountFault::Spelling),
        (r#""""#, AmountFault::Spelling),
        ("9223372036854775808", AmountFault::TooLarge),
        (r#""99999999999999999999999""#, AmountFault::TooLarge),
        ("null", AmountFault::NotANumber),
        ("true", AmountFault::NotANumber),
        ("[1]", AmountFault::NotANumber),
        ("{}", AmountFault::NotANumber),
    ];
    for (written, fault) in bad {
        assert_eq!(amount(&strict(written.as_bytes()).unwrap()), Err(fault), "{written}");
    }
}

#[test]
fn dotted_paths_lead_into_objects_and_lists() {
    let value = json!({ "a": { "b": 1, "n": null }, "items": [{ "t": "x" }, { "t": "y" }, { "u": 0 }] });
    let one: [(&str, Option<Value>); 9] = [
        ("a.b", Some(json!(1))),
        ("a.n", Some(Value::Null)),
        ("a.c", None),
        ("a.b.c", None),
        ("items.1.t", Some(json!("y"))),
        ("items.01.t", None),
        ("items.3", None),
        ("items.*", None),
        ("", None),
    ];
    for (path, wanted) in one {
        assert_eq!(get(&value, path), wanted.as_ref(), "{path}");
    }
    let many = [
        ("items.*.t", json!(["x", "y"])),
        ("items.0.t", json!(["x"])),
        ("items.*.*", json!([])),
        ("a.*", json!([])),
        ("a.b", json!([1])),
        ("nothing.*", json!([])),
    ];
    for (path, wanted) in many {
        let found: Vec<Value> = select(&value, path).into_iter().cloned().collect();
        assert_eq!(Value::Array(found), wanted, "{path}");
    }
}

#[test]
fn what_differs_in_case_alone_is_a_lookalike() {
    let value =
        json!({ "amount": 1, "Other": 2, "order": { "Id": 3 }, "items": [{ "price": 1 }, { "PRICE": 2 }] });
    for (path, found) in [
        ("amount", None),
        ("other", Some("Other")),
        ("order.id", Some("Id")),
        ("order.Id", None),
        ("Order.Id", Some("order")),
        ("items.*.price", Some("PRICE")),
        ("items.0.price", None),
        ("items.1.price", Some("PRICE")),
        ("amount.x", None),
        ("absent.x", None),
    ] {
        assert_eq!(lookalike(&value, path).as_deref(), found, "{path}");
    }
}

#[test]
fn what_servers_bind_to_the_same_name_is_a_lookalike() {
    for (body, path, found) in [
        (json!({ "order_id": 1, "order.id": 2 }), "order_id", Some("order.id")),
        (json!({ "order_id": 1, "order id": 2 }), "order_id", Some("order id")),
        (json!({ "order_id": 1, "order[id": 2 }), "order_id", Some("order[id")),
        (json!({ "order-id": 1, "order_id": 2 }), "order_id", None),
        (json!({ "seats": 5, "\u{17f}eats": 5000 }), "seats", Some("\u{17f}eats")),
        (json!({ "tokens": 5, "to\u{212a}ens": 5000 }), "tokens", Some("to\u{212a}ens")),
        (json!({ "größe": 1, "GRÖSSE": 2, "GRÖßE": 3 }), "größe", Some("GRÖßE")),
        (json!({ "amount": 5, " amount": 5000 }), "amount", Some(" amount")),
        (json!({ "amount": 5, "amount\u{0}x": 5000 }), "amount", Some("amount\u{fffd}x")),
        (json!({ "order": { "id": 1 }, "order.id": 2 }), "order.id", Some("order.id")),
        (json!({ "order": { "id": 1 }, "Order.Id": 2 }), "order.id", Some("Order.Id")),
        (json!({ "order": { "id": 1 }, "order_id": 2 }), "order.id", None),
        (json!({ "items": [{ "price": 1, "pr\u{131}ce": 2 }] }), "items.*.price", None),
        (json!({ "line": { "unit_price": 1, "unit.price": 2 } }), "line.unit_price", Some("unit.price")),
    ] {
        assert_eq!(lookalike(&body, path).as_deref(), found, "{path} in {body}");
    }
}

/// PHP and Rack hand a list that does not begin at 0 to whoever goes through its items, and qs numbers it anew.
#[test]
fn what_is_no_list_where_items_are_judged_could_be_taken_for_one() {
    let of_form = |written: &str| oncegate_policy::form::parse(written.as_bytes()).unwrap();
    for (written, path, found) in [
        ("items[0][role]=a&items[1][role]=b", "items.*.role", None),
        ("items[][role]=a", "items.*.role", None),
        ("items=&other[3]=a", "items.*.role", None),
        ("items[3][role]=a", "items.*.role", Some("items")),
        ("items[00][role]=a", "items.*.role", Some("items")),
        ("items[x][role]=a", "items.*.role", Some("items")),
        ("items[role]=a", "items.*.role", Some("items")),
        ("items[0][role]=a&items[2][role]=b", "items.*.role", Some("items")),
        ("items=a", "items.*", Some("items")),
        ("items.0.role=a", "items.*.role", Some("items.0.role")),
        ("items.0[role]=a", "items.*.role", Some("items.0")),
        ("a[items][3][role]=a", "a.items.*.role", Some("a.items")),
        ("a[0][items][3][role]=a", "a.*.items.*.role", Some("a.*.items")),
        ("items[0][role]=a", "items.0.role", None),
        ("items[x]=a", "items.0.role", None),
        ("items[1][role]=a", "items.0.role", Some("items")),
        ("items[01][role]=a", "items.0.role", Some("items")),
        ("items[1][role]=a&items[5][role]=b", "items.1.role", Some("items")),
        ("fields[4578152156]=a&fields[4578152157]=b", "fields.4578152156", None),
        // No list, whatever it is called.
        ("items[3]=a", "items", None),
        ("items[3][role]=a", "items.role", None),
        ("0=a&7=b", "7", None),
    ] {
        assert_eq!(lookalike(&of_form(written), path).as_deref(), found, "{path} in {written}");
    }
    for (body, path, found) in [
        (json!({ "items": {} }), "items.*.role", None),
        (json!({ "items": null }), "items.*.role", None),
        (json!({ "items": { "0": { "role": "a" } } }), "items.*.role", Some("items")),
        (json!({ "items": [{ "tags": { "2": "a" } }] }), "items.*.tags.*", Some("items.*.tags")),
        (json!({ "items": [{ "tags": { "2": "a" } }] }), "items.0.tags.0", Some("items.0.tags")),
    ] {
        assert_eq!(lookalike(&body, path).as_deref(), found, "{path} in {body}");
    }
}

/// Wide numbers and halves of pairs stand beside what a rule asks for, in bodies that no agent wrote.
#[test]
fn an_answer_is_read_past_what_is_beside_the_point() {
    for (text, read) in [
        (
            r#"{"ok":true,"wei":123456789012345678901234567890}"#,
            json!({"ok": true, "wei": "123456789012345678901234567890"}),
        ),
        (r#"{"n":1e999999999}"#, json!({"n": "1e999999999"})),
        (
            r#"["\ud83d","a\udc00b","\ud83d\ude00","\\ud83d","\ud83d\ud83d\ude00","\n"]"#,
            json!(["\u{fffd}", "a\u{fffd}b", "\u{1f600}", "\\ud83d", "\u{fffd}\u{1f600}", "\n"]),
        ),
        ("\u{feff}[1]", json!([1])),
    ] {
        assert_eq!(of_answer(text.as_bytes()), Ok(read), "{text}");
        assert!(strict(text.as_bytes()).is_err(), "{text}");
    }
    for text in [r#"{"ok":true,"ok":false}"#, "{", r#"["\ud8"]"#, r#"["\x"]"#, "[1]x"] {
        assert!(of_answer(text.as_bytes()).is_err(), "{text}");
    }
}
