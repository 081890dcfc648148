# SPDX-License-Identifier: Apache-2.0
"""COD302: processes ask for their index, and none of them initialises."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.code import CodeCall
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.code._asking import Call, Program, program
from keepstep.rules.code.jax._jax import INIT

_UTILS = "jax.experimental.multihost_utils."


_TELLS = ("print", "info", "debug", "warning", "log", "error")


def _is_only_told(call: Call, calls: list[Call]) -> bool:
    """Whether a call is part of what is printed or logged."""
    return any(
        each.fact.method in _TELLS
        and call.fact.text in each.fact.text
        and each.fact.order < call.fact.order
        and (call.origin.line or 0) - (each.origin.line or 0) < 5
        for each in calls
    )


def _lonely(known: Program) -> Iterator[Call]:
    """In each script: the first call that needs to know the other processes, if nobody introduces them."""
    for path, file in known.files.items():
        calls = sorted(known.in_path(path), key=lambda each: each.fact.order)
        calls = [each for each in calls if not _is_only_told(each, calls)]
        names = {each.fact.name for each in calls}
        uses = [each for each in calls if each.fact.name in ("jax.process_index", "jax.process_count")]
        uses += [each for each in calls if each.fact.name.startswith(_UTILS)]
        is_script = any(each.fact.function == f"{file.module}.<module>" for each in calls) and file.started
        is_shared_out = {"jax.process_index", "jax.process_count"} <= names or any(
            name.startswith(_UTILS) for name in names
        )
        if is_script and is_shared_out and not known.among(uses[0], INIT):
            yield min(uses, key=lambda each: each.fact.order)


@rule(
    id="COD302",
    cause=Cause.CONFIG_TRAINS_ALONE,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def initialize_missing(seen: EvidenceSet) -> Iterator[Found]:
    """A program asks for its index among the processes, and nothing in it calls `jax.distributed.initialize`.

    ## What it looks like
    ```python
    import jax

    FILES = [f"part-{number}" for number in range(8)]

    def main():
        mine = FILES[jax.process_index() :: jax.process_count()]
        print(mine)

    if __name__ == "__main__":
        main()
    ```

    ## Why it happens
    Without `initialize` each process knows only itself, outside of Cloud TPU: its index is 0, their number is 1,
    and all of them do the same work.

    ## How we know
    A script uses `process_index` and `process_count`, or `multihost_utils`, and neither it nor a file it is related
    to calls `initialize`.

    ## What to do
    ```python
    import jax

    FILES = [f"part-{number}" for number in range(8)]

    def main():
        jax.distributed.initialize()
        mine = FILES[jax.process_index() :: jax.process_count()]
        print(mine)

    if __name__ == "__main__":
        main()
    ```

    ## When this is wrong
    On Cloud TPU, where JAX finds the other processes by itself, and where a launcher that was not read initialises.
    """
    known = program(seen)
    for each in _lonely(known):
        yield Found(
            title="processes never meet: jax.distributed.initialize is not called",
            because=f"`{each.fact.text}` is 0 of 1 on every process that was not initialised, except on Cloud TPU",
            evidence=(each,),
            fixes=(Fix(do="call jax.distributed.initialize() at the start of the program"),),
        )
