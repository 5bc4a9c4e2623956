//! What git sends besides a push itself.

use oncegate_tests::{agent::Ask, conf::Conf, provider::Provider, script::Reply, sidecar::Home};

const FORGE: &str = "git.test";
const PATH: &str = "/acme/site.git/git-receive-pack";

fn push(body: &str) -> Ask {
    Ask::new("POST", PATH).field("Content-Type", "application/x-git-receive-pack-request").body(body)
}

/// Before a push of more than 1 MiB git sends a flush packet alone (`probe_rpc` in its `remote-curl.c`), which asks for
/// nothing. It is no effect: none that is unknown for ever, none that a person is asked about, none in the way of the push.
#[test]
fn the_probe_before_a_large_push_is_no_push() {
    let forge = Provider::tls(&[FORGE]);
    let action = format!(
        "[actions.push]\nmethod = \"POST\"\nurl = \"https://{FORGE}/{{{{input.owner}}}}/{{{{input.repository}}}}/git-receive-pack\"\n\
         subject = \"{{{{input.owner}}}}/{{{{input.repository}}}}\"\n"
    );
    for (more, of_the_push) in [("", "200"), ("requires_approval = true\n", "oncegate_approval_required")] {
        let before = forge.record().writes().len();
        let home = Home::new(&Conf::default().host(FORGE, forge.addr()).with(&format!("{action}{more}")));
        let sidecar = home.serve();
        let agent = sidecar.billing();
        let probed = agent.ask(FORGE, &push("0000"));
        assert_eq!((probed.status, probed.text().as_str()), (200, ""), "{probed:?}");
        assert_eq!(probed.header("content-type"), Some("application/x-git-receive-pack-result"));
        assert_eq!(probed.header("oncegate-code"), None, "{probed:?}");
        assert_eq!(forge.record().writes().len(), before, "the provider has nothing to say to it");
        assert!(home.effects().is_empty(), "{:?}", home.effects());

        let report = "000eunpack ok\n0018ok refs/heads/main\n0000";
        forge.on_write(Reply::with(
            "200 OK",
            &[("Content-Type", "application/x-git-receive-pack-result")],
            report,
        ));
        let pushed = agent.ask(FORGE, &push("0076... a pack"));
        assert_eq!(pushed.header("oncegate-code").unwrap_or("200"), of_the_push, "{pushed:?}");
        assert_eq!(home.effects().len(), 1);
    }
}

/// Anything more, or of another kind, is judged as ever.
#[test]
fn only_the_probe_itself_is_let_off() {
    let forge = Provider::tls(&[FORGE]);
    let action = format!(
        "[actions.push]\nmethod = \"POST\"\nurl = \"https://{FORGE}{PATH}\"\nrequires_approval = true\n"
    );
    let home = Home::new(&Conf::default().host(FORGE, forge.addr()).with(&action));
    let sidecar = home.serve();
    let agent = sidecar.billing();
    for ask in [
        push("00000000"),
        push("0000\n"),
        push("0001"),
        Ask::new("POST", PATH).field("Content-Type", "text/plain").body("0000"),
    ] {
        let answer = agent.ask(FORGE, &ask);
        assert_eq!(answer.header("oncegate-code"), Some("oncegate_approval_required"), "{ask:?}: {answer:?}");
    }
    assert_eq!(forge.record().writes().len(), 0);
}
