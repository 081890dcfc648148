# SPDX-License-Identifier: Apache-2.0
"""The ranks meet by name, and one host cannot resolve it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    assert run.hosts is not None
    host = network.host_struck(run)
    network.meet_at(run, "node-0", 0)
    known = run.work / "etc-hosts-short"
    known.write_text(f"127.0.0.1 localhost\n{run.address_of(run.scenario.struck)} node-{host}\n")
    run.hosts.do(host, "mount", "--bind", str(known), "/etc/hosts")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    assert run.hosts is not None
    asked = 'getent hosts node-0 || echo "unknown"'
    answers = [run.hosts.do(host, "sh", "-c", asked).strip() for host in range(run.scenario.hosts)]
    if answers[network.host_struck(run)] != "unknown" or answers[0] == "unknown":
        raise Unproven(f"the hosts know node-0 as {answers}")
    return f"node-0 resolves as {', '.join(answers)} on the hosts"
