# SPDX-License-Identifier: Apache-2.0
"""Keep what a scenario left as a recording, and read it again without any framework.

A recording is a folder: the raw output of every rank, cleaned of this machine's paths and names, ``live.json`` with
what was seen of a hanging job, and ``recording.json`` that says which scenario it was and how its processes ended.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from keepstep.analyze.why import Explained, explain_paths
from keepstep.base.redact import redact
from keepstep.model.codec import from_dict, to_dict
from keepstep.model.evidence import Coverage, CoverageState, Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import StackDump
from keepstep.model.report import Report
from keepstep.rules import builtin_rules
from keepstep.story.engine import diagnose
from keepstep_lab.run import Run

LARGEST = 200_000
HEAD = 120_000


def keep(run: Run, explained: Explained, folder: Path) -> Path:
    """Write the recording of ``run`` to ``folder/<scenario>`` and return that."""
    target = folder / run.scenario.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    clean = _cleaner(run)
    for path in sorted(run.folder.rglob("*.log")):
        kept = target / path.relative_to(run.folder)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(trim(clean(path.read_text(errors="backslashreplace"))))
    if run.scenario.hang:
        seen = json.dumps([to_dict(each) for each in _differing(explained.seen.items)], indent=1)
        (target / "live.json").write_text(clean(seen) + "\n")
    statuses = {str(rank): process.poll() for rank, process in sorted(run.processes.items())}
    about = {
        "scenario": run.scenario.name,
        "framework": run.scenario.framework,
        "ranks": run.scenario.ranks,
        "exits": statuses,
    }
    (target / "recording.json").write_text(json.dumps(about, indent=1) + "\n")
    return target


def _differing(items: Iterable[Evidence[Fact]]) -> Iterator[Evidence[Fact]]:
    """Without the further threads of a process that stand exactly where another one does: idle pools have hundreds."""
    known = set()
    for each in items:
        place = (
            (each.origin.source, each.fact.frames)
            if isinstance(each.fact, StackDump) and not each.fact.current
            else None
        )
        if place is None or place not in known:
            known.add(place)
            yield each


def replay(folder: Path) -> Report:
    """What keepstep says about a recording."""
    live = folder / "live.json"
    if live.exists():
        found = json.loads(live.read_text())
        looked = Coverage(what="the processes of the run", state=CoverageState.CHECKED)
        return diagnose(
            EvidenceSet(items=tuple(from_dict(each) for each in found), coverage=(looked,)), builtin_rules()
        )
    return explain_paths([path for path in sorted(folder.iterdir()) if path.name != "recording.json"]).report


def about(folder: Path) -> dict[str, Any]:
    """The contents of recording.json."""
    return json.loads((folder / "recording.json").read_text())  # type: ignore[no-any-return]


def _cleaner(run: Run) -> Callable[[str], str]:
    prefix = Path(run.python).parent.parent
    packages = next(iter(prefix.glob("lib/python3*/site-packages")), prefix)
    here = re.escape(socket.gethostname())

    def clean(text: str) -> str:
        text = text.replace(str(packages), "/opt/venv/lib/python3.11/site-packages")
        # torchrun logs its own files relative to where it was started
        text = re.sub(rf"(?:\.\./)*{re.escape(str(packages).lstrip('/'))}/", "", text)
        text = text.replace(str(prefix), "/opt/venv").replace(sys.base_prefix, "/usr/local")
        text = text.replace(str(run.app), "/srv/app").replace(str(run.folder), "/srv/app/logs")
        text = text.replace(str(run.work), "/data/run")
        text = re.sub(rf"(?<![\w-]){here}(?![\w-])", "node-a", text)
        return redact(text)

    return clean


def trim(text: str) -> str:
    """``text``, its middle left out where it is too long."""
    if len(text) <= LARGEST:
        return text
    head, tail = text[:HEAD], text[-(LARGEST - HEAD - 100) :]
    head, tail = head[: head.rindex("\n") + 1], tail[tail.index("\n") + 1 :]
    return f"{head}[... {len(text) - len(head) - len(tail)} characters left out ...]\n{tail}"
