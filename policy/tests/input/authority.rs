use oncegate_policy::authority::{Authority, AuthorityFault};

#[test]
fn every_spelling_of_one_server_is_equal() {
    let table = [
        // (written, default port, canonical)
        ("api.stripe.com:443", None, "api.stripe.com:443"),
        ("API.Stripe.com.:443", None, "api.stripe.com:443"),
        ("api.stripe.com", Some(443), "api.stripe.com:443"),
        ("api.stripe.com:8443", Some(443), "api.stripe.com:8443"),
        ("my_host.internal:80", None, "my_host.internal:80"),
        ("xn--bcher-kva.example", Some(443), "xn--bcher-kva.example:443"),
        ("localhost:1", None, "localhost:1"),
        ("127.0.0.1:65535", None, "127.0.0.1:65535"),
        ("3com.example", Some(80), "3com.example:80"),
        ("0x7f.example", Some(80), "0x7f.example:80"),
        ("[::1]:8080", None, "[::1]:8080"),
        ("[2001:DB8:0:0:0:0:0:1]", Some(443), "[2001:db8::1]:443"),
    ];
    for (written, default_port, canonical) in table {
        let read = Authority::parse(written, default_port).map(|authority| authority.to_string());
        assert_eq!(read.as_deref(), Ok(canonical), "{written}");
    }
}

#[test]
fn an_ipv6_host_is_kept_without_brackets() {
    let authority = Authority::parse("[::1]:443", None).unwrap();
    assert_eq!((authority.host.as_str(), authority.port), ("::1", 443));
    assert_eq!(authority.url_host(), "[::1]");
}

#[test]
fn what_two_resolvers_could_read_differently_is_refused() {
    use AuthorityFault as F;
    let long_label = format!("{}.example:443", "a".repeat(64));
    let long_name = format!("{}:443", ["abcdefghi"; 26].join("."));
    let table = [
        ("", F::Empty),
        (":443", F::Empty),
        (".:443", F::Empty),
        ("user@api.example:443", F::UserInfo),
        ("user:password@api.example:443", F::UserInfo),
        ("bücher.example:443", F::NotAscii),
        ("api%2eexample:443", F::Percent),
        ("[fe80::1%25eth0]:443", F::Percent),
        ("api example:443", F::Character),
        ("api.example\t:443", F::Character),
        ("api.example\0:443", F::Character),
        ("api.example/x:443", F::Character),
        ("[api.example]:443", F::Brackets),
        ("[127.0.0.1]:443", F::Brackets),
        ("[::1:443", F::Brackets),
        ("[::1]443", F::Brackets),
        ("api[.example]:443", F::Brackets),
        ("::1:443", F::BareColons),
        ("api.example", F::PortMissing),
        ("[::1]", F::PortMissing),
        ("api.example:", F::Port),
        ("api.example:0", F::Port),
        ("api.example:0443", F::Port),
        ("api.example:65536", F::Port),
        ("api.example:+443", F::Port),
        ("api.example: 443", F::Port),
        ("api..example:443", F::Label),
        (".api.example:443", F::Label),
        ("api.example..:443", F::Label),
        ("-api.example:443", F::Label),
        ("api-.example:443", F::Label),
        (long_label.as_str(), F::Label),
        (long_name.as_str(), F::TooLong),
        ("0x7f.1:443", F::Ipv4LookAlike),
        ("127.1:443", F::Ipv4LookAlike),
        ("2130706433:443", F::Ipv4LookAlike),
        ("0177.0.0.1:443", F::Ipv4LookAlike),
        ("0x7f000001:443", F::Ipv4LookAlike),
        ("127.0.0.0x1:443", F::Ipv4LookAlike),
        ("1.2.3.4.5:443", F::Ipv4LookAlike),
        ("256.0.0.1:443", F::Ipv4LookAlike),
        ("api.example.123:443", F::Ipv4LookAlike),
    ];
    for (written, fault) in table {
        assert_eq!(Authority::parse(written, None), Err(fault), "{written}");
    }
}

#[test]
fn a_name_as_long_as_it_may_be_is_read() {
    let name =
        [&"a".repeat(63), &"b".repeat(63), &"c".repeat(63), &"d".repeat(61)].map(String::as_str).join(".");
    assert_eq!(name.len(), 253);
    let authority = Authority::parse(&name, Some(443)).unwrap();
    assert_eq!(authority.url_host(), name);
}

#[test]
fn a_default_port_does_not_excuse_an_empty_one_and_is_one_itself() {
    assert_eq!(Authority::parse("api.example:", Some(443)), Err(AuthorityFault::Port));
    assert_eq!(Authority::parse("api.example", Some(0)), Err(AuthorityFault::PortMissing));
}

#[test]
fn no_fault_repeats_a_password() {
    let fault = Authority::parse("user:hunter2@api.example:443", None).unwrap_err();
    assert!(!fault.to_string().contains("hunter2"));
}
