"""What git shows before it comes to a push: the answer to its discovery."""

import shutil

import pytest


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")
def test_a_host_that_nobody_declared(sidecar):
    done = sidecar.run("bare", "sh", "-c", 'git ls-remote https://nobody.test/a.git 2>&1; test "$?" -ne 0')
    assert "remote: The host nobody.test is not declared for this way. Nothing was sent." in done.stdout
