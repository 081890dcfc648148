# SPDX-License-Identifier: Apache-2.0
"""What guards tell while the run is on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keepstep.signals.blackbox import BoxPhase
from keepstep.supervise.watch.guard_reports import GuardReports
from keepstep.supervise.watch.hang_detector import Sign


def write(folder: Path, fact: str, **fields: Any) -> None:
    note = {"fact": fact, "fields": fields, "rank": {"index": 1}}
    with (folder / "rank1-77-0.notes.jsonl").open("a") as notes:
        notes.write(json.dumps(note) + "\n")


def blocked(told: GuardReports, cpu_s: float = 0.0) -> list[int | None]:
    """Asked for three seconds, over which the rank takes so much processor time."""
    found = []
    for tenth in range(30):
        now = tenth / 10
        told.read(now)
        each = told.blocked([Sign(pid=77, rank=1, at=now, cpu_s=cpu_s * now / 3)], now)
        found += [each.rank] if each is not None else []
    return found


@pytest.mark.parametrize(
    ("fact", "fields"),
    [
        ("RankRaised", {"how": "uncaught"}),
        ("RankRaised", {"how": "leaving"}),
        ("RankEnded", {"status": 1, "goodbye": True}),
    ],
)
def test_a_rank_that_fails_and_blocks_on_its_way_out_is_told_once(
    tmp_path: Path, fact: str, fields: dict[str, Any]
) -> None:
    write(tmp_path, fact, **fields)
    assert blocked(GuardReports(tmp_path)) == [1]


@pytest.mark.parametrize(
    ("fact", "fields"), [("RankEnded", {"status": 0, "goodbye": True}), ("RankRaised", {"how": "in the thread loader"})]
)
def test_a_rank_that_leaves_in_good_order_may_take_its_time(tmp_path: Path, fact: str, fields: dict[str, Any]) -> None:
    write(tmp_path, fact, **fields)
    assert blocked(GuardReports(tmp_path)) == []


def test_a_rank_that_still_works_on_its_way_out_keeps_its_time_of_grace(tmp_path: Path) -> None:
    write(tmp_path, "RankEnded", status=1, goodbye=True)
    assert blocked(GuardReports(tmp_path), cpu_s=3.0) == []


def arriving(folder: Path, rank: int, **fields: Any) -> None:
    told = {"framework": "jax", "size": 2, "index": rank, "at": "127.0.0.1:9", "seconds": 20.0, **fields}
    note = {"fact": "RanksArriving", "fields": told, "rank": {"index": rank}}
    with (folder / f"rank{rank}-{70 + rank}-0.notes.jsonl").open("a") as notes:
        notes.write(json.dumps(note) + "\n")


@pytest.mark.parametrize(
    ("of_rank_0", "of_rank_1", "certain"),
    [
        ({}, None, False),  # rank 1 may still come
        ({"size": 3}, {"size": 3}, False),  # of two that were started: a script may start more
        ({"size": 4}, {"size": 4, "at": "127.0.0.1:10"}, False),  # two worlds that the script makes
        ({"index": 0}, {"index": 0, "at": "127.0.0.1:10"}, False),
        ({}, {"at": "127.0.0.1:10"}, True),
        ({"twice": [70, 71]}, None, True),
        ({}, {"sizes": [[0, 3]]}, True),
        ({}, {}, False),
    ],
)
def test_ranks_that_are_certain_never_to_meet(
    tmp_path: Path, of_rank_0: dict[str, Any], of_rank_1: dict[str, Any] | None, certain: bool
) -> None:
    told = GuardReports(tmp_path)
    arriving(tmp_path, 0, **of_rank_0)
    if of_rank_1 is not None:
        arriving(tmp_path, 1, **of_rank_1)
    told.read(1.0)
    assert [told.never_meet(2), told.never_meet(2)] == [certain, False]


def test_ranks_that_have_met_wait_for_nobody(tmp_path: Path) -> None:
    told = GuardReports(tmp_path)
    for rank, at in enumerate(("127.0.0.1:9", "127.0.0.1:10")):
        arriving(tmp_path, rank, at=at)
        with (tmp_path / f"rank{rank}-{70 + rank}-0.notes.jsonl").open("a") as notes:
            notes.write(json.dumps({"fact": "WorldFormed", "fields": {"size": 2}}) + "\n")
    told.read(1.0)
    assert not told.never_meet(2)


def stepping(progress: float, usual_s: float | None = None, phase: BoxPhase = BoxPhase.COMPUTE) -> list[Sign]:
    return [Sign(pid=77, rank=1, at=progress, phase=phase, progress=progress, usual_s=usual_s)]


@pytest.mark.parametrize(("usual_s", "limit"), [(None, 1.5), (0.1, 1.5), (2.0, 6.0)])
def test_ranks_that_differ_for_certain_have_stopped_once_none_has_stepped_for_a_while(
    tmp_path: Path, usual_s: float | None, limit: float
) -> None:
    told = GuardReports(tmp_path)
    write(tmp_path, "ContractBroken", certain=True)
    told.read(0.0)
    signs = [*stepping(5.0), *stepping(9.0, usual_s)]
    assert not told.stopped_by_difference(signs, 9.0 + limit - 0.1), "the last step of any rank counts"
    assert told.stopped_by_difference(signs, 9.0 + limit)
    assert not told.stopped_by_difference(signs, 9.0 + 2 * limit), "it is reported once"


def test_ranks_that_may_differ_or_do_something_else_than_step_have_not_stopped(tmp_path: Path) -> None:
    told = GuardReports(tmp_path)
    write(tmp_path, "ContractBroken", certain=False)
    told.read(0.0)
    assert not told.stopped_by_difference(stepping(0.0), 100.0)
    write(tmp_path, "ContractBroken", certain=True)
    told.read(0.0)
    assert not told.stopped_by_difference([], 100.0)
    assert not told.stopped_by_difference([*stepping(0.0), *stepping(0.0, phase=BoxPhase.CHECKPOINT)], 100.0)
    write(tmp_path, "RankRaised", how="uncaught")
    told.read(0.0)
    assert not told.stopped_by_difference(stepping(0.0), 100.0), "a rank that fails ends the run by itself"
