# SPDX-License-Identifier: Apache-2.0
"""From the log of arrays and the plans of programs to what the device would hold, for frameworks that compile. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keepstep.check.memory.devices import MIB, Device
from keepstep.check.memory.forecast import Forecast

COMPILED = ("jax", "tensorflow")
PARTS = {"array": "arrays held", "variable": "variables", "input": "inputs", "program": "temporaries"}
MARGIN = 0.25
"""How far the plan of a program may be off, either way (assumed): the compiler's own is not to be had without the
device. Arrays that the script holds are exact."""
UNCOMPILED = 0.35
"""The same for TensorFlow's graphs, whose operations run in an order of their own (assumed)."""
ROUNDED = 256
"""Bytes that every array is rounded up to."""
PRODUCTS = 40 * MIB
"""Workspaces of the library that multiplies (assumed)."""
RUNTIME = (60 * MIB, 100 * MIB, 300 * MIB)
"""What TensorFlow itself takes more on a CPU once it trains: traced graphs, threads, libraries. At least, usually, at
most; by three programs that were measured here."""
TAKEN = 0.75
"""Of the device, unless XLA_PYTHON_CLIENT_MEM_FRACTION says otherwise."""


def forecast_of_programs(seen: dict[str, Any], device: Device, ranks: int) -> Forecast:
    """``seen``: what the dry run wrote."""
    kinds = {int(number): str(kind) for number, kind in seen["kinds"].items()}
    places = {int(number): str(place) for number, place in seen["places"].items()}
    events = [(int(number), -(-int(size) // ROUNDED) * ROUNDED) for number, size in seen["events"]]
    pool = _pool(seen, device)
    compiled: dict[str, int] = seen.get("compiled") or {}
    if compiled:  # the compiler's own count in place of the plan
        said = {number: compiled.get(kind.removeprefix("program ")) for number, kind in kinds.items()}
        events = [
            (each, size if (one := said.get(each)) is None else (one if size > 0 else -one)) for each, size in events
        ]
    peak, live, at = _peak(events)
    planned = [number for number in live if kinds[number].startswith("program")]
    inside = sum(live[number] for number in planned if kinds[number].removeprefix("program ") not in compiled)
    margin = UNCOMPILED if seen.get("uncompiled") else MARGIN
    beside = RUNTIME if device.cpu else (0, 0, PRODUCTS)
    low = peak - int(inside * margin) + beside[0]
    high = peak + int(inside * margin) + (0 if compiled else int(seen.get("scratch", 0)) + beside[2])
    full = _full_at(events, pool.total) if low > pool.total else None
    programs = seen.get("programs", {})
    return Forecast(
        device=pool,
        low=low,
        high=high,
        low_beside=0,
        allocated=peak + beside[1],
        reserved=peak + beside[1],
        parts=_parts(live, kinds) + ((("TensorFlow itself", beside[1]),) if device.cpu else ()),
        lines=_lines(live, kinds, places, programs),
        line=places.get(at if full is None else full[0], ""),
        asked=None if full is None else _asked(full, kinds, programs, pool.total),
        wrong_sums=(),
        framework=seen["framework"],
    )


def _pool(seen: dict[str, Any], device: Device) -> Device:
    """What the framework takes of the device."""
    if device.tpu or device.cpu:
        return device
    if seen["framework"] == "tensorflow":
        return replace(device, total=max(0, device.total - device.context[1]))
    if seen.get("xla_python_client_allocator") == "platform":
        return replace(device, total=max(0, device.total - device.context[1]))
    try:
        share = float(seen.get("xla_python_client_mem_fraction") or TAKEN)
    except ValueError:
        share = TAKEN
    return replace(device, total=int(device.total * share), name=f"JAX's share ({share:.0%}) of {device.name}")


def _peak(events: list[tuple[int, int]]) -> tuple[int, dict[int, int], int]:
    """The most that is held at once, what that is, and what was made last."""
    now = most = at = 0
    for index, (number, size) in enumerate(events):
        now += size if number >= 0 else 0
        if now > most:
            most, at = now, index
    live: dict[int, int] = {}
    for number, size in events[: at + 1]:
        if size > 0:
            live[number] = size
        else:
            live.pop(number, None)
    return most, live, events[at][0] if events else -1


def _full_at(events: list[tuple[int, int]], total: int) -> tuple[int, int] | None:
    now = 0
    for number, size in events:
        now += size
        if now > total:
            return number, size
    return None


def _asked(full: tuple[int, int], kinds: dict[int, str], programs: dict[str, Any], total: int) -> int | None:
    """What did not fit any more: an array, or within a program the one that is larger than the device."""
    kind, _, program = kinds[full[0]].partition(" ")
    if kind != "program":
        return full[1]
    largest: int = programs.get(program, {}).get("largest_array", 0)
    return largest if largest > total else None


def _parts(live: dict[int, int], kinds: dict[int, str]) -> tuple[tuple[str, int], ...]:
    sums = dict.fromkeys(PARTS.values(), 0)
    for number, size in live.items():
        sums[PARTS[kinds[number].partition(" ")[0]]] += size
    return tuple((name, size) for name, size in sums.items() if size)


def _lines(
    live: dict[int, int], kinds: dict[int, str], places: dict[int, str], programs: dict[str, Any]
) -> tuple[tuple[str, int], ...]:
    """Which lines made what is held; of a program, its largest temporaries too."""
    sums: dict[str, int] = {}
    for number, size in live.items():
        place = places.get(number, "")
        kind, _, program = kinds[number].partition(" ")
        if kind == "program" and program in programs:
            for shape, bytes_ in programs[program]["largest"]:
                sums[f"{place} {shape}".strip()] = bytes_
        elif place:
            sums[place] = sums.get(place, 0) + size
    return tuple(sorted(sums.items(), key=lambda pair: -pair[1])[:6])
