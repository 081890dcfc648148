# SPDX-License-Identifier: Apache-2.0
"""Ranks on several hosts were told to meet at localhost: each host looks at itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _network as network

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    network.meet_at(run, "localhost" if run.scenario.framework == "torch" else "127.0.0.1", 0)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    assert run.hosts is not None
    port = str(run.ports[0])
    listens = [port in run.hosts.do(host, "ss", "-H", "-t", "-l", "-n") for host in range(run.scenario.hosts)]
    if any(listens[1:]):
        raise Unproven("somebody listens at the meeting port of a host without rank 0")
    return f"nobody listens at localhost:{port} of {len(listens) - 1} of {len(listens)} hosts"
