"""What an agent runs: the providers' own clients as they come, with placeholders for keys, and nothing of Oncegate.

Takes a list of calls, `[what, {arguments}]`, makes one after the other, and prints what each of them gave.
"""

import json
import sys


def _stripe():
    import stripe

    stripe.api_key = "sk_test_placeholder"
    return stripe


def refund(**params):
    return _stripe().Refund.create(**params).to_dict()


def charge(**params):
    return _stripe().Charge.create(**params).to_dict()


def email(**params):
    import resend

    resend.api_key = "re_placeholder"
    return dict(resend.Emails.send(params))


def _repository(name):
    from github import Auth, Github

    # Without its own pause between two writes, which is for the rate limit of the real one.
    client = Github(auth=Auth.Token("ghp_placeholder"), seconds_between_requests=None, seconds_between_writes=None)
    return client.get_repo(name)


def _written(answer):
    return {"commit": answer["commit"].sha, "blob": answer["content"].sha}


def create_file(repository, **params):
    return _written(_repository(repository).create_file(**params))


def update_file(repository, **params):
    return _written(_repository(repository).update_file(**params))


def delete_file(repository, **params):
    return {"commit": _repository(repository).delete_file(**params)["commit"].sha}


def issue(repository, **params):
    made = _repository(repository).create_issue(**params)
    return {"number": made.number, "title": made.title, "body": made.body}


def comment(repository, number, **params):
    made = _repository(repository).get_issue(number).create_comment(**params)
    return {"number": made.id, "body": made.body}


def pull(repository, **params):
    made = _repository(repository).create_pull(**params)
    return {"number": made.number, "title": made.title, "body": made.body}


def unguarded_file(repository, path, **params):
    """A write without `sha`, which the client's own methods do not make of a file that is there."""
    import requests

    answer = requests.put(f"https://api.github.com/repos/{repository}/contents/{path}", json=params, timeout=30)
    answer.raise_for_status()
    return answer.json()


CALLS = {one.__name__: one for one in
         (refund, charge, email, create_file, update_file, delete_file, unguarded_file, issue, comment, pull)}
# Where each client keeps the status of an answer that it raises.
STATUSES = ("http_status", "code", "status")


def status_of(error):
    response = getattr(error, "response", None)
    if response is not None:
        return response.status_code
    return next((getattr(error, name) for name in STATUSES if hasattr(error, name)), None)


def seen(what, arguments):
    try:
        return {"answer": CALLS[what](**arguments)}
    except Exception as error:  # Each client has its own; what they have in common is their text.
        return {"class": type(error).__name__, "text": str(error), "status": status_of(error)}


if __name__ == "__main__":
    json.dump([seen(what, arguments) for what, arguments in json.loads(sys.argv[1])], sys.stdout)
