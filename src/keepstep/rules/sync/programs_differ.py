# SPDX-License-Identifier: Apache-2.0
"""SYN201: ranks are about to run different programs."""

from __future__ import annotations

from keepstep.model.facts import ContractBroken, ContractStated
from keepstep.rules.api import RUN_FOLDER, SEEN_BY_OTHER_RANKS, Cause, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.asking.stated_differences import broken_contracts
from keepstep.rules.data.inputs_differ import begins_with_inputs
from keepstep.rules.sync._waiting import differing
from keepstep.signals.contracts import Subject


@rule(
    id="SYN201",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(ContractBroken, ContractStated),
    explains=(*SEEN_BY_OTHER_RANKS, Cause.USER_CODE_EXCEPTION, Cause.DATA_SHAPE_MISMATCH, Cause.FRAMEWORK_BUG_SEGFAULT),
)
def programs_differ(seen: EvidenceSet) -> Findings:
    """Ranks are about to run different programs or models.

    ## What it looks like
    Without the guard: a hang, a gloo or NCCL error about sizes, or silently wrong results. The guard stops the ranks
    with `keepstep.OutOfStep` before the first such step (TensorFlow, JAX, the wrapping of a PyTorch model).

    ## Why it happens
    A model, a branch, an option or a batch depends on the rank or on its data.

    ## How we know
    Every rank states, out of band, what it is about to run (parameters, variables, the collectives of the traced or
    compiled program). The statements differ.

    ## What to do
    Build the same model and program on every rank. The finding names what differs, with both values.

    ## When this is wrong
    Pipelines and experts may differ by design without the framework saying so. Turn that contract off.
    """
    certain = (Subject.PROGRAM, Subject.VARIABLES, Subject.MODEL)
    for each in broken_contracts(seen, *certain):
        if begins_with_inputs(each):
            continue
        when = "before it ran" if each.before else "while it ran"
        yield Found(
            title=f"ranks differ in {each.subject}: {each.words}",
            because=f"each rank stated what it was about to run, {when}; {differing(each.odd)}{each.lines}",
            evidence=each.evidence,
            ranks=each.odd,
            severity=None if each.certain else Severity.WARNING,
            fixes=(
                Fix(do="build the same on every rank: look for what depends on the rank, its data or its host"),
                Fix(
                    do="print what each rank stated",
                    command=f"grep -rh --include='*.notes.jsonl' ContractStated {RUN_FOLDER}",
                ),
            ),
        )
        return
