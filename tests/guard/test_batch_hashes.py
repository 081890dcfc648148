# SPDX-License-Identifier: Apache-2.0
"""What ranks are fed is compared while they train: the same records are named, sharing on purpose is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from tests.guard.tf_workers import run
from tests.guard.torch_ranks import ranks

SCRIPT = Path(__file__).with_name("fed_training.py")
SAID = "keepstep: rank 0: ranks 0 and 1 are fed the same records: the first 4 batches of these ranks have the same"
long = pytest.mark.long
pytestmark = pytest.mark.slow


def trained(folder: Path, framework: str, how: str, **env: str) -> tuple[list[int], str, list[str]]:
    """The statuses, all that was printed, and the results."""
    if framework == "fit":
        ran = run(folder, SCRIPT.name, framework, how, env=env)
        logs = "\n".join(ran.outputs)
        return ran.codes, logs, [line for line in logs.splitlines() if "ended with" in line]
    with ranks(folder, framework, how, script=SCRIPT, **env) as running:
        codes = running.ended()
        return codes, running.logs(), running.results()


def findings(folder: Path) -> list[tuple[str, tuple[int, ...]]]:
    report = explain_paths([folder / "guard"]).report
    return [(each.rule, each.ranks) for each in report.findings if not each.cause.value.startswith("slow.")]


@pytest.mark.parametrize(
    ("framework", "how"),
    [
        pytest.param("torch", "same", marks=pytest.mark.frameworks("torch")),
        pytest.param("torch", "by hand", marks=[pytest.mark.frameworks("torch"), long]),
        pytest.param("fit", "same", marks=[pytest.mark.frameworks("tensorflow"), long]),
        pytest.param("jax", "same", marks=pytest.mark.frameworks("jax")),
        pytest.param("jax", "called back", marks=[pytest.mark.frameworks("jax"), long]),
    ],
)
def test_ranks_that_are_fed_the_same_records_are_named_while_they_train(
    framework: str, how: str, tmp_path: Path
) -> None:
    codes, logs, _ = trained(tmp_path, framework, how)
    assert codes == [0, 0], logs
    assert logs.index(SAID) < logs.index("ended with")
    assert logs.count("are fed the same records") == 1
    assert findings(tmp_path) == [("DAT075", (0, 1))]


@pytest.mark.parametrize(
    ("framework", "how"),
    [
        pytest.param("torch", "own", marks=[pytest.mark.frameworks("torch"), long]),
        pytest.param("torch", "shuffled", marks=[pytest.mark.frameworks("torch"), long]),
        pytest.param("torch", "meshes", marks=[pytest.mark.frameworks("torch"), long]),
        pytest.param("fit", "own", marks=[pytest.mark.frameworks("tensorflow"), long]),
        pytest.param("fit", "shuffled", marks=[pytest.mark.frameworks("tensorflow"), long]),
        pytest.param("fit", "divided", marks=[pytest.mark.frameworks("tensorflow"), long]),
        pytest.param("jax", "own", marks=pytest.mark.frameworks("jax")),
        pytest.param("jax", "shuffled", marks=[pytest.mark.frameworks("jax"), long]),
        pytest.param("jax", "model axis", marks=[pytest.mark.frameworks("jax"), long]),
        pytest.param("jax", "whole", marks=[pytest.mark.frameworks("jax"), long]),
    ],
)
def test_sharing_on_purpose_is_silent_and_the_results_are_those_without_the_guard(
    framework: str, how: str, tmp_path: Path
) -> None:
    codes, logs, results = trained(tmp_path / "on", framework, how)
    assert codes == [0, 0], logs
    assert "keepstep" not in logs
    assert findings(tmp_path / "on") == []
    assert len(results) == 2
    assert results == trained(tmp_path / "off", framework, how, KEEPSTEP="off")[2]


@pytest.mark.frameworks("tensorflow")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        pytest.param(
            "short", "rank 1 has 12 batches fewer (48 of 60): the other ranks will wait at batch 49", marks=long
        ),
        # each worker gets half of a batch of `fit`
        pytest.param("rows", "ranks differ in batch: rows: 4 on rank 0 but 3 on rank 1", marks=long),
    ],
)
def test_fit_says_at_its_start_that_shares_differ(how: str, said: str, tmp_path: Path) -> None:
    _, logs, _ = trained(tmp_path, "fit", how)
    assert said.replace("ranks 0", "rank 0") in logs
    assert "DAT203" in [rule for rule, _ in findings(tmp_path)]
