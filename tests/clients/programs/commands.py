"""What an agent runs in a shell: curl and git, as they come. Called with a client's name; prints what was seen, as JSON."""

import json
import re
import subprocess
import sys
import tempfile

from agent import PLACEHOLDER, Plain, Refused, tell


def ended(command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, **more)


class Curl(Plain):
    """With `--retry`, as scripts have it: what curl holds to be transient it sends again by itself."""

    option = "--fail-with-body"

    @staticmethod
    def version():
        return ended(["curl", "--version"]).stdout.split()[1]

    def send(self, method, url, document):
        with tempfile.NamedTemporaryFile("r") as head:
            done = ended(["curl", "--silent", "--show-error", self.option, "--retry", "2", "--dump-header", head.name,
                          "--request", method, "--json", json.dumps(document),
                          "--header", f"Authorization: Bearer {PLACEHOLDER}", url])
            # The first head is the proxy's answer to CONNECT.
            status = [line for line in head.read().splitlines() if line.startswith("HTTP/")][-1:]
        if done.returncode == 0:
            return json.loads(done.stdout)
        raise Refused(f"exit {done.returncode}", {"standard error": done.stderr, "standard output": done.stdout,
                                                  "the head, with --dump-header": "".join(status)})


class CurlFail(Curl):
    option = "--fail"


class Git:
    """A push. The stand-in shows the repository as it was before the first one, as a mirror that lags behind: git would
    otherwise see for itself that there is nothing left to push."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("-c", "user.name=Agent", "-c", "user.email=agent@example.com", "commit", "--quiet", "--allow-empty",
                  "--message", "write it down")

    @staticmethod
    def version():
        return ended(["git", "--version"]).stdout.split()[2]

    def _git(self, *arguments):
        done = ended(["git", *arguments], cwd=self.folder.name)
        if done.returncode:
            raise Refused(f"exit {done.returncode}", {"standard error": done.stderr, "standard output": done.stdout})
        return done.stderr

    def make(self, name):
        said = self._git("push", f"https://git.test/{name}.git", "main")
        return re.search(r"\* \[new branch\].*", said).group()

    make_large = make

    def make_other(self, name):
        return self.make(f"not-declared/{name}")


CLIENTS = {"curl": Curl, "curl-f": CurlFail, "git": Git}


def main(name):
    client = CLIENTS[name]()
    tell(client.version(), client, name)


if __name__ == "__main__":
    main(sys.argv[1])
