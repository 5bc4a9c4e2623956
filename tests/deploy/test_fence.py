"""fence.nft, loaded into a network namespace of its own that is joined to another one by a cable."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

RULES = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "fence.nft"
SIDECAR, AGENT = 65532, 10001
OUTSIDE = "192.0.2.2"

# Listens on each given address, says so, and ends when its input does.
LISTEN = """
import socket, sys
held = [socket.create_server((host, int(port))) for host, port in (one.split("=") for one in sys.argv[1:])]
print("listening", flush=True)
sys.stdin.read()
"""
# Exits 0 if it can connect.
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)"
# Keeps a namespace until its input ends.
KEEP = "import sys; print('kept', flush=True); sys.stdin.read()"


class Namespace:
    """A network of its own, for as long as it is entered."""

    def __enter__(self):
        self.keeper = subprocess.Popen(["unshare", "--net", sys.executable, "-c", KEEP], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout.readline() == "kept\n"
        self.run("ip", "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        self.keeper.kill()
        self.keeper.wait()

    def inside(self, command):
        return ["nsenter", "--target", str(self.keeper.pid), "--net", *map(str, command)]

    def run(self, *command):
        subprocess.run(self.inside(command), check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)

    def listen(self, *addresses):
        process = subprocess.Popen(self.inside([sys.executable, "-c", LISTEN, *addresses]), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "listening\n"
        return process

    def reaches(self, user, host, port):
        command = self.inside(["setpriv", "--reuid", user, "--clear-groups", sys.executable, "-c", CONNECT, host, port])
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30).returncode == 0


@pytest.fixture
def pod():
    missing = [tool for tool in ("nft", "ip", "unshare", "nsenter", "setpriv") if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing) or 'its tools'}")
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
        pytest.skip("no network namespace can be made here")
    with Namespace() as pod, Namespace() as world:
        pod.run("ip", "link", "add", "inner", "type", "veth", "peer", "name", "outer", "netns", world.keeper.pid)
        pod.run("ip", "address", "add", "192.0.2.1/24", "dev", "inner")
        pod.run("ip", "link", "set", "inner", "up")
        world.run("ip", "address", "add", f"{OUTSIDE}/24", "dev", "outer")
        world.run("ip", "link", "set", "outer", "up")
        listeners = [pod.listen("127.0.0.1=8080", "127.0.0.1=53"), world.listen(f"{OUTSIDE}=443", f"{OUTSIDE}=53")]
        yield pod
        for listener in listeners:
            listener.kill()
            listener.wait()


def test_only_the_sidecar_gets_out(pod):
    assert pod.reaches(AGENT, OUTSIDE, 443), "without the fence"
    # Loading it again changes nothing.
    for _ in range(2):
        pod.run("nft", "--file", RULES)
    assert pod.reaches(SIDECAR, OUTSIDE, 443) and pod.reaches(SIDECAR, OUTSIDE, 53)
    assert pod.reaches(AGENT, "127.0.0.1", 8080), "the sidecar's proxy"
    assert not pod.reaches(AGENT, OUTSIDE, 443) and not pod.reaches(AGENT, OUTSIDE, 53)
    assert not pod.reaches(AGENT, "127.0.0.1", 53), "a resolver is a way out"
    assert not pod.reaches(0, OUTSIDE, 443), "nor does root"
