# SPDX-License-Identifier: Apache-2.0
"""HWD104: a GPU gives wrong results."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, DeviceWrong, EvidenceSet, Findings, Fix, Found, Safety, count, rule
from keepstep.rules.asking.process_endings import host_of

HOST = "host memory"
_SAYS = {
    "product": "multiplies wrongly in {dtype}: {numbers}",
    "memory": "does not keep what is written to its memory: {words}",
    "repeat": "gives other bits when the same computation is repeated",
}
_BECAUSE = {
    "product": "the product of two matrices of small integers is exact in this type, and known beforehand",
    "memory": "a pattern was written and read back",
    "repeat": "same device, same inputs, same program: a healthy device gives the same bits",
}


@rule(id="HWD104", cause=Cause.HARDWARE_GPU_FAULT_XID_ECC, needs=(DeviceWrong,))
def gpu_computes_wrong(seen: EvidenceSet) -> Findings:
    """A GPU gave a result that is not the right one, or its memory changed what it was given.

    ## What it looks like
    Nothing fails. Losses jump or drift on one rank, a run cannot be repeated, a restart on other nodes is fine.

    ## Why it happens
    A faulty processor or memory chip, an unstable clock or voltage, heat.

    ## How we know
    `keepstep check gpu` multiplied small integers, for which the answer is exact and known, repeated a computation,
    and wrote patterns to most of the memory.

    ## What to do
    Take the device out of service, run the vendor's diagnostics, and do not trust what was trained on it.

    ## When this is wrong
    A faulty kernel of the framework gives the same wrong numbers on every device of the kind. Repeating a
    computation may legitimately differ where a library uses atomics; keepstep's own uses none that are known to.
    """
    for each in seen.all(DeviceWrong):
        fact = each.fact
        if fact.device == HOST:
            continue
        numbers, words = (count(fact.count, f"wrong {each}") for each in ("number", "word"))
        said = _SAYS[fact.what].format(dtype=fact.dtype, numbers=numbers, words=words)
        device = f" -i {fact.index}" if fact.index is not None else ""
        yield Found(
            title=f"{fact.device} on {host_of(each)} {said}",
            because=_BECAUSE[fact.what],
            evidence=(each,),
            confidence=Confidence.SUPPORTED if fact.what == "repeat" else Confidence.ESTABLISHED,
            fixes=(
                Fix(do="do not train on it; see what its driver has counted", command=f"nvidia-smi -q{device} -d ECC"),
                Fix(do="run the vendor's diagnostics", command="dcgmi diag -r 3", safety=Safety.NEEDS_OWNER),
                Fix(do="go back to a checkpoint from before it was used"),
            ),
        )
