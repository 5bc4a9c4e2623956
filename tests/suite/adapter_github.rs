//! Files on GitHub: written once, and found again by the trailer of their commit.

use oncegate_tests::{
    agent::{Agent, Ask},
    answer::Answer,
    conf::{CREDENTIAL, CREDENTIAL_ENV, Conf},
    github::{DEFAULT_BRANCH, Github, sha},
    provider::Provider,
    sidecar::{Home, Sidecar},
};
use serde_json::{Value, json};

use crate::{api_invoke::invoke, law::data};

const HOST: &str = "api.github.com";
const FILE: &str = "/repos/acme/site/contents/docs/a.md";
/// As octokit spells it.
const FILE_ENCODED: &str = "/repos/acme/site/contents/docs%2Fa.md";

/// A new file as PyGithub and octokit send it.
const CREATE: &str = r#"{"message":"Add a.md","content":"aGVsbG8=","branch":"main"}"#;
/// What a model makes of it on its second try.
const VARIED: &str = r#"{"message":"Create the page","content":"aGVsbG8h","branch":"main"}"#;

struct Forge {
    books: Github,
    provider: Provider,
    home: Home,
}

impl Forge {
    /// `more` are further keys of the adapter.
    fn open(more: &str) -> Forge {
        let books = Github::default();
        let provider = books.serve();
        let conf = Conf::default().host(HOST, provider.addr()).with(&format!(
            r#"
[secrets.GITHUB_TOKEN]
from = {{ env = "{CREDENTIAL_ENV}" }}
allowed_hosts = ["{HOST}"]

[actions.page]
adapter = {{ type = "github.file_update"{more} }}
credential_secret = "GITHUB_TOKEN"

[limits.pages-per-day]
dimension = "resource_mutations"
period = "day"
amount = 10
"#
        ));
        Forge { books, provider, home: Home::new(&conf) }
    }

    fn writes(&self) -> usize {
        self.provider.record().writes().len()
    }

    fn settled(&self, sidecar: &Sidecar, effect: &str) -> Value {
        let shown = sidecar.cli(&self.home, "ops", &["effect", "show", effect, "--json"]).json();
        json!([shown["outcome"], shown["grade"], shown["verification"]])
    }
}

fn ask(agent: &Agent, method: &str, target: &str, body: &str) -> Answer {
    let ask =
        Ask::new(method, target).field("User-Agent", "PyGithub/Python").field("Authorization", "token x");
    let ask = if body.is_empty() { ask } else { ask.field("Content-Type", "application/json").body(body) };
    agent.ask(HOST, &ask)
}

fn put(agent: &Agent, body: &str) -> Answer {
    ask(agent, "PUT", FILE, body)
}

#[test]
fn what_github_gets() {
    let forge = Forge::open("");
    let sidecar = forge.home.serve();
    let agent = sidecar.billing();
    let created = put(&agent, CREATE);
    assert_eq!((created.status, created.outcome()), (201, "succeeded"), "{created:?}");
    let writes = forge.provider.record().writes();
    assert_eq!(writes[0].head.field("authorization"), Some(format!("Bearer {CREDENTIAL}").as_str()));
    let sent: Value = serde_json::from_slice(&writes[0].body).unwrap();
    let message = format!("Add a.md\n\nOncegate-Effect: {}", created.effect());
    assert_eq!(sent, json!({"message": message, "content": "aGVsbG8=", "branch": "main"}));

    // An update carries its precondition as it came; a deletion is the same action.
    let update = json!({"message": "Edit", "content": "eA==", "sha": sha("aGVsbG8="), "branch": "main"});
    assert_eq!(put(&agent, &update.to_string()).status, 200);
    assert_eq!(forge.books.file("main", "docs/a.md").as_deref(), Some("eA=="));
    let delete = json!({"message": "Drop", "sha": sha("eA=="), "branch": "main"}).to_string();
    assert_eq!(ask(&agent, "DELETE", FILE, &delete).status, 200);
    assert_eq!(forge.books.file("main", "docs/a.md"), None);
    assert_eq!(forge.home.exposure("pages-per-day")["consumed"], 3);
}

#[test]
fn a_lost_file_is_found_by_its_trailer() {
    let forge = Forge::open("");
    let sidecar = forge.home.serve();
    let agent = sidecar.billing();
    forge.books.lose(1);
    let lost = put(&agent, CREATE);
    lost.assert_unknown();
    let effect = lost.effect();
    let told = lost.json();
    assert_eq!(
        (&told["message"], &told["status"]),
        (&json!(lost.reason), &json!("422")),
        "GitHub's error format"
    );
    assert_eq!(told["documentation_url"], "urn:oncegate:refusal:outcome_unknown");

    assert_eq!(put(&agent, CREATE).assert_unknown().effect(), effect, "a repeat");
    let varied = put(&agent, VARIED);
    varied.assert_own(422, "oncegate_unresolved_effect");
    assert!(varied.json()["message"].as_str().unwrap().contains(&effect), "{varied:?}");
    assert_eq!(forge.writes(), 1);
    // Another file is another matter.
    assert_eq!(ask(&agent, "PUT", "/repos/acme/site/contents/b.md", CREATE).status, 201);

    let refused = sidecar.cli(&forge.home, "ops", &["effect", "replay", &effect]);
    assert_eq!(refused.code, 15, "GitHub deduplicates on nothing: {refused:?}");
    assert_eq!(sidecar.reconcile(&forge.home, "ops", &effect).code, 0);
    assert_eq!(forge.settled(&sidecar, &effect), json!(["succeeded", "confirmed", "provider"]));

    let again = put(&agent, CREATE);
    assert_eq!(
        (again.status, again.header("x-idempotent-replay")),
        (200, Some("current-state")),
        "{again:?}"
    );
    assert_eq!(again.json()["commit"]["sha"], forge.books.commits()[0]["sha"]);
    assert_eq!(again.json()["content"]["sha"], sha("aGVsbG8="), "what the next update needs");
    assert_eq!((forge.writes(), forge.books.commits().len()), (2, 2), "each file once");
}

#[test]
fn a_lost_deletion_is_found_too() {
    let forge = Forge::open("");
    let sidecar = forge.home.serve();
    let agent = sidecar.billing();
    assert_eq!(put(&agent, CREATE).status, 201);
    forge.books.lose(1);
    let delete = json!({"message": "Drop", "sha": sha("aGVsbG8="), "branch": "main"}).to_string();
    let lost = ask(&agent, "DELETE", FILE, &delete);
    lost.assert_unknown();
    assert_eq!(sidecar.reconcile(&forge.home, "ops", &lost.effect()).code, 0);
    let again = ask(&agent, "DELETE", FILE, &delete);
    assert_eq!(again.json()["commit"]["sha"], forge.books.commits()[1]["sha"]);
    assert_eq!(again.json()["content"], Value::Null);
    assert_eq!(forge.writes(), 2);
}

#[test]
fn a_stale_blob_is_a_failure_that_guards_nothing() {
    let forge = Forge::open("");
    let sidecar = forge.home.serve();
    let agent = sidecar.billing();
    assert_eq!(put(&agent, CREATE).status, 201);
    let stale = json!({"message": "Edit", "content": "eA==", "sha": sha("older"), "branch": "main"});
    let conflict = put(&agent, &stale.to_string());
    assert_eq!((conflict.status, conflict.outcome()), (409, "failed"), "{conflict:?}");
    assert!(conflict.text().contains("does not match"), "as GitHub gave it");
    let missing = put(&agent, VARIED);
    assert_eq!((missing.status, missing.outcome()), (422, "failed"), "{missing:?}");
    let corrected = json!({"message": "Edit", "content": "eA==", "sha": sha("aGVsbG8="), "branch": "main"});
    assert_eq!(put(&agent, &corrected.to_string()).status, 200);
    assert_eq!(forge.home.exposure("pages-per-day")["consumed"], 2);
}

#[test]
fn an_encoded_slash_is_a_slash_in_a_file_s_path_and_nowhere_else() {
    let forge = Forge::open(", repository = \"acme/site\"");
    let sidecar = forge.home.serve();
    let agent = sidecar.billing();
    forge.books.lose(1);
    let lost = ask(&agent, "PUT", FILE_ENCODED, CREATE);
    lost.assert_unknown();
    let writes = forge.provider.record().writes();
    assert_eq!(writes[0].target, FILE_ENCODED, "the bytes that came");
    put(&agent, VARIED).assert_own(422, "oncegate_unresolved_effect");
    // The read that octokit makes before an update.
    assert_eq!(ask(&agent, "GET", &format!("{FILE_ENCODED}?ref=main"), "").status, 200);
    for target in [
        "/repos/acme/site/git%2Frefs",
        "/repos/acme%2Fsite/contents/a.md",
        "/repos/acme/other/contents/a%2Fb",
    ] {
        ask(&agent, "GET", target, "").assert_refused(403, "oncegate_ambiguous");
    }
    assert_eq!(forge.writes(), 1);
}

#[test]
fn asked_for_by_name_it_is_the_same_file() {
    let forge = Forge::open(", repository = \"acme/site\"");
    let sidecar = forge.home.serve();
    let mut input: Value = serde_json::from_str(CREATE).unwrap();
    input["path"] = json!("docs/a.md");
    let made = data(&invoke(&sidecar, "billing-agent", None, "page", &json!({ "input": input })));
    assert_eq!(made["status"], "succeeded", "{made}");
    assert_eq!(forge.books.file("main", "docs/a.md").as_deref(), Some("aGVsbG8="));
    let again = put(&sidecar.billing(), CREATE);
    assert_eq!((again.status, again.effect()), (201, made["effectId"].as_str().unwrap().to_owned()));
    assert_eq!(forge.writes(), 1);
}

#[test]
fn what_is_narrowed_writes_nowhere_else() {
    let forge = Forge::open(", repository = \"acme/site\", branch = \"main\"");
    let sidecar = forge.home.serve();
    let agent = sidecar.billing();
    let other = ask(&agent, "PUT", "/repos/acme/other/contents/a.md", CREATE);
    other.assert_refused(403, "oncegate_undeclared");
    assert_eq!(other.json()["status"], "403");
    for branch in [r#","branch":"dev""#, ""] {
        let body = CREATE.replace(r#","branch":"main""#, branch);
        put(&agent, &body).assert_refused(400, "oncegate_invalid_input");
    }
    assert_eq!(forge.writes(), 0);
    assert_eq!(put(&agent, CREATE).status, 201);
}

#[test]
fn without_a_branch_the_default_one_is_fenced() {
    let forge = Forge::open("");
    let sidecar = forge.home.serve();
    let agent = sidecar.billing();
    forge.books.lose(1);
    let silent = CREATE.replace(r#","branch":"main""#, "");
    put(&agent, &silent).assert_unknown();
    let named = VARIED.replace("main", DEFAULT_BRANCH);
    put(&agent, &named).assert_own(422, "oncegate_unresolved_effect");
    assert_eq!(forge.writes(), 1);
}
