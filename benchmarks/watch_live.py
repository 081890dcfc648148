# SPDX-License-Identifier: Apache-2.0
"""What `keepstep watch` with three open pages costs a run and takes itself, and what a flood and its death change.

    python -m benchmarks.watch_live [--ranks 4] [--seconds 20] [--rounds 3]

A real DDP job (gloo) under `keepstep run`. Turns without and with the pages alternate; in each, processor time per step
of all ranks is read from /proc, and system calls per step are counted by strace, if it is there, in a second half of
the turn, as it slows the ranks down alike in both.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from keepstep.store.run_folders import runs
from keepstep.supervise.running_ranks import RunningRank, running_ranks

JOB = """
import os, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10_000_000):
    loss = (model(torch.randn(32, 64)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
    if step % 50 == 0:
        print("step", step, "loss", loss.item(), flush=True)
"""
STRACED_S = 5.0
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def steps(ranks: tuple[RunningRank, ...]) -> int:
    return min(doing.steps for rank in ranks if (doing := rank.doing()) is not None)


def per_step(ranks: tuple[RunningRank, ...], seconds: float) -> tuple[float, float]:
    """Milliseconds of processor time of all ranks per step, and steps per second."""
    before, first, began = sum(cpu_s(rank.pid) for rank in ranks), steps(ranks), time.monotonic()
    time.sleep(seconds)
    done = steps(ranks) - first
    used = sum(cpu_s(rank.pid) for rank in ranks) - before
    return 1000 * used / done, done / (time.monotonic() - began)


def calls_per_step(ranks: tuple[RunningRank, ...], place: Path) -> float | None:
    """System calls of rank 0, all its threads."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    first, table = steps(ranks), place / "strace"
    with contextlib.suppress(subprocess.TimeoutExpired):
        words = [strace, "-c", "-f", "-o", str(table), "-p", str(ranks[0].pid)]
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        time.sleep(STRACED_S)
        process.send_signal(2)
        process.wait(30)
    total = re.search(r"^\s*100\.00\s+\S+\s+(?:\S+\s+)?(\d+)\s+(?:\d+\s+)?total", table.read_text(), re.MULTILINE)
    return int(total[1]) / max(1, steps(ranks) - first) if total else None


@contextlib.contextmanager
def pages(run: Path, number: int = 3) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and so many readers of its stream of news, which also fetch the past as the page does."""
    command = [sys.executable, "-m", "keepstep", "watch", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        parts = urlsplit(address)
        cookie = {"Cookie": f"keepstep-{parts.port}={parts.query.removeprefix('token=')}"}

        def read() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                link = http.client.HTTPConnection("127.0.0.1", parts.port or 0)
                link.request("GET", f"{parts.path}/events", headers=cookie)
                stream = link.getresponse()
                while stream.readline():
                    other = http.client.HTTPConnection("127.0.0.1", parts.port or 0)
                    other.request("GET", f"{parts.path}/past.json", headers=cookie)
                    other.getresponse().read()
                    other.close()

        for _ in range(number):
            threading.Thread(target=read, daemon=True).start()
        yield server, address
        server.terminate()


def flood(address: str, seconds: float) -> int:
    """Requests without the token."""
    parts, until, asked = urlsplit(address), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        with contextlib.suppress(OSError, http.client.HTTPException):
            link = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=5)
            link.request("GET", f"{parts.path}/view.json")
            link.getresponse().read()
            link.close()
            asked += 1
        time.sleep(0.01)
    return asked


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--ranks", type=int, default=4)
    asked.add_argument("--seconds", type=float, default=20.0)
    asked.add_argument("--rounds", type=int, default=3)
    given = asked.parse_args()
    print(f"{given.ranks} ranks, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        (place / "train.py").write_text(JOB)
        command = [sys.executable, "-m", "keepstep", "run", "--no-check", "--no-spares", "-n", str(given.ranks)]
        with (place / "terminal.log").open("wb") as log:
            job = subprocess.Popen([*command, "--", sys.executable, "train.py"], cwd=place, stdout=log, stderr=log)
        try:
            measure(place, given.ranks, given.seconds, given.rounds)
        finally:
            job.terminate()
            job.wait(60)


def measure(place: Path, number: int, seconds: float, rounds: int) -> None:
    ranks: tuple[RunningRank, ...] = ()
    while len(ranks) < number or steps(ranks) < 50:
        time.sleep(1.0)
        found = runs(place / ".keepstep" / "runs")
        ranks = running_ranks(found[-1].path)[1] if found else ()
    run = runs(place / ".keepstep" / "runs")[-1].path
    without, with_pages, calls, calls_watched, shares = [], [], [], [], []
    for _ in range(rounds):
        without.append(per_step(ranks, seconds)[0])
        calls.append(calls_per_step(ranks, place))
        with pages(run) as (server, _address):
            time.sleep(3.0)
            before = cpu_s(server.pid)
            with_pages.append(per_step(ranks, seconds)[0])
            shares.append((cpu_s(server.pid) - before) / seconds)
            calls_watched.append(calls_per_step(ranks, place))
    for name, values in (("no page", without), ("three pages", with_pages)):
        print(f"{name}: {', '.join(f'{each:.2f}' for each in values)} ms of CPU per step of all ranks", flush=True)
    print(f"three pages: {statistics.median(with_pages) / statistics.median(without) - 1:+.1%} (medians)")
    for name, each in (("no page", calls), ("three pages", calls_watched)):
        print(f"{name}: {', '.join(f'{one:.1f}' for one in each if one is not None)} system calls per step of rank 0")
    print(f"watch took {', '.join(f'{share:.1%}' for share in shares)} of a core")
    with pages(run) as (server, address):
        _, before_s = per_step(ranks, seconds)
        asked: list[int] = []
        flooding = threading.Thread(target=lambda: asked.append(flood(address, seconds)))
        flooding.start()
        _, during_s = per_step(ranks, seconds)
        flooding.join()
        server.kill()
        _, after_s = per_step(ranks, seconds)
    print(
        f"steps per second: {before_s:.1f} before, {during_s:.1f} in a flood of {asked[0]} requests without token, ",
        end="",
    )
    print(f"{after_s:.1f} after the server was killed")


if __name__ == "__main__":
    main()
