//! Which payment a charge is of.

use super::*;

/// A model that is told not to retry tries the other parameter: the payment is the same.
#[test]
fn a_charge_is_fenced_with_its_payment_intent() {
    let came = Came::form("charge=ch_1&amount=5");
    let Planned::NeedsRead(read) = refund().plan(&came.request()) else { panic!("nothing is read") };
    assert_eq!(read.read_back.path_and_query(), "/v1/charges/ch_1");
    let charge = |intent: Value| json!({"object": "charge", "id": "ch_1", "payment_intent": intent});
    let (known, unread) = ("payment_intent/pi_1", "unread_charge/ch_1");
    let both = "acct_1Nxyz/ch_1\nch_1\nacct_1Nxyz/pi_1\npi_1";
    let (alone, any) = ("acct_1Nxyz/ch_1\nch_1", "acct_1Nxyz/ch_1\nch_1\nacct_1Nxyz/pi_*\npi_*");
    for (status, read, fence, resource) in [
        (200, charge(json!("pi_1")), known, both),
        (200, charge(json!({"object": "payment_intent", "id": "pi_1"})), known, both),
        (200, charge(Value::Null), "charge/ch_1", alone),
        (404, json!({"error": {"code": "resource_missing"}}), "charge/ch_1", alone),
        // Which payment it is of has not been said.
        (200, charge(json!("pi_1/../pi_2")), unread, any),
        (200, json!({"object": "charge", "id": "ch_2", "payment_intent": "pi_1"}), unread, any),
        (200, json!({"object": "refund", "id": "ch_1", "payment_intent": "pi_1"}), unread, any),
        (302, Value::Null, unread, any),
        (401, Value::Null, unread, any),
        (403, json!({"error": {"code": "more_permissions_required"}}), unread, any),
        (404, charge(json!("pi_1")), unread, any),
        (429, Value::Null, unread, any),
        (503, Value::Null, unread, any),
    ] {
        let answer = Answer { status, reason: None, headers: vec![], body: read.to_string().into_bytes() };
        let plan = ready(refund().plan_with(&came.request(), Some(&answer)));
        assert_eq!(
            (plan.subject.as_deref(), plan.resource.as_deref()),
            (Some(fence), Some(resource)),
            "{status} {read}"
        );
        assert_eq!(plan.impact, Some(usd(Some(5), Bound::Exact)), "{read}");
    }
}
