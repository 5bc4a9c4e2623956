"""The peers, asked directly: what they hold, apart from what went through the sidecar."""

import base64

from direct import Direct

# Made up. stripe-stateful-mock keeps a store for each key that begins with sk_test_.
STRIPE_KEY = "sk_test_8dRk2ZpLq7VxWm3T"
# The one account that emulate begins with.
EMULATE_TOKEN = "test_token_admin"


class StatefulMock(Direct):
    """stripe-stateful-mock: refunds by charge. It replays its answer to a key, and takes no other body under it."""

    HOST = "api.stripe.com"

    def paid(self, amount):
        """A charge of this amount."""
        return self.form("/v1/charges", amount=amount, currency="usd", source="tok_visa")["id"]

    def charges(self, order):
        return [one for one in self.get("/v1/charges?limit=100")["data"] if one["metadata"].get("order") == order]

    def refunds(self, charge):
        return self.get(f"/v1/refunds?charge={charge}&limit=100")["data"]


class _Emulate(Direct):
    def __init__(self, port):
        super().__init__(port, EMULATE_TOKEN)


class Resend(_Emulate):
    """emulate: mails. It replays for 24 hours what it answered to a key, and has no logs."""

    HOST = "api.resend.com"

    def emails(self, to):
        return [one for one in self.get("/emails")["data"] if to in one["to"]]


class GitHub(_Emulate):
    """emulate: files. It compares blobs, and knows no keys."""

    HOST = "api.github.com"

    def repository(self, name):
        return self.json("POST", "/user/repos", name=name, auto_init=True)["full_name"]

    def branch(self, repository, name):
        head = self.get(f"/repos/{repository}/git/ref/heads/main")["object"]["sha"]
        self.json("POST", f"/repos/{repository}/git/refs", ref=f"refs/heads/{name}", sha=head)

    def file(self, repository, path, text, branch="main"):
        """Its blob."""
        written = self.json("PUT", f"/repos/{repository}/contents/{path}", message="by hand", branch=branch,
                            content=base64.b64encode(text.encode()).decode())
        return written["content"]["sha"]

    def text(self, repository, path):
        """What stands in it, or `None`."""
        status, file = self.raw("GET", f"/repos/{repository}/contents/{path}")
        assert status in (200, 404), file
        return base64.b64decode(file["content"]).decode() if status == 200 else None

    def commits(self, repository, path):
        """Those of a file: id and message, newest first."""
        return [(one["sha"], one["commit"]["message"]) for one in self.get(f"/repos/{repository}/commits?path={path}")]
