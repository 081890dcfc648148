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

from keepstep.check.collectives.plan import Plan, given, top, trials, wanted

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


def test_every_rank_gives_something_else_and_sums_are_exact_in_their_type() -> None:
    numpy = pytest.importorskip("numpy")
    for trial in trials(Plan(dtypes=("float32", "bfloat16"), largest=1 << 18), 6):
        index = numpy.arange(trial.elements)
        group = trial.groups[0]
        gifts = [given(trial, index, rank) for rank in group]
        assert not any((gifts[0] == other).all() for other in gifts[1:])
        assert sum(gifts).max() <= 256 or trial.dtype != "bfloat16"
        gets = wanted(trial, index, group[-1], numpy.concatenate)
        assert len(gets) == {"reduce_scatter": len(index) // len(group), "all_gather": len(index) * len(group)}.get(
            trial.operation, len(index)
        )


def test_every_pair_of_ranks_is_tried_alone_and_nobody_twice_at_once() -> None:
    for world in (3, 4, 7, 8):
        rounds = [trial.groups for trial in trials(Plan(), world) if trial.of_links]
        assert Counter(pair for pairs in rounds for pair in pairs) == {
            (a, b): 1 for a in range(world) for b in range(a + 1, world)
        }
        assert all(len({rank for pair in pairs for rank in pair}) == 2 * len(pairs) for pairs in rounds)


def test_a_type_with_few_digits_gets_small_numbers() -> None:
    assert top("bfloat16", 64) * 64 <= 256 and top("float32", 64) == 251


def check(tmp_path: Path, *words: str, **variables: str) -> tuple[int, dict[str, object], str]:
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", "check", "collectives", "--json", *words],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **variables}, timeout=280,
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


def test_what_cannot_be_asked_for_is_said_in_one_line(tmp_path: Path) -> None:
    status, _, said = check(tmp_path, "--dtypes", "float7", "--framework", "torch")
    assert status == 2 and "no such type: float7" in said
