//! The commands of DESIGN section 10 that issue 2 builds, as a person or a script uses them.

use std::{net::TcpStream, process::Command};

use oncegate_tests::{
    answer::Answer,
    binary::{Build, oncegate},
    conf::{BILLING_KEY, CREDENTIAL, OPS_KEY, digest},
    sidecar::finish,
    wire::Wire,
};
use serde_json::{Value, json};

use crate::shop::{REFUND, Shop};

fn get(at: std::net::SocketAddr, path: &str, key: Option<&str>) -> Answer {
    use std::io::Write;
    let mut tcp = TcpStream::connect(at).unwrap();
    tcp.set_read_timeout(Some(oncegate_tests::wait::PATIENCE)).unwrap();
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    tcp.write_all(format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n{key}Connection: close\r\n\r\n").as_bytes())
        .unwrap();
    Answer::read(&mut Wire::new(tcp), false).unwrap()
}

#[test]
fn the_api_shows_effects_and_limits() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let effect = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    assert_eq!(get(sidecar.control, "/healthz", None).status, 200);
    assert_eq!(get(sidecar.control, "/readyz", None).status, 200);
    let stranger = get(sidecar.control, "/api/v2/actions/effects", None);
    assert_eq!((stranger.status, &stranger.json()["error"]["code"]), (401, &json!("AUTHENTICATION_FAILED")));

    let list = get(sidecar.control, "/api/v2/actions/effects?unresolved=true", Some(OPS_KEY)).json();
    assert_eq!((&list["success"], list["data"].as_array().map(Vec::len)), (&json!(true), Some(1)), "{list}");
    assert_eq!(list["pagination"]["total"], 1);
    let one = get(sidecar.control, &format!("/api/v2/actions/effects/{effect}"), Some(BILLING_KEY)).json();
    let data = &one["data"];
    assert_eq!(
        json!([data["id"], data["stage"], data["outcome"], data["grade"], data["unresolvedExposure"]]),
        json!([effect, "reconciling", "unknown", "unknown", true]),
    );
    assert_eq!(data["attempts"][0]["kind"], "dispatch", "{data}");
    let limits = get(sidecar.control, "/api/v2/impact-limits", Some(OPS_KEY)).json();
    let limit = &limits["data"][0];
    assert_eq!(
        json!([
            limit["name"],
            limit["amount"],
            limit["consumed"],
            limit["reserved"],
            limit["unknownExposure"],
            limit["available"]
        ]),
        json!(["refunds-per-day", 50_000, 0, 12_000, 12_000, 38_000]),
    );
    let missing = get(sidecar.control, "/api/v2/actions/effects/eff_none", Some(OPS_KEY));
    assert_eq!((missing.status, &missing.json()["error"]["code"]), (404, &json!("NOT_FOUND")));
    let nowhere = get(sidecar.control, "/api/v2/nowhere", Some(OPS_KEY));
    assert_eq!((nowhere.status, nowhere.json()["error"].is_object()), (404, true));
}

#[test]
fn the_database_and_the_api_say_the_same() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let effect = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    assert_eq!(sidecar.billing().refund(None, "payment_intent=pi_2&amount=100").status, 200);
    for args in [
        &["effects", "--json"][..],
        &["effects", "--unresolved", "--json"],
        &["effects", "--action", "refund", "--json"],
        &["effects", "--action", "act_refund", "--json"],
        &["effects", "--action", "act_other", "--json"],
        &["limits", "--json"],
    ] {
        let asked = sidecar.cli(&shop.home, "ops", args);
        let read = shop.home.run_on_db(args);
        assert_eq!((asked.code, read.code), (0, 0), "{asked:?} {read:?}");
        assert_eq!(asked.json(), read.json(), "{args:?}");
    }
    for (args, number) in [(&["--unresolved"][..], 1), (&["--action", "act_refund"], 2)] {
        let listed = shop.home.run_on_db(&[&["effects", "--json"], args].concat()).json();
        assert_eq!(listed.as_array().unwrap().len(), number, "{args:?}");
    }
    for args in [&["effects"][..], &["limits"], &["effect", "show", &effect]] {
        let asked = sidecar.cli(&shop.home, "ops", args);
        assert_eq!(asked.code, 0, "{asked:?}");
        let named = asked.out.contains(&effect) || asked.out.contains("refunds-per-day");
        assert!(named, "{args:?}: {}", asked.out);
    }
    assert_eq!(sidecar.cli(&shop.home, "ops", &["effects", "--action", "other", "--json"]).json(), json!([]));
}

#[test]
fn a_look_exits_by_the_outcome() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    shop.books.lose(1);
    let effect = sidecar.billing().refund(None, REFUND).assert_unknown().effect();
    let made = shop.books.refunds();
    shop.books.forget();
    assert_eq!(sidecar.reconcile(&shop.home, "ops", &effect).code, 13, "nothing found");
    assert_eq!(made.len(), 1);
    assert_ne!(sidecar.reconcile(&shop.home, "ops", "eff_none").code, 0);
    let stopped = sidecar.stop();
    assert_eq!(stopped, 0);
}

#[test]
fn run_gives_a_command_what_it_needs() {
    let shop = Shop::open();
    let script = "test -n \"$HTTPS_PROXY\" && test -s \"$SSL_CERT_FILE\" && test -s \"$REQUESTS_CA_BUNDLE\" && test -s \"$NODE_EXTRA_CA_CERTS\" && exit 7; exit 8";
    let done =
        finish(shop.home.command(Build::Plain, &["run", "--as", "billing-agent", "--", "sh", "-c", script]));
    assert_eq!(done.code, 7, "it exits with the command's code: {done:?}");
    let unknown = finish(shop.home.command(Build::Plain, &["run", "--as", "nobody", "--", "true"]));
    assert_eq!(unknown.code, 2, "{unknown:?}");
    // Of an agent's and an operator's key it is the agent's.
    let unnamed = finish(shop.home.command(Build::Plain, &["run", "--", "sh", "-c", "echo $HTTPS_PROXY"]));
    assert!(unnamed.code == 0 && unnamed.out.contains("//billing-agent:"), "{unnamed:?}");
}

/// P7: a developer's shell has the same key under the names of several clients.
#[test]
fn p7_run_gives_a_command_no_copy_of_a_secret() {
    let shop = Shop::open();
    let mut command = shop.home.command(Build::Plain, &["run", "--as", "billing-agent", "--", "env"]);
    command.env("STRIPE_API_KEY", CREDENTIAL).env("WRAPPED", format!("Bearer {CREDENTIAL}"));
    command.env("OTHER", "sk_test_of_somebody_else").env("NODE_OPTIONS", format!("--title={CREDENTIAL}"));
    command.env("JAVA_TOOL_OPTIONS", format!("-Dstripe.key={CREDENTIAL}"));
    // Fails when the credential is printed.
    let done = finish(command);
    assert!(done.code == 0 && done.out.contains("OTHER=sk_test_of_somebody_else"), "{done:?}");
    assert!(!done.out.contains("STRIPE_API_KEY=") && !done.out.contains("WRAPPED="), "{done:?}");
}

#[test]
fn run_attaches_to_a_sidecar_that_is_there() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let done = finish(
        shop.home
            .command(Build::Plain, &["run", "--as", "billing-agent", "--", "sh", "-c", "echo $HTTPS_PROXY"]),
    );
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains(&sidecar.proxy.to_string()), "{done:?} is not at {}", sidecar.proxy);
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200, "and leaves it running");
}

#[test]
fn explain_sends_nothing() {
    let shop = Shop::open();
    let url = "https://api.stripe.com/v1/refunds";
    let known = shop.home.run(&["explain", "POST", url, "--data", REFUND]);
    assert_eq!(known.code, 0, "{known:?}");
    assert!(known.out.contains("refund") && known.out.contains("12000"), "{known:?}");
    let unknown = shop.home.run(&["explain", "POST", "https://api.stripe.com/v1/customers"]);
    assert!(unknown.out.contains("undeclared"), "{unknown:?}");
    for (host, code, said) in
        [("files.stripe.com", 15, "oncegate_ambiguous"), ("api.stripe.com:443", 0, "recorded first")]
    {
        let field = format!("Host: {host}");
        let told = shop.home.run(&["explain", "POST", url, "-H", &field, "--data", REFUND]);
        assert!(told.code == code && told.out.contains(said), "{host}: {told:?}");
    }
    assert_eq!(shop.provider.record().connections(), 0);
}

#[test]
fn a_new_key_fits_its_hash_line() {
    let mut command = Command::new(oncegate(Build::Plain));
    command.args(["key", "new", "billing-agent", "--scope", "actions:invoke", "--json"]);
    let made = finish(command);
    assert_eq!(made.code, 0, "{made:?}");
    let json: Value = made.json();
    let text = made.out.to_lowercase();
    let key = json["key"].as_str().unwrap_or_else(|| panic!("a key in {json}"));
    use sha2::{Digest, Sha256};
    let hash: String = Sha256::digest(key.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
    assert!(text.contains(&hash), "{text}");
}

#[test]
fn init_writes_something_that_passes() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(oncegate(Build::Plain));
        command.args(args).current_dir(dir.path()).env("STRIPE_SECRET_KEY", "sk_test_x");
        finish(command)
    };
    let made = run(&["init"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(dir.path().join("oncegate.toml").exists());
    let checked = run(&["check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let again = run(&["init"]);
    assert_ne!(again.code, 0, "it does not write over what is there: {again:?}");
}

/// The README's lines, after what `init` wrote.
#[test]
fn the_quick_start_works_as_written() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let lines =
        readme.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```")).expect("a block").0;
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(oncegate(Build::Plain));
        command.args(args).current_dir(dir.path()).env("STRIPE_SECRET_KEY", "sk_test_x");
        finish(command)
    };
    let init = run(&["init"]);
    let shown = format!("{}{}", init.out, init.err);
    let mut after = shown.split_whitespace().skip_while(|word| *word != "agent");
    let key = after.nth(1).expect("the agent's key");
    let file = dir.path().join("oncegate.toml");
    let made = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{made}\n{lines}")).unwrap();
    let checked = run(&["check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let refund =
        ["POST", "https://api.stripe.com/v1/refunds", "--data", "payment_intent=pi_123&amount=12000"];
    let explained = run(&[&["explain", "--json"], refund.as_slice()].concat());
    assert_eq!((explained.code, &explained.json()["action"]), (0, &json!("refund")), "{explained:?}");
    let agent = run(&["env", "--as", "agent", "--key", key]);
    assert!(agent.out.contains(&format!("http://agent:{key}@127.0.0.1:8080")), "{agent:?}");
}

/// Where to connect is known from what runs; a key is added where one is given.
#[test]
fn env_says_where_the_running_sidecar_listens() {
    let shop = Shop::open();
    let before = shop.home.run(&["env"]);
    assert!(before.code == 2 && before.err.contains("no sidecar of this configuration runs"), "{before:?}");
    let sidecar = shop.home.serve();
    let at = sidecar.proxy;
    let bare = shop.home.run(&["env"]);
    assert_eq!(bare.code, 0, "{bare:?}");
    let bundle = shop.home.path("ca/bundle.pem");
    for line in
        [format!("export HTTPS_PROXY=http://{at}\n"), format!("export SSL_CERT_FILE={}\n", bundle.display())]
    {
        assert!(bare.out.contains(&line), "{line} {bare:?}");
    }
    assert!(bare.err.contains("no key of billing-agent was given"), "{bare:?}");
    let json = shop.home.run(&["env", "--json"]);
    assert_eq!((json.code, &json.json()["HTTPS_PROXY"]), (0, &json!(format!("http://{at}"))), "{json:?}");
    let keyed = shop.home.run(&["env", "--key", BILLING_KEY]);
    assert!(
        keyed.out.contains(&format!("HTTPS_PROXY=http://billing-agent:{BILLING_KEY}@{at}\n")),
        "{keyed:?}"
    );
    assert_eq!(shop.home.run(&["env", "--key", "ogk_wrong"]).code, 2);
    // Of several agents none is taken for the one; all connect to the same place.
    let text = std::fs::read_to_string(shop.home.config()).unwrap();
    let key = digest("ogk_other");
    shop.home
        .write(&format!("{text}\n[callers.other]\nkey_sha256 = \"{key}\"\nscopes = [\"actions:invoke\"]\n"));
    let several = shop.home.run(&["env"]);
    assert!(several.code == 0 && several.out.contains(&format!("HTTPS_PROXY=http://{at}\n")), "{several:?}");
    assert!(several.err.contains("say which caller it is with --as"), "{several:?}");
    sidecar.stop();
    assert!(!shop.home.path("oncegate.db-proxy").exists(), "true only while it runs");
    assert_eq!(shop.home.run(&["env"]).code, 2);
}
