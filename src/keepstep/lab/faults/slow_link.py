# SPDX-License-Identifier: Apache-2.0
"""The cable of one host carries 10 Mbit/s only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    assert run.hosts is not None
    host = network.host_struck(run)
    shape = ("root", "tbf", "rate", "10mbit", "burst", "4kb", "latency", "400ms")
    run.hosts.at_switch("tc", "qdisc", "add", "dev", f"port{host}", *shape)
    run.hosts.do(host, "tc", "qdisc", "add", "dev", "eth0", *shape)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    assert run.hosts is not None
    host = network.host_struck(run)
    told = run.hosts.do(host, "tc", "-s", "qdisc", "show", "dev", "eth0")
    late = re.search(r"overlimits (\d+)", told)
    if late is None or int(late[1]) == 0:
        raise Unproven(f"nothing was slowed: {told}")
    return f"the link of host {host} made {late[1]} packets wait"
