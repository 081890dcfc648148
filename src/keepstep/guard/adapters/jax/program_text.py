# SPDX-License-Identifier: Apache-2.0
"""What a compiled program's text says: arguments, shardings, collectives. Pure: text and plain values in, words out.

The text is XLA's own, of the module as it will run: the lowered one holds no collectives yet. What may differ between
healthy hosts (source lines, paths, names of instructions, tuned kernels) is not read.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_COLLECTIVES = 60
MOST_ARGUMENTS = 250
LONGEST_TEXT = 256 << 20

OPERATIONS = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
    "collective-permute", "collective-broadcast", "send", "recv",
)  # fmt: skip
_COLLECTIVE = re.compile(
    r" *(?:ROOT )?%?[\w.\-]+ = (?P<type>[^=]+?) (?P<op>" + "|".join(OPERATIONS) + r")(?:-start)?\((?P<rest>.*)"
)
_GROUPS = re.compile(r"(?:replica_groups|source_target_pairs)=(.*?)(?=, [a-z_]+=|\n|$)")
_APPLIED = re.compile(r"to_apply=%?([\w.\-]+)")
_NOISE = re.compile(r"\{[^{}]*\}|/\*[^*]*\*/")
_COMMENT = re.compile(r"/\*[^*]*\*/")
"""XLA counts the elements of a long tuple: ``/*index=5*/``."""
_END = re.compile(r"\}(?:, [a-z_]+=|$)")
_TYPE = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_PARAMETER = re.compile(r" parameter\((?P<number>\d+)\)(?P<rest>[^\n]*)")
_NAME = re.compile(r"op_name=\"((?:[^\"\\]|\\.)*)\"")
_OPERATION = re.compile(r"= \"?(?:stablehlo|mhlo|chlo|func|sdy)\.([a-z_]+)|= call @\w+")


@dataclass
class Module:
    """One compiled module, according to its text. Types are those of one device."""

    collectives: list[str] = field(default_factory=list)
    ins: list[str] = field(default_factory=list)
    outs: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    """The names of parameters, where the text has them."""

    @property
    def carried(self) -> list[bool]:
        """Which parameters come out with the same type: the weights and the optimizer's state of a training step."""
        left = Counter(kind for kind in self.outs if not kind.endswith("[]"))
        found = []
        for kind in self.ins:
            found.append(left[kind] > 0)
            left[kind] -= 1
        return found

    @property
    def carried_size(self) -> int:
        """How many numbers a training step (most outputs are changed inputs) carries on; 0 for other programs."""
        given = Counter(kind for kind in self.ins if not kind.endswith("[]"))
        back = sum(_elements(kind) * min(count, given[kind]) for kind, count in Counter(self.outs).items())
        return back if back * 2 >= sum(map(_elements, self.outs)) else 0


def read_module(text: str) -> Module:
    """Read the text of a compiled module."""
    module = Module()
    text = text[:LONGEST_TEXT]
    module.ins, module.outs = _entry(text.partition("\n")[0])
    for line in _lines_with_collectives(text):
        if found := _COLLECTIVE.fullmatch(_COMMENT.sub("", line)):
            module.collectives.append(_collective(found, text))
    for parameter in _PARAMETER.finditer(_main(text)):
        if name := _NAME.search(parameter["rest"]):
            module.names.setdefault(int(parameter["number"]), name[1].replace("\\'", "'").replace('\\"', '"'))
    return module


def _entry(heading: str) -> tuple[list[str], list[str]]:
    """The types that go in and come out: ``entry_computation_layout={(f32[2]{0})->(f32[])}``."""
    layout = heading.partition("entry_computation_layout={(")[2]
    ins, _, rest = layout.partition(")->")
    end = _END.search(rest)
    return (_types(ins), _types(rest[: end.start()])) if end else ([], [])


def _main(text: str) -> str:
    """The computation that the program starts with."""
    begin = 0 if text.startswith("ENTRY ") else text.find("\nENTRY ")
    end = text.find("\n}", begin) if begin >= 0 else -1
    return text[begin:end] if end >= 0 else ""


def _lines_with_collectives(text: str) -> list[str]:
    """In order. Texts have many megabytes, and few such lines."""
    begins = set()
    for operation in OPERATIONS:
        for call in (f" {operation}(", f" {operation}-start("):
            at = text.find(call)
            while at >= 0:
                begins.add(text.rfind("\n", 0, at) + 1)
                at = text.find(call, at + 1)
    return [text[begin : end if (end := text.find("\n", begin)) >= 0 else None] for begin in sorted(begins)]


def _collective(found: re.Match[str], text: str) -> str:
    kind = re.sub(r"\s+", " ", _NOISE.sub("", found["type"])).strip()
    words = [found["op"]]
    if applied := _APPLIED.search(found["rest"]):
        words.append(_root(applied[1], text))
    words.append(kind)
    if groups := _GROUPS.search(found["rest"]):
        words.append(f"over {groups[1][:300]}")
    return " ".join(filter(None, words))


def _root(name: str, text: str) -> str:
    """What a computation does at its end: the ``add`` of a sum, the ``maximum`` of a maximum."""
    begin = text.find(f"%{name} (")
    if begin < 0:
        return ""
    end = text.find("\n}", begin)
    root = re.search(r"ROOT %?[\w.\-]+ = [^=\n]*? ([a-z][\w\-]*)\(", text[begin : end if end > 0 else begin + 4000])
    return root[1] if root else ""


def _types(text: str) -> list[str]:
    return [f"{kind}[{sizes}]" for kind, sizes in _TYPE.findall(_NOISE.sub("", text))]


def _elements(kind: str) -> int:
    count = 1
    for size in re.findall(r"\d+", kind[kind.find("[") :]):
        count *= int(size)
    return count if not kind.endswith("[]") else 0


def sharding_words(sharding: Any) -> str:
    """A sharding as a person reads it."""
    if sharding is None:
        return ""
    spec, mesh = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
    if spec is None or mesh is None:
        return "" if getattr(sharding, "is_fully_replicated", False) else f" as {_plain(sharding)}"
    axes = ", ".join(f"{name}={size}" for name, size in getattr(mesh, "shape", {}).items())
    parts = [("+".join(map(str, part)) if isinstance(part, tuple) else str(part)) if part else "-" for part in spec]
    while parts and parts[-1] == "-":
        parts.pop()
    return f" split ({', '.join(parts)}) over mesh {axes}" if parts else f" whole on each of mesh {axes}"


def _plain(sharding: Any) -> str:
    name = type(sharding).__name__
    parts = getattr(sharding, "_hlo_sharding", None)
    return f"{name}({parts})" if parts is not None else name


def argument_words(value: Any, sharding: Any) -> str:
    """The global shape, dtype and sharding of an argument. Never looks at its values."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return type(value).__name__
    return f"{dtype}[{','.join(map(str, shape))}]{sharding_words(sharding)}"


def devices_words(devices: Sequence[Any]) -> str:
    """The devices in their order, short enough to be read."""
    ids = [str(getattr(device, "id", device)) for device in devices]
    shown = ", ".join(ids[:16])
    return f"{len(ids)}: {shown}" + (f", ... ({digest(ids)})" if len(ids) > 16 else "")


def digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]


def stated(
    module: Module, arguments: Sequence[tuple[str, str]], devices: Sequence[Any], *, internal: bool = False
) -> dict[str, str]:
    """The contract of a program. What it takes (the batch) precedes what it carries on (the weights): it differs most.

    What a program of JAX itself takes (``internal``) is no batch.
    """
    found: dict[str, str] = {}
    taken = "value" if internal else "argument"
    carried = module.carried if len(module.carried) == len(arguments) else [False] * len(arguments)
    ordered = sorted(range(len(arguments)), key=lambda number: (carried[number], number))
    for number in ordered[:MOST_ARGUMENTS]:
        label, words = arguments[number]
        found[f"{'state' if carried[number] and not internal else taken} {label}"] = words
    found["devices"] = devices_words(devices)
    found["collectives"] = str(len(module.collectives))
    for number, words in enumerate(module.collectives[:MOST_COLLECTIVES]):
        found[f"collective {number}"] = words
    if len(arguments) > MOST_ARGUMENTS:
        found[f"all {len(arguments)} arguments"] = digest(words for _, words in arguments)
    if len(module.collectives) > MOST_COLLECTIVES:
        found["all collectives"] = digest(module.collectives)
    return found


def lowered_words(text: str) -> dict[str, str]:
    """A program before compilation: its operations, and a hash of all of it. Equal on all hosts of a healthy run."""
    counts = Counter(found or "call" for found in _OPERATION.findall(text))
    return {f"operation {name}": str(count) for name, count in sorted(counts.items())} | {
        "the whole text": digest([text])
    }


def plain_name(name: str) -> str:
    """``update`` of ``jit(update)``."""
    found = re.fullmatch(r"\w+\((.*)\)", name)
    return (found[1] if found else name) or "a function without a name"
