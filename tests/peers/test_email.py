"""Mails at a server that speaks Resend."""

import json

import pytest

EMAIL = """
[actions.email]
adapter = { type = "resend.email_send" }
credential_secret = "PROVIDER_KEY"

[limits.a-day]
dimension = "resource_mutations"
period = "day"
amount = 10
"""


def email(to, **more):
    return ["email", {"from": "Shop <shop@example.com>", "to": [to], "subject": "Your refund",
                      "text": "It is on its way.", **more}]


@pytest.mark.parametrize("settling", ["looks", "replays"])
def test_a_lost_mail(settling, resend, before):
    to = f"{settling}@example.com"
    governed = before(resend, EMAIL)
    effect = governed.loses(email(to), email(to, text="We have sent it."))
    [made] = resend.emails(to)
    assert made["tags"] == [{"name": "oncegate_effect", "value": effect}]

    getattr(governed, settling)(effect)
    [got] = governed.agent(email(to))
    assert got["answer"]["id"] == made["id"]
    assert resend.emails(to) == [made]
    governed.sent(1 if settling == "looks" else 2)


def test_a_refusal_is_failed(resend, before):
    to = "refused@example.com"
    governed = before(resend, EMAIL)
    [told] = governed.agent(email(to, subject=""))
    governed.failed(told, 422)
    assert "subject" in told["text"]
    assert resend.emails(to) == []


def test_another_use_of_its_key_is_unknown(resend, before):
    """Resend's 409 says that the key was seen: it may have been this effect's own first try."""
    to = "conflict@example.com"
    governed = before(resend, EMAIL)
    released = governed.front.hold()
    with governed.while_asked(email(to)) as asked:
        [sent] = governed.sent(1)
        headers = {name: sent.headers[name] for name in ("content-type", "idempotency-key")}
        theirs = {**json.loads(sent.body), "subject": "Something else", "tags": []}
        assert resend.raw("POST", "/emails", json.dumps(theirs), headers)[0] == 200
        released.set()
    [told] = asked.result()
    effect = governed.effect()
    assert told["status"] == 422 and effect["outcome"] == "unknown", told
    # What is there is not ours.
    assert governed.cli("effect", "reconcile", effect["id"]).returncode == 13
    assert governed.held() == {"consumed": 0, "reserved": 1, "unknownExposure": 1}
    assert [one["subject"] for one in resend.emails(to)] == ["Something else"]
    governed.sent(1)
