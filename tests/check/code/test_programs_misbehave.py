# SPDX-License-Identifier: Apache-2.0
"""Wrong programs do on two ranks what they say they show, and their right twins do not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lazy_framework import need_framework

HERE = Path(__file__).parent
SHOWS = re.compile(r"^Shows: (hang|error|differs) 2 ranks torch(?: \((\w+)(?: (.+))?\))?", re.MULTILINE)
MORE_MB = 60


def program(pair: Path, side: str) -> Path:
    alone = pair / f"{side}.py"
    return alone if alone.exists() else pair / side / "train.py"


def shown(pair: Path) -> re.Match[str] | None:
    return SHOWS.search(program(pair, "wrong").read_text())


PAIRS = [pair for pair in sorted((HERE / "programs").glob("*/*/")) if shown(pair)]


def run_both(pair: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    need_framework("torch")
    programs = [program(pair, side) for side in ("wrong", "right")]
    command = [sys.executable, str(HERE / "two_ranks.py"), *map(str, programs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    happened = {Path(row["program"]): row for row in map(json.loads, done.stdout.splitlines())}
    return happened[programs[0]], happened[programs[1]]


def each_rank(row: dict[str, Any], what: str) -> list[Any]:
    return [row["ranks"][rank][what] for rank in ("0", "1")]


def weights_differ(row: dict[str, Any]) -> bool:
    first, second = each_rank(row, "weights")
    return bool(first != second)


def same_samples(row: dict[str, Any]) -> bool:
    first, second = each_rank(row, "batches")
    return bool(first and first == second)


def same_order(row: dict[str, Any]) -> bool:
    epochs = each_rank(row, "batches")[0]
    return bool(epochs[0] == epochs[1])


SYMPTOMS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "weights": weights_differ,
    "samples": same_samples,
    "order": same_order,
}


@pytest.mark.long
@pytest.mark.frameworks
@pytest.mark.parametrize("pair", PAIRS, ids=lambda path: path.name)
def test_a_wrong_program_misbehaves_and_its_right_twin_does_not(pair: Path) -> None:
    match = shown(pair)
    assert match
    kind, symptom, pattern = match.groups()
    wrong, right = run_both(pair)
    assert right["end"] == "ok", right["output"]
    if kind in ("hang", "error"):
        # which of the two it is depends on which rank is first
        assert wrong["end"] in ("hang", "error")
        return
    assert wrong["end"] == "ok", wrong["output"]
    if symptom == "memory":
        assert max(each_rank(wrong, "peak_mb")) > max(each_rank(right, "peak_mb")) + MORE_MB
    elif symptom == "prints":
        assert re.search(pattern, wrong["output"]), wrong["output"]
        assert not re.search(pattern, right["output"]), right["output"]
    else:
        assert SYMPTOMS[symptom](wrong)
        assert not SYMPTOMS[symptom](right)
