# SPDX-License-Identifier: Apache-2.0
"""Which operation of a step of JAX gave the first number that is not finite: the step is run once more, operation by
operation, and so is a healthy one, since masks make many numbers infinite or NaN in every step. What happens inside a
loop or branch is asked of `jax.experimental.checkify`.

A step that donates its arguments has none left to run it with. Of others, the arguments of the last few steps are held,
where they are small: so when a loss is seen to be NaN, what it came from is still there. Only on processors, where a
loss can be read without waiting for it; elsewhere where that was asked for. The repeat is a program of this process
alone, in a thread of the guard; it never runs a step that spans processes.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

from keepstep.guard.batches.batch_hashes import digest_of
from keepstep.guard.record.user_line import is_library, name_of_line

if TYPE_CHECKING:
    from keepstep.guard.protocols import Adapts

PART = "the first non-finite value of JAX's steps"
NAME = "keepstep_again"
"""Of our program: it is no step of the training."""
KEPT, MOST_BYTES = 5, 48 << 20
"""Steps, and the size of the arguments of each."""
MOST_OPERATIONS = 20_000
MOST_S = 30.0
"""So long the end of the process waits for an answer."""


class Step:
    """One execution, with what it was given."""

    __slots__ = ("args", "finite", "function", "kwargs", "loss", "number")

    def __init__(self, function: Any, args: Any, kwargs: Any, loss: Any, number: int) -> None:
        self.function, self.args, self.kwargs, self.number = function, args, kwargs, number
        self.loss = loss
        """An array, perhaps not computed yet."""
        self.finite: bool | None = None


class StepAgain:
    """``stepped`` by the training's thread after each step, ``lost`` by the guard's once the loss stays NaN."""

    def __init__(self, session: Adapts, jax: Any) -> None:
        self._session, self._jax = session, jax
        self._waits = os.environ.get("KEEPSTEP_LOSSES") == "wait"
        self._function: Any = None
        self._place: tuple[Any, ...] | None = None
        self._why = "no step was seen"
        """Why steps are not held."""
        self._steps: deque[Step] = deque(maxlen=KEPT)
        self._frozen: list[Step] = []
        """The first step whose loss is not finite, and those before it, until it is known whether it lasts."""
        self._thread: threading.Thread | None = None
        self.stepped = session.guarded(PART, self._stepped)
        session.at_close.append(self._end)

    # --- by the training's thread

    def _stepped(self, function: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        """Hot."""
        if function is not self._function:
            self._meet(function, args, kwargs, outputs)
        if self._place is None:
            return
        steps = self._steps
        for each in steps:
            if each.finite is None:
                if not (self._waits or each.loss.is_ready()):
                    break
                each.finite = isfinite(each.loss.item())
                if not self._frozen and not each.finite:
                    self._freeze(each)
                    break
                if each.finite and self._frozen:
                    self._frozen = []
        loss = outputs
        for key in self._place:
            loss = loss[key]
        if self._frozen:
            args, kwargs = (), {}
        steps.append(Step(function, args, kwargs, loss, self._session.steps))

    def _freeze(self, bad: Step) -> None:
        kept = list(self._steps)
        self._frozen = kept[: kept.index(bad) + 1]
        self._steps.clear()

    def _meet(self, function: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        """Another step function: whether its steps can be held."""
        self._function, self._place = function, None
        self._steps.clear()
        self._why = self._obstacle(args, kwargs) or ""
        if not self._why:
            self._place = _loss(outputs)
            if self._place is None:
                self._why = "its step returns no single number"

    def _obstacle(self, args: Any, kwargs: Any) -> str:
        if os.environ.get("KEEPSTEP_REPLAY") == "off":
            return "KEEPSTEP_REPLAY=off"
        arrays = [each for each in self._jax.tree_util.tree_leaves((args, kwargs)) if hasattr(each, "is_deleted")]
        if any(each.is_deleted() for each in arrays):
            return "its step donates its arguments, so there is nothing left to run it with"
        if any(not each.is_fully_addressable for each in arrays):
            return "its step spans processes, and a repeat would need all of them"
        if not self._waits and any(each.platform != "cpu" for array in arrays for each in array.devices()):
            return "reading each loss would make the training wait (KEEPSTEP_LOSSES=wait does)"
        if (size := sum(each.nbytes for each in arrays)) > MOST_BYTES:
            return f"its arguments have {size >> 20} MiB, and at most {MOST_BYTES >> 20} are held"
        return ""

    # --- by the guard's thread

    def lost(self) -> None:
        """The loss is NaN and stays so."""
        kept, self._frozen, self._place = self._frozen, [], None
        self._steps.clear()
        if not kept:
            self._session.uncovered(PART, self._why or "the steps are too short to be looked at one by one")
            return
        self._thread = threading.Thread(
            target=self._session.guarded(PART, self._look), args=(kept,), daemon=True, name="keepstep-again"
        )
        self._thread.start()

    def _end(self) -> None:
        """A thread that compiles must not outlive the interpreter."""
        if self._thread is not None:
            self._thread.join(MOST_S)

    def _look(self, kept: list[Step]) -> None:
        """``kept``: the last one is the first that was seen to be lost."""
        leaves = self._jax.tree_util.tree_leaves([(each.args, each.kwargs) for each in kept])
        if any(each.is_deleted() for each in leaves if hasattr(each, "is_deleted")):
            self._session.uncovered(PART, "another function donates the step's arguments")
            return
        step = kept.pop()
        odd = self._odd_input(step)
        while (
            odd is not None and odd[1] and kept and kept[-1].number == step.number - 1
        ):  # it gave that; its loss was fine
            step = kept.pop()
            odd = self._odd_input(step)
        if odd is not None:
            self._tell(step, None, odd[0] if odd[1] else None, None)
            return
        healthy = kept.pop() if kept else None
        if healthy is None or healthy.function is not step.function:
            self._session.uncovered(PART, "no healthy step was held to compare with")
            return
        found = self._first(step, healthy)
        if found is None:
            self._session.uncovered(PART, "the repeat of the step gave only finite numbers")
            return
        op, line, layer = found.primitive.name, _line(found.source_info.traceback), _layer(found)
        if any(True for _ in _inner(found)):  # a loop or a branch
            error, usual = self._check(step), self._check(healthy)
            if error is not None and (usual is None or (usual.prim, _place(usual)) != (error.prim, _place(error))):
                op, line = str(error.prim), _place(error)
        self._tell(step, op, layer, line)

    def _odd_input(self, step: Step) -> tuple[str, bool] | None:
        """The first argument that is not finite, and whether the step before has made it."""
        numpy, tree = self._jax.numpy, self._jax.tree_util
        carried = self._carried(step)
        for path, leaf in tree.tree_flatten_with_path((step.args, step.kwargs))[0]:
            if _is_floating(numpy, leaf) and not bool(numpy.isfinite(leaf).all()):
                return tree.keystr(path[2:]) or tree.keystr(path[1:]), tree.keystr(path[:2]) in carried
        return None

    def _carried(self, step: Step) -> set[str]:
        """The arguments that the step returns anew, by what they look like."""
        tree = self._jax.tree_util

        def look(thing: Any) -> tuple[Any, ...]:
            leaves, shape = tree.tree_flatten(thing)
            return (shape, *((getattr(each, "shape", ()), str(getattr(each, "dtype", ""))) for each in leaves))

        given: list[tuple[Any, Any]] = [(f"[0][{number}]", each) for number, each in enumerate(step.args)]
        given += [(f"[1][{key!r}]", each) for key, each in step.kwargs.items()]
        made = self._jax.eval_shape(step.function, *step.args, **step.kwargs)
        returned = [look(each) for each in (made if isinstance(made, tuple | list) else (made,))]
        return {key for key, each in given if look(each) in returned and _is_more_than_a_number(tree, each)}

    def _first(self, step: Step, healthy: Step) -> Any:
        """The first operation whose result is not finite, and was in the healthy step; from finite inputs, if any."""
        closed = self._jaxpr(step)
        if (many := _operations(closed)) > MOST_OPERATIONS:
            raise ValueError(f"the step has {many} operations, and at most {MOST_OPERATIONS} are looked at")
        jax, numpy, seen = self._jax, self._jax.numpy, list[Any]()

        def keepstep_again(*given: Any) -> Any:
            seen.clear()
            odd = _Odd(jax, seen)
            odd.run(closed.jaxpr, closed.consts, given)
            return numpy.stack(odd.flags) if odd.flags else numpy.zeros((0, 2), bool)

        check = jax.jit(keepstep_again)
        flags = check(*self._arrays(step)).tolist()
        usual = check(*self._arrays(healthy)).tolist()
        new = [(each, now) for each, now, was in zip(seen, flags, usual, strict=True) if now[0] and not was[0]]
        from_finite = [each for each, now in new if not now[1]]
        return next(iter([*from_finite, *(each for each, _ in new)]), None)

    def _arrays(self, step: Step) -> list[Any]:
        traced = step.function.trace(*step.args, **step.kwargs)
        leaves = self._jax.tree_util.tree_leaves((step.args, step.kwargs))
        given = [each for each in leaves if hasattr(each, "dtype") or isinstance(each, bool | int | float | complex)]
        if len(given) != len(traced.jaxpr.in_avals):
            raise ValueError("the step's arguments are not those of its program")
        return given

    def _check(self, step: Step) -> Any:
        """The first operation that gives NaN, in the order of the program."""
        jax = self._jax
        from jax.experimental import checkify

        leaves, shape = jax.tree_util.tree_flatten((step.args, step.kwargs))
        arrays = [hasattr(each, "dtype") for each in leaves]

        def whole(*given: Any) -> Any:
            rest = iter(given)
            args, kwargs = shape.unflatten(
                [next(rest) if is_array else each for each, is_array in zip(leaves, arrays, strict=True)]
            )
            return step.function(*args, **kwargs)

        checked = checkify.checkify(whole, errors=checkify.nan_checks)

        def keepstep_again(*given: Any) -> Any:
            return checked(*given)[0]

        given = [each for each, is_array in zip(leaves, arrays, strict=True) if is_array]
        return jax.jit(keepstep_again)(*given).get_exception()

    def _jaxpr(self, step: Step) -> Any:
        return step.function.trace(*step.args, **step.kwargs).jaxpr

    def _tell(self, step: Step, op: str | None, layer: str | None, line: str | None) -> None:
        session = self._session
        batch = self._batch(step)
        if op is None:
            words = f"{layer} is not finite before the step" if layer else "a batch or constant is not finite"
        else:
            where = (f" in {layer}" if layer else "") + (f" at {line}" if line else "")
            words = f"{op}{where} gives the first such value"
        fields = {"step": step.number, "op": op, "layer": layer, "own": True, "sure": True, "batch": batch}
        words = f"in step {step.number} {words}"
        session.note("FirstNonFinite", fields | {"line": line, "no_line": None}, words)
        session.say(words)
        session.flush()

    def _batch(self, step: Step) -> str | None:
        """Of the arguments that the step does not return anew, the largest."""
        tree, carried = self._jax.tree_util, self._carried(step)
        flat = tree.tree_flatten_with_path((step.args, step.kwargs))[0]
        given = [each for path, each in flat if getattr(each, "shape", ()) and tree.keystr(path[:2]) not in carried]
        if not given:
            return None
        batch = max(given, key=lambda each: each.size)
        import numpy

        digest = digest_of(numpy.asarray(batch))
        return f"{batch.dtype}{list(batch.shape)}" + (f", hash {digest}" if digest is not None else "")


def _loss(outputs: Any) -> tuple[Any, ...] | None:
    """Where among the results the first single number is."""
    if _is_number(outputs):
        return ()
    items = list(outputs.items()) if isinstance(outputs, dict) else []
    if isinstance(outputs, tuple | list):
        items = list(enumerate(outputs))
    for key, each in items:
        if _is_number(each):
            return (key,)
    for key, each in items:
        if isinstance(each, tuple | list | dict) and (inner := _loss(each)) is not None:
            return (key, *inner)
    return None


def _is_number(thing: Any) -> bool:
    return getattr(thing, "shape", None) == () and "float" in str(getattr(thing, "dtype", ""))


def _is_floating(numpy: Any, leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and bool(numpy.issubdtype(leaf.dtype, numpy.floating))


class _Odd:
    """Evaluates a program, and says of each operation: its result is not finite, and so was an input."""

    def __init__(self, jax: Any, seen: list[Any]) -> None:
        self._jax, self._seen = jax, seen
        self.flags: list[Any] = []

    def run(self, jaxpr: Any, consts: Any, given: Any) -> list[Any]:
        numpy, known = self._jax.numpy, dict[Any, Any](zip(jaxpr.constvars, consts, strict=True))
        known.update(zip(jaxpr.invars, given, strict=True))

        def value(each: Any) -> Any:
            return each.val if hasattr(each, "val") else known[each]

        for each in jaxpr.eqns:
            taken = [value(one) for one in each.invars]
            inner = _called(each)
            if inner is not None and len(inner.jaxpr.invars) == len(taken):
                results = self.run(inner.jaxpr, inner.consts, taken)
            else:
                settings = each.primitive.get_bind_params(each.params)
                functions, settings = settings if isinstance(settings, tuple) else ((), settings)  # older JAX: both
                with each.ctx.manager:
                    results = each.primitive.bind(*functions, *taken, **settings)
                results = list(results) if each.primitive.multiple_results else [results]
                made = [one for one in results if _is_floating(numpy, one)]
                if made:
                    bad = [numpy.any(~numpy.isfinite(one)) for one in made]
                    before = [numpy.any(~numpy.isfinite(one)) for one in taken if _is_floating(numpy, one)]
                    flags = [numpy.any(numpy.stack(one)) if one else numpy.bool_(False) for one in (bad, before)]
                    self.flags.append(numpy.stack(flags))
                    self._seen.append(each)
            known.update(zip(each.outvars, results, strict=True))
        return [value(one) for one in jaxpr.outvars]


def _called(equation: Any) -> Any:
    """The function that this operation only calls."""
    if equation.primitive.name in (
        "pjit",
        "jit",
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "checkpoint",
        "remat2",
    ):
        found = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        return found if hasattr(found, "consts") else None
    return None


def _is_more_than_a_number(tree: Any, thing: Any) -> bool:
    leaves = tree.tree_leaves(thing)
    return len(leaves) > 1 or any(getattr(each, "shape", ()) for each in leaves)


def _inner(equation: Any) -> Iterator[Any]:
    """The programs inside an operation: the body of a loop, the branches of a condition."""
    for value in equation.params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            if hasattr(getattr(one, "jaxpr", one), "eqns"):
                yield one


def _operations(jaxpr: Any) -> int:
    """How many there are, those inside others too."""
    found = getattr(jaxpr, "jaxpr", jaxpr).eqns
    return len(found) + sum(_operations(inner) for each in found for inner in _inner(each))


def _layer(equation: Any) -> str | None:
    """The name that the model gave to this place (`jax.named_scope`, modules of Flax)."""
    words = re.findall(r"[\w.-]+\(?", str(equation.source_info.name_stack))
    return "/".join(each for each in words if not each.endswith("(")) or None


def _place(error: Any) -> str | None:
    return _line(error.traceback_info)


def _line(trace: Any) -> str | None:
    """The innermost line outside libraries."""
    for each in getattr(trace, "frames", None) or ():
        if not is_library(each.file_name):
            return name_of_line(each.file_name, each.line_num)
    return None
