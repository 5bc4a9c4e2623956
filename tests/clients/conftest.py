"""One sidecar and one stand-in for all clients. Each client runs behind `oncegate run` once, two at a time; those
that need no file of ours run a second time, without."""

import base64
import concurrent.futures
import json
import shutil
import subprocess

import pytest

import certificates
from clients import BUILT, CLIENTS, HERE, NODE, PROGRAMS, environment
from sidecar import Caller, Sidecar, host
from stand_in import HOSTS, StandIn

# Made up; what no client may see.
SECRET = "provider-key-7Qm2vXc9TzLk"
BASIC = f"Basic {base64.b64encode(f'agent:{SECRET}'.encode()).decode()}"
# `oncegate run` and the client: more would only wait for each other on a small machine.
AT_ONCE = 2
CREDENTIALS = {
    "git.test": '{ basic = { user = "agent", password = "{{secret:PROVIDER_KEY}}" } }',
}
BEARER = '{ header = "Authorization", value = "Bearer {{secret:PROVIDER_KEY}}" }'


def pytest_addoption(parser):
    parser.addoption("--check-table", action="store_true", help="compare docs/clients.md, and do not write it")


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory):
    certificates.make(tmp_path_factory.getbasetemp() / "provider", *HOSTS)
    stand_in = StandIn(tmp_path_factory.getbasetemp() / "provider", tmp_path_factory.mktemp("repositories"),
                       [client.name for client in CLIENTS])
    yield stand_in
    stand_in.close()


@pytest.fixture(scope="session")
def sidecar(stand_in, tmp_path_factory):
    ca_file = tmp_path_factory.getbasetemp() / "provider" / "ca.pem"
    hosts = [host(name, stand_in.port, ca_file, f"credential = {CREDENTIALS.get(name, BEARER)}") for name in HOSTS]
    callers = {client.name: Caller(f"og_{client.name}_5c1d7e90aa42", ["actions:invoke"]) for client in CLIENTS}
    callers["bare"] = Caller("og_bare_1d3a9c70be65", ["actions:invoke"])
    callers["ops"] = Caller("og_ops_e7b3f6012d98", ["actions:invoke"])
    declared = "\n".join([*hosts, (HERE / "declared.toml").read_text()])
    sidecar = Sidecar(tmp_path_factory.mktemp("sidecar"), callers, declared, {"PROVIDER_KEY": SECRET})
    try:
        yield sidecar.start()
    finally:
        sidecar.stop()


@pytest.fixture(scope="session")
def built():
    """The programs that are not run as they lie here."""
    BUILT.mkdir(parents=True, exist_ok=True)
    if NODE.exists():
        # Node looks for packages beside the program.
        shutil.copy(PROGRAMS / "agent.mjs", NODE)
    if shutil.which("go"):
        command = ["go", "build", "-o", BUILT / "agent-go", PROGRAMS / "agent.go"]
        subprocess.run(command, env=environment(), check=True)
    if shutil.which("javac"):
        subprocess.run(["javac", "-d", BUILT, PROGRAMS / "Agent.java"], env=environment(), check=True)


@pytest.fixture(scope="session")
def started(request, sidecar, built):
    """By client: what comes of what the client printed. Those that no test asks for are not run."""
    wanted = {item.callspec.params.get("client") for item in request.session.items if hasattr(item, "callspec")}
    here = [client for client in CLIENTS if client in wanted and not client.missing]

    def run(caller, command):
        return json.loads(sidecar.run(caller, *command).stdout)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {"ran": {client: pool.submit(run, client.name, client.command) for client in here},
               "bare": {client: pool.submit(run, "bare", client.bare) for client in here if client.bare}}


@pytest.fixture(scope="session")
def ran(started):
    return started["ran"]


@pytest.fixture(scope="session")
def bare(started):
    return started["bare"]
