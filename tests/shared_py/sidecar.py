"""The real sidecar as a child process, and its commands."""

import collections
import hashlib
import json
import os
import pathlib
import sqlite3
import subprocess
import time

import canary

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("ONCEGATE_BIN") or ROOT / "target" / "debug" / "oncegate")
PATIENCE_S = 100
# Looks by themselves are an hour away: each one that a test sees, it asked for.
USUAL = """
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
"""
Caller = collections.namedtuple("Caller", "key scopes")


def wait_for(what, ask):
    """Asks again and again: what another process does can only be polled."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = ask()
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


def host(name, port, ca_file, more=""):
    """The configuration of a host that is a provider of ours."""
    return f'[hosts."{name}"]\nconnect_to = "127.0.0.1:{port}"\nca_file = "{ca_file}"\n{more}\n'


def _declared(name, caller):
    digest = hashlib.sha256(caller.key.encode()).hexdigest()
    return f'[callers.{name}]\nkey_sha256 = "{digest}"\nscopes = {json.dumps(caller.scopes)}\n'


class Sidecar:
    def __init__(self, folder, callers, declared, secrets=None):
        """`callers` by their names, one of them `ops`; `declared` in TOML; `secrets`: variables of its environment."""
        self.folder = folder
        self.callers = callers
        self.secrets = secrets or {}
        # What nobody may read, by its name: looked for in what commands print, and in the folder when it ends.
        self.canaries = {**self.secrets, **{f"the key of {name}": caller.key for name, caller in callers.items()}}
        # Names of files in which they stand rightly.
        self.holds_secrets = set()
        self.config = folder / "oncegate.toml"
        lines = [_declared(name, caller) for name, caller in callers.items()]
        self.config.write_text("\n".join([USUAL, *lines, declared]))
        self.log = folder / "stderr.log"
        self.process = None

    @property
    def url(self):
        return f"http://{self.addresses['control']}"

    def _environment(self, **more):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), **more}

    def start(self):
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [BINARY, "serve", "--config", self.config, "--ready-file", ready],
            env=self._environment(ONCEGATE_LOG="debug", **self.secrets),
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
        self.shows_no_secret()

    def shows_no_secret(self):
        """Looks through the files of its folder: the record and its log, managed files, its own log at debug level."""
        return canary.nowhere_below(self.canaries, self.folder, self.holds_secrets)

    def _showing_nothing(self, done):
        canary.nowhere_in(self.canaries, "what a command printed", (done.stdout + done.stderr).encode())
        return done

    def cli(self, *arguments, caller="ops"):
        """A command that talks to the running sidecar."""
        environment = self._environment(ONCEGATE_URL=self.url, ONCEGATE_KEY=self.callers[caller].key)
        return self._showing_nothing(subprocess.run(
            [BINARY, *arguments, "--config", self.config], env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE_S))

    def data(self, *arguments):
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def limit(self, name):
        [limit] = [one for one in self.data("limits") if one["name"] == name]
        return {name: limit[name] for name in ("consumed", "reserved", "unknownExposure")}

    def rows(self, query):
        """What an operator's `sqlite3 -readonly` prints, while the sidecar runs."""
        database = sqlite3.connect(f"file:{self.folder / 'oncegate.db'}?mode=ro", uri=True)
        try:
            return database.execute(query).fetchall()
        finally:
            database.close()

    def run(self, caller, *command):
        """The command as an agent runs it, behind the sidecar. It must end with 0."""
        done = subprocess.run(
            [BINARY, "run", "--config", self.config, "--as", caller, "--", *command],
            # The secrets are in this one's environment, as on an operator's machine: they must not reach the command.
            env=self._environment(**self.secrets), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=2 * PATIENCE_S)
        assert done.returncode == 0, done
        return self._showing_nothing(done)
