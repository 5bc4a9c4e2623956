//! Forms as RFC 6749 writes them, and every kind of answer.

use oncegate_config::model::TokenUrl;
use oncegate_policy::authority::Authority;
use oncegate_policy::template::Template;

use super::*;

fn spec(grant: Grant, auth: ClientAuth) -> OAuth2 {
    let authority = Authority { host: "login.example".to_owned(), port: 443 };
    OAuth2 {
        token_url: TokenUrl { authority, path_and_query: "/token?tenant=1".to_owned() },
        grant,
        client_id: Template::parse("id").unwrap(),
        client_secret: Some("CLIENT_SECRET".to_owned()),
        auth,
        scope: None,
        audience: None,
    }
}

fn client(secret: Option<&str>, refresh_token: Option<&str>) -> Client {
    let owned = |text: &str| Zeroizing::new(text.to_owned());
    Client { id: owned("an id:1"), secret: secret.map(owned), refresh_token: refresh_token.map(owned) }
}

#[test]
fn client_credentials_in_the_header_are_encoded_first() {
    let spec = OAuth2 {
        scope: Some("read write".to_owned()),
        audience: Some("https://api.example/".to_owned()),
        ..spec(Grant::ClientCredentials, ClientAuth::Basic)
    };
    let (head, form) = request(&spec, &client(Some("s:e/c+r t"), None)).unwrap();
    assert_eq!(
        form.as_str(),
        "grant_type=client_credentials&scope=read+write&audience=https%3A%2F%2Fapi.example%2F"
    );
    assert_eq!(head.uri(), "/token?tenant=1");
    let basic = head.headers()["authorization"].to_str().unwrap().strip_prefix("Basic ").unwrap();
    assert_eq!(STANDARD.decode(basic).unwrap(), b"an+id%3A1:s%3Ae%2Fc%2Br+t");
    assert!(head.headers()["authorization"].is_sensitive());
}

#[test]
fn a_refresh_token_and_the_client_in_the_form() {
    let spec = spec(Grant::RefreshToken("REFRESH".to_owned()), ClientAuth::Body);
    let (head, form) = request(&spec, &client(Some("s&t"), Some("r/1"))).unwrap();
    assert_eq!(
        form.as_str(),
        "grant_type=refresh_token&refresh_token=r%2F1&client_id=an+id%3A1&client_secret=s%26t"
    );
    assert!(!head.headers().contains_key("authorization"));
    let (_, form) = request(&spec, &client(None, Some("r"))).unwrap();
    assert_eq!(
        form.as_str(),
        "grant_type=refresh_token&refresh_token=r&client_id=an+id%3A1",
        "a public client"
    );
    assert!(request(&spec, &client(None, None)).is_none());
}

fn answered(status: u16, body: &str) -> Result<Granted, String> {
    read(&Answer { status, reason: None, headers: Vec::new(), body: body.as_bytes().to_vec() })
}

#[test]
fn what_a_token_endpoint_gives() {
    for (body, life, renewed) in [
        (
            r#"{"access_token":"at","token_type":"Bearer","expires_in":3600,"refresh_token":"rt","x":{}}"#,
            Some(3600),
            true,
        ),
        (r#"{"access_token":"at","token_type":"bearer","expires_in":"120"}"#, Some(120), false),
        (r#"{"access_token":"at","expires_in":59.9}"#, Some(59), false),
        (r#"{"access_token":"at","expires_in":-5}"#, Some(0), false),
        (r#"{"access_token":"at","expires_in":99999999}"#, Some(LIFE_MAX_S), false),
        (r#"{"access_token":"at","expires_in":null,"refresh_token":null}"#, None, false),
    ] {
        let granted = answered(200, body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert_eq!(granted.access_token.as_str(), "at");
        assert_eq!((granted.expires_in, granted.refresh_token.is_some()), (life, renewed), "{body}");
    }
}

#[test]
fn no_answer_is_told_in_its_own_words() {
    const ECHO: &str = "sk_test_echoed";
    for (status, body, said) in [
        (400, r#"{"error":"invalid_grant","error_description":"sk_test_echoed"}"#, "400 invalid_grant"),
        (401, r#"{"error":"sk_test_echoed"}"#, "answered 401"),
        (302, "sk_test_echoed", "answered 302"),
        (200, "access_token=sk_test_echoed", "not with a token"),
        (200, r#"{"access_token":""}"#, "not with a token"),
        (200, r#"{"access_token":"sk_test_echoed\n1"}"#, "not with a token"),
        (200, r#"{"access_token":7,"x":"sk_test_echoed"}"#, "not with a token"),
        (200, r#"{"access_token":"sk_test_echoed","token_type":"mac"}"#, "not bearer tokens"),
    ] {
        let error = answered(status, body).err().unwrap_or_else(|| panic!("a token out of {body}"));
        assert!(error.contains(said) && !error.contains(ECHO), "{error}");
    }
}
