"""Actions, secrets and limits made through the API."""

import anlyon
import pytest

from conftest import DESK_TOKEN, STRIPE_KEY, TICKET, refused
from served import KEYS


def test_identity(agent, ops):
    known = agent.auth.identity().data
    assert known["credentialType"] == "api_key" and known["scopes"] == ["actions:invoke"]
    assert known["apiKeyId"] and known["environmentId"]
    assert agent.auth.require_scopes(["actions:invoke"], forbidden=["actions:resolve", "environments:halt"])
    with pytest.raises(anlyon.ScopeCheckError):
        agent.auth.require_scopes(["actions:resolve"])
    ops.auth.require_scopes(["actions:resolve", "actions:govern", "impact-limits:write"])


def test_secrets_are_never_read_back(stripe, desk, agent, ops, served):
    made = ops.secrets.put("STRIPE_KEY", value=STRIPE_KEY, description="test mode", allowed_hosts=["api.stripe.com"],
                           allowed_placements=["header"]).data
    assert made["name"] == "STRIPE_KEY" and made["id"].startswith("sec_")
    shown = [made, *ops.secrets.list().data, ops.secrets.get("STRIPE_KEY").data]
    assert all(STRIPE_KEY not in str(one) and "value" not in one for one in shown)
    assert ops.secrets.get("STRIPE_KEY").data["allowedHosts"] == ["api.stripe.com"]
    # Rotated: what is left out stays.
    ops.secrets.put("STRIPE_KEY", value="sk_test_another")
    assert ops.secrets.get("STRIPE_KEY").data["allowedHosts"] == ["api.stripe.com"]
    with refused(403, "AUTHORIZATION_ERROR"):
        agent.secrets.put("MINE", value="x")
    assert ops.secrets.delete("STRIPE_KEY").success
    with refused(404, "NOT_FOUND"):
        ops.secrets.get("STRIPE_KEY")
    assert (stripe.requests, desk.requests) == ([], [])


def test_an_action_by_an_adapter(stripe, agent, ops, refund):
    assert (refund["name"], refund["governed"], refund["enabled"]) == ("refund", True, True)
    assert refund["id"].startswith("act_")
    assert refund["impact"]["unit"] == "usd"
    assert agent.actions.get("refund").data["id"] == refund["id"] == agent.actions.get(refund["id"]).data["id"]
    [listed] = agent.actions.list().data
    assert listed["inputSchema"]["type"] == "object", "tools are built from it"
    with refused(403, "AUTHORIZATION_ERROR"):
        agent.actions.create(name="mine", url_template="https://desk.test/v1/tickets", method="POST")
    assert stripe.requests == []


def test_a_template_action(desk, agent, ops, ticket):
    assert (ticket["governed"], ticket["impact"]["unit"]) == (True, "resource_mutations")
    assert ticket["verify"]["url"] == TICKET["verify"]["url"]
    done = agent.actions.invoke("open-ticket", {"title": "printer", "reference": "r-1"}).data
    assert (done["status"], done["responseStatus"], done["body"]["id"]) == ("succeeded", 201, "t_1")
    [sent] = desk.writes()
    assert sent.headers["x-api-token"] == DESK_TOKEN
    assert sent.body == b'{"title":"printer","reference":"r-1"}' or b'"printer"' in sent.body
    with refused(400, "VALIDATION_ERROR"):
        agent.actions.invoke("open-ticket", {"title": "no reference"})
    assert len(desk.writes()) == 1


def test_a_lost_ticket_is_found_by_its_rule(desk, agent, ops, ticket):
    desk.lose()
    lost = agent.actions.invoke("open-ticket", {"title": "printer", "reference": "r-1"}).data
    assert lost["status"] == "unknown"
    with refused(409, "REPLAY_REFUSED") as unsupported:
        ops.actions.replay_effect(lost["effectId"])
    assert unsupported.value.details["reason"] == "replay_unsupported"
    found = ops.actions.reconcile_effect(lost["effectId"]).data
    assert (found["outcome"], found["grade"]) == ("succeeded", "confirmed")
    assert len(desk.writes()) == 1 and len(desk.reads()) == 1


def test_an_ungoverned_action_makes_no_effect(desk, agent, ops):
    ops.actions.create(name="search", method="POST", url_template="https://desk.test/v1/search",
                       body_template={"q": "{{input.q}}"}, governed=False,
                       input_schema={"type": "object", "properties": {"q": {"type": "string"}}})
    found = agent.actions.invoke("search", {"q": "printer"}).data
    assert (found["status"], found["body"]) == ("succeeded", {"found": 0})
    assert not found.get("effectId") and not found.get("grade")
    assert agent.actions.effects().data == []
    assert len(desk.writes()) == 1
    desk.lose()
    lost = agent.actions.invoke("search", {"q": "scanner"}).data
    assert lost["status"] == "unknown"
    with refused(403, "AUTHORIZATION_ERROR"):
        agent.actions.resolve_invocation(lost["id"], outcome="failed", evidence="it was a search")
    ops.actions.resolve_invocation(lost["id"], outcome="failed", evidence="it was only a search")
    assert agent.actions.invocation(lost["id"]).data["status"] == "failed"
    assert len(desk.writes()) == 2


def test_definitions_have_versions(desk, agent, ops, ticket):
    ops.actions.update("open-ticket", description="Open one ticket")
    ops.actions.declare("open-ticket", verify=None)
    assert ops.actions.get("open-ticket").data["verify"] is None
    assert ops.actions.get("open-ticket").data["impact"], "what is left out stays"
    versions = ops.actions.versions("open-ticket").data
    assert len(versions) == 3
    ops.actions.update("open-ticket", enabled=False)
    with pytest.raises(anlyon.AnlyonError) as disabled:
        agent.actions.invoke("open-ticket", {"title": "a", "reference": "b"})
    assert disabled.value.status == 409
    assert ops.actions.delete("open-ticket").success
    with refused(404, "NOT_FOUND"):
        ops.actions.get("open-ticket")
    assert desk.requests == []


def test_a_second_definition_of_a_name_is_refused(desk, ops, ticket):
    assert ops.actions.create(**TICKET).data["id"] == ticket["id"], "the very same is no conflict"
    with pytest.raises(anlyon.AnlyonError) as taken:
        ops.actions.create(**{**TICKET, "description": "another"})
    assert taken.value.status == 409
    assert desk.requests == []


def test_bad_definitions_are_refused(desk, ops):
    without_unit = {"dimension": "money", "amount": "1", "bound": "exact"}
    for wrong in ({"url_template": "http://desk.test/x", "governed": True},
                  {"url_template": "https://{{input.host}}/x"},
                  {"url_template": "https://desk.test/x", "impact": without_unit},
                  {"adapter": {"type": "no.such", "config": {}}},
                  {"url_template": "https://desk.test/x", "method": "BREW"}):
        with pytest.raises(anlyon.ValidationError):
            ops.actions.create(name="wrong", **{"method": "POST", **wrong})
    assert ops.actions.list().data == [] and desk.requests == []


SPEC = {
    "openapi": "3.0.3",
    "info": {"title": "Desk", "version": "1"},
    "servers": [{"url": "https://desk.test"}],
    "paths": {"/v1/tickets": {
        "get": {"operationId": "listTickets", "parameters": [
            {"name": "reference", "in": "query", "required": True, "schema": {"type": "string"}}],
            "responses": {"200": {"description": "found"}}},
        "post": {"operationId": "createTicket", "requestBody": {"required": True, "content": {"application/json": {
            "schema": {"type": "object", "required": ["title", "reference"], "properties": {
                "title": {"type": "string"}, "reference": {"type": "string"}}}}}},
            "responses": {"201": {"description": "made"}}}}},
}


def test_import_openapi(desk, agent, ops, desk_token):
    auth = {"headerName": "X-Api-Token", "secretName": "DESK_TOKEN", "valueTemplate": "{{secret}}"}
    planned = ops.actions.import_openapi(SPEC, auth=auth, dry_run=True).data
    assert planned["dryRun"] is True and len(planned["created"]) == 2
    assert ops.actions.list().data == []
    made = ops.actions.import_openapi(SPEC, auth=auth).data
    names = {one["name"]: one for one in made["created"]}
    assert set(names) == {"createTicket", "listTickets"} and names["createTicket"]["governed"] is True, made
    assert names["createTicket"]["impact"]["dimension"] == "resource_mutations"
    assert not names["listTickets"]["governed"]
    done = agent.actions.invoke("createTicket", {"title": "printer", "reference": "r-9"}).data
    assert (done["status"], done["responseStatus"]) == ("succeeded", 201), done
    [sent] = desk.writes()
    assert sent.headers["x-api-token"] == DESK_TOKEN


def test_limits(stripe, agent, ops, refund):
    wanted = {"name": "refunds-per-day", "dimension": "money", "period": "day", "amount": 10_000, "currency": "usd"}
    made = ops.impact_limits.create(**wanted)
    assert made.data["id"].startswith("lim_") and made.data["unit"] == "usd"
    again = ops.impact_limits.create(**wanted)
    assert again.data["id"] == made.data["id"], "sent again by a client that lost the answer: one limit"
    with refused(403, "AUTHORIZATION_ERROR"):
        agent.impact_limits.update(made.data["id"], amount=1)
    over = agent.actions.invoke("refund", {"payment_intent": "pi_1", "amount": 12_000}).data
    assert (over["status"], over["grade"], over["responseStatus"]) == ("failed", "refused", None)
    assert stripe.writes() == []
    assert ops.impact_limits.update(made.data["id"], amount=12_000).data["amount"] == 12_000
    assert agent.actions.invoke("refund", {"payment_intent": "pi_1", "amount": 12_000}).data["status"] == "succeeded"
    assert agent.impact_limits.get(made.data["id"]).data["available"] == 0
    assert ops.impact_limits.archive(made.data["id"]).success
    assert ops.impact_limits.list().data == []
    assert [one["id"] for one in ops.impact_limits.list(include_archived=True).data] == [made.data["id"]]
    assert len(stripe.writes()) == 1


def test_what_was_defined_outlives_the_sidecar(stripe, ops, served, refund, daily):
    served.stop()
    served.start()
    with anlyon.Client(KEYS["agent"], base_url=served.url) as agent:
        assert agent.actions.invoke("refund", {"payment_intent": "pi_1", "amount": 100}).data["status"] == "succeeded"
    [sent] = stripe.writes()
    assert sent.headers["authorization"] == f"Bearer {STRIPE_KEY}"


def test_without_the_right_key_nothing_is_told(stripe, served, refund):
    for key in ("wrong", "og_agent_8b1e6c4d20f", KEYS["agent"] + "x"):
        with anlyon.Client(key, base_url=served.url) as stranger:
            with pytest.raises(anlyon.AuthenticationError):
                stranger.actions.list()
            with pytest.raises(anlyon.AuthenticationError):
                stranger.actions.invoke("refund", {"payment_intent": "pi_1", "amount": 1})
    assert stripe.requests == []
