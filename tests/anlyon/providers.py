"""Providers on 127.0.0.1 over TLS that count every request, and do with an answer what they are told."""

import collections
import http.server
import json
import ssl
import threading
import urllib.parse

TIMEOUT_S = 30
READS = ("GET", "HEAD", "OPTIONS")
Request = collections.namedtuple("Request", "method path query headers body")


class Provider:
    """One host. `answer(request)` gives a status and a document; what is counted is what arrived at the socket."""

    def __init__(self, certificates):
        self.lock = threading.Lock()
        self.requests = []
        self._fates = collections.deque()
        self._held = None
        self.arrived = threading.Semaphore(0)
        handler = type("Handler", (_Handler,), {"provider": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "leaf.pem", certificates / "leaf.key")
        # The handshake is left to the connection's own thread: a client that is slow there stops nobody else.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def writes(self):
        with self.lock:
            return [one for one in self.requests if one.method not in READS]

    def reads(self):
        with self.lock:
            return [one for one in self.requests if one.method in READS]

    def lose(self, count=1):
        """The next so many writes are carried out, and their answers never sent."""
        self._fates.extend([None] * count)

    def say(self, status, document):
        """The next write is not carried out, and answered with this."""
        self._fates.append((status, document))

    def hold(self):
        """From now on writes wait until the returned event is set."""
        self._held = threading.Event()
        return self._held

    def serve(self, request):
        """A status and a document, or `None` for a connection that is closed without an answer."""
        with self.lock:
            self.requests.append(request)
        self.arrived.release()
        if request.method in READS:
            with self.lock:
                return self.answer(request)
        if self._held is not None:
            assert self._held.wait(TIMEOUT_S)
        with self.lock:
            fate = self._fates.popleft() if self._fates else "as usual"
            if fate is not None and fate != "as usual":
                return fate
            answered = self.answer(request)
        return None if fate is None else answered

    def answer(self, request):
        raise NotImplementedError


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    provider = None

    def _serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = urllib.parse.urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(urllib.parse.parse_qsl(target.query))
        answered = self.provider.serve(Request(self.command, target.path, query, headers, body))
        if answered is None:
            self.close_connection = True
            return
        status, document = answered
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def log_message(self, *_):
        pass


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
        words = request.path.strip("/").split("/")
        if request.method == "POST" and words == ["v1", "refunds"]:
            return (200, self._make(request)) if b"pi_of_nobody" not in request.body else self._missing()
        if request.method == "GET" and words == ["v1", "refunds"]:
            wanted = request.query.get("payment_intent")
            found = [one for one in reversed(self.refunds) if wanted in (None, one["payment_intent"])]
            return 200, {"object": "list", "url": "/v1/refunds", "has_more": False, "data": found}
        if request.method == "GET" and words[:2] == ["v1", "refunds"]:
            found = [one for one in self.refunds if one["id"] == words[2]]
            return (200, found[0]) if found else self._missing()
        if request.method == "GET" and words[:2] == ["v1", "payment_intents"]:
            return 200, {"id": words[2], "object": "payment_intent", "amount": self.PAID, "amount_received": self.PAID,
                         "currency": "usd", "latest_charge": f"ch_{words[2]}", "status": "succeeded"}
        return self._missing()

    def _make(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        key = request.headers.get("idempotency-key")
        if key in self._by_key:
            return self._by_key[key]
        metadata = {name[len("metadata["):-1]: value for name, value in form.items() if name.startswith("metadata[")}
        refund = {"id": f"re_{len(self._by_key) + 1}", "object": "refund", "amount": int(form.get("amount", self.PAID)),
                  "currency": "usd", "payment_intent": form.get("payment_intent"), "charge": "ch_of_the_payment",
                  "metadata": metadata, "reason": form.get("reason"), "status": "succeeded"}
        self.refunds.append(refund)
        self._by_key[key or object()] = refund
        return refund

    @staticmethod
    def _missing():
        return 404, {"error": {"type": "invalid_request_error", "code": "resource_missing", "message": "No such thing"}}


class Desk(Provider):
    """Tickets, found again by their reference. Knows no keys: a second send is a second ticket."""

    def __init__(self, certificates):
        super().__init__(certificates)
        self.tickets = []

    def answer(self, request):
        if request.path == "/v1/tickets" and request.method == "POST":
            asked = json.loads(request.body)
            ticket = {"id": f"t_{len(self.tickets) + 1}", "title": asked.get("title"),
                      "reference": asked.get("reference")}
            self.tickets.append(ticket)
            return 201, ticket
        if request.path == "/v1/tickets" and request.method == "GET":
            return 200, {"data": [one for one in self.tickets if one["reference"] == request.query.get("reference")]}
        if request.path == "/v1/search" and request.method == "POST":
            return 200, {"found": len(self.tickets)}
        return 404, {"error": "no such thing"}
