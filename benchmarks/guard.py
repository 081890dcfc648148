# SPDX-License-Identifier: Apache-2.0
"""What the guard costs: a record, a contract, and a training step of each framework with and without it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
from pathlib import Path

from benchmarks import guard_start
from benchmarks.hooks import HEADING, INSIDE, PAIRS, SETTLING, STEPS
from keepstep.guard.box_writer import Box
from keepstep.guard.exchange import SharedFolder
from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session
from keepstep.signals.blackbox import RecordKind

FRAMEWORKS = ("torch", "tensorflow", "jax")
PLANS = 50


def main() -> None:
    print("# The guard\n")
    print(
        f"Made by `make bench`; the same processes with the guard's hooks in place and taken out, {STEPS} "
        f"steps each in {PAIRS} turns, after {SETTLING} steps in which the guard weighs its hooks. In "
        "brackets: where the median of the turns lies with 95 %. Each rank has a core of its own, "
        f"which it shares with the guard's thread. Inside the hooks: the mean of {STEPS} "
        f"steps, one of them recorded in full; the median of {INSIDE // STEPS} such means.\n"
    )
    print(f"A record: {record_ns():.0f} ns. A step with its phases (3 records): {step_ns() / 1000:.2f} µs.")
    for ranks in (2, 8):
        print(f"A contract of {ranks} ranks (200 entries), through a folder: {contract_ms(ranks):.1f} ms.")
    off, on = start_ms("off"), start_ms("on")
    print(f"Start of a Python that imports no framework: {off:.0f} ms without, {on:.0f} ms with KEEPSTEP=on.\n")
    print(f"{guard_start.main()}\n", flush=True)
    print(HEADING)
    for name in FRAMEWORKS:
        if importlib.util.find_spec(name) is None:
            print(f"| {name} | not installed | | | | | | |")
            continue
        print(importlib.import_module(f"benchmarks.guard_{name}").main(), flush=True)


def record_ns() -> float:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        write, kind = Box(Path(folder) / "a.box", {}).write, int(RecordKind.STEP)
        took = timeit.repeat(
            "write(kind, 5, 6)",
            globals={"write": write, "kind": kind},
            number=100_000,
            repeat=9,
            timer=time.thread_time,
        )
    return statistics.median(took) / 100_000 * 1e9


def step_ns() -> float:
    with tempfile.TemporaryDirectory() as folder:
        session = _session(0, 1, Path(folder))
        session.open()

        def step() -> None:
            session.phase(2)
            session.phase(3)
            session.step_done()

        took = timeit.repeat(step, number=50_000, repeat=9, timer=time.thread_time)
        session.close()
    return statistics.median(took) / 50_000 * 1e9


def contract_ms(ranks: int) -> float:
    """From the call to the return of ``agree``, of ranks that come at the same time."""
    stated = {f"variable {n}": "float32[1024, 1024]" for n in range(200)}
    took: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        sessions = [_session(rank, ranks, Path(folder)) for rank in range(ranks)]
        meet = threading.Barrier(ranks)
        for session in sessions:
            session.open()
            session.use_exchange(SharedFolder(Path(folder) / "exchange"))

        def side(session: Session) -> None:
            for _ in range(PLANS):
                meet.wait()
                began = time.perf_counter()
                session.agree("program", stated)
                took.append(time.perf_counter() - began)

        threads = [threading.Thread(target=side, args=(session,)) for session in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for session in sessions:
            session.close()
    return statistics.median(took) * 1000


def start_ms(mode: str) -> float:
    took = []
    for _ in range(15):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], env={**os.environ, "KEEPSTEP": mode}, check=True)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


def _session(rank: int, world: int, folder: Path) -> Session:
    env = {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(folder / "guard"), "KEEPSTEP_SUPERVISOR": "1"}
    return Session(Identity(rank=rank, world=world), env)


if __name__ == "__main__":
    main()
