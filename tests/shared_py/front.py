"""A provider that passes what it gets on to a server without TLS. It can lose the answer, which the server cannot."""

import http.client

from provider import TIMEOUT_S, Answer, Provider

# They belong to one connection, or are written anew for each.
OF_THE_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "content-length", "accept-encoding", "date",
                     "server")


class Front(Provider):
    def __init__(self, upstream_port, certificates):
        self.upstream_port = upstream_port
        super().__init__(certificates)

    def answer(self, request):
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream_port, timeout=TIMEOUT_S)
        try:
            headers = _passed_on(request.headers.items())
            connection.request(request.method, request.target, request.body or None, headers)
            answer = connection.getresponse()
            return Answer(answer.status, _passed_on(answer.getheaders()), answer.read())
        finally:
            connection.close()


def _passed_on(headers):
    return {name: value for name, value in headers if name.lower() not in OF_THE_CONNECTION}
