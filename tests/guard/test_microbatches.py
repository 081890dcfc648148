# SPDX-License-Identifier: Apache-2.0
"""A rank runs out of memory: all take their batches in parts, and the gradients are those of the whole batches."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from keepstep.guard.together import microbatches as module
from keepstep.guard.together.batch_parts import parts_of, rows_of
from keepstep.guard.together.microbatches import microbatches
from tests.guard.torch_ranks import ranks

LONG = pytest.mark.long
SCRIPT = Path(__file__).with_name("microbatch_training.py")


@pytest.fixture(autouse=True)
def trains_alone_from_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_counts", {})
    monkeypatch.setattr(module, "rounds", lambda call: None)


def test_parts_hold_every_row_once_in_all_that_has_rows() -> None:
    np = pytest.importorskip("numpy")
    batch = {"x": np.arange(10).reshape(5, 2), "names": list("abcde"), "pair": (np.arange(5), 0.5), "scale": np.ones(3)}
    found = list(parts_of(batch, 3))
    assert [len(part["x"]) for part, _ in found] == [1, 2, 2]
    assert sum(share for _, share in found) == pytest.approx(1.0)
    assert (np.concatenate([part["x"] for part, _ in found]) == batch["x"]).all()
    assert [name for part, _ in found for name in part["names"]] == list("abcde")
    assert [len(part["pair"][0]) for part, _ in found] == [1, 2, 2]
    assert all(part["pair"][1] == 0.5 and len(part["scale"]) == 3 for part, _ in found)
    assert len(list(parts_of(batch, 64))) == 5
    assert next(parts_of(SimpleNamespace(), 4))[1] == 1.0
    assert rows_of("a text") is None


def test_a_single_row_that_does_not_fit_is_raised() -> None:
    tried: list[int] = []

    def step(parts) -> None:
        tried.append(len(list(parts)))
        raise MemoryError("cannot hold it")

    with pytest.raises(MemoryError, match="cannot hold it"):
        microbatches(step, list(range(6)))
    assert tried == [1, 2, 4, 6]


def test_another_error_is_raised_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        microbatches(lambda parts: 1 / 0, [1, 2, 3])


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param("import torch; torch.empty", marks=pytest.mark.frameworks("torch")),
        pytest.param("import jax.numpy as np; np.zeros", marks=[LONG, pytest.mark.frameworks("jax")]),
        pytest.param("import tensorflow as tf; tf.zeros", marks=[LONG, pytest.mark.frameworks("tensorflow")]),
        pytest.param("import numpy as np; np.ones"),
    ],
)
def test_the_frameworks_own_error_is_known(ask: str, capfd: pytest.CaptureFixture[str]) -> None:
    known: dict[str, object] = {}
    exec(f"{ask.partition(';')[0]}\nmake = {ask.partition(';')[2]}", known)

    def step(parts) -> list[int]:
        return [len(known["make"]((1 << 44 if len(part) > 2 else 8,))) for part, _ in parts]

    assert microbatches(step, list(range(8))) == [8] * 4
    assert "step: out of memory with 8 rows in 1 part; all ranks now take 2" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.frameworks("torch")
def test_one_rank_short_of_memory_makes_all_take_parts_and_changes_no_result(tmp_path: Path) -> None:
    with ranks(tmp_path / "enough", "0", script=SCRIPT) as whole:
        assert whole.ended() == [0, 0], whole.logs()
    with ranks(tmp_path / "short", "3.5", script=SCRIPT) as short:
        assert short.ended() == [0, 0], short.logs()
    assert re.findall(r"loss .* in (\d) parts", short.log(0)) == ["1", "4", "4", "4"]
    assert re.findall(r"loss .* in (\d) parts", short.log(1)) == ["1", "4", "4", "4"]
    assert "rank 1: gradients: out of memory with 9 rows in 2 parts; all ranks now take 4" in short.log(1)
    weights = [[float(each) for each in words.split()] for words in (*whole.results(), *short.results())]
    assert len(weights) == 4
    assert all(each == pytest.approx(weights[0], abs=1e-3) for each in weights)
    assert short.troubles() == []


@pytest.mark.slow
@pytest.mark.frameworks("torch")
def test_another_error_on_one_rank_lets_no_other_wait(tmp_path: Path) -> None:
    with ranks(tmp_path, "0", "fails", script=SCRIPT) as run:
        assert run.ended() == [1, 1], run.logs()
    assert "given up on all ranks, because it failed on rank 1 (ValueError: bad shape)" in run.log(0)
