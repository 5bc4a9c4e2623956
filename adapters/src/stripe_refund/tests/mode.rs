//! Test mode and live mode.

use super::*;

#[test]
fn the_credential_is_of_the_declared_mode() {
    for (live, credential, fits) in [
        (false, "sk_test_1", true),
        (false, "rk_test_1", true),
        (false, "sk_live_1", false),
        (false, "rk_live_1", false),
        (false, "sk_org_live_1", false),
        (false, " \tsk_live_1", false),
        (false, "sk_org_test_1", true),
        (true, "sk_org_test_1", false),
        (false, "something else", true),
        (true, "sk_live_1", true),
        (true, "sk_test_1", false),
    ] {
        let adapter = Adapter::StripeRefund(StripeRefund { live, ..refund() });
        assert_eq!(adapter.credential_fits(credential), fits, "{live} {credential}");
    }
}

#[test]
fn live_mode_is_another_world_than_test_mode() {
    let live = StripeRefund { live: true, ..refund() };
    assert_eq!(Adapter::StripeRefund(live).world(), None);
    assert_eq!(Adapter::StripeRefund(refund()).world(), Some(("mode", "test")));
}
