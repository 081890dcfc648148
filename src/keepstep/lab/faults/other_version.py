# SPDX-License-Identifier: Apache-2.0
"""The rank's host has an older version of a small package of the project, which lacks a function."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

NEW = '__version__ = "2.1.0"\n\n\ndef scale(step):\n    return min(1.0, (step + 1) / 10)\n'
OLD = '__version__ = "1.4.2"\n'


def prepare(run: Run) -> None:
    for folder, text in (("packages", NEW), ("packages-old", OLD)):
        (run.work / folder).mkdir()
        (run.work / folder / "warmup.py").write_text(text)
    for rank, env in enumerate(run.env):
        folder = "packages-old" if rank in (run.scenario.strike_ranks or (1,)) else "packages"
        env["PYTHONPATH"] = f"{run.work / folder}:{env['PYTHONPATH']}"
        env["KEEPSTEP_LAB_RANK"] = ",".join(map(str, range(run.scenario.ranks)))


def at(step: int, rank: int) -> None:
    warmup = importlib.import_module("warmup")
    print(f"warmup version {warmup.__version__}", flush=True)
    print(f"learning rate scale {warmup.scale(step)}", flush=True)


def proof(run: Run) -> str:
    old = run.proof_in_log(run.scenario.struck, "warmup version 1.4.2")
    return f"{old}; {run.proof_in_log(0, 'warmup version 2.1.0')}"
