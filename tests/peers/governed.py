"""A sidecar in front of one provider, an agent behind it, and what they all say of a write."""

import concurrent.futures
import contextlib
import json
import pathlib
import sys

import certificates
from front import Front
from sidecar import Caller, Sidecar, host, wait_for

CALLERS = {"agent": Caller("og_agent_6e02b1d97fc3", ["actions:invoke"]),
           "ops": Caller("og_ops_2f7a90c45b1e", ["actions:invoke", "actions:resolve"])}
SENTENCE = "The provider may have applied effect {}; Oncegate is reconciling it. Do not retry; inspect the effect."
NOTHING = {"consumed": 0, "reserved": 0, "unknownExposure": 0}


class Governed(Sidecar):
    """The provider stands at its real name, and in its place the front with a peer behind it."""

    def __init__(self, folder, name, peer_port, declared, credential):
        certificates.make(folder / "provider", name)
        self.front = Front(peer_port, folder / "provider")
        (folder / "sidecar").mkdir()
        where = host(name, self.front.port, folder / "provider" / "ca.pem",
                     'credential = { header = "Authorization", value = "Bearer {{secret:PROVIDER_KEY}}" }')
        secret = ('[secrets.PROVIDER_KEY]\nfrom = { env = "PROVIDER_KEY" }\n'
                  f'allowed_hosts = ["{name}"]\nallowed_placements = ["header"]\n')
        super().__init__(folder / "sidecar", CALLERS, secret + where + declared, {"PROVIDER_KEY": credential})

    def stop(self):
        super().stop()
        self.front.close()

    def agent(self, *calls):
        """What the client saw of each call."""
        client = pathlib.Path(__file__).with_name("client.py")
        return json.loads(self.run("agent", sys.executable, client, json.dumps(calls)).stdout)

    @contextlib.contextmanager
    def while_asked(self, call):
        """The call is on its way, and the front holds it; gives what the client will have seen."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self.agent, call)
            wait_for("the write to come", lambda: self.front.writes() or None)
            yield asked

    def effect(self):
        """The only one that there is."""
        [effect] = self.data("effects")
        return self.data("effect", "show", effect["id"])

    def held(self):
        return self.limit("a-day")

    def sent(self, count):
        """So many writes came to the front, and no byte that was not part of a whole request."""
        writes = self.front.writes()
        assert len(writes) == count, writes
        assert self.front.received == sum(one.size for one in self.front.requests)
        return writes

    def loses(self, call, *varied, amount=1):
        """The peer carries the write out, and its answer is lost. Nothing that the agent tries then is sent."""
        self.front.lose()
        lost, again, *others = self.agent(call, call, *varied)
        effect = self.effect()
        assert (effect["outcome"], effect["grade"]) == ("unknown", "unknown")
        for told in (lost, again):
            assert told["status"] == 422 and SENTENCE.format(effect["id"]) in told["text"], told
        assert len(others) == len(varied) > 0
        for told in others:
            assert told["status"] == 422 and effect["id"] in told["text"], told
            assert "Do not retry or vary the request" in told["text"], told
        self.sent(1)
        assert self.held() == {"consumed": 0, "reserved": amount, "unknownExposure": amount}
        return effect["id"]

    def looks(self, effect):
        """The provider is asked, and knows the write."""
        looked = self.cli("effect", "reconcile", effect)
        assert looked.returncode == 0, (looked, self.log.read_text())
        return self.settled(effect, "confirmed", attempts=["dispatch", "reconcile"], sent=1)

    def replays(self, effect):
        """The same bytes under the same key, which the provider takes for what they are."""
        replayed = self.cli("effect", "replay", effect)
        assert replayed.returncode == 0, (replayed, self.log.read_text())
        effect = self.settled(effect, "acknowledged", attempts=["dispatch", "replay"], sent=2)
        first, second = self.front.writes()
        assert (first.target, first.body, first.headers) == (second.target, second.body, second.headers)
        assert first.headers["idempotency-key"]
        return effect

    def does_not_replay(self, effect):
        refused = self.cli("effect", "replay", effect)
        assert refused.returncode == 15 and "not known to deduplicate" in refused.stderr, refused
        self.sent(1)
        assert self.effect()["outcome"] == "unknown"

    def settled(self, effect, grade, attempts, sent):
        shown = self.data("effect", "show", effect)
        assert (shown["outcome"], shown["grade"]) == ("succeeded", grade)
        assert [one["kind"] for one in shown["attempts"]] == attempts
        held = self.held()
        assert held["consumed"] > 0 and (held["reserved"], held["unknownExposure"]) == (0, 0)
        self.sent(sent)
        return shown

    def failed(self, told, status):
        """A definite no: nothing is held for it."""
        assert told["status"] == status, told
        assert self.effect()["outcome"] == "failed"
        assert self.held() == NOTHING
        self.sent(1)
