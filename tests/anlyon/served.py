"""The real sidecar, its configuration written by hand only as far as the API cannot: callers, and where hosts are."""

import hashlib

from sidecar import Sidecar

KEYS = {"agent": "og_agent_8b1e6c4d20f7", "other-agent": "og_other_31d9f2ab77c0", "ops": "og_ops_e7b3f6012d98",
        "second-ops": "og_second_5a90c2e4b613"}
DECIDING = ["actions:invoke", "actions:resolve", "actions:govern", "secrets:write", "impact-limits:write",
            "environments:halt", "approvals:decide"]
SCOPES = {"agent": DECIDING[:1], "other-agent": DECIDING[:1], "ops": DECIDING, "second-ops": DECIDING}


class Served(Sidecar):
    def __init__(self, folder, providers):
        self.folder = folder
        self.config = folder / "oncegate.toml"
        self.log = folder / "stderr.log"
        self.process = None
        lines = ['[proxy]', 'listen = "127.0.0.1:0"', '[control]', 'listen = "127.0.0.1:0"', '[reconcile]',
                 'first_after = "1h"', 'max_interval = "1h"']
        for name, key in KEYS.items():
            digest = hashlib.sha256(key.encode()).hexdigest()
            scopes = ", ".join(f'"{scope}"' for scope in SCOPES[name])
            lines += [f'[callers.{name}]', f'key_sha256 = "{digest}"', f'scopes = [{scopes}]']
        for host, (port, ca_file) in providers.items():
            lines += [f'[hosts."{host}"]', f'connect_to = "127.0.0.1:{port}"', f'ca_file = "{ca_file}"']
        self.config.write_text("\n".join(lines) + "\n")

    @property
    def url(self):
        return f"http://{self.addresses['control']}"
