# SPDX-License-Identifier: Apache-2.0
"""torch's flight recorder, read in the process: every collective of every group, including those of DDP and FSDP.

It is on by default where torch has one. Reading takes tens of milliseconds, so a rank reads it only when it makes no
progress or ends. Stacks are left out: torch would take seconds to resolve them.
"""

from __future__ import annotations

import io
import math
import pickle
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.guard.record.thread_stack import calls
from keepstep.signals import collective_history
from keepstep.signals.collective_history import TrailEntry

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import TorchState

DUMPS = ("_dump_fr_trace", "_dump_nccl_trace")
RECORDED = ("gloo", "nccl")
BETWEEN_SOME = lazy_pattern("all_?to_?all")
MOST = 160
FULL = 1000
"""From this many entries on, older ones may have been overwritten."""
UNRECORDED = 20
"""Operations beyond those that a few barriers leave unrecorded."""
CAPTURES = ("graphs.py", "cudagraph_trees.py")
TYPES = {
    "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Half": "float16",
    "Float": "float32", "Double": "float64", "Bool": "bool", "BFloat16": "bfloat16", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}  # fmt: skip


class Recorded(NamedTuple):
    """The last collectives of one group, oldest first, and the last number that has ended (None: none of them)."""

    issued: tuple[TrailEntry, ...]
    done: int | None


class _PlainUnpickler(pickle.Unpickler):
    """Lists, dictionaries, strings and numbers: torch writes nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} in a flight recorder's dump")


def _entries(state: TorchState) -> list[dict[str, Any]] | None:
    native = sys.modules.get("torch._C._distributed_c10d") or getattr(state.torch._C, "_distributed_c10d", None)
    dump: Any = next((getattr(native, name) for name in DUMPS if hasattr(native, name)), None)
    if dump is None or _captures(state.thread):
        return None
    return list(_PlainUnpickler(io.BytesIO(dump(True, False, False))).load().get("entries") or ())


def sent(state: TorchState) -> float | None:
    """How many numbers this rank has put into all that is recorded; None where there is no recorder.

    Pipelines and experts may send little, whatever they train: sending between two ranks counts as enough. Gloo counts
    what is sent so, and does not record it.
    """
    entries = _entries(state)
    if entries is None:
        return None
    if any(each.get("is_p2p") or BETWEEN_SOME.search(str(each.get("profiling_name"))) for each in entries):
        return math.inf
    if len(entries) < FULL and _issued(state) - len(entries) > UNRECORDED:
        return math.inf
    return sum(int(math.prod(shape)) for each in entries for shape in (each.get("input_sizes") or ()))


def _issued(state: TorchState) -> int:
    """How many operations the world's group was given."""
    with state.lock:
        default = None if state.closed else state.default_group()
        return state.sequence(default) if default is not None else 0


def is_kept(state: TorchState) -> bool:
    """Whether exchanges are recorded at all: not by every backend, and it can be turned off. Needs a world."""
    with state.lock:
        default = state.default_group()
        if state.closed or default is None:
            return False
        kinds = [str(words) for words in list(state.c10d._world.pg_backend_config.values())]
        issued = state.sequence(default)
    backends = {
        device: backend for words in kinds for device, _, backend in (each.partition(":") for each in words.split(","))
    }
    if any(backends.get(device, "gloo") not in RECORDED for device in ("cpu", "cuda")):
        return False
    return not issued or bool(_entries(state))


def read(state: TorchState) -> dict[str, Recorded]:
    """By group, without groups in which ranks also send to each other."""
    entries = _entries(state) or []
    found: dict[str, dict[int, TrailEntry]] = {}
    done: dict[str, int] = {}
    between_two: set[str] = set()
    for each in entries[-MOST * 8 :]:
        name = str(each["process_group"][0])
        if each.get("is_p2p"):
            between_two.add(name)
            continue
        number, issued = int(each["collective_seq_id"]), found.setdefault(name, {})
        operation, dtype, shape = _operation(each)
        if _has_ended(each):
            done[name] = max(number, done.get(name, number))
        one = TrailEntry(
            number,
            collective_history.key(operation, dtype, math.prod(shape)),
            f"{operation} {dtype}{shape}" if dtype and operation != "barrier" else operation,
        )
        before = issued.get(number)
        issued[number] = (
            one
            if before is None
            else TrailEntry(number, f"{before.key}+{one.key}"[:200], f"{before.words} + {one.words}"[:200])
        )
    return {
        name: Recorded(tuple(list(issued.values())[-MOST:]), done.get(name))
        for name, issued in found.items()
        if name not in between_two
    }


def _has_ended(entry: dict[str, Any]) -> bool:
    """gloo never updates the state of what has ended; NCCL also retires what it gave up."""
    retired = bool(entry.get("retired")) and not str(entry["profiling_name"]).startswith("nccl:")
    return retired or entry.get("state") == "completed"


def _operation(entry: dict[str, Any]) -> tuple[str, str, list[int]]:
    operation = str(entry["profiling_name"]).rpartition(":")[2]
    sizes, types = entry.get("input_sizes") or (), entry.get("input_dtypes") or ()
    dtype = TYPES.get(str(types[0]), str(types[0])) if types else ""
    return operation, dtype, [int(size) for size in sizes[0]] if sizes else []


def _captures(thread: int) -> bool:
    """Whether the training is capturing a CUDA graph: querying the device's events would spoil it."""
    return any(file.endswith(CAPTURES) for file, _, _ in calls(thread))
