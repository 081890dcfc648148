# SPDX-License-Identifier: Apache-2.0
"""TPU004: a rank trained on the CPU of a TPU machine."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, OnCpu, Severity, ranks_of, rule
from keepstep.rules.asking.accelerator_use import unwillingly_on_cpu
from keepstep.rules.asking.process_endings import who


@rule(
    id="TPU004",
    cause=Cause.TPU_INITIALIZATION_FAILURE,
    needs=(OnCpu,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def tpu_unused(seen: EvidenceSet) -> Findings:
    """A rank trained on the CPU of a machine that has a TPU.

    ## What it looks like
    `A Google TPU may be present on this machine, but either a TPU-enabled jaxlib or libtpu is not installed. Falling
    back to cpu.` Training continues, many times slower.

    ## Why it happens
    `pip install jax` installs no libtpu, or the environment of the TPU machine is not the one that is active.

    ## How we know
    JAX found the TPU on the machine's bus, and says that it cannot use it.

    ## What to do
    Install JAX for TPUs on every host of the slice.

    ## When this is wrong
    If the program was meant to run on the CPU. `JAX_PLATFORMS=cpu` says so, and JAX is then silent.
    """
    found, _ = unwillingly_on_cpu(seen, "TPU")
    if found:
        yield Found(
            title=f"{who(found)} trained on the CPU of a TPU machine: {found[0].fact.why}",
            because="JAX reports a TPU on this machine and does not use it",
            evidence=found[:6],
            ranks=ranks_of(found),
            fixes=(Fix(do="install JAX for TPUs on every host", command="pip install -U 'jax[tpu]'"),),
        )
