//! Access tokens on the wire: minted once, kept, placed, renewed; and what a failed mint is.

use std::{fs, net::SocketAddr, thread};

use oncegate_tests::{
    agent::Ask,
    answer::Answer,
    binary::Build,
    conf::{CLIENT_SECRET, Conf, TOKEN_FIRST as FIRST, TOKEN_SECOND as SECOND},
    dead::Refusing,
    gate::Gate,
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar, TRACED},
};
use serde_json::json;

use crate::{
    law::{call, data, detail, kinds, ops},
    shop::{DESK, TICKETS_PER_DAY, ticket, ticket_action},
};

const LOGIN: &str = "login.test";

/// The desk, and where its tokens are minted.
struct Office {
    desk: Provider,
    login: Provider,
    home: Home,
}

/// `oauth2` of the desk's token, by its grant.
fn minted(grant: &str) -> String {
    format!(
        r#"
[secrets.DESK_TOKEN]
allowed_hosts = ["{DESK}"]
[secrets.DESK_TOKEN.from.oauth2]
token_url = "https://{LOGIN}/oauth/token"
client_id = "desk-client"
client_secret = "CLIENT_SECRET"
{grant}

[secrets.CLIENT_SECRET]
from = {{ env = "CLIENT_SECRET" }}
allowed_hosts = ["{LOGIN}"]
"#
    )
}

const CLIENT: &str = "grant = \"client_credentials\"\nscope = \"tickets\"";

fn conf(desk: SocketAddr, login: SocketAddr, grant: &str, more: &str) -> Conf {
    let placed = "credential = { header = \"Authorization\", value = \"Bearer {{secret:DESK_TOKEN}}\" }";
    let action = ticket_action("open-ticket", DESK);
    Conf::default()
        .host(LOGIN, login)
        .host(DESK, desk)
        .with(&format!("{placed}\n{}{action}{more}\n{TICKETS_PER_DAY}", minted(grant)))
}

impl Office {
    fn open(grant: &str, more: &str) -> Office {
        let (desk, login) = (Provider::tls(&[DESK]), Provider::tls(&[LOGIN]));
        let home = Home::new(&conf(desk.addr(), login.addr(), grant, more));
        Office { desk, login, home }
    }

    fn serve(&self) -> Sidecar {
        let given = [&[("CLIENT_SECRET", CLIENT_SECRET)][..], &TRACED].concat();
        self.home.serve_with(Build::Plain, &given)
    }

    /// The next mint gives this token.
    fn gives(&self, token: &str, more: &str) {
        self.login.on_write(given(token, more));
    }

    fn mints(&self) -> usize {
        self.login.record().writes().len()
    }

    /// What the writes at the desk carried.
    fn carried(&self) -> Vec<String> {
        let writes = self.desk.record().writes();
        writes.iter().map(|write| write.head.field("authorization").unwrap_or_default().to_owned()).collect()
    }

    /// Consumed, reserved, unknown.
    fn tickets(&self) -> (u64, u64, u64) {
        let row = self.home.exposure("tickets-per-day");
        let count = |name: &str| row[name].as_u64().unwrap();
        (count("consumed"), count("reserved"), count("unknown_exposure"))
    }
}

fn given(token: &str, more: &str) -> Reply {
    let body = format!(r#"{{"access_token":"{token}","token_type":"Bearer"{more}}}"#);
    Reply::json("200 OK", &body)
}

fn open_ticket(sidecar: &Sidecar, title: &str) -> Answer {
    sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket(title)))
}

#[test]
fn minted_once_kept_placed_and_never_seen_by_the_agent() {
    let office = Office::open(CLIENT, "");
    let sidecar = office.serve();
    office.gives(FIRST, r#","expires_in":3600"#);
    let echo = format!(r#"{{"you_sent":"Bearer {FIRST}"}}"#);
    office.desk.on_write(Reply::json("201 Created", &echo));
    office.desk.on_read(Reply::json("200 OK", &echo));
    let wrote = open_ticket(&sidecar, "one");
    let read = sidecar.billing().ask(DESK, &Ask::get("/v1/tickets"));
    assert_eq!((wrote.status, read.status), (201, 200), "{wrote:?} {read:?}");
    assert!(wrote.text().contains("{{secret:DESK_TOKEN}}"), "{wrote:?}");
    assert_eq!(open_ticket(&sidecar, "two").status, 200);

    let asked = office.login.record().writes();
    assert_eq!(
        (asked.len(), asked[0].method.as_str(), asked[0].target.as_str()),
        (1, "POST", "/oauth/token")
    );
    assert_eq!(asked[0].text(), "grant_type=client_credentials&scope=tickets");
    assert_eq!(asked[0].head.field("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(asked[0].head.field("authorization"), Some("Basic ZGVzay1jbGllbnQ6Y3NfdGVzdF83SHEybVowTHc5"));
    assert_eq!(office.carried(), [format!("Bearer {FIRST}"), format!("Bearer {FIRST}")]);

    let database = fs::read(office.home.path("oncegate.db")).unwrap();
    let log = fs::read(office.home.path("oncegate.db-wal")).unwrap_or_default();
    let stored = String::from_utf8_lossy(&[database, log].concat()).into_owned();
    for text in [wrote.everything(), read.everything(), sidecar.log(), stored] {
        assert!(!text.contains(FIRST) && !text.contains(CLIENT_SECRET), "{text}");
    }
    let desk = office.desk.record().all_bytes();
    assert!(!String::from_utf8_lossy(&desk).contains(CLIENT_SECRET), "it goes to the token's host alone");
}

#[test]
fn many_at_once_wait_for_one_mint() {
    let office = Office::open(CLIENT, "");
    let sidecar = office.serve();
    let gate = Gate::default();
    office.login.on_write(given(FIRST, "").after(&gate));
    let agent = sidecar.billing();
    thread::scope(|scope| {
        let asking: Vec<_> = (0..6)
            .map(|number| {
                let agent = &agent;
                scope
                    .spawn(move || agent.ask(DESK, &Ask::json("/v1/tickets", &ticket(&format!("t{number}")))))
            })
            .collect();
        office.login.record().wait_writes(1);
        gate.open();
        for answer in asking {
            assert_eq!(answer.join().unwrap().status, 200);
        }
    });
    assert_eq!((office.mints(), office.carried().len()), (1, 6));
}

/// The promise of issue 5: a failed mint is `failed: never sent`, with its proof, and the hold is released.
#[test]
fn p4_a_failed_mint_is_failed_and_never_sent() {
    let office = Office::open(CLIENT, "");
    let sidecar = office.serve();
    let echo = format!(r#"{{"error":"invalid_client","error_description":"{CLIENT_SECRET}"}}"#);
    for (number, (reply, said)) in [
        (Reply::json("401 Unauthorized", &echo), "the token endpoint answered 401 invalid_client"),
        (Reply::json("200 OK", r#"{"token_type":"Bearer"}"#), "not with a token of RFC 6749"),
        (
            Reply::with("302 Found", &[("Location", "https://elsewhere.test/")], ""),
            "the token endpoint answered 302",
        ),
        (Reply::lost(), "the answer of the token endpoint was lost"),
        (Reply::json("200 OK", &"x".repeat(300_000)), "the answer of the token endpoint was lost"),
    ]
    .into_iter()
    .enumerate()
    {
        office.login.on_write(reply);
        let answer = open_ticket(&sidecar, "one");
        answer.assert_own(422, "oncegate_not_sent");
        assert_eq!(answer.outcome(), "failed");
        let effect = answer.effect();
        assert_eq!(
            answer.reason,
            format!("Effect {effect} was never sent (credential): nothing was applied.")
        );
        let shown = detail(&sidecar, &effect);
        assert_eq!(
            json!([shown["outcome"], shown["attempts"][0]["seen"], shown["attempts"][0]["step"]]),
            json!(["failed", "not_sent", "credential"])
        );
        let cause = shown["attempts"][0]["cause"].as_str().unwrap();
        assert!(cause.starts_with("DESK_TOKEN: ") && cause.contains(said), "{said}: {cause}");
        assert!(kinds(&shown).contains(&"not_sent"), "{shown}");
        assert_eq!((office.tickets(), office.mints()), ((0, 0, 0), number + 1));
        assert!(!shown.to_string().contains(CLIENT_SECRET) && !answer.everything().contains(CLIENT_SECRET));
    }
    assert!(!sidecar.log().contains(CLIENT_SECRET));
    assert_eq!(office.desk.record().connections(), 0, "the provider was not even dialled");
    // It guards nothing: the same request runs as soon as there is a token.
    office.gives(FIRST, "");
    assert_eq!(open_ticket(&sidecar, "one").status, 200);
    assert_eq!((office.carried().len(), office.tickets()), (1, (1, 0, 0)));
}

#[test]
fn an_endpoint_that_is_not_there_and_a_read() {
    let desk = Provider::tls(&[DESK]);
    let nobody = Refusing::default();
    let home = Home::new(&conf(desk.addr(), nobody.addr(), CLIENT, ""));
    let sidecar = home.serve_with(Build::Plain, &[("CLIENT_SECRET", CLIENT_SECRET)]);
    let answer = open_ticket(&sidecar, "one");
    answer.assert_own(422, "oncegate_not_sent");
    let cause = detail(&sidecar, &answer.effect())["attempts"][0]["cause"].to_string();
    assert!(cause.contains("the token endpoint cannot be reached (connect: "), "{cause}");
    let read = sidecar.billing().ask(DESK, &Ask::get("/v1/tickets"));
    read.assert_refused(422, "oncegate_not_sent");
    // A key of the caller's is answered from the record.
    let ask = Ask::json("/v1/tickets", &ticket("two")).key("two-1");
    let first = sidecar.billing().ask(DESK, &ask);
    let again = sidecar.billing().ask(DESK, &ask);
    again.assert_own(422, "oncegate_not_sent");
    assert_eq!(
        (again.effect(), again.header("x-idempotent-replay")),
        (first.effect(), Some("current-state"))
    );
    assert_eq!(desk.record().connections(), 0);
}

#[test]
fn a_401_of_the_provider_is_a_refusal_and_the_token_is_dropped() {
    let office = Office::open(CLIENT, "");
    let sidecar = office.serve();
    office.gives(FIRST, r#","expires_in":3600"#);
    office.gives(SECOND, r#","expires_in":3600"#);
    office.desk.on_write(Reply::json("401 Unauthorized", r#"{"error":"expired"}"#));
    let answer = open_ticket(&sidecar, "one");
    assert_eq!((answer.status, answer.outcome()), (401, "failed"), "as the provider gave it: {answer:?}");
    assert_eq!((office.carried().len(), office.tickets()), (1, (0, 0, 0)), "never sent again by itself");
    assert_eq!(open_ticket(&sidecar, "one").status, 200);
    assert_eq!(office.carried(), [format!("Bearer {FIRST}"), format!("Bearer {SECOND}")]);
    // And after a read.
    office.gives(FIRST, "");
    office.desk.on_read(Reply::json("401 Unauthorized", "{}"));
    assert_eq!(sidecar.billing().ask(DESK, &Ask::get("/v1/tickets")).status, 401);
    assert_eq!(open_ticket(&sidecar, "two").status, 200);
    assert_eq!((office.mints(), office.carried()[2].as_str()), (3, &*format!("Bearer {FIRST}")));
}

#[test]
fn a_token_that_has_expired_is_minted_anew() {
    let office = Office::open(CLIENT, "");
    let sidecar = office.serve();
    office.gives(FIRST, r#","expires_in":0"#);
    office.gives(SECOND, r#","expires_in":3600"#);
    for title in ["one", "two", "three"] {
        assert_eq!(open_ticket(&sidecar, title).status, 200);
    }
    let expected = [FIRST, SECOND, SECOND].map(|token| format!("Bearer {token}"));
    assert_eq!((office.mints(), office.carried()), (2, expected.to_vec()));
}

const REFRESH: &str = "grant = \"refresh_token\"\nrefresh_token = \"REFRESH\"\nauth = \"basic\"";

fn refresh_secret(from: &str) -> String {
    format!(
        "[secrets.REFRESH]\nfrom = {{ {from} }}\nallowed_hosts = [\"{LOGIN}\"]\nallowed_placements = [\"body\"]\n"
    )
}

/// The refresh tokens that were used, in order.
fn used(office: &Office) -> Vec<String> {
    let asked = office.login.record().writes();
    let token = |form: String| {
        form.split('&').find_map(|pair| pair.strip_prefix("refresh_token=").map(str::to_owned))
    };
    asked.iter().map(|ask| token(ask.text()).unwrap_or_default()).collect()
}

#[test]
fn a_new_refresh_token_is_kept_in_the_vault() {
    let office = Office::open(REFRESH, &refresh_secret("vault = true"));
    let sidecar = office.serve();
    let put = |value: &str| {
        let body = json!({ "value": value }).to_string();
        data(&call(&sidecar, "ops", "PUT", "/secrets/REFRESH", &body));
    };
    put("rt_test_1");
    office.gives(FIRST, r#","expires_in":0,"refresh_token":"rt_test_2""#);
    office.gives(FIRST, r#","expires_in":3600"#);
    assert_eq!(open_ticket(&sidecar, "one").status, 200);
    assert_eq!(open_ticket(&sidecar, "two").status, 200);
    assert_eq!(used(&office), ["rt_test_1", "rt_test_2"]);
    assert!(fs::read_to_string(office.home.path("managed/vault.json")).unwrap().contains("rt_test_2"));
    // Somebody puts another one: what was minted with the one before ends.
    put("rt_test_put");
    office.gives(SECOND, r#","expires_in":3600,"refresh_token":"rt_test_3""#);
    assert_eq!(open_ticket(&sidecar, "three").status, 200);
    sidecar.kill9();
    let sidecar = office.serve();
    office.gives(SECOND, "");
    assert_eq!(open_ticket(&sidecar, "four").status, 200);
    assert_eq!(used(&office), ["rt_test_1", "rt_test_2", "rt_test_put", "rt_test_3"]);
}

#[test]
fn a_new_refresh_token_of_a_file_is_known_until_the_end() {
    let office = Office::open(REFRESH, &refresh_secret("file = \"refresh\""));
    fs::write(office.home.path("refresh"), "rt_test_file\n").unwrap();
    let sidecar = office.serve();
    assert!(
        sidecar.log().contains("the refresh token `REFRESH` is not kept in the vault"),
        "{}",
        sidecar.log()
    );
    office.gives(FIRST, r#","expires_in":0,"refresh_token":"rt_test_2""#);
    office.gives(FIRST, r#","expires_in":0,"refresh_token":"rt_test_3""#);
    office.gives(FIRST, r#","expires_in":0"#);
    office.gives(FIRST, r#","expires_in":0"#);
    for title in ["one", "two", "three"] {
        assert_eq!(open_ticket(&sidecar, title).status, 200);
    }
    fs::write(office.home.path("refresh"), "rt_test_newer\n").unwrap();
    assert_eq!(open_ticket(&sidecar, "four").status, 200);
    assert_eq!(used(&office), ["rt_test_file", "rt_test_2", "rt_test_3", "rt_test_newer"]);
    assert!(!sidecar.log().contains("rt_test_"), "{}", sidecar.log());
}

#[test]
fn what_was_approved_and_has_no_token_is_failed_too() {
    let office = Office::open(CLIENT, "requires_approval = true\n");
    let sidecar = office.serve();
    office.gives(FIRST, r#","expires_in":0"#);
    let parked = open_ticket(&sidecar, "one");
    let approval = crate::law::approval_in(&parked);
    office.login.on_write(Reply::json("400 Bad Request", r#"{"error":"invalid_scope"}"#));
    let approved = ops(&office.home, &sidecar, &["approve", &approval]);
    assert_eq!(approved.code, 1, "{approved:?}");
    let shown = detail(&sidecar, &parked.effect());
    assert_eq!(json!([shown["outcome"], shown["attempts"][0]["step"]]), json!(["failed", "credential"]));
    assert_eq!((office.desk.record().requests().len(), office.tickets()), (0, (0, 0, 0)));
}
