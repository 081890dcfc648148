# SPDX-License-Identifier: Apache-2.0
"""Each host has a second interface that no cable joins, and the ranks use its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run

DEAD = "198.19.7"


def prepare(run: Run) -> None:
    assert run.hosts is not None
    names = "".join(f"{DEAD}.{host + 1} node-{host}\n" for host in range(run.scenario.hosts))
    for host in range(run.scenario.hosts):
        run.hosts.do(host, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "cable1")
        run.hosts.do(host, "ip", "link", "set", "cable1", "up")
        run.hosts.do(host, "ip", "addr", "add", f"{DEAD}.{host + 1}/24", "dev", "eth1")
        run.hosts.do(host, "ip", "link", "set", "eth1", "up")
    if run.scenario.framework == "torch":
        for env in run.env:
            env["GLOO_SOCKET_IFNAME"] = "eth1"
    elif run.scenario.framework == "jax":
        # gloo of JAX listens at the address of the host's own name
        (run.work / "etc-hosts").write_text(f"127.0.0.1 localhost\n{names}")
    else:
        for rank in range(run.scenario.ranks):
            network.meet_at(run, f"{DEAD}.{run.host_of(rank) + 1}", rank)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    sent = [_sent(run, host) for host in range(run.scenario.hosts)]
    if not any(sent):
        raise Unproven("nothing was sent over the dead interface")
    return f"packets sent into the interface without a cable, by host: {', '.join(map(str, sent))}"


def _sent(run: Run, host: int) -> int:
    """How many packets (ARP's questions too) went out of eth1."""
    assert run.hosts is not None
    for line in run.hosts.do(host, "cat", "/proc/net/dev").splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "eth1":
            return int(counts.split()[9])
    return 0
