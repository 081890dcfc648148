# SPDX-License-Identifier: Apache-2.0
"""Ranks held against each other, whatever the words: the logs here say nothing that any table knows."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.report import Verdict
from keepstep.signals.templates import template_of

LOOP = "".join(f"round {n} of 90 took 1.2 units\n" for n in range(1, 9))


def said_about(folder: Path, logs: dict[str, str]) -> list[tuple[str, tuple[int, ...]]]:
    for name, text in logs.items():
        (folder / name).write_text(text)
    report = explain_paths([folder]).report
    assert report.verdict is not Verdict.HEALTHY
    return [(each.rule, each.ranks) for each in report.findings]


def test_what_varies_is_masked_and_whole_numbers_stay_apart() -> None:
    told = "2026-11-17T10:00:00 - 11 - writing /mnt/a/step-100 for 7 of 16 (0.5 s, 10.0.0.1)"
    assert template_of(told) == ("@@ - # - writing ~ for # of # (~ s, ~)", (11, 7, 16))


def test_one_rank_never_said_what_all_others_say(tmp_path: Path) -> None:
    logs = {f"rank{rank}.log": LOOP + ("entering the gate\n" if rank != 2 else "") for rank in range(5)}
    assert said_about(tmp_path, logs) == [("SYN212", (2,))]


def test_one_number_is_lacking_in_one_log_of_all(tmp_path: Path) -> None:
    lines = "".join(f"10:00:00 - {n} - gate of round 9 entered\n" for n in (3, 0, 1, 5, 2, 7, 6))
    assert said_about(tmp_path, {"all.txt": LOOP + lines}) == [("SYN212", (4,))]


def test_one_rank_went_on_alone(tmp_path: Path) -> None:
    logs = {"gpu0.txt": LOOP, "gpu1.txt": LOOP + "the well is dry\nstarting over\n"}
    assert said_about(tmp_path, logs) == [("SYN213", (1,))]


def test_a_chatty_first_rank_is_no_finding(tmp_path: Path) -> None:
    logs = {f"rank{rank}.log": LOOP for rank in range(4)}
    logs["rank0.log"] = LOOP + "keeping the best one so far\n"
    assert said_about(tmp_path, logs) == []


def test_ranks_that_end_alike_are_no_finding(tmp_path: Path) -> None:
    assert said_about(tmp_path, {f"rank{rank}.log": LOOP for rank in range(4)}) == []
