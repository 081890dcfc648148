# SPDX-License-Identifier: Apache-2.0
"""Batch sizes: where each comes from, and whether it is that of one replica or of all together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from keepstep.rules.api import EvidenceSet, Value, lazy_pattern
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import (
    BATCHES,
    DISTRIBUTED,
    FROM_FUNCTION,
    Distributed,
    distributed,
    is_seen_from,
)

_REPLICAS = r"[\w.()]*num_replicas_in_sync"
_PRODUCT = lazy_pattern(rf"([A-Za-z_][\w.]*)\s*\*\s*{_REPLICAS}|{_REPLICAS}\s*\*\s*([A-Za-z_][\w.]*)", most=500)
_PER_REPLICA = re.compile(r"per_?(replica|gpu|device|core)", re.I)
_GLOBAL = lazy_pattern(r"global_?\w*batch|batch\w*_?global", re.I, most=500)


class Given(NamedTuple):
    """A size on its way to a ``batch`` call: where it is written, and the functions that it passes."""

    place: Call
    value: Value
    batch: Call


class Sizes:
    """The batch sizes of a project."""

    def __init__(self, seen: EvidenceSet) -> None:
        self.tf: Distributed = distributed(seen)

    @cached_property
    def products(self) -> dict[str, set[str]]:
        """By file: what is multiplied by the number of replicas."""
        found: dict[str, set[str]] = {}
        for path, text in self._texts():
            for match in _PRODUCT.finditer(text):
                found.setdefault(path, set()).add(match[1] or match[2])
        return found

    @cached_property
    def totals(self) -> dict[str, set[str]]:
        """By file: what holds such a product."""
        found: dict[str, set[str]] = {}
        for each in self.tf.known.assigned_writing("num_replicas"):
            text = each.fact.value.text
            if _PRODUCT.search(text) or (each.fact.operator == "Mult" and "num_replicas" in text):
                found.setdefault(each.origin.source, set()).add(each.fact.target)
        for call in self.tf.known.methods("compute_average_loss", "get_per_replica_batch_size"):
            size = call.fact.argument("global_batch_size", 0 if call.fact.method.startswith("get") else 2)
            if size is not None and re.fullmatch(r"[A-Za-z_][\w.]*", size.text):
                found.setdefault(call.origin.source, set()).add(size.text)
        return found

    def _texts(self) -> Iterator[tuple[str, str]]:
        for each in self.tf.known.assigned_writing("num_replicas"):
            if "num_replicas" in each.fact.value.text:
                yield each.origin.source, each.fact.value.text
        for call in self.tf.known.calls_writing("num_replicas"):
            for argument in call.fact.arguments:
                if "num_replicas" in argument.value.text:
                    yield call.origin.source, argument.value.text

    @cached_property
    def in_functions(self) -> frozenset[str]:
        """The functions that ``distribute_datasets_from_function`` calls, and what those call."""
        given = [
            each.fact.argument("dataset_fn", 0) for each in self.tf.known.methods(*FROM_FUNCTION, "DatasetCreator")
        ]
        targets = [value.target for value in given if value is not None and value.target]
        functions = self.tf.known.functions
        made = [name for each in targets if each in functions for name in functions[each].fact.returns]
        return frozenset(self.tf.reached([*targets, *(name for name in made if name in functions)]))

    def batches(self) -> Iterator[Call]:
        """The ``batch`` calls of datasets."""
        for each in self.tf.known.methods(*BATCHES):
            if each.fact.on is not None and each.fact.arguments and not each.fact.name.startswith("numpy."):
                yield each

    def given(self, batch: Call, hops: int = 3) -> Iterator[Given]:
        """The sizes that a ``batch`` call gets."""
        size = batch.fact.argument("batch_size", 0)
        if size is not None:
            yield from self._from(batch, size, batch, hops)

    def _from(self, place: Call, value: Value, batch: Call, hops: int) -> Iterator[Given]:
        function = self.tf.known.functions.get(place.fact.function)
        again = (
            self._set_once(place, value.text) if place is batch and place.fact.function in self.in_functions else None
        )
        if again is not None:
            yield Given(place, again, batch)
        elif function is None or value.text not in function.fact.parameters or self._is_set_again(place, value.text):
            yield Given(place, value, batch)
        elif hops:
            given = list(self._arguments(function.fact.name, value.text, function.fact.parameters))
            for caller, further in given:
                yield from self._from(caller, further, batch, hops - 1)
            if not given:
                yield Given(place, value, batch)

    def _set_once(self, place: Call, name: str) -> Value | None:
        """What a variable is another name for, if its function assigns it once, whatever happens."""
        tree, line = self.tf.known.syntax(place.origin.source), place.origin.line or 0
        own = place.fact.function.rpartition(".")[2]
        for function in ast.walk(tree) if tree is not None and name.isidentifier() else ():
            if not isinstance(function, ast.FunctionDef) or function.name != own:
                continue
            if not function.lineno <= line <= (function.end_lineno or 0):
                continue
            stored = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == name]
            times = sum(not isinstance(each.ctx, ast.Load) for each in stored)
            for each in function.body if times == 1 else ():
                if isinstance(each, ast.Assign) and each.targets[0] in stored and isinstance(each.value, ast.Attribute):
                    return Value(text=ast.unparse(each.value), line=each.lineno)
        return None

    def _is_set_again(self, place: Call, name: str) -> bool:
        return any(each.fact.target == name for each in self.tf.known.assigned_in.get(place.fact.function, ()))

    def _arguments(self, function: str, name: str, parameters: tuple[str, ...]) -> Iterator[tuple[Call, Value]]:
        """What the callers give for a parameter, ``partial`` among them."""
        position = parameters.index(name)
        for call in self.tf.known.callers(function):
            given = call.fact.argument(name, position)
            if given is not None:
                yield call, given
        for call, target in self._partials:
            if target == function:
                given = call.fact.argument(name, position + 1)
                if given is not None:
                    yield call, given

    @cached_property
    def _partials(self) -> list[tuple[Call, str]]:
        """The calls of ``partial``, with the functions that they are given."""
        calls = [(call, call.fact.argument("func", 0)) for call in self.tf.known.calls("functools.partial")]
        return [(call, first.target) for call, first in calls if first is not None and first.target]

    def is_trained_on(self, batch: Call) -> bool:
        """Whether the batches are seen to reach ``fit`` or the strategy."""
        return any(self._is_consumed(function, variable) for function, variable in self._holders(batch))

    def _holders(self, batch: Call) -> list[tuple[str, str]]:
        """The variables that hold the batched dataset, and, with an empty name, the functions that return it."""
        found: dict[tuple[str, str], None] = {}
        pending = [(batch.fact.function, each.fact.assigned) for each in self._around(batch) if each.fact.assigned]
        pending += [(batch.fact.function, "")] if self._is_returned(batch) else []
        while pending and len(found) < 30:
            function, variable = pending.pop()
            if (function, variable) in found:
                continue
            found[function, variable] = None
            if variable:
                pending += self._passed_on(function, variable)
            else:
                pending += [(each.fact.function, each.fact.assigned) for each in self.tf.known.callers(function)]
        return list(found)

    def _around(self, batch: Call) -> list[Call]:
        """The call itself, and the longer chains that it is the start of."""
        inside = self.tf.known.inside(batch.fact.function)
        return [each for each in inside if each.fact.text.startswith(batch.fact.text) or each is batch]

    def _is_returned(self, batch: Call) -> bool:
        function = self.tf.known.functions.get(batch.fact.function)
        returns = function.fact.returns if function is not None else ()
        return any(re.search(r"\.(padded_)?batch\b(?!.*iter)", made) for made in returns)

    def _passed_on(self, function: str, variable: str) -> Iterator[tuple[str, str]]:
        for each in self.tf.known.inside(function):
            if each.fact.on is not None and each.fact.on.text == variable and each.fact.assigned:
                yield function, each.fact.assigned
            target = self.tf.known.functions.get(each.fact.target)
            if target is None:
                continue
            for at, argument in enumerate(each.fact.arguments):
                if argument.value.text == variable:
                    names = target.fact.parameters
                    name = argument.name or (names[at] if at < len(names) else "")
                    yield target.fact.name, name
        own = self.tf.known.functions.get(function)
        if own is not None and any("batch" in made and "iter" not in made for made in own.fact.returns):
            yield function, ""

    def _is_consumed(self, function: str, variable: str) -> bool:
        named = re.compile(rf"(?<![\w.]){re.escape(variable)}(?!\w)")
        for each in self._consumers:
            if variable and not is_seen_from(function, each.fact.function, variable):
                continue
            for argument in each.fact.arguments:
                value = argument.value
                if not variable and (value.target == function or value.made.startswith(function + ".")):
                    return True
                if variable and named.search(value.text):
                    return True
        return False

    @cached_property
    def _consumers(self) -> list[Call]:
        return list(self.tf.known.methods("fit", *DISTRIBUTED))

    def is_of_one_replica(self, given: Given) -> bool:
        """Whether the size is that of one replica: it is multiplied by their number elsewhere, or its name says so."""
        path, text = given.place.origin.source, given.value.text
        if not re.fullmatch(r"[A-Za-z_][\w.]*", text) or "get_per_replica" in given.value.made:
            return False
        if text in self.totals.get(path, ()):
            return False
        return text in self.products.get(path, ()) or (
            bool(_PER_REPLICA.search(text)) and bool(self.products.get(path) or self.totals.get(path))
        )

    def is_of_all(self, given: Given) -> bool:
        """Whether the size is that of all replicas together."""
        path, text = given.place.origin.source, given.value.text
        if "get_per_replica" in given.value.made or _PER_REPLICA.search(text) or "//" in text or "/ " in text:
            return False
        if _PRODUCT.search(text):
            return True
        is_name = bool(re.fullmatch(r"[A-Za-z_][\w.]*", text))
        return is_name and bool(_GLOBAL.search(text) or text in self.totals.get(path, ()))


def sizes(seen: EvidenceSet) -> Sizes:
    """The batch sizes of the project."""
    return seen.once(Sizes)
