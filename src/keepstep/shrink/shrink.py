# SPDX-License-Identifier: Apache-2.0
"""From a failing program to the smallest one that fails in the same way: one reduction after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from keepstep.base.wording import duration
from keepstep.errors import Unavailable
from keepstep.shrink import reductions
from keepstep.shrink.job_command import JobCommand
from keepstep.shrink.own_waits import with_own_waits
from keepstep.shrink.program import Edits, Program, Rendered
from keepstep.shrink.same_failure import Failure
from keepstep.shrink.search import ON_CPU, PATIENCE_S, OutOfTime, Search


@dataclass
class Shrunk:
    """What came out."""

    program: Program
    launch: JobCommand
    """The original's."""
    edits: Edits
    failure: Failure
    trials: int
    refused: int
    """Candidates that were refused without starting a rank."""
    took_s: float
    also: dict[str, int]
    """Other failures that trials ran into."""
    needs: int | None = None
    """The number of ranks, where one fewer was tried and did not fail in this way."""
    complete: bool = True
    limit_s: float = 600.0
    """How long the last run may take."""
    patience_s: float = 0.0
    """How long it may be silent before it is ended."""
    rate: tuple[float, int, int] | None = None
    """Of a failure that does not come every time: how often the original failed; and the result, of how many runs."""
    executed: int = 0
    """Lines of the original that ran."""
    whole: int = 0
    """Lines of the original."""
    data: dict[str, str] = field(default_factory=dict)
    """Files of records that the program reads, with the records that are left."""
    records: tuple[int, int] = (0, 0)
    """How many are left, of how many."""
    variables: dict[str, str] = field(default_factory=dict)
    """Those that the result needs."""
    on_cpu: bool | None = None
    """Whether it fails without an accelerator; None: there is none, or it was not tried."""
    alone: str | None = None
    """A program of nothing but the collectives, if that fails in the same way."""

    @property
    def smaller(self) -> JobCommand:
        return self.launch.smaller(self.edits.ranks, self.edits.words)

    def made(self) -> dict[str, Rendered]:
        return self.program.made(self.edits)


def shrink(search: Search, folders: tuple[str, ...]) -> Shrunk:
    """All of it. Ctrl-C ends the search: the best so far is the result. Raises Unavailable if there is none."""
    complete = True
    try:
        search.look(folders)
        search.warm_up()
        earlier = search.earlier()
        if earlier is None:
            search.settle()
            search.collectives_alone()
        else:
            search.resume(earlier)
        for each in reductions.ALL:
            search.doing, search.in_vain = each.__name__.replace("_", " "), 0
            each(search)
    except (OutOfTime, KeyboardInterrupt) as end:
        if not search.knows_the_failure:
            took = duration(time.monotonic() - search.began)
            why = "stopped" if isinstance(end, KeyboardInterrupt) else "the budget was spent"
            raise Unavailable(f"{why} after {took}, before the command had failed once") from None
        search.save()
        complete = False
    left = {path: range(len(lines)) for path, lines in search.data.items()} | dict(search.best.records)
    return Shrunk(
        program=search.program,
        launch=search.launch,
        edits=with_own_waits(search),
        failure=search.failure,
        trials=search.count,
        refused=search.refused,
        took_s=time.monotonic() - search.began,
        also=search.also,
        needs=search.needs if search.chance is None else None,  # of a flake it would be no proof
        complete=complete,
        limit_s=search.cold_limit_s,
        patience_s=PATIENCE_S if search.patience_s else 0.0,
        rate=(search.chance.rate, *search.failed_of) if search.chance is not None else None,
        executed=search.ran,
        whole=search.whole,
        data={path: "".join(search.data[path][n] for n in kept) for path, kept in left.items()},
        records=(sum(map(len, left.values())), sum(map(len, search.data.values()))),
        variables={
            name: value
            for name, value in search.variables(search.best).items()
            if name in dict(search.launch.variables)
            or (search.best.on_cpu and name in ON_CPU)
            or (search.variables_tried and reductions.is_chosen(name))
        },
        on_cpu=search.on_cpu,
        alone=search.alone,
    )
