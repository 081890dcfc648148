# SPDX-License-Identifier: Apache-2.0
"""Which operation gave the first NaN, read from the graph that autograd keeps for the backward pass.

Nothing is run again, no hook is set, and no value changes: the graph of the very step holds most inputs and results of
its operations. It is asked once, when a loss is already lost. With activation checkpointing nothing is read, because
that would compute the forward pass again.
"""

from __future__ import annotations

import contextlib
import gc
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from keepstep.guard.batches.batch_hashes import digest_of

MOST_NODES = 20_000
MOST_S = 2.0
"""For looking at values; a graph of many gigabytes is given up."""
NEARBY = 50
"""Operations back to the layer that fed one."""
CHECKPOINTED = "_CheckpointFrame"
_LEAF = "AccumulateGrad"
_MOVES = re.compile(
    r"(T|View|UnsafeView|ReshapeAlias|Transpose|Permute|Expand|Squeeze|Unsqueeze|Slice|Select|Clone|ToCopy|Alias"
    r"|AsStrided|Split|Unbind|Detach)Backward\d*"
)
"""Operations that only move values."""
_PLACES = {(2, "_saved_self"): 0, (2, "_saved_other"): 1, (3, "_saved_mat1"): 1, (3, "_saved_mat2"): 2}
"""Which input a saved value is, by how many inputs there are."""
_RESULT = re.compile(r"_saved_(result|output)")

Bad = Callable[[Any], bool]


class Found(NamedTuple):
    """``op``: the operation; None: what went in was not finite already. ``layer``: its layer, or the one before it."""

    op: str | None
    layer: str | None
    own: bool
    """Whether the operation is the layer's own."""
    sure: bool
    batch: str | None
    """Kind, shape and hash of what the first layer was fed."""
    line: str | None = None
    """Where the operation is in the program, from computing the loss once more..."""
    no_line: str | None = None
    """... and why that is not known."""

    @property
    def words(self) -> str:
        if self.op is None:
            return f"{self.layer} is not finite before the step" if self.layer else "a batch or constant is not finite"
        likely = "" if self.sure else "probably "
        where = f" {'in' if self.own else 'after'} {self.layer}" if self.layer else ""
        at = f" at {self.line}" if self.line else ""
        return f"{likely}{self.op}{where}{at} gives the first such value"


def first_non_finite(torch: Any, loss: Any) -> Found | None:
    """Where a loss that is NaN or infinite comes from; None where the graph does not show it in time."""
    names, recomputes = parameter_names(torch)
    if recomputes or loss.grad_fn is None:
        return None
    try:
        return _find(torch, loss, names, time.monotonic() + MOST_S)
    except TimeoutError:
        return None


def _find(torch: Any, loss: Any, names: dict[int, str], until: float) -> Found:
    nodes = _nodes(loss.grad_fn)
    batch = _batch(nodes)
    nan = loss.item() != loss.item()
    for is_bad in (_has_nan, _has_infinity) if nan else (_has_infinity,):

        def bad(thing: Any, is_bad: Bad = is_bad) -> bool:
            if time.monotonic() > until:
                raise TimeoutError
            return _is_readable(torch, thing) and is_bad(thing.detach())

        for node in nodes:
            if _kind(node) == _LEAF and bad(node.variable):
                return Found(None, names.get(id(node.variable), "a parameter"), True, True, batch)
        for node in nodes:
            if _kind(node) == _LEAF:
                continue
            wrong = [name for name, value in _saved(node) if bad(value)]
            if not wrong:
                continue
            if all(_RESULT.match(name) for name in wrong):
                return _named(node, names, True, batch)
            makers = _makers(node, [name for name in wrong if not _RESULT.match(name)])
            if not makers:
                return Found(None, None, False, True, batch)
            return _back(makers[-1], names, len(makers) == 1, batch)
    return _back(loss.grad_fn, names, True, batch)


def _back(node: Any, names: dict[int, str], sure: bool, batch: str | None) -> Found:
    """The result of this operation is not finite: it gave that itself, if it has inputs that are known to be finite."""
    while not any(value.is_floating_point() for _, value in _saved(node)):
        makers, sure = _makers(node), False
        if len(makers) != 1:
            break
        node = makers[0]
    return _named(node, names, sure, batch)


def _is_readable(torch: Any, thing: Any) -> bool:
    """Whether a saved value has numbers that are there: sharding frees the storage of gathered parameters."""
    return (
        isinstance(thing, torch.Tensor)
        and type(thing) in (torch.Tensor, torch.nn.Parameter)
        and thing.layout is torch.strided
        and thing.is_floating_point()
        and thing.numel() > 0
        and thing.untyped_storage().nbytes() > 0
    )


def _has_nan(tensor: Any) -> bool:
    return bool(tensor.isnan().any())


def _has_infinity(tensor: Any) -> bool:
    return bool(tensor.isinf().any())


def _nodes(root: Any) -> list[Any]:
    """All operations of the graph, in the order of the forward pass; the parameters last."""
    known, waiting = {root}, [root]
    while waiting and len(known) < MOST_NODES:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in known:
                known.add(node)
                waiting.append(node)
    return sorted(known, key=lambda node: node._sequence_nr())


def _kind(node: Any) -> str:
    return str(node.name()).rpartition("::")[2]


def _moves(node: Any) -> bool:
    return _MOVES.fullmatch(_kind(node)) is not None


def _saved(node: Any) -> Iterator[tuple[str, Any]]:
    for name in dir(type(node)):
        if name.startswith("_saved_"):
            try:
                value = getattr(node, name)
            except RuntimeError:  # freed already, or changed in place
                continue
            for each in value if isinstance(value, tuple | list) else (value,):
                if hasattr(each, "untyped_storage"):
                    yield name, each


def _makers(node: Any, inputs: Sequence[str] = ()) -> list[Any]:
    """The operations that gave this one its inputs, or these of them; those that only move values are skipped."""
    makers, found = node.next_functions, []
    places = {_PLACES.get((len(makers), name)) for name in inputs} or {None}
    for place, (maker, _) in enumerate(makers):
        if None not in places and place not in places:
            continue
        while maker is not None and _moves(maker):
            maker = maker.next_functions[0][0]
        if maker is not None and _kind(maker) != _LEAF:
            found.append(maker)
    return sorted(found, key=lambda each: each._sequence_nr())


def _named(node: Any, names: dict[int, str], sure: bool, batch: str | None) -> Found:
    plain = re.sub(r"Backward\d*$", "", _kind(node))
    op = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()
    seen, waiting = {node}, [node]
    direct = {node, *(maker for maker, _ in node.next_functions if maker is not None and _moves(maker))}
    while waiting and len(seen) < NEARBY:
        here = waiting.pop(0)
        for maker, _ in here.next_functions:
            if maker is None or maker in seen:
                continue
            seen.add(maker)
            if _kind(maker) == _LEAF and id(maker.variable) in names:
                layer = names[id(maker.variable)].rpartition(".")[0] or names[id(maker.variable)]
                return Found(op, layer, here in direct, sure, batch)
            waiting.append(maker)
    return Found(op, None, False, sure, batch)


def parameter_names(torch: Any) -> tuple[dict[int, str], bool]:
    """What parameters are called in the largest module that holds them, and whether activations are recomputed."""
    modules, recomputes = [], False
    for each in gc.get_objects():
        kind = type(each)
        recomputes |= kind.__name__ == CHECKPOINTED
        if issubclass(kind, torch.nn.Module):
            modules.append(each)
    found: dict[int, str] = {}
    for module in modules:
        with contextlib.suppress(Exception):  # a module that is not made yet, or lists them in its own way
            for name, each in module.named_parameters():
                if len(name) > len(found.get(id(each), "")):
                    found[id(each)] = name
    return found, recomputes


def _batch(nodes: list[Any]) -> str | None:
    """The first input of the graph that is no result and no parameter."""
    for node in nodes:
        for name, value in _saved(node):
            plain = value.is_floating_point() and value.dim() and not value.requires_grad and not _RESULT.match(name)
            if plain and (digest := digest_of(value)) is not None:
                kind = str(value.dtype).rpartition(".")[2]
                return f"{kind}{list(value.shape)}, hash {digest}"
    return None
