# SPDX-License-Identifier: Apache-2.0
"""What a traced graph will do: its collectives in order, and whether it trains. Only reads; runs nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from keepstep.guard.adapters.tensorflow.tensorflow_state import NEXT
from keepstep.signals.contracts import REMARK

KINDS = (
    ("CollectiveReduceScatter", "reduce-scatter"),
    ("CollectiveReduce", "all-reduce"),
    ("CollectiveGather", "all-gather"),
    ("CollectiveBcast", "broadcast"),
    ("CollectiveAllToAll", "all-to-all"),
    ("CollectivePermute", "permute"),
)
NO_TRAFFIC = ("CollectiveInitializeCommunicator", "CollectiveAssignGroup")
CALLS = {
    "PartitionedCall": ("f",),
    "StatefulPartitionedCall": ("f",),
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "While": ("cond", "body"),
    "StatelessWhile": ("cond", "body"),
    "Case": ("branches",),
    "StatelessCase": ("branches",),
    "For": ("body",),
    "XlaLaunch": ("function",),
}
"""Operations that run other graphs of the library, and the attributes that name them."""
OWN_NAME = "keepstep_finite"
"""Part of the names of what the guard itself adds to a graph."""
WRITES = ("ResourceApply", "ResourceSparseApply", "Assign")
GRADIENT = ("gradient_tape/", "gradients/")
MOST_LISTED = 380
DEEPEST = 24


_ONE_NUMBER = re.compile(r"\[1?\]")


@dataclass
class GraphContent:
    """What a graph holds, including the graphs it calls."""

    collectives: list[str] = field(default_factory=list)
    writes: bool = False
    gradients: bool = False
    whole: bool = True
    """Every graph of the library could be looked at."""
    small: bool = True
    """Everything it writes is a single number, and so are gradients."""

    @property
    def trains(self) -> bool:
        return self.writes and self.gradients

    @property
    def exchanges(self) -> bool:
        """Whether it may exchange gradients: more than one number at a time, unless the model has no more."""
        return not self.whole or any(
            self.small or not _ONE_NUMBER.search(words)
            for words in self.collectives
            if not words.startswith("broadcast")
        )

    @property
    def key(self) -> str:
        return hashlib.sha256("\n".join(self.collectives).encode()).hexdigest()[:16]


def read_graph(graph: Any, constant_value: Any) -> GraphContent:
    """Walk a graph in the order in which it was built. ``constant_value`` is TensorFlow's own."""
    seen = GraphContent()
    _walk(graph, seen, constant_value, set(), 0)
    return seen


def _walk(graph: Any, seen: GraphContent, constant_value: Any, within: set[str], depth: int) -> None:
    for op in graph.get_operations():
        kind = op.type
        if kind in CALLS:
            for name in _called(op, CALLS[kind]):
                inner = library_function(graph, name)
                if inner is None or depth >= DEEPEST:
                    seen.whole = False
                elif name not in within:
                    _walk(inner, seen, constant_value, within | {name}, depth + 1)
            if not seen.gradients and "__backward_" in str(op.name):
                seen.gradients = True
        elif kind.startswith("Collective"):
            if not kind.startswith(NO_TRAFFIC):
                seen.collectives.append(_words(op, kind, constant_value))
        elif kind.startswith(WRITES) and OWN_NAME not in op.name:
            seen.writes = True
            seen.small = seen.small and all(_elements(each) == 1 for each in op.inputs if each.dtype.name != "resource")
        if not seen.gradients and any(word in op.name for word in GRADIENT):
            seen.gradients = True


def _elements(tensor: Any) -> int | None:
    shape = tensor.shape
    return None if shape.rank is None else shape.num_elements()


def _called(op: Any, attributes: tuple[str, ...]) -> Iterator[str]:
    for attribute in attributes:
        try:
            value = op.get_attr(attribute)
        except ValueError:
            continue
        for each in value if isinstance(value, list | tuple) else (value,):
            yield str(each.name)


def library_function(graph: Any, name: str) -> Any:
    """The graph of a library function; nested graphs know the ones they call."""
    while graph is not None:
        known = getattr(graph, "_functions", {})
        found = known.get(name)
        if found is None:
            found = known.get(name.encode())
        if found is not None:
            return getattr(found, "graph", None)
        graph = getattr(graph, "outer_graph", None)
    return None


def _words(op: Any, kind: str, constant_value: Any) -> str:
    """``all-reduce (add) of float32[21] over 2``."""
    name = next((words for start, words in KINDS if kind.startswith(start)), kind)
    size: Any = _attribute(op, "group_size")
    if "BcastRecv" in kind:
        dtype, shape = _attribute(op, "T"), _attribute(op, "shape")
        sized = op.inputs[0] if len(op.inputs) > 2 else None
    else:
        tensor = op.inputs[0]
        dtype, shape = tensor.dtype, tensor.shape
        sized = op.inputs[1] if len(op.inputs) > 3 else None
    if size is None and sized is not None:
        size = constant_value(sized)
    merge, final = _attribute(op, "merge_op"), _attribute(op, "final_op")
    how = [text.decode() for text in (merge, final) if isinstance(text, bytes) and text not in (b"Id", b"")]
    how_words = f" ({', '.join(how).lower()})" if how else ""
    return f"{name}{how_words} of {tensor_words(dtype, shape)}" + (f" over {int(size)}" if size is not None else "")


def _attribute(op: Any, name: str) -> Any:
    try:
        return op.get_attr(name)
    except ValueError:
        return None


def tensor_words(dtype: Any, shape: Any) -> str:
    """``float32[8,?]``."""
    if hasattr(shape, "dim"):  # the message form of a shape
        sizes: Any = None if shape.unknown_rank else [each.size if each.size >= 0 else None for each in shape.dim]
    else:
        rank = getattr(shape, "rank", None)
        sizes = None if shape is None or rank is None else list(shape)
    name = getattr(dtype, "name", str(dtype))
    return f"{name}[{'...' if sizes is None else ','.join('?' if size is None else str(size) for size in sizes)}]"


def contract(seen: GraphContent, name: str) -> dict[str, str]:
    """What ranks must agree on before they run it."""
    count = len(seen.collectives)
    stated = {NEXT: f"function with {count} collective{'s' if count != 1 else ''}{REMARK}{name[:120]}"}
    for number, words in enumerate(seen.collectives[:MOST_LISTED], 1):
        stated[f"collective {number}"] = words
    if count > MOST_LISTED:
        stated["all collectives"] = seen.key
    return stated


_TENSOR = re.compile(r"TensorSpec\(shape=(\([^)]*\)|<unknown>|None), dtype=tf\.(\w+)")


def arguments(concrete: Any, *, rows: bool = True) -> dict[str, str]:
    """The arguments that a function was traced for, as text: ``{"x": "float32[8,4]", "rate": "0.1"}``.

    Without ``rows`` the first size of each is left open.
    """
    parameters = getattr(getattr(concrete, "function_type", None), "parameters", None)
    if parameters:
        pairs = [
            (str(name), str(getattr(each, "type_constraint", each))) for name, each in list(parameters.items())[:32]
        ]
    else:
        pairs = []
        for part in getattr(concrete, "structured_input_signature", ()):
            items = part.items() if isinstance(part, dict) else enumerate(part)
            pairs += [(str(name), str(each)) for name, each in items]
    return {name: _argument(text, rows) for name, text in pairs if name != "self"}


def _argument(text: str, rows: bool) -> str:
    tensors = _TENSOR.findall(text)
    if tensors:
        return ", ".join(f"{dtype}[{_sizes(shape, rows)}]" for shape, dtype in tensors[:16])
    if text.startswith("Literal["):
        return text[len("Literal[") : -1][:80]
    return re.sub(r"0x[0-9a-f]+|\b\d{9,}\b", "", text.partition("(")[0])[:80]


def _sizes(shape: str, rows: bool) -> str:
    if not shape.startswith("("):
        return "..."
    sizes = shape.strip("()").rstrip(",").replace(" ", "").replace("None", "?").split(",")
    return ",".join(sizes if rows or sizes == [""] else ["?", *sizes[1:]])
