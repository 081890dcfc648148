# SPDX-License-Identifier: Apache-2.0
"""What the user was told while the run was on is in the report, unless a finding says it anyway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from keepstep.analyze.report_on_attempts import of_all_attempts
from keepstep.analyze.why import explain_paths
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import SaidLive
from keepstep.model.facts.network import PortTaken
from keepstep.model.identity import Rank
from keepstep.model.report import Report, Verdict
from keepstep.render.json import render_json
from keepstep.render.terminal import render_terminal
from keepstep.rules import builtin_rules
from keepstep.store.run_folders import AttemptSaid
from keepstep.story.engine import diagnose

GUARDED = """
from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session
session = Session(Identity(rank=0, world=1), {{"KEEPSTEP_COMPANION": "off", "KEEPSTEP_DIR": {folder!r}}})
session.open()
session.say("this batch has 8 rows against 4 before")
session.failed("a part", "it broke")
"""


def said(words: str, rank: int | None = None, at: float = 0.0) -> Evidence[Fact]:
    who = Rank(index=rank) if rank is not None else None
    return Evidence(fact=SaidLive(words=words), origin=Origin(source="pace.jsonl"), rank=who, at=at, quote=words)


def test_the_report_says_it_once_with_its_ranks_and_in_order() -> None:
    items = (said("steps take twice as long", at=9.0), said("4 rows, not 8", 1, 3.0), said("4 rows, not 8", 0, 4.0))
    report = diagnose(EvidenceSet(items=items), builtin_rules())
    assert report.during == ("ranks 0 and 1: 4 rows, not 8", "steps take twice as long")
    assert "said during the run\n  ranks 0 and 1: 4 rows, not 8\n" in render_terminal(report)
    assert json.loads(render_json(report))["during"] == list(report.during)


def test_what_a_finding_says_is_not_repeated() -> None:
    words = "port 29500 is taken by another process"
    taken = Evidence(fact=PortTaken(port=29500), origin=Origin(source="rank0.log", line=1), quote=words)
    report = diagnose(EvidenceSet(items=(taken, said(f"rank 0: {words}"))), builtin_rules())
    assert report.findings and report.during == ()


def test_what_was_said_in_earlier_attempts_is_kept() -> None:
    reports = {n: Report(verdict=Verdict.FAILED, during=(f"slow {n}",)) for n in (0, 1)}
    attempts = [AttemptSaid(number=n, began=float(n)) for n in (0, 1)]
    assert of_all_attempts(reports, attempts).during == ("attempt 0: slow 0", "attempt 1: slow 1")


def test_what_the_guard_prints_is_in_the_report_and_a_part_that_failed_is_coverage(tmp_path: Path) -> None:
    script = GUARDED.format(folder=str(tmp_path))
    env = {**os.environ, "KEEPSTEP": "off"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert "8 rows against 4" in done.stderr and "a part is off" in done.stderr
    report = explain_paths([tmp_path]).report
    assert report.during == ("rank 0: this batch has 8 rows against 4 before",)
