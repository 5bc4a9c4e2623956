use oncegate_policy::path::{Ambiguity, CanonicalPath};
use oncegate_policy::query;

#[test]
fn a_path_has_one_spelling_and_its_segments() {
    let table: [(&str, &str, &[&str]); 12] = [
        // (raw, canonical, segments)
        ("/", "/", &[""]),
        ("/v1/refunds", "/v1/refunds", &["v1", "refunds"]),
        ("/v1/refunds/", "/v1/refunds/", &["v1", "refunds", ""]),
        ("/V1/Refunds", "/V1/Refunds", &["V1", "Refunds"]),
        ("/v1/%72efunds", "/v1/refunds", &["v1", "refunds"]),
        ("/%7Euser/%2D%5f", "/~user/-_", &["~user", "-_"]),
        ("/a%20b", "/a%20b", &["a b"]),
        ("/a+b", "/a+b", &["a+b"]),
        ("/caf%c3%a9", "/caf%C3%A9", &["café"]),
        ("/a%3ab:c", "/a%3Ab:c", &["a:b:c"]),
        ("/...", "/...", &["..."]),
        ("/100%25", "/100%25", &["100%"]),
    ];
    for (raw, canonical, segments) in table {
        let path = CanonicalPath::parse(raw).unwrap();
        assert_eq!(path.as_str(), canonical, "{raw}");
        assert_eq!(path.segments(), segments, "{raw}");
    }
}

#[test]
fn a_path_with_two_readings_is_refused() {
    use Ambiguity as A;
    let long = format!("/{}", "a".repeat(8192));
    let table = [
        (long.as_str(), A::PathTooLong),
        ("", A::NotAbsolute),
        ("v1/refunds", A::NotAbsolute),
        ("*", A::NotAbsolute),
        ("/v1/./refunds", A::DotSegment),
        ("/v1/charges/../refunds", A::DotSegment),
        ("/v1/..", A::DotSegment),
        ("/v1/%2e%2e/refunds", A::DotSegment),
        ("/v1/.%2E/refunds", A::DotSegment),
        ("//v1/refunds", A::EmptySegment),
        ("/v1//refunds", A::EmptySegment),
        ("/v1/refunds//", A::EmptySegment),
        ("/v1%2Frefunds", A::EncodedSeparator),
        ("/v1%2frefunds", A::EncodedSeparator),
        ("/v1%5Crefunds", A::EncodedSeparator),
        ("/v1\\refunds", A::Backslash),
        ("/v1/refunds;x=1", A::Parameters),
        ("/v1/refunds%3Bx=1", A::Parameters),
        ("/v1/refunds%00", A::Control),
        ("/v1/refunds%0d%0a", A::Control),
        ("/v1/refunds%7F", A::Control),
        ("/v1/refunds%C2%85", A::Control),
        ("/v1/re funds", A::Control),
        ("/v1/refunds\r", A::Control),
        ("/v1/refunds%", A::BadEscape),
        ("/v1/refunds%2", A::BadEscape),
        ("/v1/refunds%zz", A::BadEscape),
        ("/v1/refunds%+1", A::BadEscape),
        ("/v1/%C0%AFrefunds", A::BadUtf8),
        ("/v1/%ff", A::BadUtf8),
        ("/v1/réfunds", A::NotAscii),
        ("/v1%252Frefunds", A::DoubleEncoding),
        ("/v1%25%32%46refunds", A::DoubleEncoding),
        ("/v1/%252e%252e/refunds", A::DoubleEncoding),
        ("/v1/.%252e/refunds", A::DoubleEncoding),
        ("/v1/x%253By", A::DoubleEncoding),
        ("/v1/x%2500", A::DoubleEncoding),
        ("/v1%25252Frefunds", A::DoubleEncoding),
        ("/v1/refunds?x", A::Delimiter),
        ("/v1/refunds#x", A::Delimiter),
    ];
    for (raw, ambiguity) in table {
        assert_eq!(CanonicalPath::parse(raw), Err(ambiguity), "{raw}");
    }
}

#[test]
fn reading_the_canonical_spelling_again_changes_nothing() {
    for raw in ["/", "/v1/%72efunds/", "/a%20b/caf%c3%a9", "/100%25"] {
        let once = CanonicalPath::parse(raw).unwrap();
        assert_eq!(CanonicalPath::parse(once.as_str()), Ok(once), "{raw}");
    }
}

type Pairs = &'static [(&'static str, &'static str)];

#[test]
fn a_query_is_read_as_a_form_in_order() {
    let table: [(Option<&str>, Pairs); 7] = [
        (None, &[]),
        (Some(""), &[]),
        (Some("a=1&b=2&a=3"), &[("a", "1"), ("b", "2"), ("a", "3")]),
        (Some("expand[]=charge"), &[("expand[]", "charge")]),
        (Some("expand%5B%5D=a+b%20c"), &[("expand[]", "a b c")]),
        (Some("flag&x="), &[("flag", ""), ("x", "")]),
        (Some("a==&&b=?/"), &[("a", "="), ("b", "?/")]),
    ];
    for (raw, pairs) in table {
        let read = query::parse(raw).unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(read, pairs, "{raw:?}");
    }
}

#[test]
fn a_query_with_two_readings_is_refused() {
    use Ambiguity as A;
    let many = vec!["a=1"; 257].join("&");
    let long = "a".repeat(32 * 1024 + 1);
    let table = [
        ("a=1;b=2", A::QuerySemicolon),
        ("=1", A::QueryName),
        ("a=%2", A::BadEscape),
        ("a=%ff", A::BadUtf8),
        ("a=é", A::NotAscii),
        ("a=1 2", A::Control),
        ("a=1#b", A::Delimiter),
        (many.as_str(), A::QueryTooMany),
        (long.as_str(), A::QueryTooLong),
    ];
    for (raw, ambiguity) in table {
        assert_eq!(query::parse(Some(raw)), Err(ambiguity), "{raw:.40}");
    }
}

#[test]
fn what_is_as_long_as_it_may_be_is_read() {
    let path = format!("/{}", "a".repeat(8191));
    assert_eq!(CanonicalPath::parse(&path).unwrap().as_str(), path);
    let value = "b".repeat(32 * 1024 - 2);
    assert_eq!(query::parse(Some(&format!("a={value}"))).unwrap(), [("a".to_owned(), value)]);
    assert_eq!(query::parse(Some(&["a=1"; 256].join("&"))).unwrap().len(), 256);
}

type Spread = (&'static str, Result<(Option<usize>, &'static [&'static str]), Ambiguity>);

#[test]
fn encoded_slashes_are_taken_for_slashes_only_where_asked() {
    use Ambiguity as A;
    let table: [Spread; 9] = [
        ("/c/docs%2Fa.md", Ok((Some(1), &["c", "docs", "a.md"]))),
        ("/c/docs%2fa%2Fb", Ok((Some(1), &["c", "docs", "a", "b"]))),
        ("/c%2Fdocs/a", Ok((Some(0), &["c", "docs", "a"]))),
        ("/c/docs/a", Ok((None, &["c", "docs", "a"]))),
        ("/c/..%2Fa", Err(A::DotSegment)),
        ("/c/a%2F%2Fb", Err(A::EmptySegment)),
        ("/c/a%5Cb", Err(A::EncodedSeparator)),
        ("/c/a%252Fb", Err(A::DoubleEncoding)),
        ("/c/a%2Fb%3Bc", Err(A::Parameters)),
    ];
    for (raw, expected) in table {
        match (CanonicalPath::spread(raw), expected) {
            (Ok(path), Ok((opened, segments))) => {
                assert_eq!(path.opened_at(), opened, "{raw}");
                assert_eq!(path.segments(), segments, "{raw}");
            }
            (read, expected) => assert_eq!(read.err(), expected.err(), "{raw}"),
        }
    }
}
