//! What an action is judged by is what its provider reads: a parameter of the query is no member of a body.

use oncegate_tests::{
    agent::Ask,
    provider::Provider,
    sidecar::{Home, Sidecar},
};

use crate::shop::DESK;

const ACTIONS: &str = r#"
[actions.pay]
method = "POST"
url = "https://tickets.test/pay"
operation_key = "pay:{{input.order}}"
subject = "{{input.order}}"
impact = { dimension = "resource_mutations", amount = "input.amount", bound = "exact" }

[actions.sized]
method = "POST"
url = "https://tickets.test/sized"
input_schema = { type = "object", required = ["amount"], properties = { amount = { maximum = 5 } } }
subject = "sized"

[actions.named]
method = "POST"
url = "https://tickets.test/named?amount={{input.amount}}"
subject = "named"
impact = { dimension = "resource_mutations", amount = "input.amount", bound = "exact" }

[actions.rehearse]
method = "POST"
url = "https://tickets.test/orders"
when = [{ path = "input.dry_run", equals = true }, { path = "input.kind", equals = "rehearsal" }]
governed = false

[actions.order]
method = "POST"
url = "https://tickets.test/orders"
subject = "{{input.order}}"

[actions.remove]
method = "DELETE"
url = "https://tickets.test/files"
subject = "{{input.file}}"

[limits.each-day]
dimension = "resource_mutations"
period = "day"
amount = 20
"#;
const PAY: &str = r#"{"order":"a","amount":5000}"#;

fn sent(sidecar: &Sidecar, provider: &Provider, ask: &Ask) -> (u16, usize) {
    let before = provider.record().writes().len();
    let answer = sidecar.billing().ask(DESK, ask);
    if answer.status == 403 {
        answer.assert_refused(403, "oncegate_ambiguous");
    }
    (answer.status, provider.record().writes().len() - before)
}

/// A small amount in the query, and the true one where the provider looks: in a body that is not read, in one that is
/// read and does not say it, in none.
#[test]
fn p5_a_judged_member_is_not_taken_from_the_query_in_place_of_the_body() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&crate::shop::desk_conf(provider.addr()).with(ACTIONS));
    let sidecar = home.serve();
    let of = |to: &str, content_type: &str, body: &str| {
        Ask::new("POST", to).field("Content-Type", content_type).body(body.to_owned())
    };
    let bare = |method: &str, to: &str| Ask::new(method, to).field("Content-Length", "0");
    let other = [
        of("/pay?order=q&amount=5", "text/plain", PAY),
        of("/pay?order=q&amount=5", "application/json, application/json", PAY),
        of("/pay?order=q&amount=5", "multipart/form-data; boundary=b", "--b--\r\n"),
        of("/pay?order=q&amount=5", "application/json", "[]"),
        of("/pay?amount=5", "application/json", r#"{"order":"b"}"#),
        of("/pay?order=b", "application/json", r#"{"amount":5}"#),
        of("/pay?amount[value]=5", "application/json", r#"{"order":"b"}"#),
        of("/pay?order=c&amount=5", "application/x-www-form-urlencoded", ""),
        bare("POST", "/pay?order=c&amount=5"),
        of("/sized?amount=5", "text/plain", PAY),
        bare("POST", "/sized?amount=5"),
        of("/named?amount=5", "text/plain", PAY),
        of("/named?amount=5", "application/json", "[5000]"),
        of("/orders?dry_run=true&kind=rehearsal", "application/json", r#"{"order":"d"}"#),
        of("/orders?kind=rehearsal", "application/json", r#"{"order":"d","dry_run":true}"#),
        Ask::new("DELETE", "/files?file=f")
            .field("Content-Type", "application/json")
            .body(r#"{"all":true}"#.to_owned()),
    ];
    for ask in &other {
        assert_eq!(sent(&sidecar, &provider, ask), (403, 0), "{ask:?}");
    }
    // Said where it is read, it is what it was; and what judges nothing may stand anywhere.
    let read = [
        of("/pay?expand=all&locale=de", "application/json", r#"{"order":"e","amount":5}"#),
        of("/pay", "application/x-www-form-urlencoded", "order=f&amount=5"),
        of("/sized?trace=1", "application/json", r#"{"amount":5}"#),
        bare("POST", "/named?amount=5"),
        of("/orders?trace=1", "application/json", r#"{"order":"g","dry_run":true,"kind":"rehearsal"}"#),
        of("/orders?trace=1", "application/json", r#"{"order":"g"}"#),
        Ask::new("DELETE", "/files?file=f"),
    ];
    for ask in &read {
        assert_eq!(sent(&sidecar, &provider, ask), (200, 1), "{ask:?}");
    }
}
