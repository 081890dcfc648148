# SPDX-License-Identifier: Apache-2.0
"""Reads a program in XLA's text form (HLO): its computations, and the sizes of what each instruction makes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

BITS = {"pred": 8, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "f4e2m1fn": 4, "bf16": 16, "c64": 64, "c128": 128}
_LEAF = re.compile(r"([a-z][a-z0-9]{0,15})\[([0-9,<= ]{0,300})\]")
_BEGIN = re.compile(r"^(ENTRY )?%?([\w.\-]+)(?: \(.*)? \{$")
_LINE = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_CALLED = re.compile(r"\b(?:calls|to_apply|body|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_COMMENT = re.compile(r"/\*[^*]{0,40}\*/")
_ALIAS = re.compile(r"\{(\d*)\}: \((\d+),")
_DONOR = re.compile(r"\((\d+), \{")


@dataclass(slots=True)
class Instruction:
    """``sizes``: bytes of each leaf of what it makes. ``text``: what follows the operands."""

    name: str
    opcode: str
    sizes: tuple[int, ...]
    shape: str
    is_tuple: bool
    operands: tuple[str, ...]
    text: str
    called: tuple[str, ...] = ()


@dataclass(slots=True)
class Computation:
    instructions: list[Instruction] = field(default_factory=list)
    root: str = ""


@dataclass(slots=True)
class Module:
    """``aliases``: which output takes the place of which parameter. ``donors``: parameters whose place may be taken."""

    entry: str
    computations: dict[str, Computation]
    aliases: dict[int, int]
    donors: tuple[int, ...] = ()


def parse_hlo(text: str) -> Module:
    """Raises ValueError where this is no program."""
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for line in text.splitlines():
        if current is None:
            if begun := _BEGIN.match(line):
                current = computations[begun[2]] = Computation()
                entry = begun[2] if begun[1] else entry
        elif line.startswith("}"):
            current = None
        elif found := _LINE.match(line):
            made = _instruction(found[2], _COMMENT.sub("", found[3]))
            current.instructions.append(made)
            if found[1]:
                current.root = made.name
    if not entry:
        raise ValueError("no entry computation")
    head = text.partition("\n")[0]
    aliases = {int(out or 0): int(number) for out, number in _ALIAS.findall(_braces(head, "input_output_alias="))}
    donors = tuple(int(number) for number in _DONOR.findall(_braces(head, "buffer_donor=")))
    return Module(entry, computations, aliases, donors)


def _instruction(name: str, rest: str) -> Instruction:
    shape, rest = _shape(rest)
    opcode, _, rest = rest.partition("(")
    inside, text = _closed(rest)
    literal = opcode in ("constant", "parameter", "iota")
    operands = (inside,) if literal else tuple(each.split()[-1].lstrip("%") for each in _split(inside))
    called = tuple(_CALLED.findall(text))
    for branches in _BRANCHES.findall(text):
        called += tuple(each.strip().lstrip("%") for each in branches.split(","))
    sizes = tuple(_size(kind, dims) for kind, dims in _LEAF.findall(re.sub(r"\{[^{}]*\}", "", shape)))
    return Instruction(name, opcode.strip(), sizes, shape, shape.startswith("("), operands, text, called)


def _shape(text: str) -> tuple[str, str]:
    if not text.startswith("("):
        shape, _, rest = text.partition(" ")
        return shape, rest
    inside, rest = _closed(text[1:])
    return f"({inside})", rest.lstrip()


def _closed(text: str) -> tuple[str, str]:
    """What stands before the bracket that closes, and what after it."""
    depth = 1
    for at, each in enumerate(text):
        depth += (each == "(") - (each == ")")
        if not depth:
            return text[:at], text[at + 1 :]
    return text, ""


def _split(text: str) -> list[str]:
    """At commas that are in no bracket."""
    parts, depth, begun = [], 0, 0
    for at, each in enumerate(text):
        depth += (each in "([{") - (each in ")]}")
        if each == "," and not depth:
            parts.append(text[begun:at])
            begun = at + 1
    return [each for each in (*parts, text[begun:]) if each.strip()]


def _size(kind: str, dims: str) -> int:
    bits = BITS.get(kind) or int("".join(each for each in re.split(r"[a-z]+", kind, maxsplit=2)[1:2]) or 0)
    elements = 1
    for each in dims.replace("<=", "").split(","):
        elements *= int(each) if each.strip() else 1
    return -(-elements * bits // 8)


def _braces(head: str, name: str) -> str:
    """What stands in the braces after ``name``."""
    rest = head.partition(name + "{")[2]
    depth, end = 1, 0
    while end < len(rest) and depth:
        depth += (rest[end] == "{") - (rest[end] == "}")
        end += 1
    return rest[:end]
