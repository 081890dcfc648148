# SPDX-License-Identifier: Apache-2.0
"""Who this process is, by its launcher's variables, and where its guard writes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keepstep.base.launchers import KEEPSTEP, MODULES, PROGRAMS, TORCHRUN
from keepstep.base.proc_stat import read_stat
from keepstep.base.whole_numbers import whole

MOST_FILES, LONGEST_NAME = 12, 60
"""Files of the script: their names must fit into the black box with the rest."""
HELPERS = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "torch/_inductor/compile_worker",
    "torch._inductor.compile_worker",
)
ALONE = "alone"
"""The job of a process whose variables name no others."""
LAUNCHERS = (*PROGRAMS, *MODULES, "keepstep")


@dataclass
class Identity:
    """What the launcher meant this process to be; the framework may say otherwise later."""

    rank: int | None = None
    world: int | None = None
    local: int | None = None
    role: str | None = None
    said_by: str | None = None
    """The launcher whose variables were understood."""
    job: str = ALONE
    """A short name that all processes of the job derive in the same way."""
    attempt: int = 0
    serves: bool = False
    """It runs what a coordinator sends it (TensorFlow's parameter servers and their workers)."""
    is_in_training: bool = False
    """Ray Train is running the training's function in it: it is not ended on purpose before that returns."""
    saves_on_request: bool = False
    """The script calls ``keepstep.should_save()``."""
    pauses_on_request: bool = False
    run: str | None = None
    """What the ranks of this run have in common, once they have met."""
    files: list[str] = field(default_factory=list)
    """The script's files, in the order in which the records of the black box number their lines."""

    @property
    def prefix(self) -> str:
        """How a line of this process begins."""
        return f"rank {self.rank}: " if self.rank is not None else ""


def of_environment(env: Mapping[str, str] = os.environ) -> Identity:
    """From the variables; what they do not say stays None."""
    from keepstep.cluster import understand

    found = Identity(attempt=_number(env.get(KEEPSTEP.attempt[0])) or _number(env.get(TORCHRUN.attempt[0])) or 0)
    cluster = None
    with contextlib.suppress(Exception):  # whatever is in the variables, the training goes on
        cluster = understand(env)
    if cluster is not None:
        own = cluster.own
        found.rank, found.world, found.said_by = cluster.me, cluster.size, cluster.said_by
        if own is not None:
            found.local, found.role = own.local, own.role
        names = [cluster.meeting or "", cluster.job or "", *(task.address or "" for task in cluster.tasks[:64])]
        found.job = hashlib.sha256("\n".join(names).encode()).hexdigest()[:10]
    if KEEPSTEP.rank[0] in env:  # the supervisor knows best
        found.rank, found.world = _number(env[KEEPSTEP.rank[0]]), _number(env.get(KEEPSTEP.size[0]))
    return found


def of_process(who: Identity) -> dict[str, Any]:
    """What the box and the notes say about the process."""
    return {
        "pid": os.getpid(),
        "rank": who.rank,
        "world": who.world,
        "local": who.local,
        "role": who.role,
        "attempt": who.attempt,
        "job": who.job,
        "host": socket.gethostname()[:120],
        "python": sys.version.split()[0],
        "script": os.path.basename(sys.argv[0] if sys.argv else "")[:200],
        "wall": time.time(),
        "monotonic": time.monotonic_ns(),
        "hears_term": hears_term(),
        "started": started(),
        "killed_as": killed_as(who),
        "in_training": who.is_in_training,
        "saves_on_request": who.saves_on_request,
        "pauses_on_request": who.pauses_on_request,
        "run": who.run,
        "files": [name[:LONGEST_NAME] for name in who.files[:MOST_FILES]],
    }


def killed_as(who: Identity) -> str | None:
    """What this process is, if another process ends it when the work is done: it then says no goodbye."""
    if who.role == "ps":
        return "parameter server"
    if who.serves:
        return "worker of a coordinator"
    if any(word.endswith("default_worker.py") for word in sys.orig_argv):
        return "Ray worker"
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.current_process().daemon:
        return "daemonic process"
    return None


def started(pid: int | str = "self") -> int | None:
    """When a process was started, in kernel ticks since boot: tells it from a later one with the same id."""
    found = read_stat(pid)
    return found.started if found is not None else None


def hears_term() -> bool:
    """Whether Python code of this process handles SIGTERM. Handlers in native code, as in frameworks, do not count."""
    return callable(signal.getsignal(signal.SIGTERM))


def is_launcher(argv: list[str] | None = None) -> bool:
    """Whether this process only starts others: it has a framework loaded and never trains."""
    words = sys.argv if argv is None else argv
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    name = str(getattr(main, "name", "") or "")
    program = os.path.basename(words[0]) if words else ""
    return name.removesuffix(".__main__") in LAUNCHERS or program in LAUNCHERS


def is_child_of_training(argv: list[str] | None = None) -> bool:
    """Whether a rank started this: a loader's worker, torch's compiler, or an `mp.spawn` rank (steps will show it)."""
    words = [*sys.argv, *sys.orig_argv] if argv is None else argv
    return any(word == "--multiprocessing-fork" or any(helper in word for helper in HELPERS) for word in words)


def _number(text: str | None) -> int | None:
    return whole(text.strip()) if text else None
