# SPDX-License-Identifier: Apache-2.0
"""CMP001: a compiler rejected a program that exceeds one of its limits."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, ProgramTooLarge, Safety, rule, shorten
from keepstep.rules.asking.exceptions import ranks_told


@rule(
    id="CMP001",
    cause=Cause.COMPILE_PROGRAM_LIMIT_EXCEEDED,
    needs=(ProgramTooLarge,),
    explains=(
        Cause.RESOURCE_GPU_OOM,
        Cause.USER_CODE_EXCEPTION,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.FRAMEWORK_BUG_SEGFAULT,
    ),
)
def program_limit_exceeded(seen: EvidenceSet) -> Findings:
    """A compiler rejected the program because it exceeds one of the compiler's limits.

    ## What it looks like
    `Computation requires more parameters (787) than supported (limit 236)`, `Ran out of memory in memory
    space vmem` (or smem), `Compiler generated too many instructions`, `uses too much shared data`.

    ## Why it happens
    A loop was unrolled into the graph, every parameter is a separate argument, the graph was never cut after a step
    (`mark_step`), or a kernel's tiles do not fit the device's scratch memory.

    ## How we know
    The compiler names the limit and the number that exceeds it.

    ## What to do
    Make the compiled program smaller: use compiled loops instead of unrolled ones, smaller blocks, fewer separate
    tensors.

    ## When this is wrong
    Autotuners try kernels that do not fit and go on with others. Then training continues after the message.
    """
    refused = tuple(e for e in seen.all(ProgramTooLarge) if not seen.survived(e))
    if not refused:
        return
    yield Found(
        title=f"the compiler rejected the program: {shorten(refused[0].fact.what.strip(' .'), 100)}",
        because="the compiler reports that the program exceeds a limit of the device or of the compiler itself",
        evidence=refused,
        ranks=ranks_told(seen, refused),
        fixes=(
            Fix(do="use a compiled loop (lax.scan, tf.while_loop) instead of an unrolled Python loop"),
            Fix(
                do="lower the kernel's block or chunk size, or the batch and sequence length",
                safety=Safety.CHANGES_RESULTS,
            ),
            Fix(do="with torch_xla, end the graph after each step", code="xm.mark_step()"),
        ),
    )
