# SPDX-License-Identifier: Apache-2.0
"""Starts the workers of a small TensorFlow training as a launcher would, and reads what their guards wrote."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from keepstep.model.codec import from_dict
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.signals import blackbox
from keepstep.signals.blackbox import Record, RecordKind
from keepstep.sources.host.ports import free_ports

HERE = Path(__file__).parent
LIMIT_S = 240.0
STATEMENTS = {"BatchFed", "WorldFormed", "ContractStated", "PlanNamed", "RankEnded", "PeerSilent", "CheckpointSaved"}
"""What a guard writes in a healthy run. On a busy machine a peer may answer late."""


@dataclass
class Ran:
    """The results, one value per rank."""

    codes: list[int]
    outputs: list[str]
    notes: list[Evidence[Fact]]
    steps: list[list[Record]]

    def facts(self, name: str) -> list[Any]:
        return [each.fact for each in self.notes if type(each.fact).__name__ == name]

    @property
    def digests(self) -> list[str]:
        return [found for output in self.outputs for found in re.findall(r"finished .*: ([0-9a-f]{64})", output)]

    @property
    def spoken(self) -> list[str]:
        """The lines of the guards themselves."""
        return [line for output in self.outputs for line in output.splitlines() if line.startswith("keepstep: rank")]

    @property
    def remarkable(self) -> list[str]:
        """Facts beyond the statements of a healthy run; that a busy machine makes the guard look less often is none."""
        return [
            each.quote
            for each in self.notes
            if type(each.fact).__name__ not in STATEMENTS and "looks" not in str(getattr(each.fact, "part", ""))
        ]


def job(folder: Path, script: str, *args: str, **settings: Any) -> Callable[[], Ran]:
    """A run for several tests: it starts when the first of them asks, and not at all if none does."""
    return cache(partial(run, folder, script, *args, **settings))


def run(
    folder: Path, script: str, *args: str, ranks: int = 2, only: int | None = None, env: dict[str, str] | None = None
) -> Ran:
    """Start ``ranks`` workers (or the ``only`` one) and wait for them. ``ranks`` 0: one process without TF_CONFIG."""
    guard = folder / "guard"
    guard.mkdir(parents=True)
    ports = free_ports(ranks)
    processes = []
    for rank in range(max(ranks, 1)):
        if only is None or rank == only:
            processes.append(_start(folder, script, args, rank, ports, {"KEEPSTEP_DIR": str(guard)} | (env or {})))
    codes = [_end(process) for process in processes]
    outputs = [
        (folder / f"rank{rank}.log").read_text(errors="replace")
        for rank in range(max(ranks, 1))
        if only in (None, rank)
    ]
    notes = []
    for path in sorted(guard.glob("rank*.notes.jsonl")) + sorted(guard.glob("unranked*.notes.jsonl")):
        for line in path.read_text().splitlines():
            notes.append(from_dict(json.loads(line)))
    boxes = [blackbox.read(path.read_bytes()) for path in sorted(guard.glob("rank*.box"))]
    return Ran(codes, outputs, notes, [[each for each in box.records if each.kind == RecordKind.STEP] for box in boxes])


def _start(
    folder: Path, script: str, args: tuple[str, ...], rank: int, ports: list[int], env: dict[str, str]
) -> subprocess.Popen[bytes]:
    inherited = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "PYTHONPATH") if key in os.environ}
    own = {"KEEPSTEP": "on", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}
    if ports:
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        own["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
    with (folder / f"rank{rank}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(HERE / script), *args],
            env={**inherited, **own, **env},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
