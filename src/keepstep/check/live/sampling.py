# SPDX-License-Identifier: Apache-2.0
"""Read a few batches without leaving a trace: bounded in number and time, with the random state put back."""

from __future__ import annotations

import hashlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from keepstep.errors import UserError
from keepstep.model.facts.pipeline import ElementSpecs, InputPace

MOST_PARTS = 64
MOST_ROWS = 4096
"""Rows of one batch that are hashed."""
WARM_UP = 1
"""Batches that also start the pipeline."""


@dataclass(frozen=True)
class Batch:
    """What is kept of a batch: the type and shape of each part, and a hash of each row."""

    specs: dict[str, str]
    rows: tuple[str, ...]


@dataclass
class Sample:
    batches: list[Batch] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    ended: bool = False
    """Whether the pipeline ended within the sample."""

    @property
    def rows(self) -> list[str]:
        return [row for batch in self.batches for row in batch.rows]

    def specs(self) -> list[ElementSpecs]:
        """One fact per part that any batch has."""
        parts = list(dict.fromkeys(part for batch in self.batches for part in batch.specs))[:MOST_PARTS]
        found = []
        for part in parts:
            each = [batch.specs.get(part, "absent") for batch in self.batches]
            found.append(
                ElementSpecs(part=part, specs=tuple(Counter(each).most_common()), last=each[-1], ended=self.ended)
            )
        return found

    def pace(self, step_s: float | None, limit: Limit | None) -> InputPace | None:
        """How long a batch takes once the pipeline runs; None if too few were read."""
        timed = self.times[WARM_UP:]
        if not timed:
            return None
        return InputPace(
            batches=len(timed),
            per_batch_s=sum(timed) / len(timed),
            step_s=step_s,
            limit=limit.what if limit else None,
            limit_s=limit.per_batch_s if limit else None,
            workers=limit.workers if limit else None,
        )


@dataclass(frozen=True)
class Limit:
    """The part of a pipeline that takes the most time per batch."""

    what: str
    per_batch_s: float
    workers: int | None = None


def sampled(batches: Iterable[Any], most: int, seconds: float) -> Sample:
    """The first batches, until there are enough or the time is over."""
    sample = Sample()
    with random_state_kept():
        source = iter(batches)
        begun = last = time.monotonic()
        for batch in islice(source, most):
            now = time.monotonic()
            sample.times.append(now - last)
            sample.batches.append(described(batch))
            last = time.monotonic()
            if last - begun > seconds:
                break
        else:
            sample.ended = len(sample.batches) < most
        close = getattr(source, "close", None)
        if callable(close):
            close()
        del source
    return sample


def described(batch: Any) -> Batch:
    """A batch of any structure, by its parts."""
    specs, arrays = {}, []
    for name, part in parts_of(batch):
        shape = getattr(part, "shape", None)
        if shape is None:
            specs[name] = type(part).__name__
            arrays.append(part)
        else:
            dtype = str(getattr(part, "dtype", "")).removeprefix("torch.").removeprefix("<dtype: '").removesuffix("'>")
            specs[name] = f"{dtype}[{','.join(str(size) for size in tuple(shape))}]"
            arrays.append(part)
    return Batch(specs=specs, rows=_rows(arrays))


def parts_of(batch: Any, name: str = "batch") -> Iterator[tuple[str, Any]]:
    """The leaves of nested dicts, lists and tuples, by name."""
    if isinstance(batch, dict):
        for key in sorted(batch, key=str):
            yield from parts_of(batch[key], f"{name}[{key!r}]")
    elif isinstance(batch, tuple | list) and batch and not all(isinstance(each, int | float | str) for each in batch):
        for index, each in enumerate(batch):
            yield from parts_of(each, f"{name}[{index}]")
    else:
        yield name, batch


def _rows(parts: list[Any]) -> tuple[str, ...]:
    """A hash per row over all parts that have rows; none where a part cannot be read as an array on this host."""
    columns = []
    for part in parts:
        column = _column(part)
        if column is None:
            return ()
        if column:
            columns.append(column)
    if not columns or len({len(column) for column in columns}) != 1:
        return ()
    return tuple(hashlib.blake2b(b"\0".join(row), digest_size=8).hexdigest() for row in zip(*columns, strict=True))


def _column(part: Any) -> list[bytes] | None:
    """The rows of one part as bytes. An empty list: a part without rows, such as a number."""
    if isinstance(part, list | tuple):
        return [repr(each).encode() for each in part[:MOST_ROWS]]
    if getattr(part, "device", None) is not None and "cpu" not in str(part.device).lower():
        return None
    numpy = sys.modules.get("numpy")
    if numpy is None or getattr(part, "shape", None) is None:
        return []
    try:
        values = numpy.asarray(part)
    except Exception:
        return None
    if values.ndim == 0:
        return []
    if values.dtype == object:
        return [repr(each.tolist() if hasattr(each, "tolist") else each).encode() for each in values[:MOST_ROWS]]
    return [row.tobytes() for row in numpy.ascontiguousarray(values[:MOST_ROWS])]


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Put the random state of Python, NumPy, PyTorch and TensorFlow back afterwards."""
    put_back: list[Callable[[], object]] = []
    python = random.getstate()
    put_back.append(lambda: random.setstate(python))
    if numpy := sys.modules.get("numpy"):
        legacy = numpy.random.get_state()
        put_back.append(lambda: numpy.random.set_state(legacy))
    if torch := sys.modules.get("torch"):
        cpu = torch.get_rng_state()
        put_back.append(lambda: torch.set_rng_state(cpu))
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            devices = torch.cuda.get_rng_state_all()
            put_back.append(lambda: torch.cuda.set_rng_state_all(devices))
    put_back += _of_tensorflow()
    try:
        yield
    finally:
        for put in put_back:
            put()


def _of_tensorflow() -> list[Callable[[], object]]:
    """TensorFlow's source of operation seeds, and its global generator if the program has one."""
    found: list[Callable[[], object]] = []
    context = sys.modules.get("tensorflow.python.eager.context")
    seeds = getattr(context.context(), "_rng", None) if context is not None else None
    if isinstance(seeds, random.Random):
        state = seeds.getstate()
        found.append(lambda: seeds.setstate(state))
    stateful = sys.modules.get("tensorflow.python.ops.stateful_random_ops")
    generator = getattr(stateful, "global_generator", None)
    if generator is not None:
        value = generator.state.read_value()
        found.append(lambda: generator.state.assign(value))
    return found


@contextmanager
def generators_kept(*generators: Any) -> Iterator[None]:
    """Put generators of PyTorch's own back, those that a loader was given."""
    states = [(each, each.get_state()) for each in generators if each is not None and hasattr(each, "get_state")]
    try:
        yield
    finally:
        for each, state in states:
            each.set_state(state)


def refuse_read_once(thing: Any, what: str) -> None:
    """Refuse an iterator: what is read from it is lost to the training."""
    if hasattr(thing, "__next__"):
        raise UserError(
            f"{what} ({type(thing).__name__}) can be read only once: the training would miss what is read here",
            hint="give what makes it: a dataset, a loader, or a function for ranks=",
        )
