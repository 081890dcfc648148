# SPDX-License-Identifier: Apache-2.0
"""COD302: processes ask for their index, and none of them initialises."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.jax._jax import INIT, lines_that_decide

_UTILS = "jax.experimental.multihost_utils."
_TELLS = ("print", "info", "debug", "warning", "log", "error", "set_task_status")


def _lonely(known: ProjectFacts) -> Iterator[Call]:
    """In each script: the first call that needs to know the other processes, if nobody introduces them."""
    for path, file in known.files.items():
        calls = sorted(known.in_path(path), key=lambda each: each.fact.order)
        is_script = file.started and any(each.fact.function == f"{file.module}.<module>" for each in calls)
        names = {each.fact.name for each in calls}
        is_shared_out = "jax.process_count" in names and "jax.process_index" in names
        first = next((each for each in calls if _divides(known, each, calls)), None) if is_script else None
        if first is not None and (is_shared_out or first.fact.name.startswith(_UTILS)) and not known.among(first, INIT):
            yield first


def _divides(known: ProjectFacts, call: Call, calls: list[Call]) -> bool:
    """Whether more than a branch or a line of output depends on the processes that there are."""
    if call.fact.name not in ("jax.process_index", "jax.process_count"):
        return call.fact.name.startswith(_UTILS)
    line = call.origin.line or 0
    is_told = any(
        each.fact.method in _TELLS and call.fact.text in each.fact.text and 0 <= line - (each.origin.line or 0) < 5
        for each in calls
    )
    return not is_told and (call.origin.source, line) not in lines_that_decide(known, call)


@rule(
    id="COD302",
    cause=Cause.CONFIG_TRAINS_ALONE,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def initialize_missing(seen: EvidenceSet) -> Findings:
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
    Without `initialize` each process knows only itself, except on Cloud TPU: its index is 0, their number is 1,
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
