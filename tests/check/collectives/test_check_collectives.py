# SPDX-License-Identifier: Apache-2.0
"""Collectives with known answers: the plan by itself, and real ranks whose results something else has damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from keepstep.check.collectives.plan import Plan, given, length, numbers, top, trials, wanted
from keepstep.check.collectives.smallest import smallest
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.collectives import CollectiveTried
from keepstep.render.collective_table import render_collective_table

DAMAGE = """
import os, sys, importlib.abc, importlib.util

class Late(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch.distributed" or os.environ.get("RANK") != "1":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def run(module):
            execute(module)
            right = module.all_reduce
            def wrong(tensor, *args, **more):
                done = right(tensor, *args, **more)
                if tensor.numel() > 2000:
                    tensor[1234] += 1
                return done
            module.all_reduce = wrong
        spec.loader.exec_module = run
        return spec

sys.meta_path.insert(0, Late())
"""

LINK = DAMAGE
for _old, _new in (
    ('"RANK") != "1"', '"RANK") != "3"'),
    ("all_reduce", "all_gather_into_tensor"),
    ("all_reduce", "all_gather_into_tensor"),
    ("wrong(tensor, *args, **more)", "wrong(tensor, *args, group=None, **more)"),
    ("right(tensor, *args, **more)", "right(tensor, *args, group=group, **more)"),
    ("numel() > 2000:", "numel() > 2000 and 1 in module.get_process_group_ranks(group):"),
):
    assert _old in LINK
    LINK = LINK.replace(_old, _new, 1)
"""Rank 3 gets a wrong element whenever rank 1 is in the group."""


def test_every_rank_gives_something_else_and_sums_are_exact_in_their_type() -> None:
    numpy = pytest.importorskip("numpy")
    for trial in trials(Plan(dtypes=("float32", "bfloat16"), largest=1 << 18), 6):
        known = numbers(trial, numpy.arange(length(trial, 6)))
        group = trial.groups[0]
        gifts = [given(trial, known, rank) for rank in group]
        assert not any((gifts[0] == other).all() for other in gifts[1:])
        assert sum(gifts).max() <= 256 or trial.dtype != "bfloat16"
        gets = wanted(trial, known, group[-1], numpy.concatenate)
        size = trial.elements
        assert len(gets) == {"reduce_scatter": size // len(group), "all_gather": size * len(group)}.get(
            trial.operation, size
        )


def test_every_pair_of_ranks_is_tried_alone_and_nobody_twice_at_once() -> None:
    for world in (2, 3, 4, 7, 8):
        rounds = [trial.groups for trial in trials(Plan(), world) if trial.of_links]
        assert Counter(pair for pairs in rounds for pair in pairs) == {
            (a, b): 1 for a in range(world) for b in range(a + 1, world)
        }
        assert all(len({rank for pair in pairs for rank in pair}) == 2 * len(pairs) for pairs in rounds)


def test_a_type_with_few_digits_gets_small_numbers() -> None:
    assert top("bfloat16", 64) * 64 <= 256 and top("float32", 64) == 251


@pytest.mark.parametrize("bad", [{2, 13}, {0, 1}, {5}, {3, 8, 9}, {0, 15}])
def test_the_smallest_wrong_group_is_found_wherever_its_ranks_are(bad: set[int]) -> None:
    asking, asked = smallest(range(16)), 0
    answer: bool | None = None
    while True:
        try:
            part = next(asking) if answer is None else asking.send(answer)
        except StopIteration as end:
            found = end.value
            break
        asked += 1
        assert 2 <= len(part) < 16 and len(set(part)) == len(part)
        answer = bad <= set(part)
    assert bad <= set(found) and len(found) == max(2, len(bad)) and asked < 60


def tried(size: int, median_s: float) -> CollectiveTried:
    return CollectiveTried(
        framework="torch", backend="gloo", operation="all_reduce", dtype="float32", size=size, groups=1, members=4,
        rounds=8, median_s=median_s,
    )  # fmt: skip


def test_what_a_step_sums_is_said_as_time_and_share() -> None:
    facts = [Evidence(fact=fact, origin=Origin(source="x")) for fact in (tried(1000, 0.001), tried(1_001_000, 0.011))]
    table = render_collective_table(EvidenceSet(facts), 100_000_000, 4.0)
    assert "summing 100.0 MB takes about 1 s, 25% of a step of 4 s, if nothing overlaps" in table
    assert "summing" not in render_collective_table(EvidenceSet(facts))


def check(tmp_path: Path, *words: str, **variables: str) -> tuple[int, dict[str, object], str]:
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", "check", "collectives", "--json", *words],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **variables}, timeout=400,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.mark.frameworks("torch")
def test_real_ranks_are_right_and_one_with_a_wrong_sum_is_named_with_its_element(tmp_path: Path) -> None:
    small = ("--framework", "torch", "--ranks", "2", "--largest", "1", "--rounds", "2", "--limit", "240")
    status, report, said = check(tmp_path, *small)
    assert status == 0 and report["verdict"] == "healthy", said
    (tmp_path / "sitecustomize.py").write_text(DAMAGE)
    status, report, said = check(tmp_path, *small, PYTHONPATH=str(tmp_path))
    assert status == 1, said
    (finding,) = report["findings"]  # type: ignore[misc]
    assert finding["rule"] == "NUM020" and finding["ranks"] == [1]
    assert "elements 1,234 to 1,234 of rank 1" in finding["evidence"][0]["quote"]
    assert "all_reduce" in finding["title"]


@pytest.mark.frameworks("torch")
@pytest.mark.long
def test_a_link_that_damages_is_narrowed_down_to_its_two_ranks(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LINK)
    words = ("--framework", "torch", "--ranks", "4", "--largest", "1", "--rounds", "1", "--dtypes", "float32")
    status, report, said = check(tmp_path, *words, "--limit", "270", PYTHONPATH=str(tmp_path))
    assert status == 1, said
    (finding,) = report["findings"]  # type: ignore[misc]
    assert finding["rule"] == "NUM020" and "all_gather" in finding["title"]
    assert "the smallest group that is wrong: ranks 1 and 3" in finding["because"]


def test_what_cannot_be_asked_for_is_said_in_one_line(tmp_path: Path) -> None:
    status, _, said = check(tmp_path, "--dtypes", "float7", "--framework", "torch")
    assert status == 2 and "no such type: float7" in said
