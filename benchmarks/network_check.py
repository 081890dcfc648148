# SPDX-License-Identifier: Apache-2.0
"""How long ``keepstep check network`` takes on 2 to 32 hosts, each a network namespace on this machine.

The hosts share this machine's cores, which real ones do not: a healthy cluster, then one with a blocked pair and a
host on 10 Mbit/s, which must be named with nothing else. Needs root. Processor seconds are of all processes together.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstep_lab.hosts import Hosts, address, missing, name

SIZES = (2, 4, 8, 16, 32)
SHAPE = ("root", "tbf", "rate", "10mbit", "burst", "4kb", "latency", "400ms")
BLOCKED, SLOW = (1, 2), 3


@dataclass
class Measured:
    hosts: int
    wall_s: float
    cpu_s: float
    rules: list[str]
    titles: list[str]


def measure(count: int, *, broken: bool = False) -> Measured:
    """One check of ``count`` hosts."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = Hosts(count, Path(folder), dict(os.environ))
        try:
            if broken:
                hosts.do(
                    BLOCKED[1], "iptables", "-A", "INPUT", "-p", "tcp", "--syn", "-s", address(BLOCKED[0]), "-j", "DROP"
                )
                hosts.do(
                    BLOCKED[0], "iptables", "-A", "INPUT", "-p", "tcp", "--syn", "-s", address(BLOCKED[1]), "-j", "DROP"
                )
                hosts.at_switch("tc", "qdisc", "add", "dev", f"port{SLOW}", *SHAPE)
            return _check(hosts, count)
        finally:
            hosts.close()


def _check(hosts: Hosts, count: int) -> Measured:
    cluster = {"worker": [f"{name(host)}:2222" for host in range(count)]}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    processes = []
    for host in range(count):
        env = {**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": host}})}
        command = [*hosts.inside(host), sys.executable, "-m", "keepstep", "check", "network", "--json", "--wait", "60"]
        processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    told = [process.communicate(timeout=300)[0] for process in processes]
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    report: dict[str, Any] = json.loads(told[0])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    findings = report["findings"]
    return Measured(count, wall, cpu, [f["rule"] for f in findings], [f["title"] for f in findings])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    asked = parser.parse_args()
    why = missing()
    if why:
        print(f"network check: not measured: {why}")
        return 0
    print(
        f"keepstep check network, hosts as network namespaces on {os.cpu_count()} cores (load "
        f"{os.getloadavg()[0]:.1f})\n"
    )
    print("| hosts | links | seconds | processor seconds | findings | with a blocked pair and a slow host | named |")
    print("|---|---|---|---|---|---|---|")
    wrong = 0
    for size in asked.sizes:
        healthy = measure(size)
        cells = [
            str(size),
            str(size * (size - 1)),
            f"{healthy.wall_s:.1f}",
            f"{healthy.cpu_s:.1f}",
            str(len(healthy.rules)),
        ]
        wrong += bool(healthy.rules)
        if size > SLOW:
            broken = measure(size, broken=True)
            expected = _as_planted(broken)
            wrong += not expected
            cells += [f"{broken.wall_s:.1f} s", "both, nothing else" if expected else "; ".join(broken.titles)]
        else:
            cells += ["", ""]
        print("| " + " | ".join(cells) + " |", flush=True)
    return 1 if wrong else 0


def _as_planted(found: Measured) -> bool:
    """The blocked pair and the slow host, and nothing else."""
    if sorted(found.rules) != ["NET104", "NET107"]:
        return False
    pair = next(t for r, t in zip(found.rules, found.titles, strict=True) if r == "NET104")
    host = next(t for r, t in zip(found.rules, found.titles, strict=True) if r == "NET107")
    return all(name(each) in pair for each in BLOCKED) and host.startswith(f"{name(SLOW)} is slow")


if __name__ == "__main__":
    sys.exit(main())
