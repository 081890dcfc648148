# SPDX-License-Identifier: Apache-2.0
"""``keepstep check --hosts a,b,c``: start the check on each host over ssh and gather what they saw.

The first host acts as rank 0 and receives the others; what it gathers comes back as evidence and is judged here, so the
hosts need not be able to reach this machine. ssh asks no questions (BatchMode). The token goes through ssh's standard
input, where no process list shows it. That input stays open: when it ends, the check on the host ends too, so Ctrl-C
here leaves nothing there.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keepstep.check.meeting.meeting_point import FIRST_PORT, PORTS
from keepstep.check.meeting.packing import SCHEMA, unpacked
from keepstep.check.place import Collected
from keepstep.cluster.address import joined
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.links import HostNotStarted
from keepstep.sources.host.ssh import NOT_THERE, shell_words, start

BY_HOSTS = "--hosts"
"""What reports call whoever said which hosts there are."""
MOST_OUTPUT = 256 << 20
MOST_WORDS = 4000
PATIENCE_S = 600.0
FAILED = (255, *NOT_THERE)
"""ssh itself failed, a file cannot be run, no such command."""


@dataclass
class _Started:
    host: str
    process: subprocess.Popen[bytes]
    said: bytes = b""
    words: bytes = b""


def cluster_of(hosts: Sequence[str], me: int) -> Cluster:
    """The cluster for a list of hosts: one process on each."""
    names = [host.rpartition("@")[2] for host in hosts]
    return Cluster(
        said_by=BY_HOSTS, tasks=tuple(Task(rank=n, index=n, host=name) for n, name in enumerate(names)), me=me
    )


def over_ssh(hosts: Sequence[str], words: Sequence[str], remote: str = "keepstep") -> Collected:
    """Run the check on all hosts, with ``words`` as its parts and options. Returns what they saw, to be judged here."""
    token = secrets.token_hex(32)
    first = hosts[0].rpartition("@")[2]
    meet = joined(first, FIRST_PORT + random.SystemRandom().randrange(PORTS)) or ""
    listed = ",".join(hosts)
    started: list[_Started] = []
    threads: list[threading.Thread] = []
    try:
        for number, host in enumerate(hosts):
            check = ["check", *words, "--meet", meet, "--hosts", listed, "--member", str(number), "--evidence"]
            script = f"read -r KEEPSTEP_TOKEN && export KEEPSTEP_TOKEN && {shell_words(remote, check)}"
            each = _Started(host, start(host, script))
            started.append(each)
            assert each.process.stdin is not None
            with contextlib.suppress(OSError):
                each.process.stdin.write(f"{token}\n".encode())
                each.process.stdin.flush()
            for name in ("stdout", "stderr"):
                thread = threading.Thread(target=_read, args=(each, name), daemon=True)
                thread.start()
                threads.append(
                    thread
                )  # only once it runs: after Ctrl-C in between, joining an unstarted thread would fail
        _wait(started)
    finally:
        for each in started:
            _end(each)
        for thread in threads:
            thread.join(5)
    return _gathered(started)


def _wait(started: list[_Started]) -> None:
    """Wait until the first host has reported everything; without it the others have no one to meet."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        status = started[0].process.wait(PATIENCE_S)
        for each in started[1:]:
            # a host that could not reach the first one reports so itself; one that could ends with it
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.process.wait(0.2 if status in FAILED else 30)


def _end(each: _Started) -> None:
    with contextlib.suppress(OSError):
        if each.process.stdin is not None:
            each.process.stdin.close()
    try:
        each.process.wait(2)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(each.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            each.process.wait(5)


def _read(each: _Started, name: str) -> None:
    pipe = getattr(each.process, name)
    into = "said" if name == "stdout" else "words"
    most = MOST_OUTPUT if name == "stdout" else MOST_WORDS
    while data := pipe.read1(65536):
        setattr(each, into, (getattr(each, into) + data)[:most])
    pipe.close()


def _gathered(started: list[_Started]) -> Collected:
    looked = Collected()
    for number, each in enumerate(started):
        told = _document(each.said)
        if told is not None:
            looked.take(unpacked(told, each.host))
        elif each.process.returncode in FAILED or number == 0:
            words = each.words.decode(errors="replace").strip()
            status = each.process.returncode if each.process.returncode is not None else -1
            fact = HostNotStarted(rank=number, host=each.host, status=status, said=words[:MOST_WORDS])
            looked.add(
                Evidence(
                    fact=fact, origin=Origin(source=f"ssh {each.host}"), quote=words[:MOST_WORDS] or f"status {status}"
                )
            )
    return looked


def _document(said: bytes) -> dict[str, Any] | None:
    """The evidence in a host's output; a login shell may have printed something first."""
    start = said.find(b'{"schema": "%s"' % SCHEMA.encode())
    if start < 0:
        return None
    try:
        told = json.loads(said[start:])
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def end_with_standard_input() -> None:
    """Interrupt this process when its standard input ends: the process that started it is gone."""

    def watch() -> None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()
