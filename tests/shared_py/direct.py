"""A peer, asked past the sidecar: what it holds, and what others than the agent do there."""

import http.client
import json
import urllib.parse

from provider import TIMEOUT_S


class Direct:
    def __init__(self, port, credential):
        self.port = port
        self.credential = credential

    def raw(self, method, target, body=None, headers=()):
        """Status and document."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, target, body, {"Authorization": f"Bearer {self.credential}", **dict(headers)})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def _done(self, *request):
        status, value = self.raw(*request)
        assert 200 <= status < 300, (status, value)
        return value

    def get(self, target):
        return self._done("GET", target)

    def form(self, target, **members):
        body = urllib.parse.urlencode(members)
        return self._done("POST", target, body, {"Content-Type": "application/x-www-form-urlencoded"})

    def json(self, method, target, **members):
        return self._done(method, target, json.dumps(members), {"Content-Type": "application/json"})
