"""Container file, compose, manifests, units and scripts, checked with the tools that read them without running them."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import jsonschema
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BINARY = pathlib.Path(os.environ.get("ONCEGATE_BIN") or ROOT / "target" / "debug" / "oncegate")
TOOLS = pathlib.Path(sys.executable).parent
KUBERNETES = "1.32"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service")) + sorted((DEPLOY / "systemd").glob("*.timer"))
# How exposed a unit may be, in systemd's own measure of 0 to 10 (times ten).
EXPOSURE_MAX = 25


def run(*command, **more):
    return subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, **more)


def needed(tool):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on this machine")


def check(folder, text, secrets):
    """`oncegate check`, with the files that the configuration names as secrets put where the test may write."""
    for path in secrets:
        assert f'"{path}"' in text
        (folder / "secret").write_text("sk_test_1x")
        text = text.replace(f'"{path}"', f'"{folder / "secret"}"')
    (folder / "oncegate.toml").write_text(text)
    done = run(BINARY, "check", "--json", "--config", folder / "oncegate.toml")
    assert json.loads(done.stdout) == {"ok": True, "faults": [], "warnings": []}, done


def documents(path):
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def test_scripts():
    scripts = sorted(DEPLOY.glob("*.sh"))
    assert len(scripts) == 2
    done = run(TOOLS / "shellcheck", *scripts)
    assert done.returncode == 0, done.stdout


def test_container_file():
    done = run(TOOLS / "hadolint", DEPLOY / "Dockerfile")
    assert done.returncode == 0, done.stdout
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    members = re.search(r"members = \[(.*?)\]", (ROOT / "Cargo.toml").read_text(), re.S).group(1)
    for member in re.findall(r'"(\w+)"', members):
        assert f"!{member}" in ignored, f"{member} is needed to build, and left out of the image's context"


def test_the_image_has_the_libraries_that_the_binary_needs():
    needed("readelf")
    done = run("readelf", "--dynamic", "--wide", BINARY)
    assert done.returncode == 0, done
    libraries = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", done.stdout))
    there = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert libraries and libraries <= there, libraries - there


def test_container_configuration(tmp_path):
    check(tmp_path, (DEPLOY / "container" / "oncegate.toml").read_text(), ["/run/secrets/stripe_key"])


def test_compose_is_well_formed():
    origin = importlib.util.find_spec("compose").submodule_search_locations[0]
    schema = json.loads((pathlib.Path(origin) / "config" / "compose_spec.json").read_text())
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


def test_the_agent_reaches_nothing_but_the_sidecar():
    project = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    agent, sidecar = project["services"]["agent"], project["services"]["oncegate"]
    assert agent["networks"] == ["inside"] and sorted(sidecar["networks"]) == ["inside", "outside"]
    assert project["networks"]["inside"]["internal"] is True
    inside = [name for name, service in project["services"].items() if "inside" in service["networks"]]
    assert sorted(inside) == ["agent", "oncegate"]
    assert agent["volumes"] == ["trust:/run/oncegate-trust:ro"] and "secrets" not in agent
    assert "ports" not in sidecar and "ports" not in agent
    assert sidecar["read_only"] is True and sidecar["user"] != agent["user"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_well_formed(manifest):
    done = run(TOOLS / "kubernetes-validate", "--kubernetes-version", KUBERNETES, "--strict", manifest)
    assert done.returncode == 0, done


def test_configuration_in_the_manifest(tmp_path):
    [config] = [one for one in documents(DEPLOY / "kubernetes" / "own-pod.yaml") if one["kind"] == "ConfigMap"]
    check(tmp_path, config["data"]["oncegate.toml"], ["/run/secrets/stripe/stripe_key"])


def test_the_policies_say_what_is_claimed():
    all_of_them = documents(DEPLOY / "kubernetes" / "own-pod.yaml")
    by_kind = {kind: [one for one in all_of_them if one["kind"] == kind] for kind in ("NetworkPolicy", "Deployment")}
    policies = {one["metadata"]["name"]: one["spec"] for one in by_kind["NetworkPolicy"]}
    agents = policies["agents-reach-only-oncegate"]
    assert agents["ingress"] == [] and sorted(agents["policyTypes"]) == ["Egress", "Ingress"]
    sidecar = {"app.kubernetes.io/name": "oncegate"}
    assert agents["egress"] == [{"to": [{"podSelector": {"matchLabels": sidecar}}],
                                 "ports": [{"protocol": "TCP", "port": 8080}]}]
    [deployment] = by_kind["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert agents["podSelector"]["matchLabels"].items() <= labels.items()
    assert policies["oncegate"]["podSelector"]["matchLabels"] == sidecar


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_are_well_formed(unit, tmp_path):
    needed("systemd-analyze")
    # The programs are not installed here: something that is stands in their place.
    text = re.sub(r"^(ExecStart=)\S+", r"\1/bin/true", unit.read_text(), flags=re.M)
    for other in UNITS:
        (tmp_path / other.name).write_text(re.sub(r"^(ExecStart=)\S+", r"\1/bin/true", other.read_text(), flags=re.M))
    (tmp_path / unit.name).write_text(text)
    done = run("systemd-analyze", "verify", tmp_path / unit.name, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"})
    assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit.suffix == ".service"], ids=lambda path: path.name)
def test_units_are_hardened(unit):
    needed("systemd-analyze")
    done = run("systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", "--no-pager", unit)
    assert done.returncode == 0, done.stdout.splitlines()[-1:] + [done.stderr]


def test_the_agent_unit_is_another_user_without_a_way_out():
    lines = (DEPLOY / "systemd" / "oncegate-agent.service").read_text().splitlines()
    for line in ("User=oncegate-agent", "IPAddressDeny=any", "IPAddressAllow=127.0.0.1/32",
                 "InaccessiblePaths=/var/lib/oncegate", "RestrictAddressFamilies=AF_INET AF_INET6"):
        assert line in lines, line
    assert "User=oncegate" in (DEPLOY / "systemd" / "oncegate.service").read_text().splitlines()
