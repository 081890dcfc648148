# SPDX-License-Identifier: Apache-2.0
"""A time limit ends a run that hangs as it ends one that trains: the times of the steps tell them apart."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths

LIMIT = "slurmstepd: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-06-16T{at} DUE TO TIME LIMIT ***\n"


def step(minute: int, second: int, number: int) -> str:
    return f"2026-06-16 09:{minute:02d}:{second:02d} INFO step {number} loss 2.31\n"


def first(folder: Path, **logs: str) -> tuple[str, tuple[int, ...]]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    found = explain_paths([folder]).report.findings[0]
    return found.rule, found.ranks or ()


def test_an_hour_without_a_step_is_a_hang_and_the_rank_behind_is_named(tmp_path: Path) -> None:
    steps = "".join(step(12, number, number) for number in range(20))
    behind = "".join(step(12, number, number) for number in range(19))
    end = LIMIT.format(at="10:12:02")
    assert first(tmp_path, rank0=steps + end, rank1=behind + end, rank2=steps + end) == ("SYN211", (1,))


def of(rank: int, last: str = "") -> str:
    """The log of one rank, whose lines say so; the scheduler's line does not."""
    lines = "".join(f"[process {rank}] 09:12:{number:02d} batch {number} done\n" for number in range(20))
    start = f"I0616 09:12:01.118402 218 distributed.py:149] Connecting to JAX distributed service on n{rank}:123\n"
    return start + lines + (f"[process {rank}] {last}\n" if last else "") + LIMIT.format(at="10:12:02")


def test_the_rank_whose_last_line_no_other_rank_printed_is_named(tmp_path: Path) -> None:
    odd = of(1, "09:12:19 lock /shared/cache is held by pid 77")
    assert first(tmp_path, rank0=of(0), rank1=odd, rank2=of(2)) == ("SYN211", (1,))


def test_rank_0_may_print_more_than_the_others(tmp_path: Path) -> None:
    more = of(0, "09:12:19 throughput 812 samples/s")
    assert first(tmp_path, rank0=more, rank1=of(1), rank2=of(2)) == ("SYN211", ())


def test_a_run_that_trains_until_its_limit_has_no_hang(tmp_path: Path) -> None:
    steps = "".join(step(number, 0, number) for number in range(60))
    assert first(tmp_path, rank0=steps + LIMIT.format(at="10:00:02"))[0] == "PRE001"


def test_long_steps_take_long(tmp_path: Path) -> None:
    steps = "".join(step(number, 0, number // 10) for number in range(0, 40, 10))
    assert first(tmp_path, rank0=steps + LIMIT.format(at="09:49:02"))[0] == "PRE001"


def test_a_rank_that_evaluates_prints_no_steps(tmp_path: Path) -> None:
    steps = "".join(step(12, number, number) for number in range(20))
    evaluation = "2026-06-16 09:12:30 INFO running evaluation on 50000 samples\n"
    assert first(tmp_path, rank0=steps + evaluation + LIMIT.format(at="10:12:02"))[0] == "PRE001"
