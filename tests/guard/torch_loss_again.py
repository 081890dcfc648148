# SPDX-License-Identifier: Apache-2.0
"""A lost loss is computed once more in a copy of the process: the line is right, and the program notices nothing."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.frameworks
torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may use the processors."""
    monkeypatch.setattr("keepstep.guard.adapters.torch.numbers.loss_again.MOST_S", 60.0)


def again(loss: Any) -> Any:
    """Stands where the guard's hook stands: before the backward pass."""
    from keepstep.guard.adapters.torch.numbers.loss_again import compute_again

    assert not bool(loss.isfinite().all())
    return compute_again(torch, sys._getframe(1))


class Logs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.calls = torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), 0

    def forward(self, batch: Any) -> Any:
        self.calls += 1
        hidden = self.drop(self.norm(batch))
        return torch.log(hidden - 9)  # first: log in 1


def of_a_layer() -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Logs())
    for batch in torch.ones(1, 3, 4):
        out = model(batch + torch.rand(3, 4))
        loss = out.mean()
        loss = loss / 2
        return again(loss)


def masked_mean(error: Any, mask: Any) -> Any:
    total = (error * mask).sum()
    return total / mask.sum()  # first: div


def of_a_loss_function() -> Any:
    out, mask = torch.nn.Linear(4, 1)(torch.ones(3, 4)), torch.zeros(3, 1)
    loss: Any = 0
    for weight in (1.0, 2.0):
        loss = loss + weight * masked_mean(out, mask)
    return again(loss)


def of_half_precision() -> Any:
    model, batch = torch.nn.Linear(4, 4), torch.full((3, 4), 3e4)
    if batch is None:
        loss = torch.log(model(batch) * 0 - 1)
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(batch)
        loss = (out * out).mean()  # first: mul
    return again(loss)


def of_a_row_that_is_masked() -> Any:
    given = torch.nn.Linear(4, 4)(torch.ones(3, 4))
    scores = given.masked_fill(torch.ones(3, 4, dtype=torch.bool), float("-inf"))
    weights = torch.softmax(scores, -1)  # first: softmax
    loss = weights.sum()
    return again(loss)


def of_infinity_before_nan() -> Any:
    chances = torch.nn.Linear(4, 4)(torch.ones(3, 4)) * 0
    logs = chances.log()  # first: log
    loss = (chances * logs).sum()
    return again(loss)


class Trainer:
    """Keeps the loss in itself, as some do."""

    def train(self) -> Any:
        self.model = torch.nn.Linear(4, 4)
        batch = torch.ones(3, 4)
        self.loss = (self.model(batch) * 0 - 1).sqrt().mean()  # first: sqrt
        return again(self.loss)


def of_an_attribute() -> Any:
    return Trainer().train()


def step_that_forgets(model: Any, inputs: Any) -> Any:
    loss = torch.log(model(inputs) * 0 - 1).mean()  # first: log
    del inputs
    return again(loss)


def of_a_batch_that_only_the_caller_holds() -> Any:
    model, inputs = torch.nn.Linear(4, 4), torch.ones(3, 4)
    return step_that_forgets(model, inputs)


def backward_of_a_library(result: Any) -> Any:
    scale = 1.0
    return again(result.loss * scale)


def of_a_trainer_that_is_given_the_step() -> Any:
    from types import SimpleNamespace

    model, batch = torch.nn.Linear(4, 4), torch.ones(3, 4)

    def step() -> Any:
        out = model(batch)
        return SimpleNamespace(loss=(out - out.max() - 1).sqrt().mean())  # first: sqrt

    result = step()
    return backward_of_a_library(result)


PROGRAMS = [
    of_a_trainer_that_is_given_the_step,
    of_a_batch_that_only_the_caller_holds,
    of_a_layer,
    of_a_loss_function,
    of_half_precision,
    of_a_row_that_is_masked,
    of_infinity_before_nan,
    of_an_attribute,
]


def _first(program: Callable[[], Any]) -> tuple[str, str]:
    """The line that a comment marks, and what it says is first there."""
    holders = {
        of_a_batch_that_only_the_caller_holds: step_that_forgets,
        of_a_layer: Logs,
        of_a_loss_function: masked_mean,
        of_an_attribute: Trainer,
    }
    lines, start = inspect.getsourcelines(holders.get(program, program))
    ((number, said),) = (
        (n, text.partition("# first: ")[2].strip()) for n, text in enumerate(lines) if "# first" in text
    )
    return f"{Path(__file__).name}:{start + number}", said


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_line_and_the_operation_are_named(program: Callable[[], Any]) -> None:
    found, (line, said) = program(), _first(program)
    layer = f" in {found.layer}" if program is of_a_layer else ""
    assert (found.why, found.line, f"{found.op}{layer}") == (None, line, said)
    assert found.exact is (program is not of_a_layer)  # dropout draws random numbers


def test_the_program_does_not_notice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, drawn = torch.nn.Sequential(torch.nn.Linear(4, 4), Logs()), []
    written = (tmp_path / "log").open("w", buffering=1)

    def batches() -> Iterator[Any]:
        for number in range(9):
            drawn.append(number)
            yield torch.rand(3, 4)

    feed = batches()
    while True:
        batch = next(feed)
        out = model(batch)
        loss = [out.mean(), print("seen", flush=True), written.write("seen\n")][0]
        random, seen = torch.get_rng_state(), model[1].norm.running_mean.clone()
        found = again(loss)
        break
    assert found.op == "log"
    assert torch.equal(random, torch.get_rng_state()) and torch.equal(seen, model[1].norm.running_mean)
    assert (drawn, model[1].calls) == ([0], 1)
    assert (capfd.readouterr().out, (tmp_path / "log").read_text()) == ("seen\n", "seen\n")
    loss.backward()


def test_it_is_bounded_and_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstep.guard.adapters.torch.numbers.loss_again.MOST_S", 1.0)
    first_time = [True]

    def held() -> Any:
        if not first_time:
            time.sleep(60)
        first_time.clear()
        return torch.ones(1, requires_grad=True) * float("nan")

    loss = held()
    began = time.monotonic()
    assert "took longer than" in again(loss).why
    assert time.monotonic() - began < 30
    monkeypatch.setenv("KEEPSTEP_REPLAY", "off")
    assert again(loss).why == "KEEPSTEP_REPLAY=off"


def test_what_does_not_repeat_itself_is_not_guessed() -> None:
    once = [float("nan")]
    loss = torch.ones(1, requires_grad=True) * (once.pop() if once else 1.0)
    assert again(loss).why == "computing it once more gave only finite values"
    state = torch.ones(1, requires_grad=True)
    for _ in range(1):
        state = (state - 2).log()
        loss = state.mean()
        assert again(loss).why == "what goes into it was NaN before, or is overwritten by now"
