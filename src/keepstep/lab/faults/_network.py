# SPDX-License-Identifier: Apache-2.0
"""Not a fault itself: what the faults on the network between hosts share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

NEW_CONNECTIONS = ("-i", "eth0", "-p", "tcp", "--syn")
EVERYTHING = ("-i", "eth0", "-p", "tcp")


def add(run: Run, host: int, *rule: str, chain: str = "INPUT") -> None:
    """Add a rule of iptables on ``host``."""
    assert run.hosts is not None
    run.hosts.do(host, "iptables", "-A", chain, *rule)


def counted(run: Run, target: str = "DROP") -> dict[int, int]:
    """How many packets the rules with ``target`` have met, by host."""
    assert run.hosts is not None
    met: dict[int, int] = {}
    for host in range(run.hosts.count):
        for line in run.hosts.do(host, "iptables", "-v", "-n", "-x", "-L").splitlines():
            words = line.split()
            if len(words) > 2 and words[2] == target and words[0].isdecimal():
                met[host] = met.get(host, 0) + int(words[0])
    return met


def strike_when_met(run: Run) -> None:
    """A rule that exists from the start strikes with the first packet it drops."""
    if run.until(lambda: any(counted(run).values())):
        run.strike("the first packet was dropped")


def packets_met(run: Run, target: str = "DROP") -> str:
    """How many packets the rules with ``target`` have met, in words."""
    from keepstep.lab.run import Unproven

    met = counted(run, target)
    if not any(met.values()):
        raise Unproven(f"the firewall met no packet: {met}")
    told = ", ".join(f"{count} on host {host}" for host, count in met.items())
    return f"packets that the firewall met ({target}): {told}"


def host_struck(run: Run) -> int:
    """The host of the rank that the fault hits."""
    return run.host_of(run.scenario.struck)


def meet_at(run: Run, host: str, rank: int) -> None:
    """Tell every rank that ``rank`` is to be met at ``host``."""
    for env in run.env:
        if run.scenario.framework == "torch":
            env["MASTER_ADDR"] = host
        elif run.scenario.framework == "jax":
            env["COORDINATOR_ADDRESS"] = f"{host}:{run.ports[0]}"
        else:
            config = json.loads(env["TF_CONFIG"])
            for addresses in config["cluster"].values():
                for n, address in enumerate(addresses):
                    if address.endswith(f":{run.ports[rank]}"):
                        addresses[n] = f"{host}:{run.ports[rank]}"
            env["TF_CONFIG"] = json.dumps(config)
