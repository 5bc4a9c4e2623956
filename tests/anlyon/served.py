"""The sidecar, its configuration written by hand only as far as the API cannot: callers, and where hosts are."""

from sidecar import Caller, Sidecar, host

DECIDING = ["actions:invoke", "actions:resolve", "actions:govern", "secrets:write", "impact-limits:write",
            "environments:halt", "approvals:decide"]
CALLERS = {"agent": Caller("og_agent_8b1e6c4d20f7", DECIDING[:1]),
           "other-agent": Caller("og_other_31d9f2ab77c0", DECIDING[:1]),
           "ops": Caller("og_ops_e7b3f6012d98", DECIDING),
           "second-ops": Caller("og_second_5a90c2e4b613", DECIDING)}
KEYS = {name: caller.key for name, caller in CALLERS.items()}


class Served(Sidecar):
    def __init__(self, folder, providers):
        super().__init__(folder, CALLERS, "".join(host(name, *where) for name, where in providers.items()))
