"""Refunds at two servers that speak Stripe: one keeps its answers by key, one knows no keys."""

import urllib.parse

import pytest

from governed import NOTHING

A_DAY = """
[limits.a-day]
dimension = "money"
currency = "usd"
period = "day"
amount = 50_000
"""
REFUND = A_DAY + """
[actions.refund]
adapter = { type = "stripe.refund", mode = "test", currency = "usd" }
credential_secret = "PROVIDER_KEY"
"""
CHARGE = A_DAY + """
[actions.charge]
adapter = { type = "stripe.write", path = "/v1/charges", mode = "test" }
credential_secret = "PROVIDER_KEY"
subject = "{{input.metadata.order}}"
impact = { dimension = "money", currency = "usd", amount = "input.amount" }
"""
# What an operator declares of a provider that knows no keys and shows an order's number.
DECLARED = A_DAY + """
[actions.refund-of-an-order]
method = "POST"
url = "https://api.stripe.com/v1/refunds"
subject = "{{input.payment_intent}}"
impact = { dimension = "money", currency = "usd", amount = "input.amount" }

[actions.refund-of-an-order.verify]
url = "https://api.stripe.com/v1/refunds?payment_intent={{input.payment_intent}}&limit=100"
match = [{ path = "data.*.metadata.order", equals = "{{input.metadata.order}}" }]
"""


def refund(amount=12_000, **target):
    return ["refund", {**target, "amount": amount, "metadata": {"order": "A-77"}}]


def charge(order, amount=900, source="tok_visa"):
    return ["charge", {"amount": amount, "currency": "usd", "source": source, "metadata": {"order": order}}]


@pytest.mark.parametrize("settling", ["looks", "replays"])
def test_a_lost_refund_where_keys_are_kept(settling, stateful_mock, before):
    paid = stateful_mock.paid(50_000)
    governed = before(stateful_mock, REFUND)
    call = refund(charge=paid)
    effect = governed.loses(call, refund(charge=paid, amount=11_900), amount=12_000)
    [made] = stateful_mock.refunds(paid)
    assert made["metadata"] == {"order": "A-77", "oncegate_effect": effect}

    getattr(governed, settling)(effect)
    [got] = governed.agent(call)
    assert got["answer"]["id"] == made["id"] and got["answer"]["amount"] == 12_000
    assert stateful_mock.refunds(paid) == [made]
    governed.sent(1 if settling == "looks" else 2)


def test_a_lost_refund_where_keys_are_not_kept(localstripe, before):
    """The adapter would replay, as Stripe takes it; here that would refund twice, and so only a look settles it."""
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


@pytest.mark.parametrize("settling", ["looks", "replays"])
def test_a_lost_charge(settling, stateful_mock, before):
    """Any other write of Stripe's is found and replayed as a refund is."""
    order = f"C-{settling}"
    governed = before(stateful_mock, CHARGE)
    effect = governed.loses(charge(order), charge(order, amount=950), amount=900)
    [made] = stateful_mock.charges(order)
    assert made["metadata"]["oncegate_effect"] == effect

    getattr(governed, settling)(effect)
    [got] = governed.agent(charge(order))
    assert got["answer"]["id"] == made["id"]
    assert stateful_mock.charges(order) == [made]
    governed.sent(1 if settling == "looks" else 2)


def test_another_use_of_its_key_is_failed(stateful_mock, before):
    """Another client takes the effect's key while its refund is on the way: the peer makes theirs, and refuses ours."""
    paid = stateful_mock.paid(50_000)
    governed = before(stateful_mock, REFUND)
    released = governed.front.hold()
    with governed.while_asked(refund(charge=paid)) as asked:
        [sent] = governed.sent(1)
        headers = {name: sent.headers[name] for name in ("content-type", "idempotency-key")}
        theirs = urllib.parse.urlencode({"charge": paid, "amount": 700})
        assert stateful_mock.raw("POST", "/v1/refunds", theirs, headers)[0] == 200
        released.set()
    [told] = asked.result()
    assert told["class"] == "IdempotencyError", told
    governed.failed(told, 400)
    assert [one["amount"] for one in stateful_mock.refunds(paid)] == [700]


def test_more_than_was_paid_is_failed(stateful_mock, before):
    paid = stateful_mock.paid(1_000)
    governed = before(stateful_mock, REFUND)
    [told] = governed.agent(refund(charge=paid, amount=1_500))
    governed.failed(told, 400)
    assert "greater than unrefunded amount" in told["text"]
    assert stateful_mock.refunds(paid) == []
    # What was released can be used.
    [got] = governed.agent(refund(charge=paid, amount=900))
    assert got["answer"]["amount"] == 900
    assert governed.held() == {**NOTHING, "consumed": 900}


def test_a_500_proves_nothing(stateful_mock, before):
    """Nor does the same 500, given again to a replay."""
    governed = before(stateful_mock, CHARGE)
    [told] = governed.agent(charge("C-500", source="tok_500"))
    effect = governed.effect()
    assert told["status"] == 422 and effect["outcome"] == "unknown", told
    unknown = {"consumed": 0, "reserved": 900, "unknownExposure": 900}
    assert governed.held() == unknown

    for command, sent in (("replay", 2), ("reconcile", 2)):
        assert governed.cli("effect", command, effect["id"]).returncode == 13
        governed.sent(sent)
        assert governed.effect()["outcome"] == "unknown"
        assert governed.held() == unknown
    assert stateful_mock.charges("C-500") == []
