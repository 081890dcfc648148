# SPDX-License-Identifier: Apache-2.0
"""``keepstep.microbatches(function, batch)``: where memory runs out on one rank, all take the batch in more parts."""

from __future__ import annotations

import contextlib
import gc
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from keepstep.errors import OutOfStep
from keepstep.guard import startup_hook
from keepstep.guard.together.batch_parts import parts_of, rows_of
from keepstep.guard.together.retry import all_agree, in_words, kinds_of, name_of
from keepstep.guard.together.rounds import WAIT_S, rounds
from keepstep.signals.memory_errors import is_out_of_memory

T = TypeVar("T")

_counts: dict[str, int] = {}
"""In how many parts each function now gets its batches."""


def microbatches(function: Callable[[Iterator[tuple[Any, float]]], T], batch: Any, *, wait_s: float = WAIT_S) -> T:
    """``function(parts)``, called again with twice as many parts if it runs out of memory on any rank.

    ``parts`` yields ``(part, share)``: some rows of the batch, and which share of all rows they are. A loss that is a
    mean over rows is multiplied by the share; the gradients then add up to those of the whole batch. The function
    begins by forgetting its gradients, because it may be called again, and issues no collective: the ranks ask each
    other after it (at most ``wait_s`` seconds), and only then reduce. The number of parts stays for later batches.

    If a single row does not fit either, the error is raised on that rank, and :class:`keepstep.OutOfStep` on the
    others; likewise with any other error. A process that trains alone asks nobody.
    """
    name, rows = name_of(function), rows_of(batch)
    asking = rounds("keepstep.microbatches")
    while True:
        count = _counts.setdefault(name, 1)
        error: Exception | None = None
        try:
            result = _ready(function(parts_of(batch, count)))
        except OutOfStep:
            raise
        except Exception as raised:
            error = raised
        is_full = error is not None and any(is_out_of_memory(kind, str(error)) for kind in kinds_of(error))
        gives_up = error is not None and not (is_full and count < (rows or 1))
        reason = in_words(error)
        if asking is not None:
            reason = all_agree(asking, f"{name} with {_parts(count)}", error, gives_up, wait_s)
        elif gives_up and error is not None:
            raise error
        if not reason:
            return result
        _counts[name] = 2 * count
        if error is not None:
            _say(
                f"{name}: out of memory with {rows} rows in {_parts(count)}; all ranks now take {2 * count} "
                f"({in_words(error)})"
            )
            traceback.clear_frames(error.__traceback__)
        error = result = None  # type: ignore[assignment]  # they hold memory
        _free()


def _ready(result: T) -> T:
    """JAX's functions return before they have run."""
    jax = sys.modules.get("jax")
    return jax.block_until_ready(result) if jax is not None and result is not None else result


def _free() -> None:
    """What the attempt left: the next one needs the memory."""
    gc.collect()
    torch = sys.modules.get("torch")
    with contextlib.suppress(Exception):
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def _parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count} parts"


def _say(words: str) -> None:
    if not startup_hook.is_off():
        startup_hook.session().say(words, always=True)
