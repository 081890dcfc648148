# SPDX-License-Identifier: Apache-2.0
"""SLO011: NCCL exchanges data over plain sockets, although there is a faster network."""

from __future__ import annotations

from keepstep.model.facts import Fact, FastNetworkSeen, NetworkChosen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Severity, ranks_of, rule
from keepstep.rules.asking.process_endings import who


@rule(
    id="SLO011",
    cause=Cause.SLOW_NETWORK_BOUND,
    needs=(NetworkChosen,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def fast_network_unused(seen: EvidenceSet) -> Findings:
    """NCCL sends data between hosts over plain sockets, although a faster network is there.

    ## What it looks like
    Nothing fails; steps are several times slower than they should be. At the start, under `NCCL_DEBUG=INFO`: `Using
    network Socket`, and `NET/IB : Using [0]mlx5_0` or `NET/OFI Failed to initialize` above it, or `Using network IB` on
    other ranks.

    ## Why it happens
    The plug-in of the network did not load, a device is down, a container was started without the devices, or one host
    was set up differently.

    ## How we know
    NCCL itself says which network it chose, and what it found or failed to start before.

    ## What to do
    Let NCCL say why: its lines above the choice name the device or the library.

    ## When this is wrong
    If all ranks are on one host. Then they exchange data by other ways.
    """
    chosen = seen.all(NetworkChosen)
    sockets = [e for e in chosen if e.fact.name == "Socket"]
    fast = [e for e in chosen if e.fact.name != "Socket"]
    found: dict[tuple[str, str], Evidence[FastNetworkSeen]] = {e.origin.writer: e for e in seen.all(FastNetworkSeen)}
    slow = {e.origin.writer: e for e in sockets if fast or e.origin.writer in found}
    for one in fast:
        slow.pop(one.origin.writer, None)  # it says Socket for the bootstrap, too
    if not slow:
        return
    own = [found[writer] for writer in slow if writer in found]
    shown: tuple[Evidence[Fact], ...] = (*own[:3], *fast[:3])
    ranks = tuple(slow.values())
    because = "NCCL chose IB or a plug-in on other ranks" if not own else f"NCCL found {own[0].fact.name} there"
    if own and own[0].fact.failed:
        because = f"NCCL failed to start {own[0].fact.name} there"
    yield Found(
        title=f"{who(ranks)} exchanged data over plain sockets, although there is a faster network",
        because=because,
        evidence=(*ranks[:3], *shown),
        ranks=ranks_of(ranks),
        fixes=(
            Fix(
                do="read why NCCL did not take the faster network",
                command="export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET",
            ),
            Fix(
                do="see whether the devices are there, in the same container",
                command="ls /dev/infiniband; ibv_devinfo -l",
            ),
            Fix(do="let NCCL fail instead of falling back", command="export NCCL_NET=IB"),
        ),
    )
