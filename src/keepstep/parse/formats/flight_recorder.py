# SPDX-License-Identifier: Apache-2.0
"""PyTorch flight-recorder dumps (``nccl_trace_rank_0``, ``comm_lib_trace_rank_0``), pickled or JSON.

A pickle is a program; a hostile one must not run. So we read it with a reader of our own
that knows only containers, strings and numbers: it has no opcode that
looks up, calls or builds anything. Sizes and depth are bounded, and so is what is made of a value: lists that
hold each other are small in the file and endless when they are written out.
"""

from __future__ import annotations

import json
import re
import struct
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from keepstep.core import foreign_json
from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import Frame
from keepstep.core.facts.sync import CollectiveProgress, RecordedCollective
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.core.numbers import whole
from keepstep.core.stacks import innermost_user

MOST_BYTES = 256 << 20
MOST_OPCODES = 10_000_000
MOST_CONTAINERS = 3_000_000
MOST_PARTS = 10_000_000
"""Of a dump in JSON. The largest buffers that torch offers stay far below all of these."""
MOST_ENTRIES, MOST_GROUPS, MOST_MEMBERS = 200_000, 1000, 2_000_000
DEEPEST = 12
LAST = 50
"""Entries kept per group: what a rank did long ago does not show where it is now."""

_NAMED = lazy_pattern(r"(?:nccl|comm_lib|fr|flight_?recorder)_?(?:trace|dump)", re.I)
_RANK = lazy_pattern(r"rank[_\-]?(\d+)|(?:trace|dump)[\w\-]{0,60}?[_\-.](\d{1,9})(?:\.\w+)?$", re.I)
_WORDS = (b"pg_config", b"collective_seq_id", b"nccl_version", b"comm_lib_version", b"profiling_name")
_BYTES_PER_DTYPE = 64
LONGEST = 500


class NotADump(ValueError):
    """The bytes are not a flight-recorder dump that may be read; the text says why."""


def looks_like_dump(name: str, head: bytes) -> bool:
    """Whether a file is a flight-recorder dump, by its first bytes (some 64 KB) and its name."""
    if not head:
        return _NAMED.search(name) is not None and rank_of(name) is not None
    if len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return _NAMED.search(name) is not None or any(word in head for word in _WORDS)
    if head.lstrip()[:1] == b"{":
        return sum(word in head for word in _WORDS) >= 2
    return False


def rank_of(name: str) -> int | None:
    """The rank in a dump's file name: ``nccl_trace_rank_3``, ``nccl_trace_3``."""
    match = _RANK.search(name)
    digits = (match[1] or match[2]) if match else ""
    return int(digits) if digits and len(digits) < 8 else None


def read(data: bytes) -> list[Fact]:
    """The last collectives of each group, in order, and how far the rank says it got."""
    if not data:
        raise NotADump("it is empty: nothing was written before the process ended")
    if len(data) > MOST_BYTES:
        raise NotADump(f"it is larger than {MOST_BYTES >> 20} MB")
    dump = _unpickle(data) if data[:1] == b"\x80" else _from_json(data)
    if not isinstance(dump, dict):
        raise NotADump("it holds no flight-recorder entries")
    entries = dump.get("entries")
    if not isinstance(entries, (list, tuple)):
        if not any(key in dump for key in ("pg_config", "pg_status")):
            raise NotADump("it holds no flight-recorder entries")
        entries = ()
    return [*_entries(entries, dump.get("pg_config")), *_progress(dump.get("pg_status"))]


def _from_json(data: bytes) -> Any:
    try:
        return foreign_json.loads(data, most_parts=MOST_PARTS)
    except ValueError as error:
        raise NotADump(f"it is neither a pickle nor JSON that can be read ({error})") from None


def _entries(entries: Any, config: Any) -> Iterator[Fact]:
    members = _members(config)
    kept: dict[str, deque[RecordedCollective]] = defaultdict(lambda: deque(maxlen=LAST))
    for entry in entries[-MOST_ENTRIES:]:
        fact = _entry(entry, members) if isinstance(entry, dict) else None
        if fact is not None and (fact.group in kept or len(kept) < MOST_GROUPS):
            kept[fact.group].append(fact)
    room = MOST_MEMBERS
    for group in kept.values():
        for fact in group:
            room -= len(fact.members)
            yield fact if room >= 0 else replace(fact, members=())


def _entry(entry: dict[Any, Any], members: dict[str, tuple[int, ...]]) -> RecordedCollective | None:
    if entry.get("is_p2p"):
        return None
    sequence = _whole(entry.get("collective_seq_id", entry.get("seq_id")))
    name = entry.get("profiling_name")
    if sequence is None or not isinstance(name, str):
        return None
    group = entry.get("process_group")
    parts = (
        [_text(p, 200) for p in group[:4]]
        if isinstance(group, (list, tuple)) and group
        else [_text(entry.get("pg_id", 0), 200)]
    )
    ranks = members.get(parts[0], members.get("", ()) if len(members) == 1 else ())
    return RecordedCollective(
        group=":".join(dict.fromkeys(p for p in parts if p and p != "undefined")) or "default",
        seq=sequence,
        op=name.partition(":")[2][:200] or name[:200],
        state=_state(entry),
        sizes=_sizes(entry),
        dtype=_dtypes(entry),
        frame=_frame(entry.get("frames")),
        world=len(ranks) or None,
        members=ranks,
    )


def _state(entry: dict[Any, Any]) -> str:
    """``retired`` entries are done, also where a backend (gloo) never updates their state."""
    state = entry.get("state")
    done = entry.get("retired") is True or bool(entry.get("time_discovered_completed_ns"))
    return "completed" if done else state[:40] if isinstance(state, str) else "unknown"


def _sizes(entry: dict[Any, Any]) -> str | None:
    parts = [entry.get("input_sizes"), entry.get("output_sizes")]
    if not all(isinstance(p, (list, tuple)) for p in parts):
        return None
    into, out = (_plain(p) for p in parts)
    return into if into == out else f"{into} -> {out}"


def _plain(value: Any) -> str:
    """As JSON, as far as it is short and flat."""
    out: list[str] = []
    return "".join(out)[:LONGEST] if _put(value, out, LONGEST, DEEPEST) is not None else "?"


def _put(value: Any, out: list[str], room: int, depth: int) -> int | None:
    """Add a value's words; returns how much room is left then, None for what has no place in sizes."""
    if not isinstance(value, (list, tuple)):
        if depth <= 0 or not (value is None or isinstance(value, (str, int, float))):
            return None
        words = json.dumps(value[:LONGEST] if isinstance(value, str) else value)
        out.append(words)
        return room - len(words)
    out.append("[")
    left: int | None = room - 2
    for n, each in enumerate(value):
        if left is None or depth <= 0:
            return None
        if left <= 0:
            break
        if n:
            out.append(", ")
        left = _put(each, out, left - 2, depth - 1)
    out.append("]")
    return left


def _text(value: Any, most: int) -> str:
    """A name or a number; anything else is left out."""
    return str(value)[:most] if isinstance(value, (str, int, float)) else ""


def _dtypes(entry: dict[Any, Any]) -> str | None:
    found = entry.get("input_dtypes")
    if not isinstance(found, (list, tuple)):
        return None
    return ", ".join(dict.fromkeys(_text(d, _BYTES_PER_DTYPE) for d in found[:50])) or None


def _frame(frames: Any) -> Frame | None:
    """The user's innermost line of the call, else the innermost line."""
    if not isinstance(frames, (list, tuple)):
        return None
    stack = [
        Frame(function=_text(f.get("name"), 300), file=_text(f.get("filename"), 1000), line=_whole(f.get("line")))
        for f in frames[:100]
        if isinstance(f, dict)
    ]
    return innermost_user(stack) or (stack[0] if stack else None)


def _members(config: Any) -> dict[str, tuple[int, ...]]:
    """``pg_config``: ``{"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}``; old ones nest by rank."""
    found: dict[str, tuple[int, ...]] = {}
    room = MOST_MEMBERS
    if isinstance(config, dict):
        for name, group in list(config.items())[:100_000]:
            if isinstance(group, dict):
                if "ranks" in group:
                    ranks = group["ranks"]
                    numbers = re.findall(r"[0-9]+", ranks[: 10 * room]) if isinstance(ranks, str) else ranks
                    if isinstance(numbers, (list, tuple)) and room > 0:
                        told = tuple(n for r in numbers[:room] if (n := _whole(r)) is not None)
                        room -= len(told)
                        found[_text(name, 200)] = told
                else:
                    found.update(_members(group) if len(found) < 100_000 and _flat(group) else {})
    return found


def _flat(group: dict[Any, Any]) -> bool:
    return all(isinstance(v, dict) and "ranks" in v for v in group.values())


def _progress(status: Any) -> Iterator[Fact]:
    if isinstance(status, dict):
        for group, each in list(status.items())[:1000]:
            if isinstance(each, dict):
                enqueued = _whole(each.get("last_enqueued_collective"))
                completed = _whole(each.get("last_completed_collective"))
                if enqueued is not None:
                    yield CollectiveProgress(last_enqueued=enqueued, last_completed=completed, group=_text(group, 200))


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        return whole(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


_MARK = object()
_REFUSED = {
    0x63: "GLOBAL", 0x93: "STACK_GLOBAL", 0x52: "REDUCE", 0x62: "BUILD", 0x69: "INST", 0x6F: "OBJ", 0x81: "NEWOBJ",
    0x92: "NEWOBJ_EX", 0x50: "PERSID", 0x51: "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
}  # fmt: skip
_FIXED = {0x4D: struct.Struct("<H"), 0x4A: struct.Struct("<i"), 0x47: struct.Struct(">d")}
_U4 = struct.Struct("<I").unpack_from
_TEXT = {0x58: struct.Struct("<I"), 0x8C: struct.Struct("<B"), 0x8D: struct.Struct("<Q")}
_RAW = {
    0x42: struct.Struct("<I"),
    0x43: struct.Struct("<B"),
    0x54: struct.Struct("<I"),
    0x55: struct.Struct("<B"),
    0x8E: struct.Struct("<Q"),
}
_CONSTANT: dict[int, Any] = {0x4E: None, 0x88: True, 0x89: False}


def _unpickle(data: bytes) -> Any:
    try:
        return _run(data)
    except NotADump:
        raise
    except (
        struct.error,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        UnicodeDecodeError,
        OverflowError,
    ):
        raise NotADump("its pickle is cut off or damaged") from None


def _run(data: bytes) -> Any:
    """The value of a pickle that holds only plain data."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    at = made = 0
    for _ in range(MOST_OPCODES):
        op = data[at]
        at += 1
        if op == 0x68:  # BINGET, first because most frequent
            stack.append(memo[data[at]])
            at += 1
        elif op == 0x6A:  # LONG_BINGET
            stack.append(memo[_U4(data, at)[0]])
            at += 4
        elif op == 0x71:  # BINPUT
            memo[data[at]] = stack[-1]
            at += 1
        elif op == 0x72:  # LONG_BINPUT
            memo[_U4(data, at)[0]] = stack[-1]
            at += 4
        elif op == 0x4B:  # BININT1
            stack.append(data[at])
            at += 1
        elif op == 0x28:
            stack.append(_MARK)
        elif op in _CONTAINERS:
            made += 1
            if made > MOST_CONTAINERS:
                raise NotADump("its pickle is too long")
            _contain(op, stack)
        elif op in _TEXT or op in _RAW:
            size = _TEXT.get(op) or _RAW[op]
            (length,) = size.unpack_from(data, at)
            at += size.size
            if at + length > len(data):
                raise NotADump("its pickle is cut off or damaged")
            raw = data[at : at + length]
            stack.append(raw.decode("utf-8", "replace") if op in _TEXT or op in (0x54, 0x55) else raw)
            at += length
        elif op in _FIXED:
            stack.append(_FIXED[op].unpack_from(data, at)[0])
            at += _FIXED[op].size
        elif op in _CONSTANT:
            stack.append(_CONSTANT[op])
        elif op == 0x29:
            stack.append(())
        elif op == 0x75:  # SETITEMS
            items = _since_mark(stack)
            _set(stack[-1], items)
        elif op == 0x65:  # APPENDS
            items = _since_mark(stack)
            _list(stack[-1]).extend(items)
        elif op == 0x73:  # SETITEM
            value, key = stack.pop(), stack.pop()
            _set(stack[-1], [key, value])
        elif op == 0x61:  # APPEND
            value = stack.pop()
            _list(stack[-1]).append(value)
        elif op == 0x8A:  # LONG1
            length = data[at]
            stack.append(int.from_bytes(data[at + 1 : at + 1 + length], "little", signed=True))
            at += 1 + length
        elif op == 0x94:  # MEMOIZE
            memo[len(memo)] = stack[-1]
        elif op == 0x30:
            stack.pop()
        elif op == 0x80:  # PROTO
            if data[at] > 5:
                raise NotADump(f"its pickle protocol {data[at]} is not known")
            at += 1
        elif op == 0x95:  # FRAME
            at += 8
        elif op == 0x2E:  # STOP
            return stack[-1]
        elif op in _REFUSED:
            raise NotADump(f"its pickle wants to run code ({_REFUSED[op]}); it was not run")
        else:
            raise NotADump(f"its pickle holds an opcode (0x{op:02x}) that no flight recorder writes")
    raise NotADump("its pickle is too long")


_CONTAINERS = frozenset(b"}]tld\x85\x86\x87")


def _contain(op: int, stack: list[Any]) -> None:
    """Put a new dictionary, list or tuple on the stack, of what stands there."""
    if op == 0x7D:
        stack.append({})
    elif op == 0x5D:
        stack.append([])
    elif op == 0x74:
        stack.append(tuple(_since_mark(stack)))
    elif op == 0x6C:
        stack.append(_since_mark(stack))
    elif op == 0x64:
        made: dict[Any, Any] = {}
        _set(made, _since_mark(stack))
        stack.append(made)
    else:  # TUPLE1..3
        count = op - 0x84
        stack[-count:] = [tuple(stack[-count:])]


def _since_mark(stack: list[Any]) -> list[Any]:
    for place in range(len(stack) - 1, -1, -1):
        if stack[place] is _MARK:
            items = stack[place + 1 :]
            del stack[place:]
            return items
    raise NotADump("its pickle is cut off or damaged")


def _set(target: Any, items: list[Any]) -> None:
    if not isinstance(target, dict) or len(items) % 2:
        raise NotADump("its pickle is cut off or damaged")
    for n in range(0, len(items), 2):
        key = items[n]
        if not (key is None or isinstance(key, (str, int, float, bytes))):  # hashing tuples of tuples may take for ever
            raise NotADump("its pickle is cut off or damaged")
        target[key] = items[n + 1]


def _list(target: Any) -> list[Any]:
    if not isinstance(target, list):
        raise NotADump("its pickle is cut off or damaged")
    return target
