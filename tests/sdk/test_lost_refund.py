"""The story of the lost refund, told by stripe-python as it comes."""

from sidecar import CREDENTIAL, KEYS

SENTENCE = "The provider may have applied effect {}; Oncegate is reconciling it. Do not retry; inspect the effect."


def test_the_stand_in_would_refund_twice(localstripe):
    """Without anything between, a second send is a second refund: what the tests below would show."""
    payment = localstripe.payment(12_000)
    for _ in range(2):
        localstripe.ask("POST", "/v1/refunds", payment_intent=payment, amount=12_000)
    assert len(localstripe.refunds(payment)) == 2


def test_a_refund_goes_through(localstripe, front, sidecar):
    payment = localstripe.payment(12_000)
    seen, printed = sidecar.refund(payment, 12_000)
    [made] = localstripe.refunds(payment)
    assert (seen["refund"]["id"], seen["refund"]["amount"]) == (made["id"], 12_000), seen
    [sent] = front.posts()
    assert sent["headers"]["authorization" if "authorization" in sent["headers"] else "Authorization"] == (
        f"Bearer {CREDENTIAL}"), "the sidecar put it in"
    assert CREDENTIAL not in printed
    assert sidecar.limit() == {"consumed": 12_000, "reserved": 0, "unknownExposure": 0}


def test_lost_refund(localstripe, front, sidecar):
    payment = localstripe.payment(12_000)
    front.drop_answers(1)
    printed = []

    def refund(amount):
        seen, text = sidecar.refund(payment, amount)
        printed.append(text)
        return seen

    lost = refund(12_000)["error"]
    [effect] = sidecar.data("effects")
    assert SENTENCE.format(effect["id"]) in lost["text"]
    assert (lost["status"], lost["code"]) == (422, "oncegate_outcome_unknown")
    assert len(localstripe.refunds(payment)) == 1
    assert (effect["outcome"], effect["grade"]) == ("unknown", "unknown")
    assert sidecar.limit() == {"consumed": 0, "reserved": 12_000, "unknownExposure": 12_000}

    again = refund(12_000)["error"]
    assert SENTENCE.format(effect["id"]) in again["text"]
    varied = refund(11_900)["error"]
    assert (varied["status"], varied["code"]) == (422, "oncegate_unresolved_effect")
    assert effect["id"] in varied["text"]
    assert len(front.posts()) == 1, "neither reached the provider"

    looked = sidecar.cli("effect", "reconcile", effect["id"])
    assert looked.returncode == 0, looked
    settled = sidecar.data("effect", "show", effect["id"])
    assert (settled["outcome"], settled["grade"]) == ("succeeded", "confirmed")
    assert sidecar.limit() == {"consumed": 12_000, "reserved": 0, "unknownExposure": 0}

    last = refund(12_000)
    [made] = localstripe.refunds(payment)
    assert (last["refund"]["id"], last["refund"]["amount"]) == (made["id"], 12_000)
    assert made["metadata"]["oncegate_effect"] == effect["id"]
    assert len(front.posts()) == 1, "refunded exactly once"
    for text in printed:
        assert CREDENTIAL not in text
        assert all(key not in text for key in KEYS.values()), "a token for one run, not the caller's key"
    assert CREDENTIAL not in sidecar.log.read_text()


def test_the_hook_makes_the_library_trust(localstripe, front, sidecar):
    """`oncegate run` alone: the client sets nothing at all."""
    payment = localstripe.payment(12_000)
    seen, _ = sidecar.refund(payment, 500, trust="as-it-comes")
    assert seen["refund"]["amount"] == 500, seen


def test_the_library_does_not_send_again_by_itself(localstripe, front, sidecar):
    """stripe-python repeats a POST up to twice on a reset, 409 or 5xx. It must see none of those."""
    payment = localstripe.payment(12_000)
    front.drop_answers(3)
    seen, _ = sidecar.refund(payment, 700)
    assert seen["error"]["class"] == "APIError", seen
    assert (len(front.posts()), len(localstripe.refunds(payment))) == (1, 1)
    log = sidecar.log.read_text()
    assert seen["error"]["headers"].get("Stripe-Should-Retry", seen["error"]["headers"].get("stripe-should-retry")) == (
        "false"), log
