"""A sidecar that governs refunds, and the client behind it."""

import json
import pathlib
import sys

from sidecar import Caller, Sidecar, host

CALLERS = {"billing-agent": Caller("og_billing_5c1d7e90aa42", ["actions:invoke"]),
           "ops": Caller("og_ops_e7b3f6012d98", ["actions:invoke", "actions:resolve"])}
CREDENTIAL = "sk_test_4wXyQ7vTq3Zk9LmN"

DECLARED = """
[secrets.STRIPE_KEY]
from = { env = "STRIPE_SECRET_KEY" }
allowed_hosts = ["api.stripe.com"]
allowed_placements = ["header"]

[actions.refund]
adapter = { type = "stripe.refund", account = "acct_1Nxyz", mode = "test", currency = "usd" }
credential_secret = "STRIPE_KEY"

[limits.refunds-per-day]
dimension = "money"
currency = "usd"
period = "day"
amount = 50_000
"""


class Refunds(Sidecar):
    def __init__(self, folder, port, ca_file):
        credential = 'credential = { header = "Authorization", value = "Bearer {{secret:STRIPE_KEY}}" }'
        super().__init__(folder, CALLERS, DECLARED + host("api.stripe.com", port, ca_file, credential),
                         {"STRIPE_SECRET_KEY": CREDENTIAL})

    def held(self):
        return self.limit("refunds-per-day")

    def refund(self, payment_intent, amount, style="module", python=()):
        """The client, run behind the sidecar as an agent would be; what it saw, and all that it printed."""
        client = pathlib.Path(__file__).with_name("client.py")
        done = self.run("billing-agent", sys.executable, *python, client, style, payment_intent, str(amount))
        return json.loads(done.stdout), done.stdout + done.stderr
