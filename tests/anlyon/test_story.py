"""The lost answer, from the definition to the retry on purpose."""

import threading

import anlyon
import pytest

from conftest import STRIPE_KEY, money, refused
from served import KEYS

INPUT = {"payment_intent": "pi_3Pabc", "amount": 12_000}


@pytest.fixture
def lost(stripe, agent, refund, daily):
    """A refund whose answer was lost: the invocation as the client saw it."""
    stripe.lose()
    return agent.actions.invoke("refund", INPUT, idempotency_key="order-42").data


def test_a_refund_goes_through(stripe, agent, refund, daily):
    made = agent.actions.invoke("refund", INPUT, idempotency_key="order-42")
    data = made.data
    assert (data["status"], data["responseStatus"], data["body"]["id"]) == ("succeeded", 200, "re_1")
    assert data["grade"] in ("confirmed", "acknowledged") and data["pendingApproval"] is False
    assert data["id"] == data["invocationId"] and data["effectId"].startswith("eff_")
    assert made.request_id
    [sent] = stripe.writes()
    assert sent.headers["authorization"] == f"Bearer {STRIPE_KEY}", "from the vault"
    assert money(agent) == {"consumed": 12_000, "reserved": 0, "unknownExposure": 0, "available": 38_000}


def test_a_lost_answer_is_unknown_and_held(stripe, agent, lost):
    assert (lost["status"], lost["grade"], lost["responseStatus"], lost["body"]) == ("unknown", "unknown", None, None)
    assert lost["effectId"] in lost["error"] and "Do not retry" in lost["error"]
    effect = agent.actions.effect(lost["effectId"]).data
    assert (effect["stage"], effect["outcome"], effect["grade"]) == ("reconciling", "unknown", "unknown")
    assert (effect["verification"], effect["unresolvedExposure"]) == ("unverified", True)
    assert [one["kind"] for one in effect["attempts"]] == ["dispatch"]
    assert money(agent) == {"consumed": 0, "reserved": 12_000, "unknownExposure": 12_000, "available": 38_000}
    assert len(stripe.writes()) == 1, "the client did not send again, and neither did the sidecar"


def test_the_same_key_again_is_the_current_state(stripe, agent, ops, lost, replays):
    again = agent.actions.invoke("refund", INPUT, idempotency_key="order-42").data
    assert (again["status"], again["invocationId"]) == ("unknown", lost["invocationId"])
    ops.actions.reconcile_effect(lost["effectId"])
    settled = agent.actions.invoke("refund", dict(reversed(INPUT.items())), idempotency_key="order-42").data
    assert (settled["status"], settled["grade"]) == ("succeeded", "confirmed")
    assert settled["invocationId"] == lost["invocationId"]
    assert replays == ["current-state", "current-state"]
    assert len(stripe.writes()) == 1


def test_a_new_key_for_the_same_refund_sends_nothing(stripe, agent, lost):
    """The client makes a key for each call; a model that calls again gets what is known."""
    again = agent.actions.invoke("refund", INPUT).data
    assert (again["status"], again["effectId"]) == ("unknown", lost["effectId"])
    with refused(409, "unresolved_effect") as varied:
        agent.actions.invoke("refund", {**INPUT, "amount": 11_500})
    assert varied.value.details["effectId"] == lost["effectId"]
    assert len(stripe.writes()) == 1


def test_a_changed_request_under_the_same_key_is_409(stripe, agent, lost):
    with refused(409, "idempotency_key_reuse"):
        agent.actions.invoke("refund", {**INPUT, "amount": 500}, idempotency_key="order-42")
    assert len(stripe.writes()) == 1


def test_a_look_finds_the_refund(stripe, agent, lost):
    """The agent may ask for it: it can only turn out well."""
    effect = agent.actions.reconcile_effect(lost["effectId"]).data
    assert (effect["outcome"], effect["grade"], effect["verification"]) == ("succeeded", "confirmed", "provider")
    assert effect["unresolvedExposure"] is False
    assert money(agent) == {"consumed": 12_000, "reserved": 0, "unknownExposure": 0, "available": 38_000}
    with pytest.raises(anlyon.AnlyonError) as settled:
        agent.actions.reconcile_effect(lost["effectId"])
    assert settled.value.status == 409
    assert len(stripe.writes()) == 1 and len(stripe.reads()) >= 1


def test_finding_nothing_settles_nothing(stripe, ops, lost):
    stripe.forget()
    effect = ops.actions.reconcile_effect(lost["effectId"]).data
    assert (effect["outcome"], effect["stage"]) == ("unknown", "reconciling")
    assert money(ops)["unknownExposure"] == 12_000
    assert len(stripe.writes()) == 1


def test_a_replay_is_the_same_write_under_the_same_key(stripe, agent, ops, lost):
    stripe.forget()
    with refused(403, "AUTHORIZATION_ERROR"):
        agent.actions.replay_effect(lost["effectId"])
    effect = ops.actions.replay_effect(lost["effectId"]).data
    assert (effect["outcome"], effect["stage"]) == ("succeeded", "settled")
    first, second = stripe.writes()
    assert (first.body, first.headers["idempotency-key"]) == (second.body, second.headers["idempotency-key"])
    assert [one["kind"] for one in ops.actions.effect(lost["effectId"]).data["attempts"]].count("replay") == 1
    with refused(409, "REPLAY_REFUSED") as settled:
        ops.actions.replay_effect(lost["effectId"])
    assert settled.value.details["reason"]
    assert len(stripe.writes()) == 2 and money(ops)["consumed"] == 12_000


def test_the_key_that_asked_decides_nothing(stripe, ops, served, refund, daily):
    """Also when it has every scope: an operator that made the call itself needs another one to settle it."""
    stripe.lose()
    lost = ops.actions.invoke("refund", INPUT).data
    with refused(403, "AUTHORIZATION_ERROR"):
        ops.actions.replay_effect(lost["effectId"])
    with refused(403, "AUTHORIZATION_ERROR"):
        ops.actions.resolve_effect(lost["effectId"], outcome="failed", reason="I say it did not happen")
    with anlyon.Client(KEYS["second-ops"], base_url=served.url) as second:
        resolved = second.actions.resolve_effect(
            lost["effectId"], outcome="succeeded", reason="seen in the dashboard").data
    assert (resolved["grade"], resolved["verification"]) == ("acknowledged", "manual")
    assert len(stripe.writes()) == 1


def test_a_person_settles_it(stripe, agent, ops, lost):
    note = ops.actions.add_effect_note(lost["effectId"], "asked the bank").data
    assert note
    with refused(400, "VALIDATION_ERROR"):
        ops.actions.resolve_effect(lost["effectId"], outcome="failed", reason="short")
    resolved = ops.actions.resolve_effect(
        lost["effectId"], outcome="failed", reason="no such refund in the dashboard", partial_effect="none").data
    assert (resolved["outcome"], resolved["grade"], resolved["verification"]) == ("failed", "failed", "manual")
    evidence = [one["text"] for one in ops.actions.effect(lost["effectId"]).data["evidence"]]
    assert any("asked the bank" in text for text in evidence)
    assert any("no such refund in the dashboard" in text for text in evidence)
    assert money(agent) == {"consumed": 0, "reserved": 0, "unknownExposure": 0, "available": 50_000}
    assert len(stripe.writes()) == 1


def test_a_retry_is_on_purpose(stripe, agent, ops, lost):
    with pytest.raises(anlyon.AnlyonError) as unknown:
        agent.actions.invoke("refund", INPUT, retry_of=lost["id"], idempotency_key="order-42-again")
    assert unknown.value.status == 409
    ops.actions.resolve_effect(lost["effectId"], outcome="failed", reason="no such refund in the dashboard")
    retried = agent.actions.invoke("refund", INPUT, retry_of=lost["id"], idempotency_key="order-42-again").data
    assert (retried["status"], retried["retryOf"]) == ("succeeded", lost["id"])
    assert agent.actions.invocation(lost["id"]).data["retriedBy"] == retried["id"]
    with pytest.raises(anlyon.AnlyonError) as twice:
        agent.actions.invoke("refund", INPUT, retry_of=lost["id"], idempotency_key="order-42-third")
    assert twice.value.status == 409
    with pytest.raises(anlyon.AnlyonError) as succeeded:
        agent.actions.invoke("refund", INPUT, retry_of=retried["id"], idempotency_key="order-42-fourth")
    assert succeeded.value.status == 409
    assert len(stripe.writes()) == 2


def test_a_definite_no_is_failed_and_frees_the_room(stripe, agent, refund, daily):
    stripe.say(402, {"error": {"type": "card_error", "message": "insufficient funds"}})
    failed = agent.actions.invoke("refund", INPUT).data
    assert (failed["status"], failed["grade"], failed["responseStatus"]) == ("failed", "failed", 402)
    assert money(agent)["available"] == 50_000
    assert agent.actions.invoke("refund", INPUT).data["status"] == "succeeded", "failed is proof: the next one runs"
    assert len(stripe.writes()) == 2


def test_a_drill_loses_the_answer_on_purpose(stripe, agent, ops, refund, daily):
    config = {"account": "acct_1Nxyz", "mode": "test", "currency": "usd", "faultDrill": "drop_response_after_send"}
    ops.actions.update("refund", adapter={"type": "stripe.refund", "config": config, "credentialSecret": "STRIPE_KEY"})
    drilled = agent.actions.invoke("refund", INPUT).data
    assert (drilled["status"], drilled["grade"]) == ("unknown", "unknown")
    assert len(stripe.writes()) == 1 and len(stripe.refunds) == 1
    assert ops.actions.reconcile_effect(drilled["effectId"]).data["outcome"] == "succeeded"
    assert len(stripe.writes()) == 1


def test_a_duplicate_in_flight_is_not_sent(stripe, agent, served, refund, replays):
    """A second call while the first is on its way: it waits, or is told so; either way one write."""
    release = stripe.hold()
    first = {}
    calling = threading.Thread(
        target=lambda: first.update(agent.actions.invoke("refund", INPUT, idempotency_key="one").data))
    calling.start()
    assert stripe.arrived.acquire(timeout=30)
    second = {}

    def again():
        with anlyon.Client(KEYS["agent"], base_url=served.url) as other:
            try:
                second.update(other.actions.invoke("refund", INPUT, idempotency_key="one").data)
            except anlyon.AnlyonError as error:
                second.update(code=error.code, status=error.status)

    waiting = threading.Thread(target=again)
    waiting.start()
    release.set()
    calling.join(30)
    waiting.join(30)
    assert first["status"] == "succeeded"
    assert second.get("invocationId") == first["invocationId"] or second["code"] == "idempotency_request_in_progress"
    assert len(stripe.writes()) == 1
