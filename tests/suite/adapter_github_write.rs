//! Issues, comments and pull requests on GitHub: opened once, and found again by the mark in their text.

use oncegate_tests::{
    agent::{Agent, Ask},
    answer::Answer,
    conf::{CREDENTIAL, CREDENTIAL_ENV, Conf},
    provider::Provider,
    script::Reply,
    sidecar::{Home, Sidecar},
};
use serde_json::{Value, json};

use crate::{api_invoke::invoke, law::data};

const HOST: &str = "api.github.com";
const ISSUES: &str = "/repos/Acme/site/issues";
const COMMENTS: &str = "/repos/Acme/site/issues/7/comments";
const PULLS: &str = "/repos/Acme/site/pulls";
const MERGE: &str = "/repos/Acme/site/pulls/7/merge";

struct Forge {
    provider: Provider,
    home: Home,
}

impl Forge {
    fn open(mark_body: bool) -> Forge {
        let provider = Provider::tls(&[HOST]);
        let action = |name: &str, method: &str, below: &str| {
            format!(
                r#"
[actions.{name}]
adapter = {{ type = "github.write", method = "{method}", path = "/repos/{{{{input.owner}}}}/{{{{input.repo}}}}/{below}", mark_body = {mark_body} }}
credential_secret = "GITHUB_TOKEN"
"#
            )
        };
        let actions = [
            action("issue", "POST", "issues"),
            action("comment", "POST", "issues/{{input.number}}/comments"),
            action("pull", "POST", "pulls"),
            action("merge", "PUT", "pulls/{{input.number}}/merge"),
        ];
        let conf = Conf::default().host(HOST, provider.addr()).with(&format!(
            r#"
[secrets.GITHUB_TOKEN]
from = {{ env = "{CREDENTIAL_ENV}" }}
allowed_hosts = ["{HOST}"]
{}
[limits.writes-per-day]
dimension = "resource_mutations"
period = "day"
amount = 10
"#,
            actions.concat()
        ));
        Forge { provider, home: Home::new(&conf) }
    }

    fn writes(&self) -> usize {
        self.provider.record().writes().len()
    }

    fn outcome(&self, sidecar: &Sidecar, effect: &str) -> Value {
        let shown = sidecar.cli(&self.home, "ops", &["effect", "show", effect, "--json"]).json();
        json!([shown["outcome"], shown["grade"]])
    }
}

fn ask(agent: &Agent, method: &str, target: &str, body: &Value) -> Answer {
    let ask = Ask::new(method, target)
        .field("User-Agent", "octokit.js")
        .field("Authorization", "token x")
        .field("Content-Type", "application/json")
        .body(body.to_string());
    agent.ask(HOST, &ask)
}

#[test]
fn what_was_lost_is_found_by_its_mark_and_never_sent_again() {
    for (target, body, varied) in [
        (ISSUES, json!({"title": "Broken", "body": "It is."}), json!({"title": "It is broken"})),
        (COMMENTS, json!({"body": "Done."}), json!({"body": "It is done."})),
        (
            PULLS,
            json!({"title": "Fix", "head": "fix", "base": "main", "body": null}),
            json!({"title": "A fix", "head": "fix", "base": "main"}),
        ),
    ] {
        let forge = Forge::open(true);
        let sidecar = forge.home.serve();
        let agent = sidecar.billing();
        forge.provider.on_write(Reply::lost());
        let lost = ask(&agent, "POST", target, &body);
        lost.assert_unknown();
        let effect = lost.effect();
        assert!(lost.json()["message"].as_str().unwrap().contains("Do not retry"), "{lost:?}");
        ask(&agent, "POST", target, &varied).assert_own(422, "oncegate_unresolved_effect");
        // Another spelling of the same owner is the same repository.
        ask(&agent, "POST", &target.replace("Acme", "aCME"), &varied)
            .assert_own(422, "oncegate_unresolved_effect");

        let writes = forge.provider.record().writes();
        assert_eq!(writes.len(), 1);
        assert_eq!(writes[0].head.field("authorization"), Some(format!("Bearer {CREDENTIAL}").as_str()));
        let sent: Value = serde_json::from_slice(&writes[0].body).unwrap();
        let text = sent["body"].as_str().unwrap();
        assert!(text.ends_with(&format!("<!-- oncegate-effect: {effect} -->")), "{text}");

        let other = json!({"id": 8, "number": 8, "body": "It is."});
        let ours = json!({"id": 9, "number": 9, "created_at": "2999-01-01T00:00:00Z", "body": text});
        forge.provider.on_read(Reply::json("200 OK", &json!([other, ours]).to_string()));
        assert_eq!(sidecar.reconcile(&forge.home, "ops", &effect).code, 0);
        assert_eq!(forge.outcome(&sidecar, &effect), json!(["succeeded", "confirmed"]));
        let again = ask(&agent, "POST", target, &body);
        assert_eq!((again.status, &again.json()["number"]), (200, &json!(9)), "{again:?}");
        assert_eq!(forge.writes(), 1, "sent once");
        assert_eq!(forge.home.exposure("writes-per-day")["consumed"], 1);
    }
}

/// GitHub's documentation sends JSON with `curl -d`, whose type is the form's, and GitHub reads it as JSON: so it is the
/// same write, whatever else a reader of forms would find in it.
#[test]
fn json_under_the_type_of_a_form_is_the_same_write() {
    let forge = Forge::open(true);
    let sidecar = forge.home.serve();
    forge.provider.on_write(Reply::lost());
    let body = json!({"title": "Fix", "head": "fix", "base": "main", "body": "x"});
    ask(&sidecar.billing(), "POST", PULLS, &body).assert_unknown();
    let as_form = |body: &Value| {
        let ask = Ask::new("POST", PULLS).field("Content-Type", "application/x-www-form-urlencoded");
        sidecar.billing().ask(HOST, &ask.body(body.to_string()))
    };
    as_form(&body).assert_unknown();
    let other = json!({"title": "Fix it", "head": "fix", "base": "main", "z": "&head=a&base=b&w="});
    as_form(&other).assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(forge.writes(), 1);
}

#[test]
fn without_leave_the_text_is_left_alone_and_a_person_settles() {
    let forge = Forge::open(false);
    let sidecar = forge.home.serve();
    forge.provider.on_write(Reply::lost());
    let body = json!({"title": "Broken", "body": "It is."});
    let lost = ask(&sidecar.billing(), "POST", ISSUES, &body);
    lost.assert_unknown();
    assert_eq!(forge.provider.record().writes()[0].body, body.to_string().into_bytes());
    let before = forge.provider.record().requests().len();
    assert_eq!(sidecar.reconcile(&forge.home, "ops", &lost.effect()).code, 13);
    assert_eq!(forge.provider.record().requests().len(), before, "there is nothing to look for");
}

#[test]
fn a_moved_head_is_a_failure_and_another_conflict_is_not() {
    let forge = Forge::open(true);
    let sidecar = forge.home.serve();
    let agent = sidecar.billing();
    let conflict = || Reply::json("409 Conflict", r#"{"message":"Head branch was modified"}"#);
    forge.provider.on_write(conflict());
    let moved = ask(&agent, "PUT", MERGE, &json!({"sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e"}));
    assert_eq!((moved.status, moved.outcome()), (409, "failed"), "{moved:?}");
    forge.provider.on_write(conflict());
    ask(&agent, "POST", ISSUES, &json!({"title": "x"})).assert_unknown();
    assert_eq!(forge.writes(), 2);
}

#[test]
fn an_invocation_by_name_is_the_same_write() {
    let forge = Forge::open(true);
    let sidecar = forge.home.serve();
    forge
        .provider
        .on_write(Reply::json("201 Created", r#"{"number":9,"html_url":"https://github.example/9"}"#));
    let input = json!({"owner": "Acme", "repo": "site", "title": "Broken", "body": "It is."});
    let made = data(&invoke(&sidecar, "billing-agent", None, "issue", &json!({ "input": input })));
    assert_eq!(made["status"], "succeeded", "{made}");
    let writes = forge.provider.record().writes();
    assert_eq!((writes.len(), writes[0].target.as_str()), (1, ISSUES));
    let sent: Value = serde_json::from_slice(&writes[0].body).unwrap();
    assert_eq!(sent["title"], "Broken");
    assert!(sent["body"].as_str().unwrap().starts_with("It is.\n\n<!-- oncegate-effect: eff_"), "{sent}");
}
