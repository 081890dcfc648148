# SPDX-License-Identifier: Apache-2.0
"""`keepstep watch` and `top` on a made history of many ranks and a day: time to open, and memory.

    python -m benchmarks.watch_large [--ranks 4096] [--hours 24] [--hosts 64]

The tiles have the form that the recorder writes, at the resolutions that it keeps. A few bodies with random values
are used in turn, with the time of each tile, because packing all of them anew would take an hour. One rank stops
three hours before the end. With several hosts each has its own files, as their agents write them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from urllib.parse import urlsplit

from keepstep.analyze.run_metrics import RunMetrics
from keepstep.model.report import SCHEMA
from keepstep.render.prometheus import render_prometheus
from keepstep.signals.blackbox import BoxPhase
from keepstep.store import run_folders
from keepstep.store.history.readings import BY_NUMBER, READINGS, in_phase
from keepstep.store.history.tiles import HEAD, HIGH, HOSTS, LAST, LOW, MEAN, RANKS, Tile, packed
from keepstep.store.history.writer import FOLDER, LEVELS

BODIES = 4
SPREAD = {"step_s": 0.2, "wait": 0.1, "quiet_s": 0.1, "loss": 2.0, "memory": 3e9, "cpu": 1.0}
_TYPES = {number: each.type for number, each in BY_NUMBER.items()}


def make(root: Path, ranks: int, hours: float, hosts: int = 1) -> Path:
    """A run folder as a run of many hours leaves it."""
    end = time.time()
    run = run_folders.create(root, ["train.py"], name="large", ranks=ranks, version="made")
    run.manifest.began = begin = end - hours * 3600.0
    run.manifest.attempts = [run_folders.AttemptSaid(number=0, began=begin, ended=end, status=1, title="made")]
    run.manifest.state, run.manifest.ended, run.manifest.status = "failed", end, 1
    run.save()
    attempt, gone = run.attempt(0), ranks * 2 // 3
    finding = {"title": f"rank {gone} went away", "cause": "unknown.not_established", "ranks": [gone]}
    report = {
        "schema": SCHEMA,
        "verdict": "failed",
        "findings": [{**finding, "severity": "fatal", "role": "initiating"}],
    }
    (attempt / "report.json").write_text(json.dumps(report))
    for host in range(hosts):
        folder = (attempt / f"node{host}" if hosts > 1 else attempt) / FOLDER
        folder.mkdir(parents=True)
        _write(folder, list(range(ranks * host // hosts, ranks * (host + 1) // hosts)), gone, begin, end)
    return run.path


def _write(folder: Path, ranks: list[int], gone: int, begin: float, end: float) -> None:
    """What one host writes."""
    but_one, name = [rank for rank in ranks if rank != gone], f"host{ranks[0]}"
    whole, without = ([_body(some, seed) for seed in range(BODIES)] for some in (ranks, but_one))
    of_host = packed(Tile(0.0, 1.0, HOSTS, [name], {(READINGS["host_cpu"].number, MEAN): [0.5]}), _TYPES)
    for level in LEVELS:
        at = max(begin, end - level.kept_s)
        while at < end:
            with (folder / f"{name}-{level.width_s}s-{int(at)}.tiles").open("wb") as stream:
                until = min(end, at + level.file_s)
                while at < until:
                    bodies = without if at > end - 3 * 3600.0 else whole
                    stream.write(_at(bodies[int(at) % BODIES], at, level.width_s))
                    stream.write(_at(of_host, at, level.width_s))
                    at += level.width_s


def _body(ranks: list[int], seed: int) -> bytes:
    chance = random.Random(seed)
    columns = {(READINGS["phase"].number, LAST): [float(BoxPhase.COMPUTE)] * len(ranks)}
    columns[READINGS["step"].number, LAST] = [1000.0 * seed] * len(ranks)
    columns[READINGS[in_phase(BoxPhase.COMPUTE)].number, MEAN] = [0.97] * len(ranks)
    for name, usual in SPREAD.items():
        for which, share in ((LOW, 0.9), (MEAN, 1.0), (HIGH, 1.1)):
            columns[READINGS[name].number, which] = [usual * share * chance.uniform(0.95, 1.05) for _ in ranks]
    return packed(Tile(0.0, 1.0, RANKS, ranks, columns), _TYPES)


def _at(body: bytes, start: float, span: float) -> bytes:
    magic, length, _, _, _, kind, _, entries, subjects = HEAD.unpack_from(body)
    head = [magic, length, 0, start, span, kind, 0, entries, subjects]
    head[2] = zlib.crc32(memoryview(body)[HEAD.size :], zlib.crc32(HEAD.pack(*head)[16:]))
    return HEAD.pack(*head) + body[HEAD.size :]


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--ranks", type=int, default=4096)
    asked.add_argument("--hours", type=float, default=24.0)
    asked.add_argument("--hosts", type=int, default=1)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = make(Path(place), given.ranks, given.hours, given.hosts)
        size = sum(path.stat().st_size for path in folder.rglob("*.tiles"))
        what = f"{given.ranks} ranks, {given.hosts} hosts, {given.hours:g} h"
        print(f"{what}, {size / 1e6:.0f} MB of tiles; load {os.getloadavg()[0]:.1f}")
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "keepstep", "top", "--once", folder], stdout=subprocess.DEVNULL, check=True
        )
        print(f"top --once: {time.monotonic() - began:.1f} s")
        _scrape(folder)
        _serve(folder)


def _scrape(folder: Path) -> None:
    """As Prometheus does. No answer waits until it is added up where the time went."""
    metrics = RunMetrics(folder)
    for question in ("first", "second"):
        asked, used = time.monotonic(), time.thread_time()
        render_prometheus(metrics.families())
        print(f"{question} scrape: {time.monotonic() - asked:.2f} s, {time.thread_time() - used:.2f} s of CPU")


def _serve(folder: Path) -> None:
    command = [sys.executable, "-m", "keepstep", "watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = urlsplit(server.stdout.readline().split()[-1])
        cookie = {"Cookie": f"keepstep-{address.port}={address.query.removeprefix('token=')}"}
        print(f"opened: {_cpu(server.pid):.2f} s of CPU, the start of Python included")
        for again in range(2):
            for what in ("", "/view.json", "/past.json"):
                began, used = time.monotonic(), _cpu(server.pid)
                link = http.client.HTTPConnection("127.0.0.1", address.port)
                link.request("GET", address.path + what, headers=cookie)
                length = len(link.getresponse().read())
                took, used = time.monotonic() - began, _cpu(server.pid) - used
                when = "again" if again else "first"
                print(f"{when} {what or 'page'}: {took:.2f} s, {used:.2f} s of CPU, {length:,} bytes")
        with open(f"/proc/{server.pid}/status") as status:
            print(next(line.strip() for line in status if line.startswith("VmHWM")))
        server.terminate()


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
