"""Every provider at once, on one port: carries out each write that arrives, and counts it for the client and the case
that it is named after. A write that is named `...-lost` is carried out, and its answer never sent."""

import collections
import email
import os
import re
import subprocess
import urllib.parse

from provider import READS, Answer, Provider, document

HOSTS = ("api.stripe.com", "api.resend.com", "api.github.com", "api.openai.com", "api.anthropic.com", "desk.test",
         "git.test")
CASES = ("success", "lost", "denied", "pending", "bare")
NOT_FOUND = document(404, {"message": "no such thing", "error": {"message": "no such thing"}})


def _refund(request, made):
    form = dict(urllib.parse.parse_qsl(request.body.decode()))
    metadata = {"oncegate_effect": form["metadata[oncegate_effect]"]}
    return {"id": made, "object": "refund", "amount": int(form["amount"]), "currency": "usd", "charge": "ch_1",
            "payment_intent": form["payment_intent"], "metadata": metadata, "status": "succeeded"}


def _file(_, made):
    return {"content": {"name": "a.txt", "path": "a.txt", "sha": "1f7a7a47"}, "commit": {"sha": made}}


def _id(_, made):
    return {"id": made}


WRITES = {
    ("api.stripe.com", "POST", "/v1/refunds"): (200, _refund),
    ("api.resend.com", "POST", "/emails"): (200, _id),
    ("api.github.com", "PUT", "/repos/acme/notes/contents/"): (201, _file),
    ("api.openai.com", "POST", "/v1/fine_tuning/jobs"): (200, _id),
    ("api.anthropic.com", "POST", "/v1/messages/batches"): (200, _id),
    ("desk.test", "POST", "/v1/tickets"): (201, _id),
}


class StandIn(Provider):
    def __init__(self, certificates, repositories, clients):
        self.made = collections.Counter()
        self.nameless = []
        self._named = re.compile(f"(?<![a-z0-9-])({'|'.join(map(re.escape, clients))})-({'|'.join(CASES)})")
        self._git = _GitServer(repositories)
        super().__init__(certificates)

    def count(self, client, case):
        with self.lock:
            return self.made[client, case]

    def serve(self, request):
        with self.lock:
            self.requests.append(request)
        host = request.headers["host"]
        if request.method in READS:
            return self._git.serve(request) if host == "git.test" else NOT_FOUND
        named = self._named.search(f"{request.target} {urllib.parse.unquote(request.body.decode('latin-1'))}")
        if named is None:
            with self.lock:
                self.nameless.append(request)
            return NOT_FOUND
        client, case = named.groups()
        with self.lock:
            self.made[client, case] += 1
            made = f"{client}-{case}-{self.made[client, case]}"
        answer = self._git.serve(request) if host == "git.test" else self._carry_out(host, request, made)
        return None if case == "lost" else answer

    @staticmethod
    def _carry_out(host, request, made):
        for (at, method, start), (status, answer) in WRITES.items():
            if (host, request.method) == (at, method) and request.target.startswith(start):
                return document(status, answer(request, made))
        return NOT_FOUND


class _GitServer:
    """git's own server, behind HTTP. Repositories are made when they are asked for."""

    def __init__(self, folder):
        self.folder = folder
        self._first_seen = {}

    def serve(self, request):
        path, _, query = request.target.partition("?")
        *_, repository, service = path.strip("/").removesuffix("/refs").split("/")
        path = f"/{repository}/{service}" if service != "info" else f"/{repository}/info/refs"
        if request.method in READS:
            if repository not in self._first_seen:
                made = ["git", "-c", "init.defaultBranch=main", "init", "--quiet", "--bare", self.folder / repository]
                subprocess.run(made, check=True)
                subprocess.run(["git", "-C", self.folder / repository, "config", "http.receivepack", "true"], check=True)
                self._first_seen[repository] = self._ask(request, path, query)
            return self._first_seen[repository]
        return self._ask(request, path, query)

    def _ask(self, request, path, query):
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.folder), "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": request.method, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": request.headers.get("content-type", ""), "CONTENT_LENGTH": str(len(request.body)),
        }
        said = subprocess.run(["git", "http-backend"], env=environment, input=request.body, capture_output=True,
                              check=True).stdout
        head, _, body = said.partition(b"\r\n\r\n")
        headers = dict(email.message_from_bytes(head).items())
        return Answer(int(headers.pop("Status", "200").split()[0]), headers, body)
