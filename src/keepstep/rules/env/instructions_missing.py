# SPDX-License-Identifier: Apache-2.0
"""ENV107: a CPU lacks instructions that the framework was built for."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, SoftwareSeen, rule

NEEDS_AVX = frozenset({"tensorflow", "tensorflow-cpu", "jaxlib"})


@rule(id="ENV107", cause=Cause.ENV_ABI_OR_CPU_INSTRUCTION, needs=(SoftwareSeen,))
def instructions_missing(seen: EvidenceSet) -> Findings:
    """A host's CPU lacks instructions that the installed framework was built for.

    ## What it looks like
    `Illegal instruction (core dumped)` at the import of TensorFlow or jaxlib on an old or virtual CPU.

    ## Why it happens
    TensorFlow's wheels have needed AVX since 1.6, and so do jaxlib's. A hypervisor may hide it.

    ## How we know
    The CPU's flags are compared with what the official wheels need.

    ## What to do
    Use another host, make the hypervisor pass the host's CPU through, or build the framework for this CPU.

    ## When this is wrong
    You use your own build for an older CPU.
    """
    for each in seen.all(SoftwareSeen):
        names = {name for name, _ in each.fact.packages} & NEEDS_AVX
        architecture = dict(each.fact.system).get("architecture")
        if names and architecture == "x86_64" and each.fact.cpu_flags and "avx" not in each.fact.cpu_flags:
            yield Found(
                title=f"the CPU of {each.fact.host} has no AVX, which {', '.join(sorted(names))} needs",
                because="the official wheels use AVX instructions as soon as they are imported",
                evidence=(each,),
                confidence=Confidence.SUPPORTED,
                fixes=(
                    Fix(do="check the CPU's flags", command="grep -m1 flags /proc/cpuinfo"),
                    Fix(do="use another host, or pass the host's CPU through to the guest"),
                ),
            )
