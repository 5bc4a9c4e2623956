"""docs/guides/refund.py as it stands, against the stand-in; and docs/guides/refund.md shows that very program and what
it prints."""

import os
import re
import subprocess
import sys

from conftest import STRIPE_KEY
from served import KEYS
from sidecar import PATIENCE_S, ROOT

GUIDES = ROOT / "docs" / "guides"


def without_ids(text):
    """Ids are new each time; the text shows them as `eff_...`."""
    return re.sub(r"\b(eff|inv|apr)_[0-9A-Z]{26}", r"\1_...", text)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (GUIDES / "refund.md").read_text(), re.M | re.S)


def test_the_refund_guide_does_what_it_says(stripe, desk, served):
    environment = {"PATH": os.environ["PATH"], "HOME": str(served.folder), "ONCEGATE_URL": served.url,
                   "ONCEGATE_KEY": KEYS["ops"], "ONCEGATE_AGENT_KEY": KEYS["agent"], "STRIPE_SECRET_KEY": STRIPE_KEY}
    done = subprocess.run([sys.executable, GUIDES / "refund.py"], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=2 * PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    [shown] = blocks("text")
    assert without_ids(done.stdout) == shown
    # Four refunds, each made once; one of them was sent twice under one key, and one was refused.
    assert [one["amount"] for one in stripe.refunds] == [120, 130, 140, 150]
    keys = [one.headers["idempotency-key"] for one in stripe.writes()]
    assert (len(keys), len(set(keys))) == (6, 5)
    assert STRIPE_KEY not in done.stdout + done.stderr
    assert desk.requests == []


def test_the_refund_guide_shows_its_program():
    program = (GUIDES / "refund.py").read_text()
    shown = blocks("python")
    sections = re.findall(r"^# \d\. .*?(?=^# \d\. |\Z)", program, re.M | re.S)
    assert len(sections) == len(shown) == 8
    for section, block in zip(sections, shown):
        assert block.strip() == section.strip()
