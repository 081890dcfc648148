# SPDX-License-Identifier: Apache-2.0
"""Datasets that are iterated, not indexed: which loader gets them, and what they know of workers and ranks."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.rules.api import CodeFunction, Evidence, Value
from keepstep.rules.code._asking import Call, ProjectFacts
from keepstep.rules.code.torch._torch import LOADER

_BASES = ("torch.utils.data.IterableDataset", "torch.utils.data.dataset.IterableDataset")
_DIVIDED_ELSEWHERE = (
    "datasets",
    "webdataset",
    "torchdata",
    "tensorflow",
    "petastorm",
    "litdata",
    "streaming",
    "ray",
    "queue",
)
"""Libraries whose sources hand out each record once by themselves."""
_DRAWS = ("random", "randint", "rand", "randn", "choice", "choices", "shuffle", "sample", "randperm", "default_rng")


def loaded(known: ProjectFacts) -> Iterator[tuple[Call, str, Call]]:
    """The loaders of iterable datasets of the project: the loader, the class, and where the dataset is made."""
    for loader in known.calls(LOADER):
        data = loader.fact.argument("dataset", 0)
        if data is None or not data.made:
            continue
        start = start_of(known, data)
        if start is None:
            continue
        owner = start.fact.name.removesuffix(".__iter__")
        makers = [each for each in known.among(loader, data.made) if each.origin.source == loader.origin.source]
        if makers and reads_in_order(known, owner, start):
            yield loader, owner, makers[-1]


def start_of(known: ProjectFacts, data: Value) -> Evidence[CodeFunction] | None:
    """The ``__iter__`` of an iterable dataset of the project; None: it is something else, or unknown."""
    owner = data.target.removesuffix(".__init__") or data.made
    start = known.functions.get(f"{owner}.__iter__")
    return start if start is not None and set(start.fact.bases) & set(_BASES) else None


def reads_in_order(known: ProjectFacts, owner: str, start: Evidence[CodeFunction]) -> bool:
    """Whether it gives each record of a source in turn: what is drawn anew may well come twice."""
    if any(known.imports(start, each) for each in _DIVIDED_ELSEWHERE):
        return False
    calls = [each for name in methods_of(known, owner) for each in known.inside(name)]
    if any(each.fact.method in _DRAWS or "queue" in each.fact.name.lower() for each in calls):
        return False
    return not any(block.kind == "while" for each in calls for block in each.fact.within)


def methods_of(known: ProjectFacts, owner: str) -> list[str]:
    return [name for name in known.functions if name.startswith(f"{owner}.")]


def words_of(known: ProjectFacts, owner: str, made: Call) -> str:
    """What the class calls, is given and names, in one text: to see whether it knows of a subject at all."""
    names = methods_of(known, owner)
    said = [word for name in names for word in known.functions[name].fact.parameters]
    said += [f"{each.fact.name} {each.fact.text}" for name in names for each in known.inside(name)]
    said += [each.fact.target + each.fact.value.text for name in names for each in known.assigned_in.get(name, ())]
    said += [block.text for name in names for each in known.inside(name) for block in each.fact.within]
    return f"{' '.join(said)} {made.fact.text}".lower()


def workers_of(known: ProjectFacts, loader: Call) -> int:
    """How many workers a loader has, as a constant or as the default of an option; 0: none, or unknown."""
    given = loader.fact.argument("num_workers", 5)
    literal = given.literal if given is not None else None
    if given is not None and literal is None:
        literal = known.default_of(loader, given)
    return int(literal) if literal is not None and literal.isdecimal() else 0
