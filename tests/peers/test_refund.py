"""Refunds at two servers that speak Stripe: one keeps its answers by key, one knows no keys."""

import urllib.parse

import pytest

from governed import NOTHING

REFUND = """
[actions.refund]
adapter = { type = "stripe.refund", mode = "test", currency = "usd" }
credential_secret = "PROVIDER_KEY"

[limits.a-day]
dimension = "money"
currency = "usd"
period = "day"
amount = 50_000
"""
CHARGE = """
[actions.charge]
adapter = { type = "stripe.write", path = "/v1/charges", mode = "test" }
credential_secret = "PROVIDER_KEY"
subject = "{{input.metadata.order}}"
impact = { dimension = "money", currency = "usd", amount = "input.amount" }

[limits.a-day]
dimension = "money"
currency = "usd"
period = "day"
amount = 50_000
"""
# What an operator declares of a provider that knows no keys and shows an order's number.
DECLARED = """
[actions.refund-of-an-order]
method = "POST"
url = "https://api.stripe.com/v1/refunds"
subject = "{{input.payment_intent}}"
impact = { dimension = "money", currency = "usd", amount = "input.amount" }

[actions.refund-of-an-order.verify]
url = "https://api.stripe.com/v1/refunds?payment_intent={{input.payment_intent}}&limit=100"
match = [{ path = "data.*.metadata.order", equals = "{{input.metadata.order}}" }]

[limits.a-day]
dimension = "money"
currency = "usd"
period = "day"
amount = 50_000
"""


def refund(amount=12_000, **target):
    return ["refund", {**target, "amount": amount, "metadata": {"order": "A-77"}}]


@pytest.mark.parametrize("settling", ["looks", "replays"])
def test_a_lost_refund_where_keys_are_kept(settling, stateful_mock, before):
    charge = stateful_mock.charge(50_000)
    governed = before(stateful_mock, REFUND)
    call = refund(charge=charge)
    effect = governed.loses(call, refund(charge=charge, amount=11_900), amount=12_000)
    [made] = stateful_mock.refunds(charge)
    assert made["metadata"] == {"order": "A-77", "oncegate_effect": effect}

    getattr(governed, settling)(effect)
    [got] = governed.agent(call)
    assert got["answer"]["id"] == made["id"] and got["answer"]["amount"] == 12_000
    assert stateful_mock.refunds(charge) == [made]
    governed.sent(1 if settling == "looks" else 2)


def test_a_lost_refund_where_keys_are_not_kept(localstripe, before):
    """The adapter would replay, as Stripe itself takes it; here that would refund twice, and so only a look settles it."""
    payment = localstripe.payment(50_000)
    governed = before(localstripe, REFUND)
    call = refund(payment_intent=payment)
    effect = governed.loses(call, refund(payment_intent=payment, amount=12_100), amount=12_000)
    [made] = localstripe.refunds(payment)

    governed.looks(effect)
    [got] = governed.agent(call)
    assert got["answer"]["id"] == made["id"] and got["answer"]["metadata"]["oncegate_effect"] == effect
    [sent] = governed.sent(1)
    assert localstripe.refunds(payment) == [made]

    # Had the sidecar sent it twice, it would have shown: this is what the same bytes under the same key do here.
    kept = {name: sent.headers[name] for name in ("content-type", "idempotency-key")}
    assert localstripe.raw("POST", sent.target, sent.body, kept)[0] == 200
    assert len(localstripe.refunds(payment)) == 2


def test_a_declared_refund_without_a_key_is_not_replayed(localstripe, before):
    payment = localstripe.payment(50_000)
    governed = before(localstripe, DECLARED)
    effect = governed.loses(refund(payment_intent=payment), refund(payment_intent=payment, amount=1), amount=12_000)
    governed.does_not_replay(effect)
    assert len(localstripe.refunds(payment)) == 1
    governed.looks(effect)
    assert len(localstripe.refunds(payment)) == 1


def test_another_use_of_its_key_is_failed(stateful_mock, before):
    """Another client takes the effect's key while its refund is on the way: the peer refuses ours, and made only theirs."""
    charge = stateful_mock.charge(50_000)
    governed = before(stateful_mock, REFUND)
    released = governed.front.hold()
    with governed.while_asked(refund(charge=charge)) as asked:
        [sent] = governed.sent(1)
        headers = {name: sent.headers[name] for name in ("content-type", "idempotency-key")}
        theirs = urllib.parse.urlencode({"charge": charge, "amount": 700})
        assert stateful_mock.raw("POST", "/v1/refunds", theirs, headers)[0] == 200
        released.set()
    [told] = asked.result()
    assert told["class"] == "IdempotencyError", told
    governed.failed(told, 400)
    assert [one["amount"] for one in stateful_mock.refunds(charge)] == [700]


def test_more_than_was_paid_is_failed(stateful_mock, before):
    charge = stateful_mock.charge(1_000)
    governed = before(stateful_mock, REFUND)
    [told] = governed.agent(refund(charge=charge, amount=1_500))
    governed.failed(told, 400)
    assert "greater than unrefunded amount" in told["text"]
    assert stateful_mock.refunds(charge) == []
    # What was released can be used.
    [got] = governed.agent(refund(charge=charge, amount=900))
    assert got["answer"]["amount"] == 900
    assert governed.held() == {**NOTHING, "consumed": 900}


def test_a_500_proves_nothing(stateful_mock, before):
    """Nor does the same 500, given again to a replay."""
    charges = len(stateful_mock.charges())
    governed = before(stateful_mock, CHARGE)
    asked = ["charge", {"amount": 900, "currency": "usd", "source": "tok_500", "metadata": {"order": "A-78"}}]
    [told] = governed.agent(asked)
    effect = governed.effect()
    assert told["status"] == 422 and effect["outcome"] == "unknown", told
    unknown = {"consumed": 0, "reserved": 900, "unknownExposure": 900}
    assert governed.held() == unknown

    for command, sent in (("replay", 2), ("reconcile", 2)):
        assert governed.cli("effect", command, effect["id"]).returncode == 13
        governed.sent(sent)
        assert governed.effect()["outcome"] == "unknown"
        assert governed.held() == unknown
    assert len(stateful_mock.charges()) == charges
