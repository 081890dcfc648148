# SPDX-License-Identifier: Apache-2.0
"""The faults that people really have, and what keepstep must say and do about each.

They strike from outside: by a signal, by a file, or by ``inject/sitecustomize.py``, which Python loads before the
program. No program has code for them. A guest's row names those that it is scored with.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from keepstep_lab import sweeper
from keepstep_lab.guests.guest import Guest
from keepstep_lab.guests.visit import Visit

LINES_BEFORE = 8
"""A signal strikes when so many losses have been printed."""


@dataclass(frozen=True)
class Fault:
    """``causes``: what `keepstep why` may call the root, the best first.

    ``ranks``: whom it may blame; empty: nobody in particular.
    """

    name: str
    note: str
    causes: tuple[str, ...]
    ranks: tuple[int, ...] = (1,)
    restarted: bool = False
    """What `keepstep run -n` must do: bring the run back, or end it. With the user's own launcher it never restarts."""
    hangs: bool = False
    """Without keepstep it would go on forever, or for minutes."""
    stays_in: tuple[str, ...] = ()
    """Frameworks whose ranks then wait for each other at the exit, for minutes; only `keepstep run` ends that."""
    never_meet: bool = False
    """Its ranks have nothing in common that tells of one job: each may have a folder of its own."""
    at_start: bool = False
    """It strikes before the ranks have met.

    `keepstep run -n` ends it where it is certain that they never will, and restarts nothing.
    """
    not_with_n: bool = False
    """It cannot be under `keepstep run -n`: the ranks get that number from it, or it restarts them before anyone
    presses Ctrl-C."""
    trains_on: bool = False
    """The program does not stop for it."""
    prepare: Callable[[Visit], None] | None = None
    outside: Callable[[Visit], None] | None = None
    """Called again and again beside the running program until it has struck."""
    interrupt_after: float | None = None
    """The user presses Ctrl-C so many seconds after it struck."""

    def hangs_in(self, guest: Guest) -> bool:
        return self.hangs or guest.framework in self.stays_in

    def limit(self, guest: Guest) -> float:
        """Seconds after which a run that still goes on is ended, and judged as it is."""
        return guest.limit


def struck_at(visit: Visit) -> float | None:
    """When the fault struck; None: it has not."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return float((visit.notes / "struck").read_text().split()[0])
    return None


def note(visit: Visit, what: str) -> None:
    with (visit.notes / "struck").open("a") as notes:
        notes.write(f"{time.time()} 0 {what}\n")


def pid_of(visit: Visit, rank: int) -> int | None:
    """The process of a rank: as it noted itself, or by the variables it was started with."""
    with contextlib.suppress(OSError, ValueError):
        return int((visit.notes / f"rank{rank}").read_text())
    for pid in sweeper.carriers(visit.token):
        with contextlib.suppress(OSError, ValueError, KeyError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            if not any(word.endswith(visit.guest.program) for word in words[1:3]):
                continue
            given = dict(
                each.partition("=")[::2]
                for each in Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
            )
            index = next((given[name] for name in ("RANK", "PROCESS_ID", "JAX_PROCESS_ID") if name in given), None)
            if index is None and "TF_CONFIG" in given:
                index = str(json.loads(given["TF_CONFIG"])["task"]["index"])
            if index is None and str(rank) in words[2:]:
                index = str(rank)
            if index == str(rank):
                return pid
    return None


def _send(number: signal.Signals) -> Callable[[Visit], None]:
    def strike(visit: Visit) -> None:
        pid = pid_of(visit, 1) if len(visit.losses()) >= LINES_BEFORE else None
        if pid is not None:
            note(visit, f"{number.name} to rank 1")
            os.kill(pid, number)

    return strike


def _kill_loader(visit: Visit) -> None:
    pid = pid_of(visit, 1) if len(visit.losses()) >= LINES_BEFORE else None
    if pid is None:
        return
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if visit.guest.program.encode() in command:  # forked: it still carries the rank's own command
            note(visit, "SIGKILL to the data loader's worker of rank 1")
            os.kill(int(child), signal.SIGKILL)
            return


def _truncate_checkpoint(visit: Visit) -> None:
    """A shorter training leaves a checkpoint; half of it is lost."""
    env = {key: value for key, value in visit.env.items() if key not in ("KEEPSTEP", "GUEST_FAULT")}
    subprocess.run(
        [sys.executable, visit.guest.program, "--max_iters=40"],
        cwd=visit.app,
        env=env,
        check=True,
        capture_output=True,
        timeout=180,
    )
    path = visit.app / "out" / "ckpt.pt"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    note(visit, f"{path.name} is cut in half")


def _edit(*lines: tuple[str, str]) -> Callable[[Visit], None]:
    """The user wrote other lines."""

    def prepare(visit: Visit) -> None:
        path = visit.app / visit.guest.program
        text = path.read_text()
        for before, after in lines:
            if before in text:
                text = text.replace(before, after)
                note(visit, f"{path.name} has {after!r}")
        path.write_text(text)

    return prepare


HANG = ("sync.deadlock_or_hang_waiting_rank",)

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "killed",
            "SIGKILL hits rank 1",
            ("unknown.not_established",),
            restarted=True,
            stays_in=("jax",),
            outside=_send(signal.SIGKILL),
        ),
        Fault(
            "stopped", "rank 1 is stopped (SIGSTOP)", HANG, restarted=True, hangs=True, outside=_send(signal.SIGSTOP)
        ),
        Fault("asleep", "rank 1 sleeps forever in the middle of training", HANG, restarted=True, hangs=True),
        Fault(
            "interrupted",
            "rank 1 sleeps forever, and the user presses Ctrl-C",
            HANG,
            hangs=True,
            interrupt_after=15.0,
            not_with_n=True,
        ),
        Fault(
            "exception",
            "rank 1 raises an exception in the middle of training",
            ("user.code_exception",),
            stays_in=("jax",),
        ),
        Fault(
            "import_error",
            "rank 1 cannot import a module of the program",
            ("user.code_exception", "env.version_mismatch_between_nodes"),
        ),
        Fault(
            "never_arrives",
            "rank 1 starts, but never gets to the rendezvous",
            (*HANG, "config.world_size_mismatch"),
            hangs=True,
            at_start=True,
        ),
        Fault(
            "wrong_port",
            "rank 1 looks for rank 0 at the wrong port",
            ("config.cluster_spec", "network.unreachable_or_firewall", "network.timeout_slow", *HANG),
            hangs=True,
            never_meet=True,
            at_start=True,
        ),
        Fault(
            "wrong_count",
            "every rank expects one process too many",
            ("config.world_size_mismatch", "config.cluster_spec", *HANG),
            ranks=(),
            hangs=True,
            at_start=True,
            not_with_n=True,
        ),
        Fault(
            "same_id",
            "rank 1 is given the process id of rank 0",
            ("config.cluster_spec",),
            ranks=(0, 1),
            hangs=True,
            at_start=True,
            not_with_n=True,
        ),
        Fault("nan_batch", "one batch of rank 1 holds a NaN", ("numeric.nan_or_divergence",), trains_on=True),
        Fault(
            "other_shape",
            "one batch of rank 1 has fewer features, or fewer rows (JAX)",
            ("data.shape_mismatch", "user.code_exception", "sync.collective_mismatch"),
            stays_in=("jax",),
        ),
        Fault(
            "lonely_collective",
            "rank 1 issues an all_reduce that rank 0 does not",
            ("sync.collective_mismatch",),
            hangs=True,
        ),
        Fault("ddp_forgotten", "the model is not wrapped in DDP", ("config.trains_alone",), ranks=(), trains_on=True),
        Fault(
            "run_forgotten",
            "model and step know nothing of the strategy",
            ("sync.variable_outside_strategy_scope", "config.trains_alone"),
            ranks=(),
            trains_on=True,
            prepare=_edit(
                ("strategy.run(step_fn, args=(next(iterator),))", "step_fn(next(iterator))"),
                ("strategy.distribute_datasets_from_function(dataset_fn)", "dataset_fn(tf.distribute.InputContext())"),
                ("with strategy.scope():", "if strategy:"),
            ),
        ),
        Fault(
            "keras_3",
            "the program imports Keras 3 instead of tf_keras",
            ("framework.unsupported_combination",),
            ranks=(0, 1),
            prepare=_edit(("import tf_keras as keras", "import keras")),
        ),
        Fault(
            "loader_killed",
            "the worker of rank 1's data loader is killed",
            ("data.loader_worker_killed", "unknown.not_established"),
            restarted=True,
            outside=_kill_loader,
        ),
        Fault(
            "cut_checkpoint",
            "the checkpoint to resume from is cut in half",
            ("checkpoint.corrupt_or_missing",),
            ranks=(0, 1),
            prepare=_truncate_checkpoint,
        ),
    )
}
