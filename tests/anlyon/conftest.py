"""The published client, twice: as an agent and as an operator. Nothing of it is changed but the address and the key."""

import asyncio

import anlyon
import pytest

import certificates
from providers import Desk, Stripe
from served import KEYS, Served

# Made up; what the vault holds and no answer may show.
STRIPE_KEY = "sk_test_9vKq3mZx7TbLw2Rf"
DESK_TOKEN = "desk-token-4hPz8sYc"


def _provider(kind, host, folder):
    certificates.make(folder, host)
    return kind(folder)


@pytest.fixture
def stripe(tmp_path):
    stripe = _provider(Stripe, "api.stripe.com", tmp_path / "stripe")
    yield stripe
    stripe.close()


@pytest.fixture
def desk(tmp_path):
    desk = _provider(Desk, "desk.test", tmp_path / "desk")
    yield desk
    desk.close()


@pytest.fixture
def served(stripe, desk, tmp_path):
    folder = tmp_path / "sidecar"
    folder.mkdir()
    providers = {"api.stripe.com": (stripe.port, tmp_path / "stripe" / "ca.pem"),
                 "desk.test": (desk.port, tmp_path / "desk" / "ca.pem")}
    served = Served(folder, providers)
    served.canaries |= {"STRIPE_KEY": STRIPE_KEY, "DESK_TOKEN": DESK_TOKEN}
    # This vault has no key of its own: what it keeps is not encrypted.
    served.holds_secrets.add("vault.json")
    try:
        yield served.start()
    finally:
        # Whatever a test did: no secret that it put is in the log, in the record, or in a managed file.
        served.stop()


def _client(served, caller):
    return anlyon.Client(KEYS[caller], base_url=served.url)


@pytest.fixture
def ops(served):
    with _client(served, "ops") as client:
        yield client


@pytest.fixture
def agent(served):
    with _client(served, "agent") as client:
        yield client


@pytest.fixture
def replays(agent):
    """What `X-Idempotent-Replay` said on each answer to the agent: the client itself does not show headers."""
    seen = []
    hooks = agent._http._client.event_hooks
    hooks["response"].append(lambda answer: seen.append(answer.headers.get("x-idempotent-replay")))
    return seen


@pytest.fixture
def refund(ops):
    """An action by the adapter, and the secret that it takes: both made through the API."""
    ops.secrets.put("STRIPE_KEY", value=STRIPE_KEY, allowed_hosts=["api.stripe.com"], allowed_placements=["header"])
    adapter = {"type": "stripe.refund", "config": {"account": "acct_1Nxyz", "mode": "test", "currency": "usd"},
               "credentialSecret": "STRIPE_KEY"}
    return ops.actions.create(name="refund", description="Refund a payment", adapter=adapter).data


TICKET = {
    "name": "open-ticket",
    "description": "Open a ticket",
    "method": "POST",
    "url_template": "https://desk.test/v1/tickets",
    "headers": {"X-Api-Token": "{{secret:DESK_TOKEN}}"},
    "body_template": {"title": "{{input.title}}", "reference": "{{input.reference}}"},
    "input_schema": {"type": "object", "required": ["title", "reference"],
                     "properties": {"title": {"type": "string"}, "reference": {"type": "string"}}},
    "impact": {"dimension": "resource_mutations", "amount": "1", "bound": "exact"},
    "verify": {"url": "https://desk.test/v1/tickets?reference={{input.reference}}", "status": 200,
               "match": [{"path": "data.*.reference", "equals": "{{input.reference}}"}]},
}


@pytest.fixture
def desk_token(ops):
    return ops.secrets.put("DESK_TOKEN", value=DESK_TOKEN, allowed_hosts=["desk.test"]).data


@pytest.fixture
def ticket(ops, desk_token):
    """A template action with declarations."""
    return ops.actions.create(**TICKET).data


@pytest.fixture
def daily(ops):
    return ops.impact_limits.create(name="refunds-per-day", dimension="money", period="day", amount=50_000,
                                    currency="usd").data


def money(client):
    """What the daily limit says."""
    [limit] = [one for one in client.impact_limits.list().data if one["name"] == "refunds-per-day"]
    return {name: limit[name] for name in ("consumed", "reserved", "unknownExposure", "available")}


def refused(status, code):
    """Expects the client's own exception for an answer; `.value.details` says more."""
    return pytest.raises(anlyon.AnlyonError, check=lambda error: (error.status, error.code) == (status, code))


def run(coroutine):
    return asyncio.run(coroutine)
