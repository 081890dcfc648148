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
from keepstep.sources.host.ssh import NOT_THERE, hosts_of, shell_words, start
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.nodes.agent.lease import LONGEST_S
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.lead.rendezvous import NotThere
from keepstep.supervise.nodes.node_settings import FIRST_S, Station

ALIVE = ("-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=5")
"""ssh gives up a silent host after 18 s: later than the leader, and a host that is gone does not hold ssh for ever."""
LEASE_S = 12.0
"""Longer than elsewhere. After a cut, TCP takes up to as long again as the cut before it sends anew, because it doubles
its waits; elsewhere an agent makes another connection instead. A cut of 5 s needs up to 11 s, with a beat before it."""
AGAIN_S = 5.0
MOST_WORDS = 4000
LAST_WORDS_S = 0.5
"""An ssh that has ended may have said more than was read so far."""
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
        more_s=wanted.more_s,
        lease_s=LEASE_S,
        longest_s=LONGEST_S,
        ready=agents.start,
        tend=agents.tend,
        ended_here=agents.ended_here,
        over=agents.end,
    )


@dataclass
class _Started:
    process: subprocess.Popen[bytes]
    at: float
    words: bytes = b""
    reader: threading.Thread | None = None


@dataclass
class _Agents:
    """The ssh processes, one per host."""

    hosts: Sequence[str]
    wanted: Wanted
    run: str
    _hub: Hub | None = None
    _started: dict[int, _Started] = field(default_factory=dict)
    _killed: dict[int, int] = field(default_factory=dict)
    """By node: the signal that ended the ssh before the present one."""

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
            if each.reader is not None:
                each.reader.join(LAST_WORDS_S)
            said = each.words.decode(errors="replace").strip().splitlines()
            words = f"{self.hosts[node]}: {said[-1] if said else 'nothing was said'} (ssh ended with status {status})"
            trouble.append(NotThere(words) if status in NOT_THERE else words)
            if time.monotonic() - each.at > AGAIN_S:
                self._begin(node)
        return trouble

    def ended_here(self, node: int) -> str | None:
        """Whether somebody on this host ended the ssh of a node: then nothing is known about the node."""
        status = self._started[node].process.poll()
        number = -status if status is not None and status < 0 else self._killed.pop(node, None)
        if number is None:
            return None
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"the ssh client on this host, {socket.gethostname()}, was ended by {name}"

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
        words = ["run", "--on", "pipe", "--meet", self.run]
        words += ["--nodes", str(len(self.hosts)), "--node-rank", str(node), *self.wanted.again]
        script = f"cd {shlex.quote(os.getcwd())} || exit {NOT_THERE[-1]}; {shell_words(self.wanted.remote, words)}"
        before = self._started.get(node)
        if before is not None and (status := before.process.poll()) is not None and status < 0:
            self._killed[node] = -status
        process = start(self.hosts[node], script, *ALIVE)
        assert process.stdin is not None and process.stdout is not None
        each = self._started[node] = _Started(process, time.monotonic())
        each.reader = threading.Thread(target=partial(_pass_on, each), daemon=True)
        each.reader.start()
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
