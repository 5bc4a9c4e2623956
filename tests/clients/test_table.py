"""docs/clients.md: written from what was seen, or compared with it."""

import re

import pytest

from clients import CLIENTS, ROOT
from test_matrix import PENDING, UNDECLARED, UNKNOWN

PAGE = ROOT / "docs" / "clients.md"
START = """# Clients that were tried

Written by [tests/clients](../tests/clients/README.md) from what it saw; not edited by hand. Each client, as it is
published, ran behind `oncegate run` and made six calls over TLS to a stand-in that counts what arrives:

- **success**: a governed write;
- **lost**: a governed write which the provider carries out, and closes the connection without an answer;
- **again**: both of these once more, exactly as a model repeats a call;
- **undeclared**: a write that nobody declared;
- **approval**: a write that a person has to approve first.

Each cell says what the client gave its caller (`answer`, or the kind of its error), and how many writes the provider saw.
The clients' own retries were left as they are. "The sentence is in" names every place where the client showed all of
Oncegate's sentence for the four calls that got one; a model reads it there. What each client needs is explained in
[Clients](guides/clients.md).

| client | success | lost | again | undeclared | approval | the sentence is in | needs |
|---|---|---|---|---|---|---|---|
"""
VERSIONS = "What the machine brought, and is not compared: "
SENTENCES = {"lost": UNKNOWN, "lost again": UNKNOWN, "denied": UNDECLARED, "pending": PENDING}


def result(seen):
    return "answer" if seen["answer"] else seen["kind"]


def places(saw):
    """Where the client showed the whole sentence, each time."""
    return [place for place in sorted(saw["lost"]["texts"])
            if all(re.search(sentence, saw[case]["texts"].get(place) or "") for case, sentence in SENTENCES.items())]


def row(client, told, stand_in):
    saw = told["saw"]
    once = {case: stand_in.count(client.name, case) for case in ("success", "lost", "denied", "pending")}
    sent_again = once["success"] + once["lost"] - 2
    version = f" {told['version']}" if client.pinned and told["version"] else ""
    cells = [
        f"{client.title}{version}{client.on}",
        f"{result(saw['success'])}; {once['success']}",
        f"{result(saw['lost'])}; {once['lost']}",
        f"{result(saw['success again'])}, {result(saw['lost again'])}; {sent_again} more",
        f"{result(saw['denied'])}; {once['denied']}",
        f"{result(saw['pending'])}; {once['pending']}",
        ", ".join(places(saw)) or "no place",
        client.needs,
    ]
    return f"| {' | '.join(cells)} |\n"


def absent(client):
    return f"| {client.title}{client.on} |{' not installed here |' * 7}\n"


def test_the_table(request, ran, stand_in):
    here = [client for client in CLIENTS if not client.missing]
    if len(ran) < len(here):
        pytest.skip("only some of the clients were asked for")
    told = {client: ran[client].result() for client in here}
    rows = [row(client, told[client], stand_in) if client in told else absent(client) for client in CLIENTS]
    brought = [f"{client.title} {told[client]['version']}" for client in here if not client.pinned]
    table = START + "".join(rows)
    if request.config.getoption("--check-table"):
        assert PAGE.read_text().split(f"\n{VERSIONS}")[0] == table, "run tests/clients, and commit what it writes"
    else:
        PAGE.write_text(f"{table}\n{VERSIONS}{', '.join(brought)}.\n")
