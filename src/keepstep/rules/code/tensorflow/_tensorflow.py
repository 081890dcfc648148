# SPDX-License-Identifier: Apache-2.0
"""What the rules about TensorFlow programs ask: strategies and scopes, what runs in replicas, models, datasets."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from keepstep.rules.api import CodeAssigned, CodeBlock, CodeCall, Evidence, EvidenceSet, Origin, Value, lazy_pattern
from keepstep.rules.code._asking import Call, ProjectFacts, program

MULTI = ("tensorflow.distribute.MultiWorkerMirroredStrategy",)
TPU = ("tensorflow.distribute.TPUStrategy", "tensorflow.distribute.TPUStrategyV2")
SERVERS = ("tensorflow.distribute.ParameterServerStrategy", "tensorflow.distribute.ParameterServerStrategyV2")
FROM_FUNCTION = ("distribute_datasets_from_function", "experimental_distribute_datasets_from_function")
DISTRIBUTED = ("experimental_distribute_dataset", *FROM_FUNCTION)
BATCHES = ("batch", "padded_batch")
MOST_FOLLOWED = 300

_STRATEGY_MADE = re.compile(r"^tensorflow\.distribute\.(\w*Strategy\w*|get_strategy)$")
_STRATEGY_TEXT = re.compile(r"(^|[._])(strategy|get_strategy\(\))$", re.I)
_SCOPE_TEXT = lazy_pattern(r"strategy[\w.()]*scope\(", re.I, most=500)
_MODELS = lazy_pattern(
    r"^keras\.((models\.)?(Sequential|Model|clone_model)|applications\..+\.?[A-Z]\w*|applications\.[A-Z]\w*)$"
    r"|^transformers\.TF\w+\.from_(pretrained|config)$|^keras_(nlp|cv|hub)\..*\.from_preset$",
    most=500,
)
_MODEL_BASES = ("keras.Model", "keras.models.Model", "keras.Sequential")
_SETS_CONFIG = re.compile(r"""environ\[["']TF_CONFIG["']\]$""")
_MODEL_TEXT = re.compile(r"(^|[._])(model|net|network|classifier)$", re.I)


class Moment(NamedTuple):
    """Something that a function does: ``here`` in it, or ``there`` in a function that it calls."""

    order: int
    here: Evidence[Any]
    there: Evidence[Any]


class Distributed:
    """The TensorFlow side of a project, worked out once."""

    def __init__(self, seen: EvidenceSet) -> None:
        self.known: ProjectFacts = program(seen)

    @cached_property
    def runs(self) -> list[Call]:
        """The calls of ``strategy.run``."""
        return [
            each
            for each in self.known.methods("run", "experimental_run_v2", "call_for_each_replica")
            if each.fact.on is not None and (is_strategy(each.fact.on) or each.fact.on.text.endswith("extended"))
        ]

    @cached_property
    def replica(self) -> frozenset[str]:
        """The functions that run in replicas: what is given to ``strategy.run``, and what that calls."""
        return frozenset(self.reached(self.given_to_run))

    @cached_property
    def given_to_run(self) -> list[str]:
        given = [each.fact.argument("fn", 0) for each in self.runs]
        return [value.target for value in given if value is not None and value.target]

    @cached_property
    def files(self) -> frozenset[str]:
        """The files that enter the scope of a strategy, or hold functions that run in replicas."""
        running = {self.known.functions[name].origin.source for name in self.replica if name in self.known.functions}
        return frozenset(self._entered | running | {each.origin.source for each in self.runs})

    @cached_property
    def traced(self) -> frozenset[str]:
        """The functions that ``tf.function`` traces, and what those call or run in replicas."""
        started = [
            name
            for name, each in self.known.functions.items()
            if "tensorflow.function" in (*each.fact.decorators, *each.fact.given_to)
        ]
        found = set(self.reached(started))
        for run in self.runs:
            given = run.fact.argument("fn", 0)
            if run.fact.function in found and given is not None and given.target:
                found |= self.reached([given.target])
        return frozenset(found)

    def reached(self, started: Iterable[str]) -> set[str]:
        """These functions, and those that they call."""
        pending = list(started)
        found = set(pending)
        while pending and len(found) < MOST_FOLLOWED:
            for path, name, target in self.known.aims_inside(pending.pop()):
                target = target or self._by_method(path, name)
                if target and target not in found:
                    found.add(target)
                    pending.append(target)
        return found

    def by_method(self, call: Call) -> str:
        """The function that a method of an unknown object must be: the only one of that name in its file."""
        return self._by_method(call.origin.source, call.fact.name)

    def _by_method(self, path: str, name: str) -> str:
        if not name.startswith("?."):
            return ""
        named = self._by_last.get((path, name.rpartition(".")[2]), [])
        return named[0] if len(named) == 1 else ""

    @cached_property
    def _by_last(self) -> dict[tuple[str, str], list[str]]:
        found = defaultdict(list)
        for name, each in self.known.functions.items():
            found[each.origin.source, name.rpartition(".")[2]].append(name)
        return found

    @cached_property
    def _bases(self) -> dict[str, tuple[str, ...]]:
        return {
            name.rpartition(".")[0]: each.fact.bases for name, each in self.known.functions.items() if each.fact.bases
        }

    def is_model_class(self, name: str, hops: int = 4) -> bool:
        return hops > 0 and any(
            base in _MODEL_BASES or self.is_model_class(base, hops - 1) for base in self._bases.get(name, ())
        )

    def is_model(self, made: str, target: str = "", hops: int = 3) -> bool:
        """Whether a call of this name makes a Keras model: its class, or a function that returns one."""
        if _MODELS.match(made) or self.is_model_class(made) or self.is_model_class(target.removesuffix(".__init__")):
            return True
        function = self.known.functions.get(target or made)
        if function is None or hops == 0:
            return False
        return any(self.is_model(each, "", hops - 1) for each in function.fact.returns)

    def holds_model(self, value: Value | None) -> bool:
        """Whether a value is a Keras model, by where it comes from or by its name."""
        if value is None:
            return False
        return self.is_model(value.made, value.target) or bool(_MODEL_TEXT.search(value.text))

    def nearby(self, place: Evidence[Any], names: Iterable[str]) -> list[Call]:
        """The calls of these names in the file of ``place``, and in those that it imports or that import it."""
        near = self.known.near(place)
        return [each for each in self.known.calls(*names) if each.origin.source in near]

    def surely(self, place: Evidence[Any], names: Iterable[str]) -> list[Call]:
        """The same, without the files that offer several kinds of strategies to choose from."""
        chosen = set(names)
        return [
            each
            for each in self.nearby(place, chosen)
            if each.origin.source == place.origin.source or self._strategies[each.origin.source] <= chosen
        ]

    def has_strategy(self, path: str) -> bool:
        """Whether a file creates a strategy itself, or enters the scope of one."""
        return bool(self._strategies.get(path)) or path in self._entered

    @cached_property
    def _strategies(self) -> dict[str, set[str]]:
        """By file: the strategies that it creates."""
        found = defaultdict(set)
        for each in self.known.named(_STRATEGY_MADE.match):
            if not each.fact.name.endswith("get_strategy"):
                found[each.origin.source].add(each.fact.name)
        return found

    @cached_property
    def _entered(self) -> set[str]:
        near = self.known.paths_near("trategy", "TRATEGY")
        return {path for path in near if any(is_scope(block) for block in self.known.blocks_in(path))}

    def is_legacy(self, place: Evidence[Any]) -> bool:
        """Whether the program uses Keras 2: by its own package, or by the variable that brings it back."""
        near = self.known.near(place)
        if any(name.partition(".")[0] == "tf_keras" for path in near for name in self.known.files[path].imports):
            return True
        return any(path in self._sets_legacy for path in near)

    @cached_property
    def _sets_legacy(self) -> set[str]:
        set_here = {each.origin.source for each in self.known.assigned_to("TF_USE_LEGACY_KERAS")}
        calls = self.known.calls("os.environ.setdefault", "os.putenv", "os.environ.update")
        return set_here | {each.origin.source for each in calls if "TF_USE_LEGACY_KERAS" in each.fact.text}

    def is_in_scope(self, call: Call, hops: int = 3) -> bool:
        """Whether a call stands in the scope of a strategy, or in a function that is called in one."""
        if any(is_scope(each) for each in call.fact.within):
            return True
        if hops == 0:
            return False
        return any(self.is_in_scope(each, hops - 1) for each in self.known.callers(call.fact.function))

    def moments(self, function: str, direct: Callable[[str], Iterable[Evidence[Any]]], hops: int = 4) -> list[Moment]:
        """What a function does of a kind, in order, itself or through the functions that it calls."""
        found = [Moment(each.fact.order, each, each) for each in direct(function)]
        if hops:
            calls = self.known.inside(function) if self.known.calls_ours(function) else ()
            for call in calls:
                if call.fact.target and call.fact.target != function:
                    inner = self.moments(call.fact.target, direct, hops - 1)
                    if inner:
                        found.append(Moment(call.fact.order, call, inner[0].there))
        return sorted(found, key=lambda each: each.order)

    def chain(self, made: str) -> list[str]:
        """The calls that made a dataset, the first one first; what functions of the project return is put in."""
        for _ in range(4):
            pieces = made.split(".")
            for end in range(len(pieces), 1, -1):
                function = self.known.functions.get(".".join(pieces[:end]))
                if function is not None and len(function.fact.returns) == 1:
                    if function.fact.returns[0].startswith(function.fact.name + "."):  # a function, not its result
                        return pieces
                    made = ".".join([function.fact.returns[0], *pieces[end:]])
                    break
            else:
                return pieces
        return made.split(".")

    def is_dataset(self, made: str) -> bool:
        """Whether it is known to be a ``tf.data`` dataset."""
        pieces = self.chain(made)
        return pieces[:2] == ["tensorflow", "data"] or pieces[-1] in ("batch", "prefetch", "padded_batch")


def distributed(seen: EvidenceSet) -> Distributed:
    """The TensorFlow side of the project."""
    return seen.once(Distributed)


def is_strategy(value: Value) -> bool:
    return bool(_STRATEGY_MADE.match(value.made) or _STRATEGY_TEXT.search(value.text))


def is_scope(block: CodeBlock) -> bool:
    """Whether a ``with`` enters the scope of a strategy."""
    if block.kind != "with":
        return False
    if block.made.endswith(".scope") and (_STRATEGY_MADE.match(block.made[:-6]) or "trategy" in block.text):
        return True
    return bool(_SCOPE_TEXT.search(block.text)) or block.text.endswith("strategy_scope")


def at_line(place: Evidence[Any], line: int) -> Evidence[Any]:
    """The same fact, with another line to be named: that of an argument."""
    if not line or line == place.origin.line:
        return place
    return replace(place, origin=Origin(source=place.origin.source, line=line), quote="")


def exclude_each_other(one: CodeCall | CodeAssigned, other: CodeCall | CodeAssigned) -> bool:
    """Whether two places are on the two sides of one condition."""
    sides = {(each.line, each.kind) for each in one.within if each.kind in ("if", "else")}
    return any(
        (each.line, "else" if each.kind == "if" else "if") in sides
        for each in other.within
        if each.kind in ("if", "else")
    )


def conditions(fact: CodeCall | CodeAssigned) -> set[tuple[str, int]]:
    """The branches that a place stands in, less ``if __name__ == "__main__"``."""
    return {
        (each.kind, each.line)
        for each in fact.within
        if each.kind in ("if", "else", "except") and "__name__" not in each.text
    }


def is_seen_from(maker: str, user: str, variable: str) -> bool:
    """Whether a variable of the function ``maker`` is the one of that name in ``user``."""
    if variable.startswith("self."):
        return maker.rpartition(".")[0] == user.rpartition(".")[0] or user.startswith(maker.rpartition(".")[0] + ".")
    if maker.endswith(".<module>"):
        return user.startswith(maker.removesuffix("<module>"))
    return user == maker or user.startswith(maker + ".")


def texts_in(known: ProjectFacts, function: str) -> Iterator[str]:
    """All that is written in a function, call by call and assignment by assignment."""
    for call in known.inside(function):
        yield call.fact.text
    for assigned in known.assigned_in.get(function, ()):
        yield f"{assigned.fact.target} = {assigned.fact.value.text}"


def is_reduced(tf: Distributed, function: str) -> bool:
    """Whether a function, or what it calls, or the one that runs it, adds values up over the replicas."""
    around = [call.fact.function for call in tf.known.callers(function)]
    return any(
        word in call.fact.name
        for each in tf.reached([function, *around])
        for call in tf.known.inside(each)
        for word in ("all_reduce", "allreduce", "merge_call", "batch_reduce", "aggregate", "extended.update")
    )


def config_set(tf: Distributed) -> Iterator[Evidence[CodeAssigned]]:
    """Where TF_CONFIG is set by assignment."""
    for each in tf.known.assigned_to("TF_CONFIG"):
        if _SETS_CONFIG.search(each.fact.target):
            yield each


def config_given(tf: Distributed) -> Iterator[tuple[Call, Value]]:
    """Where TF_CONFIG is set by a call, and what it is given."""
    for each in tf.known.calls("os.environ.setdefault", "os.putenv"):
        key, value = each.fact.argument("key", 0), each.fact.argument("value", 1)
        if key is not None and key.literal == "'TF_CONFIG'" and value is not None:
            yield each, value


def config_set_in(tf: Distributed, function: str) -> list[Evidence[Any]]:
    """Where a function sets TF_CONFIG, in any way."""
    calls = ("os.environ.update", "os.environ.setdefault", "os.putenv")
    assigned = tf.known.assigned_to("TF_CONFIG", function)
    found: list[Evidence[Any]] = [each for each in assigned if _SETS_CONFIG.search(each.fact.target)]
    if not tf.known.names_inside(function).isdisjoint(calls):
        inside = tf.known.inside(function)
        found += [each for each in inside if each.fact.name in calls and "TF_CONFIG" in each.fact.text]
    return sorted(found, key=lambda each: each.fact.order)


def sharded_after(tf: Distributed, shard: Call) -> list[str]:
    """The calls that made the dataset which is dealt out among workers; none if it is no such thing."""
    index = shard.fact.argument("index", 1)
    if shard.fact.on is None or index is None or index.literal is not None:
        return []
    return tf.chain(shard.fact.on.made) if shard.fact.on.made else []


def fits(tf: Distributed, strategies: tuple[str, ...]) -> Iterator[Call]:
    """The calls of ``fit`` on Keras models that belong to one of these strategies."""
    for each in tf.known.methods("fit"):
        if tf.holds_model(each.fact.on) and tf.surely(each, strategies) and _is_of(tf, each, strategies):
            yield each


def _is_of(tf: Distributed, fit: Call, strategies: tuple[str, ...]) -> bool:
    """Whether the model was made in the scope of such a strategy; if that is unknown, whether there is no other one."""
    assert fit.fact.on is not None
    variable = fit.fact.on.text
    made = [
        each
        for each in tf.known.in_file(fit)
        if each.fact.assigned == variable and is_seen_from(each.fact.function, fit.fact.function, variable)
    ]
    scopes = [block for each in made for block in _scopes_of(tf, each)]
    if made and not scopes:
        return False
    known = {block.made.removesuffix(".scope") for block in scopes if _STRATEGY_MADE.match(block.made[:-6])}
    if known:
        return bool(known.intersection(strategies))
    others = [each for each in tf.known.in_file(fit) if _STRATEGY_MADE.match(each.fact.name)]
    return all(each.fact.name in strategies for each in others)


def _scopes_of(tf: Distributed, made: Call, hops: int = 2) -> Iterator[CodeBlock]:
    """The scopes around a call, in its function, in what it calls, and in the callers."""
    yield from (block for block in made.fact.within if is_scope(block))
    for inner in tf.known.inside(made.fact.target) if made.fact.target else ():
        yield from (block for block in inner.fact.within if is_scope(block))
    for caller in tf.known.callers(made.fact.function) if hops else ():
        yield from _scopes_of(tf, caller, hops - 1)


def is_for_tpu(tf: Distributed, place: Call) -> bool:
    """Whether a dataset belongs to a program that trains on a TPU."""
    strategies = tf.surely(place, TPU)
    return any(
        call.fact.method in ("fit", *DISTRIBUTED, "run") for each in strategies for call in tf.known.in_file(each)
    )
