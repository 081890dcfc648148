# SPDX-License-Identifier: Apache-2.0
"""Buddy steps: what one rank computes is computed by another one, and the training stays what it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from tests.guard.torch_ranks import Ranks, ranks

SCRIPT = Path(__file__).with_name("buddy_training.py")
LAWFUL = "plain", "accumulated", "with_loss", "noisy"


def numbers(run: Ranks) -> list[str]:
    return [line for line in run.logs().splitlines() if "loss " in line or "ends " in line]


@pytest.mark.frameworks("torch")
@pytest.mark.slow
def test_a_rank_that_computes_wrong_is_named_with_the_layer_and_whether_it_does_so_again(tmp_path: Path) -> None:
    faults = "once_forward:0", "always_forward:1", "always_backward:2"
    with ranks(tmp_path, *faults, count=3, script=SCRIPT, KEEPSTEP_BUDDY="5") as run:
        assert run.ended() == [0, 0, 0], run.logs()
        found = {(tuple(f["ranks"]), f["tensor"], f["again"]) for f in (n["fields"] for n in run.notes("ComputedOdd"))}
        assert found == {
            ((0,), "the result of middle", False),
            ((1,), "the result of middle", True),
            ((2,), "the gradient of norm.weight", True),
        }, run.logs()
        findings = [each for each in explain_paths([run.guard]).report.findings if each.rule == "NUM205"]
        assert sorted(each.ranks for each in findings) == [(0,), (1,), (2,)]


@pytest.mark.frameworks("torch")
@pytest.mark.slow
def test_the_training_is_bit_for_bit_what_it_is_without_and_nothing_is_said(tmp_path: Path) -> None:
    said = {}
    for name, env in (("with", {"KEEPSTEP_BUDDY": "5"}), ("without", {"KEEPSTEP": "off"})):
        (tmp_path / name).mkdir()
        what = LAWFUL[:3] if name == "without" else LAWFUL
        with ranks(tmp_path / name, *what, count=2, script=SCRIPT, **env) as run:
            assert run.ended() == [0, 0], run.logs()
            said[name] = [line for line in numbers(run) if "noisy" not in line]
            assert not run.notes("ComputedOdd")
            assert "no buddy steps" not in run.logs()
            assert name == "without" or "a buddy step takes" in run.logs()
    assert said["with"] == said["without"]


ALONE = """
import torch
layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(6):
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


@pytest.mark.frameworks("torch")
@pytest.mark.slow
@pytest.mark.parametrize(("asked", "why"), [("3", "no model is in DistributedDataParallel"), ("often", "is no number")])
def test_where_there_can_be_none_that_is_said(tmp_path: Path, asked: str, why: str) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP")}
    env |= {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_BUDDY": asked}
    ended = subprocess.run([sys.executable, "-c", ALONE], env=env, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert [line for line in ended.stderr.splitlines() if "no buddy steps" in line and why in line], ended.stderr
