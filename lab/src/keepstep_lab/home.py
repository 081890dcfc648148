# SPDX-License-Identifier: Apache-2.0
"""Ranks under a launcher that someone wrote at home, which alone says how they ended."""

from __future__ import annotations

import json
import re
from pathlib import Path

from keepstep_lab.run import Run

PATIENCE_S = 20.0
"""After so long without output the launcher with a watchdog ends the run."""
LOG = "launcher.log"


def command(run: Run) -> list[str]:
    """How the launcher is started. What it starts is in a file, so its own command does not look like a rank's."""
    script = [run.python, str(run.app / "train.py")]
    ranks = [
        {"command": [*script, *run.args[rank]], "env": run.env[rank], "log": str(run.folder / f"rank{rank}.log")}
        for rank in run.order
    ]
    patience = PATIENCE_S if run.scenario.launcher == "home-watchdog" else 0.0
    about = run.work / "ranks.json"
    about.write_text(json.dumps({"ranks": ranks, "patience_s": patience}))
    return [run.python, str(Path(__file__).with_name("home_launcher.py")), str(about)]


def status_of(run: Run, rank: int) -> int | None:
    """The exit status of a rank, as the launcher said it; negative: the signal."""
    log = run.folder / LOG
    text = log.read_text() if log.exists() else ""
    found = re.search(rf"launcher: rank {rank} pid \d+ exited with (?P<how>signal|code) (?P<number>\d+)", text)
    if found is None:
        return None
    return -int(found["number"]) if found["how"] == "signal" else int(found["number"])
