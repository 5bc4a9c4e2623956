"""Each client, unmodified, behind `oncegate run`: what it saw, and what the provider was asked."""

import re

import pytest

from clients import CLIENTS
from conftest import BASIC, SECRET

PLACEHOLDER = b"placeholder-of-the-agent"
UNKNOWN = r"The provider may have applied effect (eff_\w+); Oncegate is reconciling it\. Do not retry; inspect the effect\."
UNDECLARED = r"No declared action covers \w+ \S+ on \S+\. Nothing was sent\. Ask the operator to declare it\."
PENDING = (r"A person has to approve this first \((apr_\w+)\)\. Nothing was sent\. After approval repeat the identical "
           r"request once\.")


def installed(client):
    if client.missing:
        pytest.skip(f"{client.program} is not installed here")
    return client


@pytest.fixture(params=CLIENTS, ids=str)
def client(request):
    return installed(request.param)


@pytest.fixture
def saw(client, ran):
    return ran[client].result()["saw"]


def read(client, seen, sentence):
    """The sentence, from where the client shows it."""
    assert seen["answer"] is None, seen
    found = re.search(sentence, seen["texts"].get(client.shown, ""))
    assert found, seen
    return found


def test_a_write_goes_through_once(client, saw, stand_in):
    assert saw["success"]["answer"], saw["success"]
    assert saw["success again"] == saw["success"], "from the record: a second write would have another id"
    assert stand_in.count(client.name, "success") == 1


def test_a_lost_answer_is_said_and_not_sent_again(client, saw, stand_in):
    first, again = (read(client, saw[case], UNKNOWN) for case in ("lost", "lost again"))
    assert first[1] == again[1], "one effect"
    assert stand_in.count(client.name, "lost") == 1


def test_what_nobody_declared_is_refused(client, saw, stand_in):
    read(client, saw["denied"], UNDECLARED)
    assert stand_in.count(client.name, "denied") == 0


def test_what_waits_for_a_person_is_not_sent(client, saw, stand_in):
    read(client, saw["pending"], PENDING)
    assert stand_in.count(client.name, "pending") == 0


def test_the_record_says_so(client, saw, sidecar):
    effects = [one for one in sidecar.data("effects", "--limit", "200") if one["caller"] == client.name]
    assert sorted((one["stage"], one["outcome"], one["status"]) for one in effects) == [
        ("awaiting_approval", "not_dispatched", "pending_approval"),
        ("reconciling", "unknown", "unknown"),
        ("settled", "succeeded", "succeeded"),
    ]
    [lost] = [one for one in effects if one["outcome"] == "unknown"]
    assert lost["id"] in str(saw["lost"]["texts"])


def test_the_client_asks_once(client, saw, sidecar):
    """Neither a lost answer nor a refusal makes it try again by itself: the only repeats are the two that it was told."""
    told = [line for line in sidecar.log.read_text().splitlines() if f" caller={client.name} " in line]
    assert sum("a repeat" in line for line in told) == 2, told
    assert sum("waits for a person" in line for line in told) == 1, told
    assert sum("refused; nothing was sent" in line for line in told) == 1, told


@pytest.mark.parametrize("client", [client for client in CLIENTS if client.bare], ids=str)
def test_the_variables_are_enough(client, bare, stand_in):
    """For a client that is said to need no more: without the two files it is governed just the same."""
    assert bare[installed(client)].result()["saw"]["bare"]["answer"]
    assert stand_in.count(client.name, "bare") == 1


def test_the_credential_is_the_sidecars(client, saw, stand_in):
    """Of every request so far, this client's among them: the provider saw the key, and nothing of the agent's own."""
    for request in stand_in.requests:
        assert request.headers["authorization"] == (BASIC if request.headers["host"] == "git.test" else f"Bearer {SECRET}")
        assert PLACEHOLDER not in request.body and PLACEHOLDER.decode() not in str(request.headers)
    assert stand_in.nameless == []
