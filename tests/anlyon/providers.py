"""Two providers: refunds, and tickets."""

import json
import time
import urllib.parse

from provider import Provider, document


class Stripe(Provider):
    """Refunds, listed with their metadata. A key is remembered, as Stripe does: a replay makes no second refund."""

    PAID = 50_000

    def __init__(self, certificates):
        super().__init__(certificates)
        self.refunds = []
        self._by_key = {}

    def forget(self):
        """As a provider whose list lags behind."""
        with self.lock:
            self.refunds.clear()

    def answer(self, request):
        asked = urllib.parse.urlsplit(request.target)
        words = asked.path.strip("/").split("/")
        if request.method == "POST" and words == ["v1", "refunds"]:
            return document(200, self._make(request)) if b"pi_of_nobody" not in request.body else self._missing()
        if request.method == "GET" and words == ["v1", "refunds"]:
            wanted = dict(urllib.parse.parse_qsl(asked.query)).get("payment_intent")
            found = [one for one in reversed(self.refunds) if wanted in (None, one["payment_intent"])]
            return document(200, {"object": "list", "url": "/v1/refunds", "has_more": False, "data": found})
        if request.method == "GET" and words[:2] == ["v1", "refunds"]:
            found = [one for one in self.refunds if one["id"] == words[2]]
            return document(200, found[0]) if found else self._missing()
        if request.method == "GET" and words[:2] == ["v1", "payment_intents"]:
            return document(200, {
                "id": words[2], "object": "payment_intent", "amount": self.PAID, "amount_received": self.PAID,
                "currency": "usd", "latest_charge": f"ch_{words[2]}", "status": "succeeded"})
        return self._missing()

    def _make(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        key = request.headers.get("idempotency-key")
        if key in self._by_key:
            return self._by_key[key]
        metadata = {name[len("metadata["):-1]: value for name, value in form.items() if name.startswith("metadata[")}
        refund = {"id": f"re_{len(self._by_key) + 1}", "object": "refund", "created": int(time.time()),
                  "amount": int(form.get("amount", self.PAID)),
                  "currency": "usd", "payment_intent": form.get("payment_intent"), "charge": "ch_of_the_payment",
                  "metadata": metadata, "reason": form.get("reason"), "status": "succeeded"}
        self.refunds.append(refund)
        self._by_key[key or object()] = refund
        return refund

    @staticmethod
    def _missing():
        return document(404, {
            "error": {"type": "invalid_request_error", "code": "resource_missing", "message": "No such thing"}})


class Desk(Provider):
    """Tickets, found again by their reference. Knows no keys: a second send is a second ticket."""

    def __init__(self, certificates):
        super().__init__(certificates)
        self.tickets = []

    def answer(self, request):
        asked = urllib.parse.urlsplit(request.target)
        if asked.path == "/v1/tickets" and request.method == "POST":
            wanted = json.loads(request.body)
            ticket = {"id": f"t_{len(self.tickets) + 1}", "title": wanted.get("title"),
                      "reference": wanted.get("reference")}
            self.tickets.append(ticket)
            return document(201, ticket)
        if asked.path == "/v1/tickets" and request.method == "GET":
            reference = dict(urllib.parse.parse_qsl(asked.query)).get("reference")
            return document(200, {"data": [one for one in self.tickets if one["reference"] == reference]})
        if asked.path == "/v1/search" and request.method == "POST":
            return document(200, {"found": len(self.tickets)})
        return document(404, {"error": "no such thing"})
