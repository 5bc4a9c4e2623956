"""localstripe, asked directly: payments that can be refunded, and the refunds that it made."""

import sys
from pathlib import Path

import peer
from direct import Direct


def running(folder):
    return peer.running("localstripe", [sys.executable, Path(__file__).with_name("localstripe_peer.py")], folder)


class LocalStripe(Direct):
    """It knows no keys: a second send is a second refund."""

    HOST = "api.stripe.com"

    def payment(self, amount):
        """A payment of this amount, paid for."""
        customer = self.form("/v1/customers", email="someone@example.com")
        card = {"card[number]": "4242424242424242", "card[exp_month]": "12", "card[exp_year]": "2099",
                "card[cvc]": "123"}
        method = self.form("/v1/payment_methods", type="card", **card)
        self.form(f"/v1/payment_methods/{method['id']}/attach", customer=customer["id"])
        intent = self.form("/v1/payment_intents", amount=amount, currency="usd", customer=customer["id"],
                           payment_method=method["id"], confirm="true")
        assert intent["status"] == "succeeded", intent
        return intent["id"]

    def refunds(self, payment):
        return self.get(f"/v1/refunds?payment_intent={payment}&limit=100")["data"]
