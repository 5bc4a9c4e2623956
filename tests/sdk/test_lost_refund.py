"""The story of the lost refund, told by stripe-python as it comes."""

import pytest

from refunds import CALLERS, CREDENTIAL

SENTENCE = "The provider may have applied effect {}; Oncegate is reconciling it. Do not retry; inspect the effect."
STYLES = ["module", "client", "later"]


def exposure(sidecar):
    return sidecar.rows("""select "limit", amount, consumed, reserved, unknown_exposure, available from exposure""")


def test_the_stand_in_would_refund_twice(localstripe):
    """Without anything between, a second send is a second refund: what the tests below would show."""
    payment = localstripe.payment(12_000)
    for _ in range(2):
        localstripe.form("/v1/refunds", payment_intent=payment, amount=6_000)
    assert len(localstripe.refunds(payment)) == 2


@pytest.mark.parametrize("style", STYLES)
def test_a_refund_goes_through(style, localstripe, front, sidecar):
    """`oncegate run` alone: the client sets nothing, and trusts what it must."""
    payment = localstripe.payment(12_000)
    seen, printed = sidecar.refund(payment, 12_000, style)
    [made] = localstripe.refunds(payment)
    got = seen["refund"]
    assert (got["type"], got["id"], got["amount"]) == ("Refund", made["id"], 12_000), seen
    [sent] = front.writes()
    assert sent.headers["authorization"] == f"Bearer {CREDENTIAL}", "the sidecar put it in"
    assert CREDENTIAL not in printed
    assert sidecar.held() == {"consumed": 12_000, "reserved": 0, "unknownExposure": 0}


def test_without_the_hook_the_documented_setting_does(localstripe, front, sidecar):
    """`python -E` reads no PYTHONPATH, and so takes no hook: the library then does not trust the sidecar."""
    payment = localstripe.payment(12_000)
    seen, _ = sidecar.refund(payment, 500, "module", python=["-E"])
    assert seen["error"]["class"] == "APIConnectionError", seen
    assert front.writes() == []
    seen, _ = sidecar.refund(payment, 500, "own-roots", python=["-E"])
    assert seen["refund"]["amount"] == 500, seen


@pytest.mark.parametrize("style", STYLES)
def test_lost_refund(style, localstripe, front, sidecar):
    payment = localstripe.payment(50_000)
    front.lose()
    seen_by_client = []

    def refund(amount):
        seen, text = sidecar.refund(payment, amount, style)
        seen_by_client.append(text)
        return seen

    # The answer is lost.
    lost = refund(12_000)["error"]
    [effect] = sidecar.data("effects")
    assert SENTENCE.format(effect["id"]) in lost["text"]
    assert (lost["class"], lost["status"], lost["code"]) == ("APIError", 422, "oncegate_outcome_unknown")
    assert len(localstripe.refunds(payment)) == 1
    assert (effect["outcome"], effect["grade"]) == ("unknown", "unknown")
    assert sidecar.held() == {"consumed": 0, "reserved": 12_000, "unknownExposure": 12_000}
    assert exposure(sidecar) == [("refunds-per-day", 50_000, 0, 12_000, 12_000, 38_000)]
    assert sidecar.rows("select id, action, amount, unit from unresolved") == [
        (effect["id"], "refund", 12_000, "usd")]

    # As a model would: the same again, and then another amount.
    again = refund(12_000)["error"]
    assert (again["status"], again["code"]) == (422, "oncegate_outcome_unknown")
    assert SENTENCE.format(effect["id"]) in again["text"]
    for amount in (11_900, 12_100):
        varied = refund(amount)["error"]
        assert (varied["status"], varied["code"]) == (422, "oncegate_unresolved_effect")
        assert effect["id"] in varied["text"]
    assert len(front.writes()) == 1, "none of them reached the provider"
    assert sidecar.held() == {"consumed": 0, "reserved": 12_000, "unknownExposure": 12_000}

    # The provider is asked.
    looked = sidecar.cli("effect", "reconcile", effect["id"])
    assert looked.returncode == 0, looked
    settled = sidecar.data("effect", "show", effect["id"])
    assert (settled["outcome"], settled["grade"]) == ("succeeded", "confirmed")
    assert sidecar.held() == {"consumed": 12_000, "reserved": 0, "unknownExposure": 0}
    assert exposure(sidecar) == [("refunds-per-day", 50_000, 12_000, 0, 0, 38_000)]
    assert sidecar.rows("select * from unresolved") == []

    # The same again: a refund object like any other, and still only one refund.
    last = refund(12_000)["refund"]
    [made] = localstripe.refunds(payment)
    assert (last["type"], last["id"], last["amount"]) == ("Refund", made["id"], 12_000)
    assert last["metadata"]["oncegate_effect"] == effect["id"]
    assert len(front.writes()) == 1, "refunded exactly once"

    for text in seen_by_client:
        assert CREDENTIAL not in text
        assert all(caller.key not in text for caller in CALLERS.values()), "a token for one run, not the caller's key"
    assert sidecar.shows_no_secret() >= 6, "the record and its log among them"


@pytest.mark.parametrize("style", ["client", "later"])
def test_the_library_does_not_send_again_by_itself(style, localstripe, front, sidecar):
    """StripeClient repeats a POST twice on a reset, 409 or 5xx by itself. It must see none of those."""
    payment = localstripe.payment(12_000)
    front.lose(3)
    seen, _ = sidecar.refund(payment, 700, style)
    assert seen["error"]["class"] == "APIError", seen
    assert seen["error"]["headers"]["stripe-should-retry"] == "false"
    assert (len(front.writes()), len(localstripe.refunds(payment))) == (1, 1)
    assert len(sidecar.data("effects")) == 1
    assert "a repeat" not in sidecar.log.read_text(), "the library asked once"
    sidecar.refund(payment, 700, style)
    assert "a repeat" in sidecar.log.read_text(), "and had it asked again, the log would say so"
