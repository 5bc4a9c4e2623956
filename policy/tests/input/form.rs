use oncegate_policy::form::{append, parse};
use oncegate_policy::json::BodyFault;
use serde_json::json;

#[test]
fn brackets_nest() {
    let table = [
        ("", json!({})),
        ("a=1&b=", json!({ "a": "1", "b": "" })),
        ("a", json!({ "a": "" })),
        ("a=1&&b=2&", json!({ "a": "1", "b": "2" })),
        ("a=b=c", json!({ "a": "b=c" })),
        ("a=x+y%20z%2B", json!({ "a": "x y z+" })),
        ("a=caf%C3%A9", json!({ "a": "café" })),
        ("metadata[note]=a", json!({ "metadata": { "note": "a" } })),
        ("metadata%5Bnote%5D=a", json!({ "metadata": { "note": "a" } })),
        ("a[b][c]=1&a[b][d]=2", json!({ "a": { "b": { "c": "1", "d": "2" } } })),
        ("a[]=1&a[]=2&a[]=1", json!({ "a": ["1", "2", "1"] })),
        ("a[0]=x&a[1]=y", json!({ "a": ["x", "y"] })),
        ("a[1]=y&a[0]=x", json!({ "a": ["x", "y"] })),
        ("a[1]=y&a[2]=z", json!({ "a": { "1": "y", "2": "z" } })),
        ("a[0][id]=1&a[0][n]=2&a[1][id]=3", json!({ "a": [{ "id": "1", "n": "2" }, { "id": "3" }] })),
        ("a[][id]=1", json!({ "a": [{ "id": "1" }] })),
        ("0=a&1=b", json!({ "0": "a", "1": "b" })),
        ("a.b=1", json!({ "a.b": "1" })),
    ];
    for (written, value) in table {
        assert_eq!(parse(written.as_bytes()), Ok(value), "{written}");
    }
}

#[test]
fn what_two_parsers_could_read_differently_is_refused() {
    let duplicate = |name: &str| BodyFault::Duplicate { name: name.to_owned() };
    let conflict = |name: &str| BodyFault::Conflict { name: name.to_owned() };
    let mangled = |name: &str| BodyFault::Mangled { name: name.to_owned() };
    let brackets = |name: &str| BodyFault::Brackets { name: name.to_owned() };
    let deep = format!("a{}=1", "[b]".repeat(17));
    let many = vec!["a[]=1"; 1001].join("&");
    let table: Vec<(&[u8], BodyFault)> = vec![
        (b"a=1&a=2", duplicate("a")),
        (b"a=1&a=1", duplicate("a")),
        (b"a=1&%61=2", duplicate("a")),
        (b"a[b]=1&a[b]=2", duplicate("a[b]")),
        (b"a[0]=1&a[0]=2", duplicate("a[0]")),
        (b"a=1&a[b]=2", conflict("a[b]")),
        (b"a[b]=2&a=1", conflict("a")),
        (b"a=1&a[]=2", conflict("a[]")),
        (b"a[]=1&a[b]=2", conflict("a[b]")),
        (b"a[b]=1&a[]=2", conflict("a[]")),
        (b"a[b]=1&a[][c]=2", conflict("a[][c]")),
        (b"a[0]=1&a[]=2", conflict("a[]")),
        (b"a[b]=1&a[b][c]=2", conflict("a[b][c]")),
        (b"a[][id]=1&a[][id]=2", conflict("a[][id]")),
        (b"a[]=1&a[][id]=2", conflict("a[][id]")),
        (b"a[b=1", brackets("a[b")),
        (b"a]=1", brackets("a]")),
        (b"a[b]c=1", brackets("a[b]c")),
        (b"a[b[c]]=1", brackets("a[b[c]]")),
        (b"[a]=1", brackets("[a]")),
        (b"=1", BodyFault::EmptyName),
        (b"{\"a\":1}", BodyFault::JsonAsForm),
        (b" \n{\"a\":1,\"z\":\"&a=2&x=\"}", BodyFault::JsonAsForm),
        (b"\xef\xbb\xbf{\"a\":1}", BodyFault::JsonAsForm),
        (b"[ {\"a\":1}]&a=2", BodyFault::JsonAsForm),
        (b"amount=5&+amount=5000", mangled(" amount")),
        (b"amount=5&amount%20=5000", mangled("amount ")),
        (b"amount=5&%09amount=5000", mangled("\u{fffd}amount")),
        (b"amount=5&amount%00=5000", mangled("amount\u{fffd}")),
        (b"a%0A[b]=1", mangled("a\u{fffd}[b]")),
        (b"a=1;b=2", BodyFault::Semicolon),
        (b"a=%", BodyFault::BadEscape),
        (b"a=%4", BodyFault::BadEscape),
        (b"a=%zz", BodyFault::BadEscape),
        (b"a%=1", BodyFault::BadEscape),
        (b"a=%ff", BodyFault::BadUtf8),
        (b"a=\xff", BodyFault::BadUtf8),
        (b"a=%ED%A0%80", BodyFault::BadUtf8),
        (
            b"a[$serde_json::private::Number]=1",
            BodyFault::Reserved { name: "a[$serde_json::private::Number]".to_owned() },
        ),
        (deep.as_bytes(), BodyFault::TooDeep { max: 16 }),
        (many.as_bytes(), BodyFault::TooManyFields { max: 1000 }),
    ];
    for (written, fault) in table {
        assert_eq!(parse(written), Err(fault), "{:.40}", String::from_utf8_lossy(written));
    }
}

#[test]
fn what_is_as_much_as_it_may_be_is_read() {
    let many = parse(vec!["a[]=1"; 1_000].join("&").as_bytes()).unwrap();
    assert_eq!(many["a"].as_array().unwrap().len(), 1_000);
    let deep = parse(format!("a{}=1", "[b]".repeat(16)).as_bytes()).unwrap();
    assert_eq!(deep.pointer(&format!("/a{}", "/b".repeat(16))), Some(&json!("1")));
}

#[test]
fn an_appended_pair_reads_back() {
    for (before, after) in [("", "a=1"), ("x=1", "x=1&a=1"), ("x=1&", "x=1&a=1")] {
        assert_eq!(append(before.as_bytes(), "a", "1"), after.as_bytes());
    }
    let table = [("", "a", "1"), ("x=1", "metadata[effect]", "a&b=c; d+%é"), ("x=1&", "a", "")];
    for (before, name, value) in table {
        let form = append(before.as_bytes(), name, value);
        assert!(form.starts_with(before.as_bytes()));
        let mut wanted = parse(before.as_bytes()).unwrap();
        let path: Vec<&str> = name.trim_end_matches(']').split('[').collect();
        match path.as_slice() {
            [outer, inner] => wanted[*outer] = json!({ *inner: value }),
            _ => wanted[name] = json!(value),
        }
        assert_eq!(parse(&form), Ok(wanted));
    }
}
