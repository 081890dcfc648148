# SPDX-License-Identifier: Apache-2.0
"""The operation that gave the first NaN, from the graph of the step itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.guard.test_api import notes, session_in

pytestmark = pytest.mark.frameworks


def small_model(torch: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def root_of_less_than_zero(torch: Any, model: Any, batch: Any) -> Any:
    return ((model(batch) * 0 - 1).sqrt() * 2).mean()


def log_of_zero(torch: Any, model: Any, batch: Any) -> Any:
    return -((model(batch) * 0).log()).mean()


def lost_weight(torch: Any, model: Any, batch: Any) -> Any:
    with torch.no_grad():
        model[2].weight[0, 0] = float("nan")
    return model(batch).mean()


def bad_batch(torch: Any, model: Any, batch: Any) -> Any:
    batch[1, 2] = float("nan")
    return model(batch).pow(2).mean()


CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "sqrt": (root_of_less_than_zero, "sqrt after 2 gives the first such value"),
    "log": (log_of_zero, "probably log after 2 gives the first such value"),
    "weight": (lost_weight, "2.weight is not finite before the step"),
    "batch": (bad_batch, "a batch or constant is not finite"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_operation_or_value_is_named(name: str) -> None:
    import torch

    from keepstep.guard.adapters.torch.numbers.first_non_finite import first_non_finite

    make, words = CASES[name]
    model, batch = small_model(torch), torch.ones(3, 4)
    before = torch.get_rng_state()
    loss = make(torch, model, batch)
    found = first_non_finite(torch, loss)
    assert found is not None and found.words == words
    assert found.batch is not None and found.batch.startswith("float32[3, 4], hash ")
    assert torch.equal(before, torch.get_rng_state())
    loss.backward()  # what autograd kept is still there


def test_what_would_be_computed_again_is_not_read() -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    from keepstep.guard.adapters.torch.numbers.first_non_finite import first_non_finite

    model, runs = small_model(torch), []

    def block(batch: Any) -> Any:
        runs.append(1)
        return model(batch)

    loss = (checkpoint(block, torch.ones(3, 4), use_reentrant=False) * float("nan")).mean()
    assert first_non_finite(torch, loss) is None
    assert len(runs) == 1


def test_the_watch_tells_it_with_the_loss(tmp_path: Path) -> None:
    import torch

    from keepstep.guard.adapters.torch.numbers.losses import LossWatch
    from keepstep.guard.adapters.torch.numbers.own_past import OwnPast
    from keepstep.guard.adapters.torch.torch_state import TorchState

    session = session_in(tmp_path)
    state = TorchState(session, torch)
    state.own_past = OwnPast(state)
    watch = LossWatch(state)
    model = small_model(torch)
    watch.look(root_of_less_than_zero(torch, model, torch.ones(3, 4)))
    session.close()
    (noted,) = notes(tmp_path, "FirstNonFinite")
    assert (noted["op"], noted["layer"], noted["step"]) == ("sqrt", "2", 1)
    (said,) = notes(tmp_path, "SaidLive")
    assert said["words"] == "the loss is nan in step 1: sqrt after 2 gives the first such value"
