# SPDX-License-Identifier: Apache-2.0
"""NET102: a process could not reach rank 0."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.link import MeetingFailed, Reached
from keepstep.core.finding import Confidence, Fix, Found, Safety
from keepstep.core.rule import rule
from keepstep.core.wording import duration

_WHY = {
    Reached.CONNECTED: "the connection stands, and the check of rank 0 did not come to an end",
    Reached.REFUSED: "the host is there and nobody listens: rank 0's check is not running, is on another host, or a firewall rejects",
    Reached.NO_ANSWER: "no packet comes back: a firewall drops them, or the address is of no host that is up",
    Reached.REJECTED: "the network says that the host cannot be reached: no route, or a firewall that rejects",
    Reached.RESET: "the connection was cut: rank 0's check ended, or something between the hosts cuts connections",
    Reached.SILENT: "the connection stands and nothing comes through it",
    Reached.STRANGER: "somebody else answers there: another program, or a check with another token",
    Reached.UNRESOLVED: "the name of rank 0's host does not resolve here",
}


@rule(id="NET102", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(MeetingFailed,), confidence=Confidence.SUPPORTED)
def rank_0_not_reached(seen: EvidenceSet) -> Iterator[Found]:
    """A process of the job could not reach rank 0.

    ## What it looks like
    Every other rank waits, and this one repeats `Connection refused` or hangs in its first call.

    ## Why it happens
    A firewall on rank 0's host, an address that is not rank 0's (MASTER_ADDR, the first entry of the cluster), or rank 0 was
    never started.

    ## How we know
    This process tried for as long as it was told to, and the kernel said how each attempt ended.

    ## What to do
    Look whether rank 0 runs, and where; open the port on its host.

    ## When this is wrong
    When rank 0 starts much later than the others: give `--wait` more seconds.
    """
    for each in seen.all(MeetingFailed):
        fact = each.fact
        if fact.reached is Reached.UNRESOLVED:
            continue  # the name is a finding of its own
        if fact.where == "rank 0":
            yield Found(
                title="rank 0's check ended in the middle",
                because=f"the connection to it broke: {fact.said}",
                evidence=(each,),
                fixes=(Fix(do="read what rank 0 printed, and run the check again", command="keepstep check"),),
            )
            continue
        host, _, port = fact.where.partition(" to ")[0].rpartition(":")
        yield Found(
            title=f"rank 0 could not be reached at {fact.where} in {duration(fact.waited_s)}: {fact.reached.value}",
            because=_WHY[fact.reached],
            evidence=(each,),
            fixes=(
                Fix(
                    do="see whether this host reaches rank 0's at all",
                    command=f"ping -c 3 {host}; nc -vz -w 3 {host} {port}",
                ),
                Fix(
                    do="on rank 0's host, let the hosts of the job in",
                    command="iptables -I INPUT -p tcp -s ADDRESS_OF_THIS_HOST -j ACCEPT",
                    safety=Safety.NEEDS_OWNER,
                ),
                Fix(do="or say where the processes can meet", command="keepstep check --meet HOST_OF_RANK_0:PORT"),
            ),
        )
