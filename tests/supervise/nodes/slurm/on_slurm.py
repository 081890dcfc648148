# SPDX-License-Identifier: Apache-2.0
"""`keepstep run` in a job of a real Slurm: a small DDP job that saves checkpoints and says when it made which step."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import keepstep
from keepstep_lab.slurm import Slurm

T = TypeVar("T")
LIMIT_S = 150.0
SOURCE = Path(keepstep.__file__).parent.parent
KEEPSTEP = f"{shlex.quote(sys.executable)} -m keepstep run --no-check --no-spares"
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "")
SRUN = "srun --no-kill --kill-on-bad-exit=0"
TRAIN = """
import os, signal, sys, time
import torch, torch.distributed as dist
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
dist.init_process_group("gloo")
rank, last = dist.get_rank(), int(sys.argv[1])
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
step = 0
if os.path.exists("state.pt"):
    found = torch.load("state.pt")
    step = found["step"]
    model.load_state_dict(found["model"])
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def save():
    if rank == 0:
        torch.save({"step": step, "model": model.module.state_dict()}, "state.new")
        os.replace("state.new", "state.pt")

while step < last:
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    where = os.environ["SLURMD_NODENAME"]
    with open("steps.txt", "a") as notes:
        print(time.time(), os.environ["KEEPSTEP_ATTEMPT"], step, rank, where, os.environ["LOCAL_RANK"],
              dist.get_world_size(), os.environ.get("SLURM_RESTART_COUNT", "0"), file=notes)
    if step % 5 == 0:
        save()
    stop = torch.tensor([float(bool(asked))])
    dist.all_reduce(stop)
    if stop.item():
        save()
        print("saved at step", step, flush=True)
        sys.exit(0)
    time.sleep(0.1)
dist.barrier()
"""


@dataclass(frozen=True)
class Step:
    """One step of one rank."""

    at: float
    attempt: int
    number: int
    rank: int
    node: str
    local: int
    world: int
    life: int


class Job:
    """A batch job that runs the script above under `keepstep run`."""

    def __init__(
        self,
        slurm: Slurm,
        folder: Path,
        *options: str,
        nodes: int,
        tasks: int = 1,
        steps: int = 60,
        sbatch: tuple[str, ...] = (),
        srun: str = SRUN,
        before: str = "",
        after: str = "",
        batch: bool = True,
        check: bool = False,
    ) -> None:
        """``batch``: as a batch job, whose script and srun are on its first node; else srun is on the login node."""
        self.slurm, self.folder = slurm, folder
        (folder / "train.py").write_text(TRAIN)
        script = folder / "job.sh"
        begun = KEEPSTEP.replace(" --no-check", "") if check else KEEPSTEP
        words = f"{begun} {' '.join(options)} -- {shlex.quote(sys.executable)} train.py {steps}"
        lines = [
            "#!/bin/bash",
            "#SBATCH --no-kill",
            f"export PYTHONPATH={shlex.quote(str(SOURCE))} COLUMNS=160",
            before,
            f"{srun} {words}",
            after,
        ]
        script.write_text("\n".join(lines) + "\n")
        wanted = [f"--nodes={nodes}", f"--ntasks-per-node={tasks}"]
        if batch:
            self.id = slurm.submit(script, *wanted, "--output=out.txt", *sbatch, cwd=folder)
        else:
            script.write_text("\n".join([*lines[:-2], f"{srun} {shlex.join(wanted)} --chdir={folder} {words}"]) + "\n")
            self.id = slurm.start(["bash", str(script)], folder / "out.txt")

    # --- what it does

    @property
    def out(self) -> str:
        """What srun and the agents printed."""
        path = self.folder / "out.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def steps(self) -> list[Step]:
        path = self.folder / "steps.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [_step(line.split()) for line in lines if line.count(" ") == 7]

    def reached(self, number: int, *, attempt: int | None = None, life: int = 0) -> Step:
        """Wait until a rank has made this step."""

        def found() -> Step | None:
            return next(
                (
                    each
                    for each in self.steps()
                    if each.number >= number and each.life == life and attempt in (None, each.attempt)
                ),
                None,
            )

        return self.until(found)

    def until(self, look: Callable[[], T | None], limit_s: float = LIMIT_S) -> T:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if (found := look()) is not None:
                return found
            time.sleep(0.2)
        raise AssertionError(f"it did not happen within {limit_s:.0f} s:\n{self.out}")

    def end(self, limit_s: float = LIMIT_S) -> str:
        """Wait until the job is over; its last state."""
        return self.until(lambda: state if (state := self.slurm.state(self.id)) in OVER else None, limit_s)

    def node_of(self, rank: int) -> str:
        """Where a rank is, in the newest attempt."""
        return max((each for each in self.steps() if each.rank == rank), key=lambda each: each.at).node

    # --- what it left

    def runs(self) -> list[dict[str, Any]]:
        """The manifests, the oldest first."""
        paths = sorted((self.folder / ".keepstep" / "runs").glob("2*/manifest.json"))
        return [json.loads(path.read_text()) for path in paths]

    def logs(self) -> str:
        """What the ranks printed, in all runs and attempts."""
        paths = sorted((self.folder / ".keepstep" / "runs").glob("2*/**/rank*.log"))
        return "".join(path.read_text(errors="replace") for path in paths)

    def left(self, limit_s: float = 20.0) -> dict[str, list[str]]:
        """The processes that the job has left on any node, after a moment."""
        end = time.monotonic() + limit_s
        while (found := dict(self._left())) and time.monotonic() < end:
            time.sleep(0.3)
        return found

    def _left(self) -> Iterator[tuple[str, list[str]]]:
        for node in self.slurm.nodes:
            names = [_command(pid) for pid in self.slurm.processes(node)]
            if names := [name for name in names if name]:
                yield node, names

    def secrets(self) -> list[Path]:
        return list((self.folder / ".keepstep").glob("*.secret"))


def _step(words: list[str]) -> Step:
    attempt, number, rank = (int(word) for word in words[1:4])
    return Step(float(words[0]), attempt, number, rank, words[4], int(words[5]), int(words[6]), int(words[7]))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
