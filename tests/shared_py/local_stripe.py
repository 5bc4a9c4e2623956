"""localstripe, asked directly: payments that can be refunded, and the refunds that it made."""

import http.client
import json
import sys
import urllib.parse
from pathlib import Path

import peer


def running(folder):
    return peer.running("localstripe", [sys.executable, Path(__file__).with_name("localstripe_peer.py")], folder)


class LocalStripe:
    def __init__(self, port, credential):
        self.port = port
        self.credential = credential

    def ask(self, method, path, **form):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {self.credential}",
                       "Content-Type": "application/x-www-form-urlencoded"}
            connection.request(method, path, urllib.parse.urlencode(form), headers)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            return json.loads(body)
        finally:
            connection.close()

    def payment(self, amount):
        """A payment of this amount, paid for."""
        customer = self.ask("POST", "/v1/customers", email="someone@example.com")
        card = {"card[number]": "4242424242424242", "card[exp_month]": "12", "card[exp_year]": "2099",
                "card[cvc]": "123"}
        method = self.ask("POST", "/v1/payment_methods", type="card", **card)
        self.ask("POST", f"/v1/payment_methods/{method['id']}/attach", customer=customer["id"])
        intent = self.ask("POST", "/v1/payment_intents", amount=amount, currency="usd", customer=customer["id"],
                          payment_method=method["id"], confirm="true")
        assert intent["status"] == "succeeded", intent
        return intent["id"]

    def refunds(self, payment):
        return self.ask("GET", f"/v1/refunds?payment_intent={payment}&limit=100")["data"]
