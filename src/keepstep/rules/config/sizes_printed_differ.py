# SPDX-License-Identifier: Apache-2.0
"""CFG016: processes of one run printed different values of a variable that says how many there are."""

from __future__ import annotations

from collections import defaultdict

from keepstep.model.facts import SizeVariable, StepSeen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, listing, rule
from keepstep.rules.asking.fallout import FALLOUT


@rule(
    id="CFG016",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(SizeVariable,),
    confidence=Confidence.SUPPORTED,
    explains=(
        *FALLOUT,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.PREEMPTION_SIGTERM,
        Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
    ),
)
def sizes_printed_differ(seen: EvidenceSet) -> Findings:
    """Processes of one run were told different numbers of processes, nodes or slices.

    ## What it looks like
    `WORLD_SIZE=16` in one log and `WORLD_SIZE=8` in another; after a restart, `MEGASCALE_NUM_SLICES=3` on the new hosts
    and 2 on the old ones. The start never ends.

    ## Why it happens
    A variable was copied or counted before all hosts were there, or new hosts were counted beside those that
    they replace.

    ## How we know
    The processes print the variable, the last values differ, and no step follows them.

    ## What to do
    Make the value the same everywhere, and start all processes anew.

    ## When this is wrong
    The logs are of separate runs.
    """
    last: dict[str, dict[tuple[str, str], Evidence[SizeVariable]]] = defaultdict(dict)
    for each in seen.all(SizeVariable):
        last[each.fact.name][each.origin.writer] = each
    for name, said in last.items():
        values = sorted({e.fact.value for e in said.values()})
        if len(values) < 2 or any(_trained_after(seen, e) for e in said.values()):
            continue
        shown = [next(e for e in said.values() if e.fact.value == value) for value in values]
        yield Found(
            title=f"processes were given different values of {name}: {listing(map(str, values))}",
            because="all processes of a run must agree on it, and no step came after they printed it",
            evidence=tuple(shown),
            ranks=(),
            fixes=(Fix(do="give every process the same value, and start all of them anew", command=f"echo ${name}"),),
        )
        return


def _trained_after(seen: EvidenceSet, said: Evidence[SizeVariable]) -> bool:
    line = said.origin.line or 0
    return any(e.origin.source == said.origin.source and (e.origin.line or 0) > line for e in seen.all(StepSeen))
