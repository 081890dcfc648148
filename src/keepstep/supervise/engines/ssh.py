# SPDX-License-Identifier: Apache-2.0
"""Plain ssh: this process starts an agent on each host and leads; it has no ranks itself. The run ends with it.

Agents speak through ssh's own streams, so no port is opened and ssh's authentication and encryption are used. A host
whose ssh ended is started again when nodes are gathered for the next attempt.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from keepstep.errors import UserError
from keepstep.sources.host.ssh import hosts_of, start
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.nodes.agent.lease import LONGEST_S
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.node_settings import FIRST_S, Station

ALIVE = ("-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=5")
"""ssh gives up a silent host after 18 s: later than the leader, and a host that is gone does not hold ssh for ever."""
LEASE_S = 12.0
"""Longer than elsewhere. After a cut, TCP takes up to as long again as the cut before it sends anew, because it doubles
its waits; elsewhere an agent makes another connection instead. A cut of 5 s needs up to 11 s, with a beat before it."""
AGAIN_S = 5.0
MOST_WORDS = 4000
END_S = 5.0


def station(wanted: Wanted, env: Mapping[str, str]) -> Station:
    """Of the launching process. Raises :class:`UserError`."""
    assert wanted.hosts is not None
    hosts = hosts_of(wanted.hosts)
    least, most = wanted.least_and_most(len(hosts))
    if most > len(hosts):
        raise UserError(f"--nodes {wanted.nodes}, but --hosts names only {len(hosts)}")
    agents = _Agents(hosts, wanted, run=f"ssh-{secrets.token_hex(8)}")
    return Station(
        run=agents.run,
        secret=None,
        node=None,
        host=socket.gethostname(),
        least=least,
        most=most,
        nodes=len(hosts),
        per_node=wanted.per_node,
        roles=wanted.roles,
        first_s=wanted.wait_s if wanted.wait_s is not None else FIRST_S,
        lease_s=LEASE_S,
        longest_s=LONGEST_S,
        ready=agents.start,
        tend=agents.tend,
        over=agents.end,
    )


@dataclass
class _Started:
    process: subprocess.Popen[bytes]
    at: float
    words: bytes = b""


@dataclass
class _Agents:
    """The ssh processes, one per host."""

    hosts: Sequence[str]
    wanted: Wanted
    run: str
    _hub: Hub | None = None
    _started: dict[int, _Started] = field(default_factory=dict)

    def start(self, hub: Hub) -> None:
        """On all hosts."""
        self._hub = hub
        for node in range(len(self.hosts)):
            self._begin(node)

    def tend(self) -> list[str]:
        """Start again what has ended. Returns, in words, why hosts are missing."""
        trouble = []
        for node, each in list(self._started.items()):
            status = each.process.poll()
            if status is None:
                continue
            said = each.words.decode(errors="replace").strip().splitlines()
            trouble.append(
                f"{self.hosts[node]}: {said[-1] if said else 'nothing was said'} (ssh ended with status {status})"
            )
            if time.monotonic() - each.at > AGAIN_S:
                self._begin(node)
        return trouble

    def end(self) -> None:
        """The agents were told goodbye and end; an ssh that does not is ended. Reapers on the hosts see to the rest."""
        until = time.monotonic() + END_S
        for each in self._started.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.process.wait(max(0.0, until - time.monotonic()))
            if each.process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(each.process.pid, signal.SIGTERM)

    def _begin(self, node: int) -> None:
        assert self._hub is not None
        words = [*shlex.split(self.wanted.remote), "run", "--on", "pipe", "--meet", self.run]
        words += ["--nodes", str(len(self.hosts)), "--node-rank", str(node), *self.wanted.again]
        script = f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(words)}"
        process = start(self.hosts[node], script, *ALIVE)
        assert process.stdin is not None and process.stdout is not None
        each = self._started[node] = _Started(process, time.monotonic())
        threading.Thread(target=partial(_pass_on, each), daemon=True).start()
        self._hub.over_pipe(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()), self.hosts[node])
        process.stdin.close()
        process.stdout.close()


def _pass_on(each: _Started) -> None:
    """What the ranks of a host print comes through ssh's standard error."""
    assert each.process.stderr is not None
    for line in each.process.stderr:
        each.words = (each.words + line)[-MOST_WORDS:]
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
