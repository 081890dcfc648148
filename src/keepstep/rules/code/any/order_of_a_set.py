# SPDX-License-Identifier: Apache-2.0
"""COD012: collectives in the order of a set of words."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeAssigned, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program, short
from keepstep.rules.code._steps import COLLECTIVES

_SETS = frozenset({"set", "set.union", "set.intersection", "set.difference", "set.symmetric_difference", "set.copy"})
_WORDS = re.compile(r"[\"']|\.keys\(\)|\.split\(|named_parameters|named_buffers|named_modules|state_dict|\bstr\(")
"""In the text of a set: its elements are words."""
_NAMES = re.compile(r"(?:\w+_)?(?:name|key)")
"""Variables that hold words."""


def _over(known: ProjectFacts, call: Call) -> tuple[str, str] | None:
    """The variable of the loop over a set around a call, and the text of the set."""
    loops = [each for each in blocks(call, "for") if each.made in _SETS]
    if not loops:
        return None
    assigned = list(known.assigned_in.get(call.fact.function, ()))
    target = next((each for each in assigned if each.origin.line == loops[-1].line), None)
    if target is None:
        return None
    made = [each.fact.value.text for each in assigned if each.fact.target == loops[-1].text]
    return target.fact.target, " ".join((loops[-1].text, *made))


def _depends(known: ProjectFacts, call: Call, variable: str) -> bool:
    """Whether what is exchanged is another one in each turn."""
    word = re.compile(rf"\b{re.escape(variable)}\b")
    if word.search(call.fact.text):
        return True
    assigned = known.assigned_in.get(call.fact.function, ())
    return any(
        word.search(each.fact.value.text) and re.search(rf"\b{re.escape(each.fact.target)}\b", call.fact.text)
        for each in assigned
    )


@rule(
    id="COD012", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeCall, CodeAssigned), confidence=Confidence.SUPPORTED
)
def order_of_a_set(seen: EvidenceSet) -> Findings:
    """Collectives are issued in the order of a set of words, which differs from process to process.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def average(metrics):
        for name in set(metrics.keys()):
            dist.all_reduce(metrics[name])
    ```

    ## Why it happens
    Python mixes a random number into the hash of a word, another one in each process, and a set is ordered by hashes.
    The first rank reduces `loss` while the second one reduces `accuracy`. Where the shapes are the same, nobody
    notices.

    ## How we know
    A loop goes over a set of words, and what its collective exchanges depends on the word.

    ## What to do
    ```python
    import torch.distributed as dist

    def average(metrics):
        for name in sorted(metrics.keys()):
            dist.all_reduce(metrics[name])
    ```

    ## When this is wrong
    When PYTHONHASHSEED is the same number for all processes.
    """
    known = program(seen)
    if known.paths_near("PYTHONHASHSEED"):
        return
    for call in known.named(COLLECTIVES.__contains__, "set", "{"):
        over = _over(known, call)
        if over is None or not _depends(known, call, over[0]):
            continue
        if _WORDS.search(over[1]) or _NAMES.fullmatch(over[0]):
            yield Found(
                title=f"ranks issue {short(call.fact.name)} in different orders",
                because=f"the loop goes over a set of words: `{over[0]}` is another one on each rank in the same turn,"
                f" and `{call.fact.text}` exchanges what belongs to different words",
                evidence=(call,),
                fixes=(Fix(do="go over sorted(...) of the set"),),
            )
