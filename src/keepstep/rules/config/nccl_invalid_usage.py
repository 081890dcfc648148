# SPDX-License-Identifier: Apache-2.0
"""CFG006: NCCL rejected how it was called."""

from __future__ import annotations

from keepstep.rules.api import Cause, CommunicationFailed, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule


@rule(
    id="CFG006",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(CommunicationFailed,),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
    explains=(Cause.UNKNOWN_NOT_ESTABLISHED,),
)
def nccl_invalid_usage(seen: EvidenceSet) -> Findings:
    """NCCL rejected how it was called, and the log does not say why.

    ## What it looks like
    `ncclInvalidUsage: This usually reflects invalid usage of NCCL library`, without a `Last error` below it.

    ## Why it happens
    Usually, two ranks share a device: there are more processes than GPUs, or the ranks do not choose their own device.

    ## How we know
    We do not. NCCL prints the warning that names the two ranks only with NCCL_DEBUG set.

    ## What to do
    Give each rank its own device, and run once with `NCCL_DEBUG=WARN`.

    ## When this is wrong
    NCCL versions that differ between ranks, or an unsuitable tensor, give the same error code.
    """
    found = [e for e in seen.all(CommunicationFailed) if "nvalid" in e.fact.code and not seen.survived(e)]
    if found:
        yield Found(
            title="NCCL rejected how it was called; the log does not say why",
            because="usually, two ranks share a device",
            evidence=tuple(found),
            fixes=(
                Fix(
                    do="let every rank choose its own device",
                    code="torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
                ),
                Fix(do="make NCCL print what is wrong", command="export NCCL_DEBUG=WARN"),
            ),
        )
