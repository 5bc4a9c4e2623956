"""Files at a server that speaks GitHub."""

import pytest

FILE = """
[actions.file]
adapter = { type = "github.file_update" }
credential_secret = "PROVIDER_KEY"

[limits.a-day]
dimension = "resource_mutations"
period = "day"
amount = 10
"""
PATH = "docs/prices.md"
STALE = "1" * 40


def write(what, repository, **more):
    return [what, {"repository": repository, "path": PATH, "message": "Prices of May", **more}]


def create(github, name):
    repository = github.repository(name)
    call = write("create_file", repository, content="12 EUR\n")
    return repository, call, write("create_file", repository, content="13 EUR\n"), "12 EUR\n"


def update(github, name):
    """On a branch that it names, as the client does when it is told to."""
    repository = github.repository(name)
    blob = github.file(repository, PATH, "11 EUR\n")
    call = write("update_file", repository, content="12 EUR\n", sha=blob, branch="main")
    varied = write("update_file", repository, content="13 EUR\n", sha=blob, branch="main")
    return repository, call, varied, "12 EUR\n"


def delete(github, name):
    repository = github.repository(name)
    blob = github.file(repository, PATH, "11 EUR\n")
    return repository, write("delete_file", repository, sha=blob), write(
        "delete_file", repository, sha=blob, message="No prices"), None


@pytest.mark.parametrize("kind", [create, update, delete])
def test_a_lost_commit(kind, github, before):
    """There are no keys, so there is no replay; the trailer is what it is found by."""
    repository, call, varied, text = kind(github, f"lost-{kind.__name__}")
    earlier = github.commits(repository, PATH)
    governed = before(github, FILE)
    effect = governed.loses(call, varied)
    governed.does_not_replay(effect)
    [(made, message), *others] = github.commits(repository, PATH)
    assert (message, others) == (f"Prices of May\n\nOncegate-Effect: {effect}", earlier)

    governed.looks(effect)
    [got] = governed.agent(call)
    assert got["answer"]["commit"] == made, got
    governed.sent(1)
    assert github.commits(repository, PATH) == [(made, message), *earlier]
    assert github.text(repository, PATH) == text


@pytest.mark.parametrize("what, more, status, says", [
    ("update_file", {"content": "12 EUR\n", "sha": STALE}, 409, "does not match"),
    ("delete_file", {"sha": STALE}, 409, "does not match"),
    ("unguarded_file", {"content": "MTIgRVVSCg=="}, 422, ""),
])
def test_a_blob_that_is_not_that_of_the_file_is_failed(what, more, status, says, github, before):
    repository = github.repository(f"refused-{what}-{status}")
    github.file(repository, PATH, "11 EUR\n")
    commits = github.commits(repository, PATH)
    governed = before(github, FILE)
    [told] = governed.agent(write(what, repository, **more))
    governed.failed(told, status)
    assert says in told["text"], told
    assert github.commits(repository, PATH) == commits
    assert github.text(repository, PATH) == "11 EUR\n"
