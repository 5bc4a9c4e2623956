"""A plain host, through the clients that would go past the proxy without the two files, or tunnel to it; and what else
of the wire is a client's own."""

import http.server
import shutil
import subprocess
import sys
import threading

import pytest

from clients import NODE, NODES
from sidecar import Caller, Sidecar

PYTHON = """
import sys, urllib3
print(urllib3.PoolManager().request("POST", sys.argv[1], json={"note": sys.argv[2]}).status)
"""
AIOHTTP = """
import asyncio, sys, aiohttp
async def ask():
    async with aiohttp.ClientSession() as session:
        async with session.post(sys.argv[1], json={"note": sys.argv[2]}) as answer:
            print(answer.status)
asyncio.run(ask())
"""
FETCH = """
const [, url, note] = process.argv;
fetch(url, { method: 'POST', body: JSON.stringify({ note }), headers: { 'content-type': 'application/json' } })
  .then((answer) => console.log(answer.status));
"""
AGENT = """
const http = require('http');
const [, url, note] = process.argv;
const headers = { 'content-type': 'application/json' };
const request = http.request(url, { method: 'POST', headers, agent: new http.Agent({ keepAlive: true }) }, (answer) => {
  console.log(answer.statusCode);
  answer.resume().on('end', () => process.exit());
});
request.end(JSON.stringify({ note }));
"""


def _clients():
    for name, program in [("urllib3", PYTHON), ("aiohttp", AIOHTTP)]:
        yield name, (sys.executable, "-c", program)
    for major in NODES:
        node = NODE / "node_modules" / f"node{major}" / "bin" / "node"
        for name, program in [("fetch", FETCH), ("http", AGENT)]:
            yield f"{name}-node-{major}", (node, "-e", program)


CLIENTS = dict(_clients())


class Plain(http.server.ThreadingHTTPServer):
    """A provider in clear, which counts what it is asked to write."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.writes = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.writes.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    provider = Plain()
    declared = f"""
[hosts."plain.test:8123"]
plain = true
connect_to = "127.0.0.1:{provider.server_port}"
[actions.note]
method = "POST"
url = "http://plain.test:8123/notes"
subject = "{{{{input.note}}}}"
"""
    callers = {"agent": Caller("og_plain_4c7d1e90aa42", ["actions:invoke"]),
               "ops": Caller("og_plain_e7b3f6012d98", ["actions:invoke", "environments:halt"])}
    sidecar = Sidecar(tmp_path_factory.mktemp("plain"), callers, declared)
    try:
        yield provider, sidecar.start()
    finally:
        sidecar.stop()
        provider.shutdown()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_plain_host_is_governed_whoever_asks(name, plain):
    provider, sidecar = plain
    if shutil.which(CLIENTS[name][0]) is None:
        pytest.skip(f"{name} is not installed here")
    asked = (*CLIENTS[name], "http://plain.test:8123/notes", name)
    before = len(provider.writes)
    assert sidecar.run("agent", *asked).stdout.strip() == "200"
    assert len(provider.writes) == before + 1
    assert [effect["subject"] for effect in sidecar.data("effects")].count(name) == 1
    assert sidecar.cli("halt", "--reason", "a test").returncode == 0
    try:
        assert sidecar.run("agent", *asked[:-1], f"{name}-halted").stdout.strip() == "403"
    finally:
        assert sidecar.cli("resume").returncode == 0
    assert len(provider.writes) == before + 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
def test_who_speaks_the_older_http_alone_is_answered(sidecar):
    done = sidecar.run("bare", "curl", "-s", "--http1.0", "https://nobody.test/")
    assert "oncegate_undeclared" in done.stdout
