# SPDX-License-Identifier: Apache-2.0
"""One folder with everything a stranger might leave in it. Each subject has its own builder; add yours here."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.folders import CRASH, links_out, odd_names, pipes_and_sockets
from tests.hostile.rules import with_python_rules
from tests.hostile.runs import run_folder

SECRET = "hunter2-outside"
"""Stands in a file outside of the folder, and may appear nowhere."""


def everything(folder: Path, outside: Path) -> Path:
    """The folder. ``outside / "ran"`` appears if its code runs; ``outside / "secret.log"`` must not be read."""
    links_out(folder / "links", outside)
    pipes_and_sockets(folder / "pipes")
    odd_names(folder / "names")
    with_python_rules(folder, outside / "ran")
    for module in ("hyperscan", "zstandard", "rich", "json", "psutil", "sitecustomize", "usercustomize"):
        (folder / f"{module}.py").write_text(f"open({str(outside / 'ran')!r}, 'w')\n")
    run = run_folder(
        folder / ".keepstep" / "runs", attempts=[{"number": 0, "began": 1.0}, {"number": "1/../../../..", "began": 2.0}]
    )
    (run / "attempt-0").symlink_to(outside)
    guard = folder / ".keepstep" / "guard" / "old-run"
    guard.mkdir(parents=True)
    (guard / ".job").symlink_to(outside / "secret.log")
    (guard / "rank0-1-0.box").symlink_to(outside / "secret.log")
    (guard / ".companion-x").symlink_to(outside / "secret.log")
    (folder / "rank1.log").write_text(CRASH)
    return folder
