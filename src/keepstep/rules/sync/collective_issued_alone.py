# SPDX-License-Identifier: Apache-2.0
"""SYN206: the ranks' own records show that they issued different collectives."""

from __future__ import annotations

from keepstep.model.facts import CollectivesIssued, ContractBroken
from keepstep.rules.api import RUN_FOLDER, SEEN_BY_OTHER_RANKS, Cause, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.own_exception import left_by_own_exception
from keepstep.rules.sync._first_difference import first_mismatch
from keepstep.signals.collective_history import Mismatch


@rule(
    id="SYN206",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(ContractBroken, CollectivesIssued),
    explains=(*SEEN_BY_OTHER_RANKS, Cause.USER_CODE_EXCEPTION, Cause.DATA_SHAPE_MISMATCH, Cause.FRAMEWORK_BUG_SEGFAULT),
)
def collective_issued_alone(seen: EvidenceSet) -> Findings:
    """A rank issued a collective that the others did not, or one with a different size or type.

    ## What it looks like
    A hang, gloo's `op.preamble.length <= op.nbytes. 24 vs 4`, or `Connection reset by peer` on a rank that did
    nothing wrong. Without records, the rank that is in `backward()` or in DDP's broadcast of buffers looks stuck.

    ## Why it happens
    `if rank == 0: dist.all_reduce(...)`, a barrier in a branch, an evaluation or a logger that gathers on one rank,
    a rank that skips a batch or has fewer of them.

    ## How we know
    The guard records each collective of the script with its line and its number in the group. It reads torch's own
    flight recorder for the collectives that DDP and FSDP issue below Python. At one number the ranks have different
    collectives, and all earlier ones agree. We name the rank that departs from the order seen before.

    ## What to do
    Call the collective on every rank, or on none.

    ## When this is wrong
    If the script issues the collective now and then on all ranks, and one rank left it out this time, we cannot tell
    which side is wrong, and name all ranks.
    """
    told = first_mismatch(seen)
    left = left_by_own_exception(seen)
    if told is None or any(rank in left for _, ranks in told[0].values for rank in ranks):
        return  # a rank that issued a collective on its way out has a reason of its own
    found, evidence = told
    yield Found(
        title=_title(found),
        because=f"collective {found.sequence} of their group differs between the ranks; all earlier ones agree",
        evidence=evidence,
        ranks=found.odd or tuple(sorted(rank for _, ranks in found.values for rank in ranks)),
        fixes=(
            Fix(
                do=f"issue it on every rank or on none{_where(found)}: "
                "look for a branch that depends on the rank or its data"
            ),
            Fix(
                do="print what each rank issued",
                command=f"grep -rh --include='*.notes.jsonl' CollectivesIssued {RUN_FOLDER}",
            ),
        ),
    )


def _title(found: Mismatch) -> str:
    places = dict(found.places)

    def words(value: str, ranks: tuple[int, ...]) -> str:
        line = next((places[rank] for rank in ranks if places.get(rank)), "")
        return f"{value}{f' at {line}' if line else ''}"

    odd = [(value, tuple(rank for rank in ranks if rank in found.odd)) for value, ranks in found.values]
    odd = [(value, ranks) for value, ranks in odd if ranks]
    others = [(value, ranks) for value, ranks in found.values if not set(ranks) & set(found.odd)]
    if not odd or not others:
        return "ranks issued different collectives: " + " but ".join(
            f"{words(*each)} on {say_ranks(each[1])}" for each in found.values[:3]
        )
    value, ranks = odd[0]
    other, peers = others[0]
    return f"{say_ranks(ranks)} issued {words(value, ranks)}; {say_ranks(peers)} issued {words(other, peers)} instead"


def _where(found: Mismatch) -> str:
    lines = [line for rank, line in found.places if rank in found.odd]
    return f" ({lines[0]})" if lines else ""
