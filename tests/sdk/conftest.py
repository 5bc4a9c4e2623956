"""localstripe, the TLS front and the sidecar, made anew for each test; each ended by its own handle."""

import http.client
import json
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

import certificates
from front import Front
from sidecar import CREDENTIAL, Sidecar, wait_for


class LocalStripe:
    """localstripe itself, asked directly."""

    def __init__(self, port):
        self.port = port

    def ask(self, method, path, **form):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {CREDENTIAL}", "Content-Type": "application/x-www-form-urlencoded"}
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


@pytest.fixture
def localstripe(tmp_path):
    port_file = tmp_path / "localstripe.port"
    peer = Path(__file__).with_name("localstripe_peer.py")
    with (tmp_path / "localstripe.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, peer, port_file], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        def port():
            assert process.poll() is None, (tmp_path / "localstripe.log").read_text()
            return int(port_file.read_text()) if port_file.exists() else None

        yield LocalStripe(wait_for("localstripe to listen", port))
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def front(localstripe, tmp_path):
    folder = tmp_path / "provider"
    folder.mkdir()
    certificates.make(folder, "api.stripe.com")
    front = Front(localstripe.port, folder)
    yield front
    front.close()


@pytest.fixture
def sidecar(front, tmp_path):
    folder = tmp_path / "sidecar"
    folder.mkdir()
    sidecar = Sidecar(folder, front.port, tmp_path / "provider" / "ca.pem")
    try:
        yield sidecar.start()
    finally:
        sidecar.stop()
