# SPDX-License-Identifier: Apache-2.0
"""A live input pipeline, looked at before it is used: ``keepstep.check_data(dataset)``.

Frameworks are never imported here: the pipeline that was given comes from one that is loaded already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keepstep.check.checkup import judge
from keepstep.check.live.compare import compared
from keepstep.check.live.kinds import kind_of
from keepstep.check.live.sampling import Sample, random_state_kept, sampled
from keepstep.check.place import Collected
from keepstep.errors import UserError
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.plan import ShareEmpty, StepsUneven
from keepstep.render.shown_report import ShownPreflight, shown_preflight

BATCHES = 16
SECONDS = 10.0


def check_data(
    dataset: Any,
    *,
    ranks: int | None = None,
    step_s: float | None = None,
    batches: int = BATCHES,
    seconds: float = SECONDS,
) -> ShownPreflight:
    """Look at an input pipeline and read a few batches of it; the random state is afterwards as it was before.

    ``dataset`` is a ``tf.data.Dataset``, a ``DataLoader``, a Grain or Hugging Face dataset, or anything that can be
    iterated more than once. With ``ranks``, give a function ``make(rank, ranks)`` instead, which returns the pipeline
    of one rank; then what the ranks are fed is compared. ``step_s`` is how long a training step takes.
    """
    if batches < 1 or seconds <= 0:
        raise UserError(f"batches must be at least 1 and seconds more than 0, not {batches} and {seconds}")
    looked = Collected()
    if ranks is None:
        _look(looked, dataset, None, None, batches, seconds, step_s)
    else:
        _look_at_ranks(looked, dataset, ranks, batches, seconds, step_s)
    return shown_preflight(judge(looked))


def _look_at_ranks(
    looked: Collected, make: Callable[[int, int], Any], ranks: int, batches: int, seconds: float, step_s: float | None
) -> None:
    if not callable(make) or hasattr(make, "__iter__"):
        raise UserError("with ranks=, give a function make(rank, ranks) that returns one rank's pipeline")
    if ranks < 2:
        raise UserError(f"ranks must be at least 2 to be compared, not {ranks}")
    with random_state_kept():
        samples = [
            _look(looked, make(rank, ranks), rank, ranks, batches, seconds / ranks, step_s if rank == 0 else None)
            for rank in range(ranks)
        ]
    pairs = list(compared(samples))
    for pair in pairs:
        quote = f"{pair.shared} of {pair.rows} different rows are the same"
        looked.add(_saw(pair, f"the samples of ranks {pair.first} and {pair.second}", quote))
    if pairs:
        looked.checked(f"the rows of {min(len(each.batches) for each in samples)} batches on each of {ranks} ranks")
    else:
        looked.unavailable("whether ranks are fed the same rows", "the rows are too few, or too much alike")
    lengths = [len(each.batches) for each in samples]
    if all(each.ended for each in samples) and min(lengths) < max(lengths):
        short = tuple(rank for rank, length in enumerate(lengths) if length == min(lengths))
        uneven = StepsUneven(
            policy="as read", least=min(lengths), most=max(lengths), short=short, count=len(short), of=ranks, hangs=True
        )
        looked.add(_saw(uneven, "the samples of all ranks", f"batches per rank: {', '.join(map(str, lengths))}"))


def _look(
    looked: Collected,
    dataset: Any,
    rank: int | None,
    ranks: int | None,
    batches: int,
    seconds: float,
    step_s: float | None,
) -> Sample:
    kind = kind_of(dataset)
    whose = f"{kind.library} pipeline" + (f" of rank {rank}" if rank is not None else "")
    seen = kind.stages(dataset, rank, ranks)
    if seen is not None:
        looked.add(_saw(seen, whose, " -> ".join(f"{what}({how})" if how else what for what, how in seen.stages)))
        looked.checked(f"the {len(seen.stages)} stages of the {whose}")
    else:
        looked.unavailable(f"the stages of the {whose}", "this library does not show them")
    sample = sampled(kind.readable(dataset), batches, seconds)
    if not sample.batches and sample.ended:
        empty = ShareEmpty(policy=kind.library, empty=(rank or 0,), count=1, of=ranks or 1, files=0, by_file=False)
        looked.add(_saw(empty, whose, "it ended without a batch"))
    for fact in sample.specs():
        looked.add(_saw(fact, whose, f"{fact.part}: " + ", ".join(f"{spec} in {n}" for spec, n in fact.specs)))
    with random_state_kept():
        limit = kind.limit(dataset, seconds) if rank in (None, 0) and sample.batches else None
    pace = sample.pace(step_s, limit)
    if pace is not None:
        looked.add(_saw(pace, whose, f"{pace.batches} batches, {pace.per_batch_s * 1000:.3g} ms each"))
        if step_s is None and rank in (None, 0):
            looked.unavailable("whether the input keeps up with the training", "give step_s=")
    elif rank in (None, 0):
        looked.unavailable("the pace of the input", "too few batches to time")
    looked.checked(f"{len(sample.batches)} batches of the {whose}")
    return sample


def _saw(fact: Fact, where: str, quote: str) -> Evidence[Fact]:
    return Evidence(fact=fact, origin=Origin(source=where), quote=quote)
