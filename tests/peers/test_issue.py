"""Issues, comments and pull requests at a server that speaks GitHub."""

import pytest

WRITES = "".join(f"""
[actions.{name}]
adapter = {{ type = "github.write", path = "/repos/{{{{input.owner}}}}/{{{{input.repo}}}}/{below}", mark_body = true }}
credential_secret = "PROVIDER_KEY"
""" for name, below in (("issue", "issues"), ("comment", "issues/{{input.number}}/comments"), ("pull", "pulls"))) + """
[limits.a-day]
dimension = "resource_mutations"
period = "day"
amount = 10
"""


def issue(github, repository):
    call = ["issue", {"repository": repository, "title": "Prices", "body": "They are old."}]
    return call, {"title": "Old prices"}, "issues"


def comment(github, repository):
    number = github.json("POST", f"/repos/{repository}/issues", title="Prices", body="They are old.")["number"]
    call = ["comment", {"repository": repository, "number": number, "body": "New ones are up."}]
    return call, {"body": "They are new now."}, f"issues/{number}/comments"


def pull(github, repository):
    github.branch(repository, "prices")
    github.file(repository, "prices.md", "12 EUR\n", branch="prices")
    branches = {"head": "prices", "base": "main"}
    call = ["pull", {"repository": repository, "title": "New prices", "body": "Of May.", **branches}]
    return call, {"title": "Prices of May"}, "pulls"


@pytest.mark.parametrize("kind", [issue, comment, pull])
def test_a_lost_text(kind, github, before):
    """There are no keys; the mark under the text is what it is found by."""
    repository = github.repository(f"lost-{kind.__name__}")
    call, varied, listed = kind(github, repository)
    what, arguments = call
    governed = before(github, WRITES)
    effect = governed.loses(call, [what, {**arguments, **varied}])
    governed.does_not_replay(effect)
    [made] = github.get(f"/repos/{repository}/{listed}")
    assert made["body"] == f"{arguments['body']}\n\n<!-- oncegate-effect: {effect} -->"

    governed.looks(effect)
    [got] = governed.agent(call)
    assert got["answer"]["number"] == (made["id"] if what == "comment" else made["number"]), got
    assert got["answer"]["body"] == made["body"]
    governed.sent(1)
    assert github.get(f"/repos/{repository}/{listed}") == [made]
