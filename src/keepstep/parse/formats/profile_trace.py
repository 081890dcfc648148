# SPDX-License-Identifier: Apache-2.0
"""What a framework's profiler recorded: torch's trace, and the planes of JAX and TensorFlow, as time per operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from keepstep.parse.formats.data.example_proto import fields

IDLE = "Python or input, between operations"
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_HOST = ("cpu_op", "user_annotation")


class Span(NamedTuple):
    """One operation on one track (a thread, a stream). Seconds."""

    track: str
    name: str
    start: float
    end: float


def torch_spans(trace: Mapping[str, Any]) -> Iterator[Span]:
    """The operations of a trace that torch.profiler exported."""
    for event in trace.get("traceEvents") or ():
        if isinstance(event, dict) and event.get("ph") == "X" and event.get("cat") in (*_HOST, *_DEVICE):
            start, taken = event.get("ts"), event.get("dur")
            if isinstance(start, int | float) and isinstance(taken, int | float):
                where = "device" if event["cat"] in _DEVICE else "host"
                track = f"{where} {event.get('tid')}"
                yield Span(track, str(event.get("name")), start / 1e6, (start + taken) / 1e6)


def xplane_spans(data: bytes) -> Iterator[Span]:
    """The operations of an XSpace (``*.xplane.pb``)."""
    for number, _, plane in fields(memoryview(data)):
        if number == 1 and not isinstance(plane, int):
            yield from _plane_spans(plane)


def _plane_spans(plane: memoryview) -> Iterator[Span]:
    title, lines, names = "", [], {}
    for number, _, value in fields(plane):
        if isinstance(value, int):
            continue
        if number == 2:
            title = bytes(value).decode(errors="replace")
        elif number == 3:
            lines.append(value)
        elif number == 4:
            names.update(_name(value))
    if "Task Environment" in title or title.startswith("/host:metadata"):
        return
    for line in lines:
        yield from _line_spans(title, line, names)


def _name(entry: memoryview) -> dict[int, str]:
    """One entry of a plane's map of names."""
    for number, _, value in fields(entry):
        if number == 2 and not isinstance(value, int):
            parts = _message(value)
            name = parts.get(2, b"")
            if isinstance(key := parts.get(1, 0), int) and not isinstance(name, int):
                return {key: bytes(name).decode(errors="replace")}
    return {}


def _message(data: memoryview) -> dict[int, int | memoryview]:
    return {number: value for number, _, value in fields(data)}


def _line_spans(plane: str, line: memoryview, names: Mapping[int, str]) -> Iterator[Span]:
    title, began, events, key = "", 0, [], 0
    for number, _, value in fields(line):
        if isinstance(value, int):
            began = value if number == 3 else began
            key = value if number == 1 else key
        elif number == 2:
            title = bytes(value).decode(errors="replace")
        elif number == 4:
            events.append(_message(value))
    if title == "python":  # calls that wait for the operations on other lines
        return
    for event in events:
        which, offset, taken = event.get(1, 0), event.get(2, 0), event.get(3, 0)
        if isinstance(which, int) and isinstance(offset, int) and isinstance(taken, int):
            start = began / 1e9 + offset / 1e12
            yield Span(f"{plane} {title or key}", names.get(which, "?"), start, start + taken / 1e12)


def time_by_operation(spans: Iterable[Span], seconds: float) -> dict[str, float]:
    """Each operation's own seconds, without what it calls; and the time in which no operation ran, of ``seconds``.

    Where a device computes for most of the time, the host waits for it: then only the device's operations count.
    """
    tracks: dict[str, list[Span]] = {}
    known = list(spans)
    on_device = [span for span in known if span.track.startswith(("device", "/device:"))]
    busy = _covered(on_device) >= seconds / 2 > 0
    for span in on_device if busy else known:
        tracks.setdefault(span.track, []).append(span)
    own: dict[str, float] = {}
    for track in tracks.values():
        open_spans: list[Span] = []
        for span in sorted(track, key=lambda each: (each.start, -each.end)):
            while open_spans and open_spans[-1].end <= span.start:
                open_spans.pop()
            if open_spans:
                outer = open_spans[-1]
                own[outer.name] -= max(0.0, min(span.end, outer.end) - span.start)
            own[span.name] = own.get(span.name, 0.0) + span.end - span.start
            open_spans.append(span)
    own[IDLE] = max(0.0, seconds - _covered(span for track in tracks.values() for span in track))
    return own


def _covered(spans: Iterable[Span]) -> float:
    total, until = 0.0, float("-inf")
    for span in sorted(spans, key=lambda each: each.start):
        if span.end > until:
            total += span.end - max(span.start, until)
            until = span.end
    return total
