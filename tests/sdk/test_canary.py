"""The search for secrets, tried: each encoding is found, in a file and in what was printed, and told from the others."""

import pathlib
import tomllib

import pytest

import canary

CASES = tomllib.loads((pathlib.Path(__file__).parents[1] / "cases" / "canary.toml").read_text())["case"]
SECRETS = {"PLANTED": "sk_test_planted_???_Qx7Vw"}


def test_the_cases_are_all():
    assert [case["encoding"] for case in CASES] == list(canary.ENCODINGS)
    assert len(CASES) == 28


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["encoding"])
def test_it_is_found(case, tmp_path):
    planted = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()
    assert canary.hits(SECRETS, planted) == [("PLANTED", case["encoding"])]
    (tmp_path / "managed").mkdir()
    (tmp_path / "managed" / "oncegate.db-wal").write_bytes(bytes(4096) + planted)
    with pytest.raises(AssertionError) as failed:
        canary.nowhere_below(SECRETS, tmp_path)
    said = str(failed.value)
    assert f"oncegate.db-wal: PLANTED, as {case['encoding']}" in said and SECRETS["PLANTED"] not in said
    assert canary.nowhere_below(SECRETS, tmp_path, but={"oncegate.db-wal"}) == 0
    assert canary.hits({"another": "sk_test_planted_???_Qx7VW2"}, planted) == []
