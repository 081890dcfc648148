# SPDX-License-Identifier: Apache-2.0
"""How much memory was missing, and what a smaller batch would be."""

from __future__ import annotations

from keepstep.model.facts import DeviceMemoryExhausted
from keepstep.model.facts.guard import RankRaised
from keepstep.rules.api import EvidenceSet, Fix, Safety

_UNITS = {"bytes": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}


def shortfall(fact: DeviceMemoryExhausted) -> str:
    """``: 1.06 GiB of 79.15 GiB was free, at least 0.94 GiB too little``; empty where the message has no numbers."""
    if fact.free is None:
        return f": tensors held {fact.held} of {fact.capacity}" if fact.held and fact.capacity else ""
    asked, free = gib(fact.requested), gib(fact.free)
    missing = f", at least {asked - free:.2f} GiB too little" if asked is not None and free is not None else ""
    missing = missing if asked is not None and free is not None and asked > free else ""
    held = f"; tensors held {fact.held}" if fact.held else ""
    return f": {fact.free}{f' of {fact.capacity}' if fact.capacity else ''} was free{missing}{held}"


def smaller_batch(seen: EvidenceSet) -> tuple[Fix, ...]:
    """With the batch, where a guard saw it."""
    batch = next((e.fact.batch for e in seen.all(RankRaised) if e.fact.batch), None)
    was = f" (the step took {batch})" if batch else ""
    return (
        Fix(
            do=f"reduce the batch per device{was}, and accumulate gradients to keep the effective batch size",
            safety=Safety.CHANGES_RESULTS,
        ),
        Fix(
            do="or let all ranks take a batch in parts as soon as one rank runs out of memory",
            code="loss = keepstep.microbatches(gradients, batch)",
        ),
    )


def gib(text: str | None) -> float | None:
    """``512.00 MiB`` as a number of GiB; None for anything else."""
    number, _, unit = (text or "").partition(" ")
    try:
        return float(number) * 1024.0 ** (_UNITS[unit] - 3)
    except (KeyError, ValueError):
        return None
