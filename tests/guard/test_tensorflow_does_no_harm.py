# SPDX-License-Identifier: Apache-2.0
"""Real TensorFlow workers that are healthy, or whose guard is broken: they train as without it, to the bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keepstep.signals.blackbox import LEAN
from tests.guard.tf_workers import Ran, job

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    folder = tmp_path_factory.mktemp("tf")
    blocked = folder / "a-file"
    blocked.write_text("no folder can be made here")
    jobs: dict[str, Callable[[], Ran]] = {
        "on": job(folder / "on", "tf_training.py"),
        "off": job(folder / "off", "tf_training.py", env={"KEEPSTEP": "off"}),
        "broken": job(
            folder / "broken",
            "tf_broken_guard.py",
            env={"KEEPSTEP": "", "KEEPSTEP_DIR": str(blocked / "x"), "BROKEN": "all"},
        ),
        "silent service": job(folder / "service", "tf_broken_guard.py", env={"KEEPSTEP": "", "BROKEN": "service"}),
        "lean": job(folder / "lean", "tf_broken_guard.py", env={"KEEPSTEP": "", "BROKEN": "lean"}),
        "ragged": job(folder / "ragged", "tf_training.py", "--wrong", "ragged_and_retraced"),
    }
    return lambda name: jobs[name]()


def test_a_healthy_run_is_silent_and_trains_as_without_the_guard(runs: Callable[[str], Ran]) -> None:
    on, off = runs("on"), runs("off")
    assert on.codes == off.codes == [0, 0]
    assert len(on.digests) == 2 and on.digests == off.digests
    assert on.spoken == [] and on.remarkable == []
    stated = [fact.subject for fact in on.facts("ContractStated")]
    assert stated.count("program") == 8 and {"versions", "options", "batch", "batches"} <= set(stated)
    assert off.notes == []


def test_a_guard_whose_every_part_fails_leaves_the_training_as_it_is(runs: Callable[[str], Ran]) -> None:
    broken = runs("broken")
    assert broken.codes == [0, 0]
    assert broken.digests == runs("off").digests
    assert any("the training is not affected" in line for output in broken.outputs for line in output.splitlines())


@pytest.mark.long
def test_without_the_key_value_service_the_training_goes_on(runs: Callable[[str], Ran]) -> None:
    silent = runs("silent service")
    assert silent.codes == [0, 0]
    assert silent.digests == runs("off").digests
    assert {fact.part for fact in silent.facts("GuardPart")} >= {"contracts"}


@pytest.mark.long
def test_lean_steps_are_counted_silent_and_train_as_without_the_guard(runs: Callable[[str], Ran]) -> None:
    lean, full = runs("lean"), runs("on")
    assert lean.codes == [0, 0] and lean.digests == runs("off").digests
    assert lean.spoken == [] and lean.remarkable == []
    assert [len(steps) for steps in lean.steps] == [len(steps) for steps in full.steps] != [0, 0]
    assert all(sum(step.spare == LEAN for step in steps) > len(steps) // 2 for steps in lean.steps)
    assert not any(step.spare for steps in full.steps for step in steps)


@pytest.mark.long
def test_ragged_batches_and_a_function_traced_at_every_step_are_told_and_the_run_goes_on(
    runs: Callable[[str], Ran],
) -> None:
    ran = runs("ragged")
    assert ran.codes == [0, 0]
    rows = [fact for fact in ran.facts("ContractBroken") if fact.what == "rows"]
    assert rows and dict(rows[0].values) == {"8": (0,), "6": (1,)} and not rows[0].certain
    storm = ran.facts("Recompiling")[0]
    assert storm.function == "train_step" and storm.storm and storm.count >= 5
    assert storm.reason.startswith("argument rate keeps changing: 0.")
    assert any("argument rate keeps changing" in line for line in ran.spoken)
