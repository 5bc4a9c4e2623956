"""Tools as anlyon-langchain builds them. Such a tool sends no key of its own: each call has a fresh one."""

from anlyon_langchain import action_tools

from conftest import money


def test_two_identical_calls_are_one_refund(stripe, agent, refund, daily):
    [tool] = action_tools(agent, names=["refund"])
    assert tool.name == "refund" and "money in USD" in tool.description
    given = {"payment_intent": "pi_1", "amount": 12_000}
    first, second = tool.invoke(given), tool.invoke(given)
    assert first["status"] == second["status"] == "succeeded"
    assert first["effectId"] == second["effectId"]
    assert len(stripe.writes()) == 1 and len(stripe.refunds) == 1
    assert money(agent)["consumed"] == 12_000


def test_two_identical_calls_around_a_lost_answer_are_one_refund(stripe, agent, ops, refund, daily):
    [tool] = action_tools(agent, names=["refund"])
    given = {"payment_intent": "pi_1", "amount": 12_000}
    stripe.lose()
    first, second = tool.invoke(given), tool.invoke(given)
    assert first["grade"] == second["grade"] == "unknown"
    assert "Do not retry" in first["error"] and first["effectId"] == second["effectId"]
    ops.actions.reconcile_effect(first["effectId"])
    assert tool.invoke(given)["grade"] == "confirmed"
    assert len(stripe.writes()) == 1 and len(stripe.refunds) == 1


def test_a_tool_of_a_template(desk, agent, ops, ticket):
    [tool] = action_tools(agent)
    assert set(tool.args) == {"title", "reference"}
    given = {"title": "printer", "reference": "r-1"}
    assert tool.invoke(given)["body"]["id"] == tool.invoke(given)["body"]["id"] == "t_1"
    assert tool.invoke({**given, "reference": "r-2"})["body"]["id"] == "t_2"
    assert len(desk.writes()) == 2
    ops.actions.update("open-ticket", enabled=False)
    assert action_tools(agent) == []
