# SPDX-License-Identifier: Apache-2.0
"""How long a training is away when a node dies: keepstep, torchrun's elastic mode and Ray Train, in turns.

``python -m benchmarks.node_death [--rounds N] [WAY ...]``. The same DDP job (gloo, 20 ms per step) on network
namespaces of this machine, one rank per node. All processes of the second node are killed at once. Counted is the time
until the first step of the next world. keepstep and torchrun go on with one node; Ray Train has room on the nodes left.
Needs root, torch, and for Ray Train ``ray[train]``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from keepstep_lab import hosts as lab
from tests.supervise.engines.ray_cluster import RayCluster

JOBS = Path(__file__).resolve().parent / "comeback_jobs"
STRUCK = 1
"""The node that dies. It neither leads nor is it the one where ranks meet."""
WELL_INTO = 50
PATIENCE_S, GONE_S = 240.0, 240.0
PORT = 29400


class Nodes(RayCluster):
    """Machines with a job on them; Ray runs there only if it is started."""

    def each(self, words: Callable[[int], list[str]], count: int = 2) -> None:
        """The same program on several, with what it prints in a file."""
        for host in range(count):
            with (self.folder / f"out-{host}").open("wb") as out:
                subprocess.Popen(
                    [*self.hosts.inside(host), "env", f"--chdir={self.folder}", *words(host)],
                    env={**self.env, "OMP_NUM_THREADS": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )

    @property
    def said(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-1500:] for path in sorted(self.folder.glob("out-*")))


def keepstep(nodes: Nodes) -> None:
    nodes.env["KEEPSTEP_SECRET"] = secrets.token_hex(32)
    where = ["--nodes", "1:2", "--per-node", "1", "--meet", f"{lab.address(0)}:{PORT}"]
    job = ["--", sys.executable, str(JOBS / "node_job.py"), str(nodes.folder)]
    nodes.each(lambda host: [sys.executable, "-m", "keepstep", "run", *where, "--node-rank", str(host), *job])


def torchrun(nodes: Nodes) -> None:
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{lab.address(0)}:{PORT}", "--rdzv-id", "1"]
    words = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1"]
    job = [str(JOBS / "node_job.py"), str(nodes.folder)]
    nodes.each(lambda host: [*words, "--max-restarts", "3", *meet, "--local-addr", lab.address(host), *job])


def ray_train(nodes: Nodes) -> None:
    for host in range(3):
        nodes.cpus = 0 if host == 0 else 2  # the driver's node has no ranks
        nodes.start(host)
    nodes.env["RAY_ADDRESS"] = f"{lab.address(0)}:6379"
    nodes.env["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = "180"  # else it never starts on a crowded machine
    nodes.each(lambda _: [sys.executable, str(JOBS / "ray_train_job.py"), str(nodes.folder)], count=1)


WAYS = {"keepstep": keepstep, "torchrun": torchrun, "ray_train": ray_train}


def measure(way: str) -> tuple[float | None, str]:
    """Seconds from the death to the next world's first step (None: it did not come back), and the load meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="keepstep-node-death-"))
    nodes = Nodes(3, folder)
    try:
        WAYS[way](nodes)
        _wait(lambda: _trained(folder) >= 2, PATIENCE_S, nodes)
        before, at = {path.name for path in folder.glob("steps-*")}, time.monotonic()
        nodes.die(STRUCK)
        with contextlib.suppress(RuntimeError):
            _wait(lambda: next(_first_steps(folder, before), None) is not None, GONE_S, nodes)
        back = min(_first_steps(folder, before), default=None)
        return (back - at if back is not None else None), f"{os.getloadavg()[0]:.0f}"
    finally:
        nodes.close()
        shutil.rmtree(folder, ignore_errors=True)


def _trained(folder: Path) -> int:
    """How many ranks are well into a training of two."""
    lines = (path.read_text().splitlines() for path in folder.glob("steps-*"))
    return sum(len(each) > WELL_INTO and each[-1].endswith(" 2") for each in lines)


def _first_steps(folder: Path, before: set[str]) -> Iterator[float]:
    for path in folder.glob("steps-*"):
        if path.name not in before and (line := path.read_text().partition("\n")[0]):
            yield float(line.split()[0])


def _wait(is_so: Callable[[], object], seconds: float, nodes: Nodes) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError(f"nothing happened in {seconds:.0f} s: {nodes.said}")
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", help=f"of {', '.join(WAYS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    if (why := lab.missing()) is not None:
        sys.exit(why)
    if unknown := [way for way in asked.ways if way not in WAYS]:
        parser.error(f"not known: {unknown[0]}")
    ways = [way for way in asked.ways or WAYS if way != "ray_train" or importlib.util.find_spec("ray") is not None]
    found: dict[str, list[float | None]] = {way: [] for way in ways}
    for number in range(asked.rounds):
        for way in ways:
            try:
                took, load = measure(way)
            except RuntimeError as error:
                print(f"round {number}: {way}: did not train: {error}", flush=True)
                continue
            found[way].append(took)
            words = f"back after {took:.1f} s" if took is not None else f"not back after {GONE_S:.0f} s"
            print(f"round {number}: {way}: {words} (load {load})", flush=True)
    for way, times in found.items():
        known = sorted(each for each in times if each is not None)
        middle = f"{statistics.median(known):.1f} s" if known else "never"
        print(f"{way}: {len(known)} of {len(times)} came back, median {middle}", flush=True)


if __name__ == "__main__":
    main()
