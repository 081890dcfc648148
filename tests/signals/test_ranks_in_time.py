# SPDX-License-Identifier: Apache-2.0
"""Ranks held against each other by when they print the same, and by the amounts of data that they state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.cause import Cause
from keepstep.model.finding import Finding

RANKS = range(4)


def found(folder: Path, logs: dict[str, str]) -> list[Finding]:
    for name, text in logs.items():
        (folder / name).write_text(text)
    return list(explain_paths([folder]).report.findings)


def at(seconds: float) -> str:
    return f"2026-01-01 10:{int(seconds) // 60:02}:{seconds % 60:06.3f}"


def rounds(late: Callable[[int, int], float], count: int = 12) -> dict[str, str]:
    """Each rank begins and ends a round of 10 s; ``late`` says how much later a rank begins it."""
    return {
        f"rank{rank}.log": "".join(
            f"{at(10 * n + late(rank, n))} round {n} begins\n{at(10 * n + 9)} round {n} ends\n" for n in range(count)
        )
        for rank in RANKS
    }


def test_a_rank_that_begins_each_round_late_is_named(tmp_path: Path) -> None:
    findings = found(tmp_path, rounds(lambda rank, n: 4.0 if rank == 2 else 0.1 * rank))
    assert [(each.rule, each.ranks) for each in findings] == [("SLO009", (2,))]


def test_a_clock_that_is_late_is_no_lag(tmp_path: Path) -> None:
    logs = rounds(lambda rank, n: 0.1 * rank)
    shifted = {
        f"rank{rank}.log": "".join(
            f"{at(10 * n + 5)} round {n} begins\n{at(10 * n + 14)} round {n} ends\n" for n in range(12)
        )
        for rank in (2,)
    }
    assert found(tmp_path, logs | shifted) == []


def test_ranks_that_take_turns_at_being_late_are_no_finding(tmp_path: Path) -> None:
    assert found(tmp_path, rounds(lambda rank, n: 4.0 if rank == n % len(RANKS) else 0.0)) == []


def test_once_is_enough_if_it_is_an_hour(tmp_path: Path) -> None:
    logs = {
        f"rank{rank}.log": f"2026-01-01 10:00:00 hello there\n2026-01-01 10:05:0{rank} the shelf is full\n"
        for rank in RANKS
    }
    logs["rank3.log"] = "2026-01-01 10:00:00 hello there\n2026-01-01 11:05:00 the shelf is full\n"
    assert [(each.rule, each.ranks) for each in found(tmp_path, logs)] == [("SLO009", (3,))]


def test_different_amounts_of_data_and_silence(tmp_path: Path) -> None:
    loop = "".join(f"round {n} took 1.2 units\n" for n in range(8))
    logs = {f"rank{rank}.log": f"reading {13 - rank} of 25 files here\n{loop}" for rank in (0, 1)}
    findings = found(tmp_path, logs)
    assert [(each.rule, each.cause, each.ranks) for each in findings] == [
        ("DAT013", Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, (1,))
    ]


def test_numbers_that_are_no_amounts_say_nothing(tmp_path: Path) -> None:
    loop = "".join(f"round {n} took 1.2 units\n" for n in range(8))
    logs = {f"rank{rank}.log": f"process {18101 + rank} records its profile\n{loop}" for rank in (0, 1)}
    assert found(tmp_path, logs) == []


def test_steps_that_became_slower_and_stayed_so(tmp_path: Path) -> None:
    fast = "".join(f"step {n} loss 0.5 step time: 1.10 s\n" for n in range(20))
    slow = "".join(f"lowering graph {n} anew\nstep {n} loss 0.5 step time: 31.40 s\n" for n in range(20, 28))
    findings = found(tmp_path, {"train.log": fast + slow + "training finished\n"})
    assert [(each.rule, each.cause) for each in findings] == [("SLO010", Cause.SLOW_RECOMPILATION)]


def test_the_end_of_a_large_log_has_its_true_line_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise what is printed above the slow steps seems to be printed above earlier ones."""
    monkeypatch.setattr("keepstep.analyze.compare_ranks.ALL_LOGS", 8 << 10)
    step = "step {0} loss {1:.3f} step time: {2} s\n"
    fast = "".join(step.format(n, 9 - n / 300, 1.1) for n in range(2000))
    slow = "".join(f"lowering graph {n} anew\n" + step.format(n, 9 - n / 300, 31.4) for n in range(2000, 2060))
    findings = found(tmp_path, {"train.log": fast + slow + "training finished\n"})
    assert [(each.rule, each.cause) for each in findings] == [("SLO010", Cause.SLOW_RECOMPILATION)]


def test_one_slow_step_is_no_change(tmp_path: Path) -> None:
    steps = "".join(f"step {n} loss 0.5 step time: {31.4 if n == 12 else 1.1} s\n" for n in range(24))
    assert found(tmp_path, {"train.log": steps + "training finished\n"}) == []


def test_single_steps_that_are_slow_again_and_again_and_what_comes_with_them(tmp_path: Path) -> None:
    def step(n: int) -> str:
        slow = n % 5 == 0
        return (
            "tracing the step anew\n" if slow else ""
        ) + f"step {n} loss {5 - n / 9:.2f} step time: {40.2 if slow else 0.4} s\n"

    findings = found(tmp_path, {"train.log": "".join(map(step, range(31))) + "training finished\n"})
    assert [(each.rule, each.cause) for each in findings] == [("SLO010", Cause.SLOW_RECOMPILATION)]


def test_slow_steps_without_a_message_of_their_own_say_nothing(tmp_path: Path) -> None:
    steps = "".join(f"step {n} loss {5 - n / 9:.2f} step time: {40.2 if n % 5 == 0 else 0.4} s\n" for n in range(31))
    assert found(tmp_path, {"train.log": steps + "training finished\n"}) == []
