"""schemathesis on docs/openapi.json and a sidecar that has something to show: no answer is a fault of ours, none has a
shape, a status or a type that the document does not describe, and none is given without a key."""

import json
import pathlib
import subprocess
import sys

import anlyon

from served import KEYS
from sidecar import ROOT

DESCRIPTION = ROOT / "docs" / "openapi.json"
# The same run every time.
SEED = 20_260_301
EXAMPLES = 25
SECONDS_MAX = 1_200
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "response_headers_conformance", "ignored_auth")


def known(agent, ops, stripe):
    """Something of every kind, in every state that matters: what path parameters may be."""
    def refund(payment):
        return agent.actions.invoke("refund", {"payment_intent": payment, "amount": 100}).data

    done = refund("pi_1")
    stripe.lose(4)
    unknown = [refund(f"pi_{number}") for number in range(2, 6)]
    ops.actions.update("refund", requires_approval=True)
    parked = [refund(f"pi_{number}") for number in range(6, 9)]
    question = agent.approvals.request(title="May I?").data
    preview = agent.actions.preview("open-ticket", {"title": "printer", "reference": "r-1"}).data
    [limit] = ops.impact_limits.list().data
    effects = [one["effectId"] for one in (done, *unknown, *parked)]
    invocations = [one["id"] for one in (done, *unknown, *parked)]
    return {
        "effects": effects, "invocations": invocations, "previews": [preview["id"]], "impact-limits": [limit["id"]],
        "approvals": [question["id"], *(one["approvalId"] for one in parked)], "secrets": ["DESK_TOKEN"],
        "actions": ["refund", "open-ticket", "act_refund"],
    }


def filled(ids):
    """The document, with ids that exist (and one that does not) where ids stand; nobody waits long."""
    document = json.loads(DESCRIPTION.read_text())
    # Two of the others end the process, or take two minutes.
    document["components"]["schemas"]["FaultDrill"]["enum"] = ["drop_response_after_send", "truncate_answer"]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                if parameter.get("name") == "waitSeconds":
                    parameter["schema"]["maximum"] = 1
                if parameter.get("in") == "path":
                    kind = path.split("{")[0].rstrip("/").split("/")[-1]
                    parameter["schema"] = {"enum": [*ids[kind], "none"]}
    return document


def run(folder, served, document, *more):
    (folder / "openapi.json").write_text(json.dumps(document))
    program = pathlib.Path(sys.executable).with_name("st")
    command = [program, "run", folder / "openapi.json", "--url", served.url, "--checks", ",".join(CHECKS), "--phases",
               "fuzzing", "--max-examples", EXAMPLES, "--seed", SEED, "--generation-deterministic",
               "--workers", 2, "--continue-on-failure", "--request-timeout", 60,
               "--header", f"Authorization:Bearer {KEYS['second-ops']}", "--no-color", *more]
    done = subprocess.run([str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=SECONDS_MAX)
    print(done.stdout[-20_000:])
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr


def test_every_answer_is_as_described(stripe, desk, agent, ops, served, refund, ticket, daily, tmp_path):
    ids = known(agent, ops, stripe)
    document = filled(ids)
    # Halting and pruning go last: under a halt nothing else would say anything new.
    paths = document["paths"]
    last = {path: paths.pop(path) for path in list(paths) if path.endswith(("/halt", "/prune"))}
    run(tmp_path, served, document)
    run(tmp_path, served, {**document, "paths": last})
    assert served.process.poll() is None
    assert "panicked" not in served.log.read_text()
    # What the record shows at last is intact, and the callers are still who they were.
    assert ops.auth.identity().data["apiKeyId"] == "ops"
    assert served.cli("audit", "verify").returncode == 0
    # Whatever was asked for, and however: each write at a provider is one that the record knows.
    with anlyon.Client(KEYS["ops"], base_url=served.url) as reader:
        effects = [reader.actions.effect(one["id"]).data for one in reader.actions.effects(limit=200).data]
    sent = [one for effect in effects for one in effect["attempts"] if one["kind"] in ("dispatch", "replay")]
    assert len(stripe.writes()) + len(desk.writes()) == len(sent), [(one["kind"], one["seen"]) for one in sent]
