# SPDX-License-Identifier: Apache-2.0
"""How large the history of many live ranks becomes, and what recorder and `keepstep watch` need meanwhile.

    python -m benchmarks.watch_writers [--ranks 512] [--minutes 60]

Each simulated rank is a process with a black box of its own, into which it writes two steps in three seconds and their
phases; it trains nothing. The guard's own companion records them, as without `keepstep run`, and one page is asked for
its view and its map now and then.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.watch_live import cpu_s
from keepstep.base.proc_stat import read_stat
from keepstep.guard.box_writer import Box
from keepstep.signals.blackbox import BoxPhase, RecordKind
from keepstep.store.history.tiles import MAGIC
from keepstep.store.history.writer import FILE
from keepstep.supervise.watch.companion import Companion

STEP_S, ASKED_EVERY_S, SAID_EVERY_S = 1.5, 10.0, 300.0


def write(folder: Path, rank: int, ranks: int, seconds: float) -> None:
    """One rank."""
    os.nice(10)  # the recorder shall not have to wait for them
    chance, begun = random.Random(rank), read_stat(os.getpid())
    assert begun is not None
    who = {"pid": os.getpid(), "rank": rank, "world": ranks, "host": socket.gethostname()[:120]}
    who |= {"wall": time.time(), "monotonic": time.monotonic_ns(), "started": begun.started, "in_training": True}
    box = Box(folder / f"rank{rank}-{os.getpid()}-0.box", who)
    until, step, before = time.monotonic() + seconds, 0, time.monotonic_ns()
    while time.monotonic() < until:
        box.write(RecordKind.PHASE, BoxPhase.INPUT, step)
        time.sleep(STEP_S * chance.uniform(0.05, 0.1))
        box.write(RecordKind.PHASE, BoxPhase.COMPUTE, step)
        time.sleep(STEP_S * chance.uniform(0.85, 0.95))
        step, now = step + 1, time.monotonic_ns()
        box.write(RecordKind.STEP, step, now - before)
        used = int(time.process_time() * 1e9)
        box.write(RecordKind.HELD, used // 10, used)
        before = now
    box.write(RecordKind.GOODBYE, 0, step)


def record(folder: Path) -> None:
    companion = Companion(folder)
    while companion.tick():
        companion.wait()
    companion.finish()


def fork(work: object, *given: object) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work(*given)  # type: ignore[operator]
        finally:
            os._exit(0)
    return pid


def memory(pid: int, field: str = "VmHWM") -> int:
    with open(f"/proc/{pid}/status") as status:
        return next((int(line.split()[1]) for line in status if line.startswith(field)), 0) // 1000  # 0: it has ended


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--ranks", type=int, default=512)
    asked.add_argument("--minutes", type=float, default=60.0)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        folder = Path(place)
        pids = [fork(write, folder, rank, given.ranks, given.minutes * 60) for rank in range(given.ranks)]
        recorder = fork(record, folder)
        command = [sys.executable, "-m", "keepstep", "watch", place]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = urlsplit(server.stdout.readline().split()[-1])
            try:
                look(folder, recorder, server.pid, address.port or 0, address.path, address.query, given.minutes)
            finally:
                server.terminate()
        for pid in (*pids, recorder):
            os.waitpid(pid, 0)


def recorded(folder: Path, began: float) -> float:
    """For which part of the seconds that are kept there is a tile: a crowded recorder measures less often."""
    fine = list(folder.rglob("*-1s-*.tiles"))
    starts = [int(match["start"]) for path in fine if (match := FILE.fullmatch(path.name))]
    kinds = 2  # ranks and hosts
    kept_s = time.time() - max(began, min(starts, default=began))
    return sum(path.read_bytes().count(MAGIC) for path in fine) / kinds / kept_s


def look(folder: Path, recorder: int, server: int, port: int, path: str, query: str, minutes: float) -> None:
    """Until the ranks are over; what is said is the most so far."""
    cookie = {"Cookie": f"keepstep-{port}={query.removeprefix('token=')}"}
    began, said, most, longest = time.monotonic(), 0.0, 0, 0.0
    first, clock = (cpu_s(recorder), cpu_s(server)), time.time()
    while (lasted := time.monotonic() - began) < minutes * 60 - 2 * ASKED_EVERY_S:
        time.sleep(ASKED_EVERY_S)
        for what in ("/view.json", "/past.json"):
            link, asked_at = http.client.HTTPConnection("127.0.0.1", port, timeout=120), time.monotonic()
            link.request("GET", path + what, headers=cookie)
            link.getresponse().read()
            longest = max(longest, time.monotonic() - asked_at)
            link.close()
        size = sum(each.stat().st_size for each in folder.rglob("*.tiles"))
        most = max(most, size)
        if lasted - said > SAID_EVERY_S or lasted > minutes * 60 - 4 * ASKED_EVERY_S:
            said = lasted
            shares = [(cpu_s(pid) - used) / lasted for pid, used in zip((recorder, server), first, strict=True)]
            print(
                f"{lasted / 60:.0f} min: history {size / 1e6:.1f} MB (most {most / 1e6:.1f}), "
                f"of {recorded(folder, clock):.0%} of the seconds; recorder "
                f"{memory(recorder)} MB at most, {shares[0]:.1%} of a core; watch {memory(server)} MB at most, "
                f"{shares[1]:.1%}; longest answer {longest:.1f} s; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
