"""A server that somebody else wrote, as a child process; ended by its own handle."""

import contextlib
import json
import os
import subprocess

from sidecar import wait_for


@contextlib.contextmanager
def running(name, command, folder, **environment):
    """Starts it in the folder; gives what it wrote, as JSON, to the file that `PEER_READY` names."""
    ready = folder / f"{name}.json"
    log = folder / f"{name}.log"
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PEER_READY": str(ready), **environment}
    with log.open("wb") as printed:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed)
    try:
        def said():
            assert process.poll() is None, log.read_text()
            return json.loads(ready.read_text()) if ready.exists() else None

        yield wait_for(f"{name} to listen", said)
    finally:
        process.kill()
        process.wait()
