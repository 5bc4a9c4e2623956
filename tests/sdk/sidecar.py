"""The real sidecar as a child process, and its commands."""

import hashlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("ONCEGATE_BIN") or ROOT / "target" / "debug" / "oncegate")
KEYS = {"billing-agent": "og_billing_5c1d7e90aa42", "ops": "og_ops_e7b3f6012d98"}
CREDENTIAL = "sk_test_4wXyQ7vTq3Zk9LmN"
PATIENCE_S = 40

CONFIGURATION = """
[proxy]
listen = "127.0.0.1:0"
[control]
listen = "127.0.0.1:0"
[store]
path = "oncegate.db"
[ca]
dir = "ca"
[reconcile]
first_after = "1h"
max_interval = "1h"

[callers.billing-agent]
key_sha256 = "{billing}"
scopes = ["actions:invoke"]
[callers.ops]
key_sha256 = "{ops}"
scopes = ["actions:invoke", "actions:resolve"]

[secrets.STRIPE_KEY]
from = {{ env = "STRIPE_SECRET_KEY" }}
allowed_hosts = ["api.stripe.com"]
allowed_placements = ["header"]

[hosts."api.stripe.com"]
credential = {{ header = "Authorization", value = "Bearer {{{{secret:STRIPE_KEY}}}}" }}
connect_to = "127.0.0.1:{port}"
ca_file = "{ca_file}"

[actions.refund]
adapter = {{ type = "stripe.refund", account = "acct_1Nxyz", mode = "test", currency = "usd" }}
credential_secret = "STRIPE_KEY"

[limits.refunds-per-day]
dimension = "money"
currency = "usd"
period = "day"
amount = 50_000
"""


def wait_for(what, ask):
    """Asks again and again: what another process does can only be polled."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = ask()
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


class Sidecar:
    def __init__(self, folder, port, ca_file):
        self.folder = folder
        self.config = folder / "oncegate.toml"
        hashes = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in KEYS.items()}
        self.config.write_text(CONFIGURATION.format(
            billing=hashes["billing-agent"], ops=hashes["ops"], port=port, ca_file=ca_file))
        self.log = folder / "stderr.log"
        self.process = None

    def _environment(self, **more):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), **more}

    def start(self):
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [BINARY, "serve", "--config", self.config, "--ready-file", ready],
            env=self._environment(STRIPE_SECRET_KEY=CREDENTIAL, ONCEGATE_LOG="debug"),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log.open("ab"))

        def served():
            assert self.process.poll() is None, self.log.read_text()
            try:
                return json.loads(ready.read_text())
            except (FileNotFoundError, json.JSONDecodeError):
                return None

        self.addresses = wait_for("the sidecar to be ready", served)
        return self

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def cli(self, *arguments, caller="ops"):
        """A command that talks to the running sidecar."""
        environment = self._environment(
            ONCEGATE_URL=f"http://{self.addresses['control']}", ONCEGATE_KEY=KEYS[caller])
        return subprocess.run(
            [BINARY, *arguments, "--config", self.config], env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE_S)

    def data(self, *arguments):
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def limit(self):
        [limit] = [one for one in self.data("limits") if one["name"] == "refunds-per-day"]
        return {name: limit[name] for name in ("consumed", "reserved", "unknownExposure")}

    def rows(self, query):
        """What an operator's `sqlite3 -readonly` prints, while the sidecar runs."""
        database = sqlite3.connect(f"file:{self.folder / 'oncegate.db'}?mode=ro", uri=True)
        try:
            return database.execute(query).fetchall()
        finally:
            database.close()

    def refund(self, payment_intent, amount, style="module", python=()):
        """The client, run behind the sidecar as an agent would be; what it saw, and all that it printed."""
        client = pathlib.Path(__file__).with_name("client.py")
        done = subprocess.run(
            [BINARY, "run", "--config", self.config, "--as", "billing-agent", "--",
             sys.executable, *python, client, style, payment_intent, str(amount)],
            # In this one's environment, as on an operator's machine: it must not reach the client.
            env=self._environment(STRIPE_SECRET_KEY=CREDENTIAL), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=2 * PATIENCE_S)
        assert done.returncode == 0, done
        return json.loads(done.stdout), done.stdout + done.stderr
