# SPDX-License-Identifier: Apache-2.0
"""On the host of the rank it hits, another program already listens on the rank's port."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run

LISTEN = """
import socket, sys, time
taken = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening", flush=True)
time.sleep(600)
"""


def prepare(run: Run) -> None:
    assert run.hosts is not None
    command = [*run.hosts.inside(network.host_struck(run)), run.python, "-c", LISTEN, str(_port(run))]
    other = subprocess.Popen(command, env=run.env[0], stdout=subprocess.PIPE, start_new_session=True)
    run.stack.callback(_end, other)
    assert other.stdout is not None
    other.stdout.readline()


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    assert run.hosts is not None
    host, port = network.host_struck(run), _port(run)
    listeners = [line for line in run.hosts.do(host, "ss", "-H", "-t", "-l", "-n").splitlines() if f":{port} " in line]
    if len(listeners) != 1:
        raise Unproven(f"{len(listeners)} listen on port {port} of host {host}")
    return f"one other program listens on port {port} of host {host}"


def _port(run: Run) -> int:
    return run.ports[run.scenario.struck if run.scenario.framework == "tensorflow" else 0]


def _end(other: subprocess.Popen[bytes]) -> None:
    other.kill()
    other.wait()
