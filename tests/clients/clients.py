"""The clients of the matrix: how each is started, what it needs, and where its user reads why."""

import os
import pathlib
import shutil
import sys
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = HERE / "programs"
# What the packages of package.json were installed into, and what is built here.
NODE = ROOT / "target" / "clients-node"
BUILT = ROOT / "target" / "clients-built"
NODES = (20, 24)

VARIABLES = "variables"
PYTHON_FILE = "variables and the Python file"
NODE_FILE = "variables and the Node file"


class Client(typing.NamedTuple):
    # In the names of what it writes: lower case, digits and hyphens.
    name: str
    title: str
    command: tuple
    # What has to be there for it to run.
    program: object
    needs: str
    # Where its user reads why.
    shown: str = "str(exception)"
    # Otherwise the machine brings it, in whatever version.
    pinned: bool = True
    on: str = ""

    def __str__(self):
        return self.name

    @property
    def missing(self):
        return shutil.which(self.program) is None

    @property
    def bare(self):
        """A single write without the two files, if it is said to need none."""
        if self.needs != VARIABLES or not self.pinned:
            return None
        return ("env", "--unset=PYTHONPATH", "--unset=NODE_OPTIONS", *self.command, "bare")


def _python(name, title, needs=VARIABLES, shown="str(exception)"):
    return Client(name, title, (sys.executable, PROGRAMS / "agent.py", name), sys.executable, needs, shown)


def _node(package, title, shown="error.message", needs=(NODE_FILE, VARIABLES), on=NODES):
    """One for each version of Node, with what it needs there."""
    for major, needed in zip(NODES, needs):
        if major in on:
            name = f"{package.strip('@').replace('/', '-')}-node-{major}"
            node = NODE / "node_modules" / f"node{major}" / "bin" / "node"
            command = (node, NODE / "agent.mjs", package, name)
            yield Client(name, title, command, node, needed, shown, on=f", Node {major}")


def _command(name, title, shown):
    command = (sys.executable, PROGRAMS / "commands.py", name)
    return Client(name, title, command, title.split()[0], VARIABLES, shown, pinned=False)


CLIENTS = [
    _python("stripe-python", "stripe-python", PYTHON_FILE),
    *_node("stripe", "stripe-node", needs=(NODE_FILE, NODE_FILE)),
    _python("resend-python", "resend-python"),
    *_node("resend", "resend-node"),
    _python("pygithub", "PyGithub"),
    *_node("@octokit/rest", "@octokit/rest"),
    *_node("octokit", "octokit"),
    _python("openai-python", "openai-python"),
    *_node("openai", "openai-node"),
    _python("anthropic-python", "anthropic-python"),
    # Its package asks for Node 22 or newer.
    *_node("anthropic", "anthropic-node", on=(24,)),
    _python("requests", "requests"),
    _python("httpx", "httpx"),
    _python("aiohttp", "aiohttp", PYTHON_FILE),
    _python("urllib3", "urllib3", PYTHON_FILE, "response.reason"),
    *_node("fetch", "fetch", "response.statusText"),
    *_node("axios", "axios", "error.response.data", (VARIABLES, VARIABLES)),
    _command("curl", "curl --fail-with-body", "standard output"),
    _command("curl-f", "curl -f", "the head, with --dump-header"),
    _command("git", "git push", "standard error"),
    Client("go", "Go net/http", (BUILT / "agent-go", "go"), "go", VARIABLES, "response.Status", pinned=False),
    Client("java", "Java HttpClient", ("java", "-cp", BUILT, "Agent", "java"), "javac", VARIABLES, "response.body()",
           pinned=False),
]


def environment():
    """For what is built here."""
    return {"PATH": os.environ["PATH"], "HOME": str(BUILT), "GOCACHE": str(BUILT / "go-cache"), "GO111MODULE": "off"}
