# SPDX-License-Identifier: Apache-2.0
"""Healthy is a claim: what proves that a rank ended well, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.question import Question, answer
from keepstep.analyze.why import explain_paths
from keepstep.model.report import Verdict

STEPS = "".join(f"2026-11-17 10:00:{n:02} INFO step {n} loss 0.5\n" for n in range(0, 40, 2))
DONE = "2026-11-17 10:00:41 INFO training finished after 40 steps\n"


def verdict_on(folder: Path, **logs: str) -> tuple[Verdict, list[tuple[tuple[int, ...], str | None]]]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    report = explain_paths([folder]).report
    return report.verdict, [(each.ranks, each.proof) for each in report.ended]


def test_every_rank_with_a_log_of_its_own_must_say_that_it_finished(tmp_path: Path) -> None:
    assert verdict_on(tmp_path, rank0=STEPS + DONE, rank1=STEPS + DONE)[0] is Verdict.HEALTHY


def test_one_rank_that_does_not_say_so_is_named(tmp_path: Path) -> None:
    verdict, ends = verdict_on(tmp_path, rank0=STEPS + DONE, rank1=STEPS)
    assert verdict is Verdict.UNKNOWN
    assert [ranks for ranks, proof in ends if proof is None] == [(1,)]


def test_a_log_that_just_stops_proves_nothing(tmp_path: Path) -> None:
    assert verdict_on(tmp_path, log=STEPS) == (Verdict.UNKNOWN, [((), None)])


def test_one_log_for_all_ranks_needs_one_closing_line(tmp_path: Path) -> None:
    both = "".join(f"[rank{rank}]: step {n} loss 0.5\n" for n in range(20) for rank in (0, 1))
    assert verdict_on(tmp_path, log=both)[0] is Verdict.UNKNOWN
    assert verdict_on(tmp_path, log=both + "[rank0]: training finished after 20 steps\n")[0] is Verdict.HEALTHY


def test_a_rank_that_goes_on_after_its_closing_words_has_not_ended(tmp_path: Path) -> None:
    again = "Training finished\n" + STEPS
    assert verdict_on(tmp_path, rank0=again, rank1=STEPS + DONE)[0] is Verdict.UNKNOWN


def test_how_far_each_group_got_is_said(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"rank{rank}.log").write_text(STEPS)
    (tmp_path / "rank3.log").write_text("".join(STEPS.splitlines(keepends=True)[:10]))
    first, second = sorted(explain_paths([tmp_path]).report.ended, key=lambda each: each.ranks)
    assert (first.ranks, first.step, first.usual_s) == ((0, 1, 2), 38, pytest.approx(2.0))
    assert (second.ranks, second.step, second.silent_s) == ((3,), 18, pytest.approx(20.0))


def test_a_server_of_tensorflow_ends_with_its_chief(tmp_path: Path) -> None:
    server = "I0000 grpc_server_lib.cc:467] Started server with target: grpc://127.0.0.1:33551\n"
    assert verdict_on(tmp_path, chief=STEPS + DONE, worker1=server, ps0=server)[0] is Verdict.HEALTHY


def test_a_status_that_the_user_states_proves_the_end_of_a_log_without_ranks(tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text(STEPS)
    assert answer(Question(words=[str(tmp_path)], kernel_log=False)).report.verdict is Verdict.UNKNOWN
    stated = Question(words=[str(tmp_path)], kernel_log=False, exit_statuses={0: 0})
    assert answer(stated).report.verdict is Verdict.HEALTHY
