# SPDX-License-Identifier: Apache-2.0
"""COD306: every process makes the same part of a global array."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts import CodeCall, Value
from keepstep.rules.api import Cause, Confidence, Edit, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code._edits import replaced
from keepstep.rules.code.jax._jax import PARTS, lines_that_decide

_SEEDS = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.seed")
_KEYS = ("jax.random.PRNGKey", "jax.random.key")


def _equal(known: ProjectFacts) -> Iterator[tuple[Call, Call]]:
    """The seeds that are the same on all processes, and the calls that put together what was drawn with them."""
    found: dict[tuple[str, int | None], tuple[Call, Call]] = {}
    for use in known.calls(*PARTS):
        data = use.fact.argument("local_data", 1 if use.fact.name == PARTS[0] else 0)
        if data is None or data.ranked or _tells_processes_apart(known, use):
            continue
        for seed in _seeds_of(known, use, data):
            found.setdefault((seed.origin.source, seed.origin.line), (seed, use))
    yield from found.values()


def _seeds_of(known: ProjectFacts, use: Call, data: Value) -> list[Call]:
    """The seed that the data were drawn with, as far as this can be told."""
    if data.made.startswith("jax.random."):
        return _of(known, use.fact.function, _KEYS)
    maker = data.made.partition("[")[0]
    if maker in known.functions:
        return _of(known, maker, _SEEDS)
    return _of(known, use.fact.function, _SEEDS)


def _of(known: ProjectFacts, function: str, names: tuple[str, ...]) -> list[Call]:
    return [
        each
        for each in known.inside(function)
        if each.fact.name in names and each.fact.arguments and not each.fact.arguments[0].value.ranked
    ]


def _tells_processes_apart(known: ProjectFacts, use: Call) -> bool:
    """Whether the program uses the index of the process for anything but conditions."""
    related, decided = known.related(use), lines_that_decide(known, use)
    return any(
        (each.origin.source, each.origin.line) not in decided
        for each in known.among(use, "jax.process_index", "jax.host_id")
    ) or any(
        argument.value.ranked
        for path in related
        for each in known.in_path(path)
        if each.fact.name not in ("print", "jax.distributed.initialize")
        for argument in each.fact.arguments
    )


def _edit(known: ProjectFacts, seed: Call) -> Edit | None:
    value = seed.fact.arguments[0].value
    if not re.fullmatch(r"\d+|[A-Za-z_][\w.]*", value.text) or "jax" not in known.files[seed.origin.source].imports:
        return None
    return replaced(known, seed.origin.source, value, f"{value.text} + jax.process_index()")


@rule(
    id="COD306",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def same_key_or_data(seen: EvidenceSet) -> Findings:
    """Every process draws its part of a global array with the same seed.

    ## What it looks like
    ```python
    import jax
    import numpy as np

    def batch(sharding):
        rows = np.random.default_rng(0).normal(size=(32, 4))
        return jax.make_array_from_process_local_data(sharding, rows)
    ```

    ## Why it happens
    `make_array_from_process_local_data` puts the processes' parts side by side. With the same seed they are equal:
    a global batch holds N copies of one part, and N processes learn what one would.

    ## How we know
    The part comes from a generator whose seed does not depend on the process, and the index of the process is used
    for nothing but conditions.

    ## What to do
    ```python
    import jax
    import numpy as np

    def batch(sharding):
        rows = np.random.default_rng(jax.process_index()).normal(size=(32, 4))
        return jax.make_array_from_process_local_data(sharding, rows)
    ```

    ## When this is wrong
    When the array is meant to be the same on all processes, or it is a test of the speed.
    """
    known = program(seen)
    for seed, use in _equal(known):
        yield Found(
            title="every process makes the same part of the global array",
            because=f"`{seed.fact.text}` gives the same numbers on every process, and `{use.fact.text}`"
            f" (line {use.origin.line}) puts them side by side",
            evidence=(seed, use),
            fixes=(
                Fix(
                    do="add jax.process_index() to the seed of the data",
                    edit=_edit(known, seed),
                    safety=Safety.CHANGES_RESULTS,
                ),
            ),
        )
