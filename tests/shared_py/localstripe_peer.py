"""Runs localstripe on 127.0.0.1 with a port chosen by the system, and writes the port to the file in `PEER_READY`.

Its own entry point binds every interface and keeps its state in a file that all runs share; this one does neither.
"""

import os
import socket

from aiohttp import web
from localstripe import server


def main(port_file):
    server.store.__class__.dump_to_disk = lambda self: None
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    # Whoever reads the port connects at once; the server itself listens only some time after the file is there.
    listener.listen()
    with open(port_file + ".part", "w") as file:
        file.write(str(listener.getsockname()[1]))
    os.rename(port_file + ".part", port_file)
    web.run_app(server.app, sock=listener, print=None, access_log=None)


if __name__ == "__main__":
    main(os.environ["PEER_READY"])
