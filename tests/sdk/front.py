"""A TLS front on 127.0.0.1 that passes requests on to localstripe, counts them, and drops an answer when told to."""

import http.client
import socket
import ssl
import threading

TIMEOUT_S = 30


class Front:
    def __init__(self, upstream_port, certificates):
        self.upstream_port = upstream_port
        self.seen = []
        self._to_drop = 0
        self._lock = threading.Lock()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "leaf.pem", certificates / "leaf.key")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def drop_answers(self, count):
        """The next so many POSTs are carried out, and their answers are dropped."""
        with self._lock:
            self._to_drop = count

    def posts(self):
        with self._lock:
            return [one for one in self.seen if one["method"] == "POST"]

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _serve(self, raw):
        raw.settimeout(TIMEOUT_S)
        try:
            with self._context.wrap_socket(raw, server_side=True) as line:
                reader = line.makefile("rb")
                while self._one(line, reader):
                    pass
        except OSError:
            pass

    def _one(self, line, reader):
        start = reader.readline().decode("latin-1").split()
        if len(start) != 3:
            return False
        headers = http.client.parse_headers(reader)
        body = reader.read(int(headers.get("Content-Length", "0")))
        request = {"method": start[0], "target": start[1], "headers": {name.lower(): value for name, value in headers.items()}, "body": body}
        with self._lock:
            self.seen.append(request)
            drop = start[0] == "POST" and self._to_drop > 0
            self._to_drop -= drop
        status, reason, media, answer = self._ask(request)
        if drop:
            return False
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {media}\r\nContent-Length: {len(answer)}\r\n\r\n"
        line.sendall(head.encode("latin-1") + answer)
        return True

    def _ask(self, request):
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream_port, timeout=TIMEOUT_S)
        try:
            wanted = ("authorization", "content-type", "idempotency-key")
            headers = {name: value for name, value in request["headers"].items() if name in wanted}
            connection.request(request["method"], request["target"], request["body"], headers)
            answer = connection.getresponse()
            return answer.status, answer.reason, answer.headers.get("Content-Type", ""), answer.read()
        finally:
            connection.close()
