# SPDX-License-Identifier: Apache-2.0
"""Raw lines of a log as text, and what a sample of them shows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.parse.scan.lines.headings import heading
from keepstep.parse.scan.lines.writer import Writer

_ANSI = lazy_pattern(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")

# the escape itself was lost or spelled out on the way: [36mtext[0m, #033[34mtext#033[0m
_SPELLED = lazy_pattern(r"(?:#033|\\x1b|\\033|\^\[)?\[(?:0|[0-9]{1,2}(?:;[0-9]{1,3})*)m")


_UNCLEAN = (b"\x1b", b"[0m", b"#033[", b"\x00", b'{"')

HEAD = 300
"""How much of a line is looked at for its time."""

_NOTED = lazy_pattern(rb'"(?:time|timestamp)": ?"([\d\-T:.+Z]{19,40})"')

# before the name of the writer: container runtimes, horovodrun, Determined, xla_dist
_DATED = lazy_pattern(r"\[?(?:\d{4}-\d\d-\d\d|\d\d/\d\d/\d\d |[A-Z][a-z]{2} [A-Z][a-z]{2} +\d)")

# docker's json-file, and Google's logs as they are downloaded
_HELD = lazy_pattern(r'\{"(?:log|textPayload)": ?"(?P<said>(?:[^"\\]|\\.)*)')


def clean(raw: bytes) -> str:
    """A line as text: colours and box drawing gone, junk replaced."""
    text = raw.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "[0m" in text or "#033[" in text:
        text = _SPELLED.sub("", text)
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text[:1] == "│":
        text = text.strip("│").rstrip()
    return text


def held(text: str) -> str:
    """What was said, out of a container's line of JSON: {"log":"text\\n","stream":"stderr","time":"..."}."""
    match = _HELD.match(text) if text[:1] == "{" else None
    if match is None:
        return text
    try:
        said = json.loads(f'"{match["said"]}"', strict=False)
    except ValueError:
        return text
    plain = _ANSI.sub("", said).replace("\x1b", "") if "\x1b" in said else str(said)
    return plain.rstrip("\r\n")


def head(raw: bytes) -> str:
    """Where the time of a line is: at its beginning, or in what its container noted."""
    noted = _NOTED.search(raw) if raw[:1] == b"{" else None
    return noted[1].decode() if noted else clean(raw[:HEAD])


def stamped(raw: bytes, line: str, text: str) -> str:
    """Where the time is in a line whose prefixes were split off."""
    return head(raw) if line[:1] == "{" or (text != line and _DATED.match(line)) else text


def sample(buffer: bytes) -> list[str]:
    """Some lines from the beginning, middle and end."""
    size = 32 << 10
    middle = len(buffer) // 2
    parts = (buffer[:size], buffer[middle : middle + size], buffer[-size:]) if len(buffer) > 3 * size else (buffer,)
    lines = [raw[:400] for part in parts for raw in part.split(b"\n", 80)[:80]]
    joined = b"\n".join(lines)
    if joined.isascii() and not any(mark in joined for mark in _UNCLEAN):
        return joined.decode().split("\n")
    return [held(clean(raw)) for raw in lines]


def find_headings(buffer: bytes) -> Iterator[tuple[int, Writer]]:
    position = 0
    for raw in buffer.split(b"\n"):
        if len(raw) < 200:
            writer = heading(clean(raw))
            if writer is not None:
                yield position, writer
        position += len(raw) + 1
