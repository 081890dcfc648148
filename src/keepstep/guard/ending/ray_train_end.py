# SPDX-License-Identifier: Apache-2.0
"""Ray Train runs the training in a thread of its worker: this sees its end, and its exception before the driver."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from keepstep.guard.import_hook import after_import

Told = Callable[[BaseException], None]
Trains = Callable[[bool], None]


def listen(told: Told, trains: Trains) -> None:
    """``told`` gets the exception that ends a Ray Train worker's training; ``trains`` hears of its start and end."""

    def hook_v2(module: ModuleType) -> None:
        _on_the_way(module, "construct_user_exception_with_traceback", told)
        _around(module.ThreadRunner, "_monitor_target", trains, lambda runner: getattr(runner, "_exc", None) is None)

    def hook_v1(module: ModuleType) -> None:
        _on_the_way(module.RunnerThread, "_propagate_exception", told)
        _around(module.RunnerThread, "run", trains, lambda runner: True)

    after_import(
        {"ray.train.v2._internal.execution.worker_group.thread_runner": hook_v2, "ray.air._internal.util": hook_v1}
    )


def _on_the_way(owner: Any | ModuleType, name: str, told: Told) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def passed_on(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            for each in (*args, *kwargs.values()):
                if isinstance(each, BaseException):
                    told(each)
        return original(*args, **kwargs)

    setattr(owner, name, passed_on)


def _around(owner: Any, name: str, trains: Trains, is_well: Callable[[Any], bool]) -> None:
    """Ray's own method, which is called when the training starts and returns when it is over."""
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def told_around(self: Any) -> Any:
        with contextlib.suppress(Exception):
            trains(True)
        result = original(self)
        with contextlib.suppress(Exception):
            if is_well(self):
                trains(False)
        return result

    setattr(owner, name, told_around)
