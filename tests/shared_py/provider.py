"""A provider on 127.0.0.1 over TLS that counts every request, and does with an answer what it is told."""

import collections
import http.server
import json
import ssl
import threading

TIMEOUT_S = 30
READS = ("GET", "HEAD", "OPTIONS")
# `target` is path and query as they came; `size` the bytes of head and body.
Request = collections.namedtuple("Request", "method target headers body size")
Answer = collections.namedtuple("Answer", "status headers body")


def document(status, value):
    """An answer in JSON."""
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(value).encode())


class Provider:
    """`answer(request)` gives an `Answer`. What is counted is what arrived at the socket."""

    def __init__(self, certificates):
        self.lock = threading.Lock()
        self.requests = []
        # Every byte that came, whether or not it became a request.
        self.received = 0
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
        # Asked often whether it is to stop: closing waits for that.
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

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

    def say(self, status, value):
        """The next write is not carried out, and answered with this."""
        self._fates.append(document(status, value))

    def hold(self):
        """From now on writes wait until the returned event is set."""
        self._held = threading.Event()
        return self._held

    def serve(self, request):
        """An answer, or `None` for a connection that is closed without one."""
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


class _Counted:
    """What a connection brings, counted as it is read."""

    def __init__(self, inner, provider):
        self.inner = inner
        self.provider = provider
        self.count = 0

    def _counted(self, read):
        self.count += len(read)
        with self.provider.lock:
            self.provider.received += len(read)
        return read

    def readline(self, limit=-1):
        return self._counted(self.inner.readline(limit))

    def read(self, size):
        return self._counted(self.inner.read(size))

    def close(self):
        self.inner.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    provider = None

    def setup(self):
        super().setup()
        self.rfile = _Counted(self.rfile, self.provider)

    def handle_one_request(self):
        self.rfile.count = 0
        super().handle_one_request()

    def _serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.provider.serve(Request(self.command, self.path, headers, body, self.rfile.count))
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def log_message(self, *_):
        pass
