# SPDX-License-Identifier: Apache-2.0
"""Others may end a Ray Train worker only after its training returned. A runner like Ray's stands in; guests run Ray."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

from keepstep.guard.ending import ray_train_end

RUNNER = "ray.train.v2._internal.execution.worker_group.thread_runner"


class ThreadRunner:
    def __init__(self, error: Exception | None) -> None:
        self._ends, self._exc, self._error = threading.Event(), None, error

    def _monitor_target(self) -> None:
        self._ends.wait(30.0)
        self._exc = self._error


@pytest.mark.parametrize(("error", "said"), [(None, [True, False]), (ValueError("no batch"), [True])])
def test_a_training_is_over_when_its_runner_is_done_without_an_exception(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, said: list[bool]
) -> None:
    module = ModuleType(RUNNER)
    module.ThreadRunner = type("ThreadRunner", (ThreadRunner,), dict(vars(ThreadRunner)))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, RUNNER, module)
    told: list[bool] = []
    began = threading.Event()
    ray_train_end.listen(lambda error: None, lambda now: (told.append(now), began.set())[0])
    runner = module.ThreadRunner(error)
    thread = threading.Thread(target=runner._monitor_target)
    thread.start()
    assert began.wait(30.0) and told == [True]
    runner._ends.set()
    thread.join(30.0)
    assert told == said
