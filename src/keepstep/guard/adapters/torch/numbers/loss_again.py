# SPDX-License-Identifier: Apache-2.0
"""Computes a loss that is lost once more, in a copy of the process, to learn which line gave the first NaN.

The copy (a fork) has the program's batch, weights and variables, and nothing it does reaches the program: it holds no
file, socket or terminal, and ends with the answer or after a few seconds. It runs the statements that gave the loss,
and torch shows it every operation. Only on the host: a device cannot be used in a copy.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from keepstep.guard.adapters.torch.numbers.loss_statements import Statements, statements
from keepstep.guard.record.user_line import OWN, name_of_line, user_line

MOST_S = 5.0
RUNTIMES = ("jax", "tensorflow", "mpi4py", "horovod")
"""Their threads, or their memory that a network card knows, make a copy unsafe..."""
NETWORK_CARDS = b"libibverbs"
"""... and so does this library."""
GIVEN = ("full", "full_like", "fill", "fill_", "masked_fill", "masked_fill_", "scalar_tensor", "lift_fresh", "where")
"""Operations by which programs write infinity on purpose, as masks do."""
UNWRITTEN = ("empty", "new_empty", "resize")
"""These give memory as it is."""
NAN, INFINITE = "nan", "infinite"


class Again(NamedTuple):
    """``why`` says what stood in the way; the rest is then None."""

    why: str | None = None
    op: str | None = None
    layer: str | None = None
    line: str | None = None
    exact: bool = False
    """No random number was drawn, and all began from finite values: it computed what the step had computed."""


class NotAgain(Exception):
    """The loss cannot be computed again; the words say why."""


class _Found(BaseException):
    """Ends the copy's work. No `except Exception` of the program may catch it."""


def compute_again(torch: Any, frame: FrameType | None) -> Again:
    """Called before the backward pass of a loss on the host that is not finite."""
    if os.environ.get("KEEPSTEP_REPLAY") == "off":
        return Again("KEEPSTEP_REPLAY=off")
    if not hasattr(os, "fork") or any(name in sys.modules for name in RUNTIMES) or _uses_device(torch):
        return Again("the process cannot be copied: a device or another framework is in use")
    until = time.monotonic() + MOST_S

    def is_bad(thing: Any) -> bool | None:
        if not isinstance(thing, torch.Tensor):
            return None
        if time.monotonic() > until:
            raise NotAgain("the program's tensors are too large to look through")
        return _is_plain(torch, thing) and not bool(thing.detach().isfinite().all())

    try:
        found = statements(frame, (os.path.dirname(torch.__file__) + os.sep, OWN), is_bad)
    except NotAgain as error:
        return Again(str(error))
    if found is None:
        return Again("the statements that gave the loss were not found in the program's source")
    return _ask_copy(torch, found, max(0.1, until - time.monotonic()))


def _uses_device(torch: Any) -> bool:
    with contextlib.suppress(OSError), open("/proc/self/maps", "rb") as stream:
        if NETWORK_CARDS in stream.read():
            return True
    devices = (getattr(torch, name, None) for name in ("cuda", "xpu", "npu", "hpu"))
    return any(getattr(each, "is_initialized", lambda: False)() for each in devices)


def _is_plain(torch: Any, thing: Any) -> bool:
    return bool(
        thing.layout is torch.strided and thing.device.type == "cpu" and thing.is_floating_point() and thing.numel()
    )


def _ask_copy(torch: Any, found: Statements, limit_s: float) -> Again:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of threads; the copy uses none of them
        try:
            child = os.fork()  # keepstep: ignore[COD113] the copy uses no thread, device or socket of the rank's
        except OSError as error:
            os.close(reader)
            os.close(writer)
            return Again(f"the process cannot be copied: {error.strerror}")
    if child == 0:
        _be_copy(torch, found, writer, limit_s)
    os.close(writer)
    answer = b""
    try:
        until = time.monotonic() + limit_s
        while (left := until - time.monotonic()) > 0 and select.select([reader], [], [], left)[0]:
            piece = os.read(reader, 65536)
            if not piece:
                break
            answer += piece
    finally:
        os.close(reader)
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
        with contextlib.suppress(OSError):  # somebody else has asked for it already
            os.waitpid(child, 0)
    try:
        return Again(**json.loads(answer))
    except ValueError:
        return Again(f"computing it once more took longer than {MOST_S:.0f} s, or ended the copy")


def _be_copy(torch: Any, found: Statements, writer: int, limit_s: float) -> None:
    """Never returns."""
    try:
        _cut_off(writer, limit_s)
        answer = _run(torch, found)
        os.write(writer, json.dumps(answer._asdict()).encode())
    finally:
        os._exit(0)


def _cut_off(writer: int, limit_s: float) -> None:
    """Nothing that runs from here on reaches a file, another process or a person."""
    gc.disable()
    for each in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(each, signal.SIG_DFL)
    signal.alarm(int(limit_s) + 2)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as stream:
        stream.write("1000")  # if memory is short, not the rank is ended
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    most = max(map(int, os.listdir("/proc/self/fd"))) if os.path.isdir("/proc/self/fd") else 65536
    os.closerange(3, writer)
    os.closerange(writer + 1, most + 1)


def _run(torch: Any, found: Statements) -> Again:
    torch.set_num_threads(1)
    ddp: Any = sys.modules.get("torch.nn.parallel.distributed")
    if ddp is not None:
        ddp.DistributedDataParallel.forward = lambda self, *args, **kwargs: self.module(*args, **kwargs)
    if "torch._dynamo" in sys.modules:
        torch._dynamo.config.disable = True
    origins = Origins(torch)
    before = torch.get_rng_state()
    try:
        with origins.watching():
            exec(found.code, found.names)
    except _Found:
        pass
    except NotAgain as error:
        return Again(str(error))
    except BaseException as error:
        return Again(f"computing it once more failed ({type(error).__name__}: {error})"[:200])
    answer = origins.answer or Again("computing it once more gave only finite values")
    return answer._replace(exact=origins.is_exact and bool(torch.equal(before, torch.get_rng_state())))


class Origins:
    """Follows infinite values from operation to operation, until one of them becomes NaN."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._from: dict[int, Again | None] = {}
        """By storage: the operation that its infinity comes from; None: it was written on purpose."""
        self.answer: Again | None = None
        self.is_exact = True
        """False: an infinite value was there before, which may have been written later than it was used."""

    def watching(self) -> Any:
        """While this lasts, torch shows every operation."""
        from torch.utils._python_dispatch import TorchDispatchMode

        see = self._see

        class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return see(func, args, kwargs or {})

            @classmethod
            def _should_skip_dynamo(cls) -> bool:
                return False  # it would import the compiler, which takes seconds

        return Watch()  # type: ignore[no-untyped-call]

    def _see(self, func: Any, args: Any, kwargs: Any) -> Any:
        if "c10d" in func.namespace:
            raise NotAgain("it needs a collective")
        given = [(each, kind) for each in self._tensors((args, kwargs)) if (kind := self._kind(each))]
        result = func(*args, **kwargs)
        op = str(func._schema.name).rpartition("::")[2].lstrip("_")
        if op.startswith(UNWRITTEN):
            return result
        for each in self._tensors(result):
            kind = self._kind(each)
            if kind == NAN:
                if any(was == NAN for _, was in given):
                    raise NotAgain("what goes into it was NaN before, or is overwritten by now")
                self.answer = self._came(given) or self._here(op)
                self.is_exact = all(_storage(each) in self._from for each, _ in given)
                raise _Found
            if kind:
                written = not given and op in GIVEN
                origin = None if written else self._came(given) if given else self._here(op)
                self._from[_storage(each)] = origin
                self.answer = origin or self.answer
        return result

    def _came(self, given: list[tuple[Any, str]]) -> Again | None:
        """The operation that gave the first of these infinite inputs; None where they were given, or by a mask."""
        return next((origin for each, _ in given if (origin := self._from.get(_storage(each)))), None)

    def _here(self, op: str) -> Again:
        frame: FrameType | None = sys._getframe(2)
        line, modules, torch = user_line(frame), [], self._torch
        folder = os.path.dirname(torch.__file__)
        while frame is not None:
            if line is None and not frame.f_code.co_filename.startswith((folder, OWN)):
                line = name_of_line(frame.f_code.co_filename, frame.f_lineno)
            module = frame.f_locals.get("self")
            if isinstance(module, torch.nn.Module):
                modules.append(module)
            frame = frame.f_back
        layer = None
        if modules:
            inside = next((name for name, each in modules[-1].named_modules() if each is modules[0]), "")
            layer = inside or type(modules[0]).__name__
        return Again(op=op, layer=layer, line=line)

    def _tensors(self, thing: Any) -> Iterator[Any]:
        if isinstance(thing, self._torch.Tensor):
            yield thing
        elif isinstance(thing, tuple | list | dict):
            for each in thing.values() if isinstance(thing, dict) else thing:
                yield from self._tensors(each)

    def _kind(self, tensor: Any) -> str:
        if not _is_plain(self._torch, tensor) or bool(tensor.isfinite().all()):
            return ""
        return NAN if bool(tensor.isnan().any()) else INFINITE


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())
