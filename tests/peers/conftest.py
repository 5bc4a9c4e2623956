"""The peers, started once for all tests; and for each test a front and a sidecar of its own before one of them."""

import contextlib
import pathlib
import shutil

import pytest

import local_stripe
import peer
import peers
from governed import Governed
from sidecar import ROOT

NODE = shutil.which("node")
PACKAGES = ROOT / "target" / "peers-node" / "node_modules"
LOOPBACK = pathlib.Path(__file__).with_name("loopback.cjs")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("peers")


def _node(name, program, *arguments, folder):
    assert NODE, "node is needed"
    return peer.running(name, [NODE, "--require", LOOPBACK, PACKAGES / program, *arguments], folder)


def _emulate(service, folder):
    arguments = ["start", "--service", service, "--base-url", f"https://api.{service}.com"]
    return _node(service, "emulate/dist/index.js", *arguments, folder=folder)


@pytest.fixture(scope="session")
def stateful_mock(folder):
    with _node("stripe-stateful-mock", "stripe-stateful-mock/autostart.js", folder=folder) as port:
        yield peers.StatefulMock(port, peers.STRIPE_KEY)


@pytest.fixture(scope="session")
def localstripe(folder):
    with local_stripe.running(folder) as port:
        yield local_stripe.LocalStripe(port, peers.STRIPE_KEY)


@pytest.fixture(scope="session")
def resend(folder):
    with _emulate("resend", folder) as port:
        yield peers.Resend(port)


@pytest.fixture(scope="session")
def github(folder):
    with _emulate("github", folder) as port:
        yield peers.GitHub(port)


@pytest.fixture
def before(tmp_path):
    """Starts a sidecar before a peer; it ends with the test."""
    with contextlib.ExitStack() as running:
        def start(peer, declared):
            governed = Governed(tmp_path, peer.HOST, peer.port, declared, peer.credential)
            running.callback(governed.stop)
            return governed.start()

        yield start
