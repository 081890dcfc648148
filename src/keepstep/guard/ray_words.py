# SPDX-License-Identifier: Apache-2.0
"""Ray runs the training in a thread of its worker, catches its exception there and hands it to the driver: it is heard on that way."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from keepstep.guard.importing import after_import

Told = Callable[[BaseException], None]


def listen(told: Told) -> None:
    """``told`` is called with the exception that ends the training of a Ray Train worker."""
    after_import(
        {
            "ray.train.v2._internal.execution.worker_group.thread_runner": lambda module: _on_the_way(
                module, "construct_user_exception_with_traceback", told
            ),
            "ray.air._internal.util": lambda module: _on_the_way(module.RunnerThread, "_propagate_exception", told),
        }
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
