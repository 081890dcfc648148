# SPDX-License-Identifier: Apache-2.0
"""Pickles of plain data: a reader that knows only containers, strings and numbers.

A pickle is a program; a hostile one must not run. This reader has no opcode that looks up, calls or builds anything,
and its steps are bounded.
"""

from __future__ import annotations

import struct
from typing import Any

MOST_OPCODES = 10_000_000
MOST_CONTAINERS = 3_000_000


class NotADump(ValueError):
    """The bytes are not a flight-recorder dump that may be read; the text says why."""


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


def unpickle(data: bytes) -> Any:
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
