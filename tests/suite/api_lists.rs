//! Lists: who decided, pages that are longer than any, actions by either of their names, and what is not built.

use std::collections::BTreeSet;

use oncegate_tests::{conf::Conf, script::Reply, sidecar::Sidecar};
use serde_json::{Value, json};

use crate::{
    law::{approval_in, call, data, detail, lost, ops, says_no},
    shop::{REFUND, Shop},
};

#[track_caller]
fn get(sidecar: &Sidecar, path: &str) -> Value {
    let answer = call(sidecar, "ops", "GET", path, "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

#[test]
fn approvals_are_told_apart_by_who_decided() {
    let shop = Shop::open_with(|at| {
        Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000)
    });
    let sidecar = shop.home.serve();
    let ask = |number: u32| {
        approval_in(&sidecar.billing().refund(None, &format!("payment_intent=pi_{number}&amount=100")))
    };
    let [yes, no, open] = [1, 2, 3].map(ask);
    assert_eq!(ops(&shop.home, &sidecar, &["approve", &yes]).code, 0);
    assert_eq!(ops(&shop.home, &sidecar, &["deny", &no]).code, 0);
    let ids = |filter: &str| -> (BTreeSet<String>, u64) {
        let list = get(&sidecar, &format!("/approvals?{filter}"));
        let rows = list["data"].as_array().unwrap().iter();
        let ids = rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        (ids, list["pagination"]["total"].as_u64().unwrap())
    };
    for (filter, expected) in [
        ("", vec![&yes, &no, &open]),
        ("decisionOrigin=human", vec![&yes, &no]),
        ("decisionOrigin=human&status=denied", vec![&no]),
        ("decisionOrigin=human&status=pending", vec![]),
        ("decisionOrigin=system", vec![]),
        ("decisionOrigin=policy", vec![]),
        ("decisionOrigin=assistant", vec![]),
        ("decisionOrigin=automated", vec![]),
        ("status=pending", vec![&open]),
    ] {
        let number = expected.len() as u64;
        let expected: BTreeSet<String> = expected.into_iter().cloned().collect();
        assert_eq!(ids(filter), (expected, number), "{filter}");
    }
    assert_eq!(call(&sidecar, "ops", "GET", "/approvals?decisionOrigin=nobody", "").status, 400);
    let origin = |id: &str| get(&sidecar, &format!("/approvals/{id}"))["data"]["decisionOrigin"].clone();
    assert_eq!([origin(&yes), origin(&open)], [json!("human"), Value::Null]);
}

#[test]
fn what_is_open_is_listed_whole_and_a_cut_is_said() {
    let shop = Shop::open_with(|at| {
        Conf::default().stripe_host(at).refund("requires_approval = true").daily_limit(50_000)
    });
    let sidecar = shop.home.serve();
    let agent = sidecar.billing();
    for number in 0..60 {
        approval_in(&agent.refund(None, &format!("payment_intent=pi_{number}&amount=100")));
    }
    let number = |list: &Value| list.as_array().map(Vec::len);
    for (args, expected) in [
        (&["effects", "--unresolved"][..], 60),
        (&["approvals", "--status", "pending"], 60),
        (&["effects"], 50),
        (&["approvals"], 50),
        (&["effects", "--limit", "7"], 7),
        (&["effects", "--limit", "300"], 60),
    ] {
        let told = ops(&shop.home, &sidecar, &[args, &["--json"]].concat());
        assert_eq!((told.code, number(&told.json())), (0, Some(expected)), "{args:?}");
        let said = format!("{expected} of 60 shown");
        assert_eq!(told.err.contains(&said), expected < 60, "{args:?}: {}", told.err);
    }
    let read = shop.home.run_on_db(&["effects", "--unresolved", "--json"]);
    assert_eq!(number(&read.json()), Some(60));
    // More than a page has is a whole page.
    let page = get(&sidecar, "/actions/effects?limit=1000");
    assert_eq!((number(&page["data"]), &page["pagination"]["limit"]), (Some(60), &json!(200)));
    // What comes whole has one page of all there is, whatever is asked for.
    let whole = &get(&sidecar, "/impact-limits?limit=0&offset=5")["pagination"];
    assert_eq!(json!([whole["total"], whole["limit"], whole["totalPages"]]), json!([1, 1, 1]));
    for bad in ["0", "-1", "x"] {
        let path = format!("/actions/effects?limit={bad}");
        assert_eq!(call(&sidecar, "ops", "GET", &path, "").status, 400, "{bad}");
    }
}

/// A list leaves out the body, and what hangs on an effect; what it says of one is what is said of it alone.
#[test]
fn a_list_says_of_each_what_is_said_of_it_alone() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let refund = |number: u32| {
        let form = format!("payment_intent=pi_{number}&amount=100");
        sidecar.billing().refund(Some(&format!("refund:{number}")), &form).effect()
    };
    let answered = |status: &str| shop.provider.on_write(Reply::json(status, "{}"));
    let mut effects = vec![refund(0)];
    answered("402 Payment Required");
    effects.push(refund(1));
    for number in 2..4 {
        answered("500 Internal Server Error");
        effects.push(refund(number));
    }
    let word = json!({ "outcome": "failed", "reason": "the dashboard shows no refund" }).to_string();
    let path = format!("/actions/effects/{}/resolve", effects[3]);
    assert_eq!(data(&call(&sidecar, "ops", "POST", &path, &word))["responseStatus"], 500);
    shop.provider.on_write(Reply::lost());
    effects.push(refund(4));
    effects.reverse();

    let said = |one: &Value| json!([one["id"], one["responseStatus"], one["error"]]);
    let alike = |erased: bool| {
        let effect = |id: &String| said(&get(&sidecar, &format!("/actions/effects/{id}"))["data"]);
        let alone: Vec<Value> = effects.iter().map(effect).collect();
        let statuses: Vec<_> = alone.iter().map(|one| one[1].clone()).collect();
        assert_eq!(json!(statuses), json!([null, 500, 500, 402, 200]), "erased: {erased}");
        let rows = |list: &Value| list.as_array().unwrap().iter().map(said).collect::<Vec<_>>();
        assert_eq!(rows(&get(&sidecar, "/actions/effects")["data"]), alone, "erased: {erased}");
        assert_eq!(rows(&shop.home.run_on_db(&["effects", "--json"]).json()), alone, "erased: {erased}");
        let list = get(&sidecar, "/actions/invocations")["data"].clone();
        for (row, effect) in list.as_array().unwrap().iter().zip(&alone) {
            let id = row["id"].as_str().unwrap();
            let one = &get(&sidecar, &format!("/actions/invocations/{id}"))["data"];
            assert_eq!(said(row), said(one), "erased: {erased}");
            assert_eq!(row["responseStatus"], effect[1], "{row}");
            if row["status"] == "failed" {
                assert_eq!(row["error"], effect[2], "one failure, one sentence: {row}");
            }
        }
    };
    alike(false);
    // As after `[store] keep_responses`.
    let record = rusqlite::Connection::open(shop.home.path("oncegate.db")).unwrap();
    assert!(record.execute("DELETE FROM response", []).unwrap() > 0);
    alike(true);
}

#[test]
fn an_action_has_two_names_and_evidence_one_spelling() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let effect = lost(&shop, &sidecar);
    for list in ["/actions/effects", "/actions/invocations"] {
        for name in ["refund", "act_refund"] {
            let found = get(&sidecar, &format!("{list}?action={name}"));
            assert_eq!(found["pagination"]["total"], 1, "{list} {name}");
            assert_eq!(found["data"][0]["actionName"], "refund", "{list} {name}");
        }
        assert_eq!(get(&sidecar, &format!("{list}?action=act_other"))["pagination"]["total"], 0);
    }
    let settled = json!({
        "outcome": "succeeded",
        "reason": "seen in the dashboard",
        "externalReference": "re_9",
        "actualImpact": [{ "dimension": "money", "unit": "usd", "amount": 11_000, "bound": "exact" }],
    });
    let path = format!("/actions/effects/{effect}/resolve");
    data(&call(&sidecar, "ops", "POST", &path, &settled.to_string()));
    let shown = detail(&sidecar, &effect);
    let facts = shown["evidence"].as_array().unwrap();
    let resolved = facts.iter().find(|fact| fact["detail"].get("externalReference").is_some());
    assert!(resolved.is_some_and(|fact| fact["detail"]["externalReference"] == "re_9"), "{shown}");
    assert!(!shown["evidence"].to_string().contains("external_reference"), "{shown}");
    assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
}

#[test]
fn what_the_published_api_has_beside_is_said_not_to_be_built() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    for path in ["/approval-policies", "/budgets/key_1", "/connections"] {
        says_no(&call(&sidecar, "ops", "GET", path, ""), 402, "FEATURE_NOT_AVAILABLE", "");
    }
    says_no(&call(&sidecar, "ops", "GET", "/budget", ""), 404, "NOT_FOUND", "");
}
