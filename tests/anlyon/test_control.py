"""Approvals, previews, the halt, lists of effects; the asynchronous client."""

import threading

import anlyon
import pytest

from conftest import money, refused, run
from served import KEYS
from sidecar import wait_for


def ask(agent, payment="pi_1", amount=100, **more):
    return agent.actions.invoke("refund", {"payment_intent": payment, "amount": amount}, **more).data


@pytest.fixture
def gated(ops, refund):
    return ops.actions.update("refund", requires_approval=True).data


def test_an_approved_refund_is_sent_once(stripe, agent, ops, gated, replays):
    parked = ask(agent, idempotency_key="k")
    assert (parked["status"], parked["grade"], parked["pendingApproval"]) == ("pending_approval", "pending", True)
    assert parked["approvalId"].startswith("apr_") and stripe.writes() == []
    assert ask(agent, idempotency_key="k")["invocationId"] == parked["invocationId"]
    with refused(403, "AUTHORIZATION_ERROR"):
        agent.approvals.approve(parked["approvalId"])
    decided = {}
    waiting = threading.Thread(target=lambda: decided.update(
        agent.approvals.wait_for_decision(parked["approvalId"], timeout_seconds=30).data))
    waiting.start()
    answer = ops.approvals.approve(parked["approvalId"], note="checked the order").data
    waiting.join(30)
    assert (answer["approval"]["status"], answer["invocation"]["status"]) == ("approved", "succeeded")
    assert (decided["status"], decided["decisionNote"]) == ("approved", "checked the order")
    assert ask(agent, idempotency_key="k")["status"] == "succeeded"
    assert len(stripe.writes()) == 1


def test_a_denied_refund_is_never_sent(stripe, agent, ops, gated):
    parked = ask(agent)
    answer = ops.approvals.deny(parked["approvalId"], note="not this customer").data
    assert answer["approval"]["status"] == "denied"
    denied = agent.actions.invocation(parked["id"]).data
    assert (denied["status"], denied["grade"], denied["responseStatus"]) == ("denied", "denied", None)
    assert [one["id"] for one in agent.approvals.list(status="denied").data] == [parked["approvalId"]]
    with pytest.raises(anlyon.AnlyonError) as decided:
        ops.approvals.approve(parked["approvalId"])
    assert decided.value.status == 409
    assert stripe.writes() == []


def test_a_question_of_its_own(stripe, agent, ops, refund):
    asked = agent.approvals.request(title="May I?", payload={"order": 42}).data
    assert asked["status"] == "pending" and asked["id"].startswith("apr_")
    assert agent.approvals.wait_for_decision(asked["id"], timeout_seconds=0.5).data["status"] == "pending"
    ops.approvals.approve(asked["id"])
    assert agent.approvals.wait_for_decision(asked["id"], timeout_seconds=5).data["status"] == "approved"
    called = []

    @agent.approvals.gate(title="Do it?", timeout_seconds=30)
    def act(order):
        called.append(order)

    deciding = threading.Thread(target=lambda: ops.approvals.approve(pending(ops)))
    deciding.start()
    act(42)
    deciding.join(30)
    assert called == [42] and stripe.requests == []


def pending(ops):
    def found():
        waiting = ops.approvals.list(status="pending").data
        return waiting[0]["id"] if waiting else None

    return wait_for("a question", found)


def test_a_preview_binds_what_is_sent(stripe, agent, ops, refund, daily):
    # As the library's own examples spell it.
    given = {"paymentIntent": "pi_1", "amount": 12_000, "currency": "usd"}
    preview = agent.actions.preview("refund", given).data
    assert preview["id"].startswith("prv_") and stripe.writes() == []
    assert agent.actions.get_preview(preview["id"]).data["id"] == preview["id"]
    with pytest.raises(anlyon.AnlyonError) as other:
        agent.actions.invoke("refund", {**given, "amount": 1}, preview_id=preview["id"])
    assert other.value.status == 409 and stripe.writes() == []
    fresh = agent.actions.refresh_preview(preview["id"]).data
    assert fresh["id"] != preview["id"]
    done = agent.actions.invoke("refund", given, preview_id=fresh["id"]).data
    assert done["status"] == "succeeded"
    assert len(stripe.writes()) == 1


def test_a_halt_stops_writes_and_nothing_else(stripe, agent, ops, refund, daily):
    stripe.lose()
    lost = ask(agent, "pi_0", 100)
    with refused(403, "AUTHORIZATION_ERROR"):
        agent.environment.halt()
    for _ in range(2):
        assert ops.environment.halt(reason="duplicate refunds reported").data["status"] == "halted"
    assert agent.environment.get().data["status"] == "halted"
    with pytest.raises(anlyon.AnlyonError) as halted:
        ask(agent, "pi_1", 100)
    assert halted.value.status == 409 and "duplicate refunds reported" in str(halted.value)
    assert agent.actions.reconcile_effect(lost["effectId"]).data["outcome"] == "succeeded", "looking goes on"
    assert len(stripe.writes()) == 1
    assert ops.environment.resume().data["status"] == "active"
    assert ask(agent, "pi_1", 100)["status"] == "succeeded"
    assert len(stripe.writes()) == 2


def test_effects_are_filtered_and_paged(stripe, desk, agent, ops, refund, ticket):
    made = [ask(agent, f"pi_{number}", 100) for number in range(3)]
    stripe.lose()
    lost = ask(agent, "pi_9", 100)
    agent.actions.invoke("open-ticket", {"title": "printer", "reference": "r-1"})

    def ids(**wanted):
        return [one["id"] for one in agent.actions.effects(**wanted).data]

    assert ids(unresolved=True) == [lost["effectId"]] == ids(outcome="unknown") == ids(grade="unknown")
    assert ids(stage="reconciling") == [lost["effectId"]]
    assert set(ids(action="refund", outcome="succeeded")) == {one["effectId"] for one in made}
    assert len(ids(action="open-ticket")) == 1 and len(ids(unresolved=False)) == 4
    first = agent.actions.effects(limit=2)
    assert (len(first.data), first.pagination["total"], first.pagination["hasMore"]) == (2, 5, True)
    assert {"page", "limit", "totalPages"} <= set(first.pagination)
    rest = agent.actions.effects(limit=10, offset=2).data
    assert len({one["id"] for one in first.data + rest}) == 5
    assert len(agent.actions.invocations(action="refund").data) == 4
    assert [one["id"] for one in agent.actions.invocations(status="unknown").data] == [lost["id"]]
    assert len(agent.actions.invocations_for("open-ticket").data) == 1
    assert (len(stripe.writes()), len(desk.writes())) == (4, 1)


def test_what_one_effect_needs_of_another(stripe, agent, ops, refund, daily):
    stripe.lose()
    lost = ask(agent, "pi_1", 100)
    needs = [{"effect": lost["effectId"], "outcome": "succeeded"}]
    refused_one = ask(agent, "pi_2", 100, depends_on=needs)
    assert (refused_one["status"], refused_one["grade"]) == ("failed", "refused")
    agent.actions.reconcile_effect(lost["effectId"])
    assert ask(agent, "pi_2", 100, depends_on=needs)["status"] == "succeeded"
    undone = ask(agent, "pi_3", 100, compensates=lost["effectId"])
    assert undone["status"] == "succeeded"
    assert agent.actions.effect(undone["effectId"]).data["compensates"] == lost["effectId"]
    assert len(stripe.writes()) == 3


def test_an_operation_key_is_one_operation(stripe, agent, refund, daily):
    first = ask(agent, "pi_1", 100, operation_key="order-7")
    again = ask(agent, "pi_1", 100, operation_key="order-7")
    assert again["effectId"] == first["effectId"]
    with refused(409, "idempotency_key_reuse"):
        ask(agent, "pi_1", 200, operation_key="order-7")
    assert len(stripe.writes()) == 1


def test_the_asynchronous_client(stripe, served, refund, daily):
    async def story():
        async with anlyon.AsyncClient(KEYS["agent"], base_url=served.url) as agent, \
                anlyon.AsyncClient(KEYS["ops"], base_url=served.url) as ops:
            stripe.lose()
            given = {"payment_intent": "pi_1", "amount": 100}
            lost = (await agent.actions.invoke("refund", given)).data
            again = (await agent.actions.invoke("refund", given)).data
            assert lost["status"] == again["status"] == "unknown" and lost["effectId"] == again["effectId"]
            assert (await ops.actions.reconcile_effect(lost["effectId"])).data["grade"] == "confirmed"
            asked = (await agent.approvals.request(title="May I?")).data
            await ops.approvals.deny(asked["id"], note="no")
            assert (await agent.approvals.wait_for_decision(asked["id"], timeout_seconds=10)).data["status"] == "denied"
            assert (await ops.environment.halt(reason="enough")).data["halted"] is True

    run(story())
    assert len(stripe.writes()) == 1


def test_what_does_not_exist_is_an_error_object(stripe, agent, ops):
    for call in (lambda: agent.actions.effect("eff_none"), lambda: agent.approvals.get("apr_none"),
                 lambda: agent.actions.invocation("inv_none"), lambda: agent.actions.invoke("none", {}),
                 lambda: agent.actions.get_preview("prv_none"), lambda: ops.impact_limits.get("lim_none")):
        with refused(404, "NOT_FOUND"):
            call()
    with pytest.raises(anlyon.AnlyonError) as elsewhere:
        agent.queues.list()
    assert (elsewhere.value.status, elsewhere.value.code) == (404, "NOT_FOUND"), "what is not built here"
    assert stripe.requests == []
