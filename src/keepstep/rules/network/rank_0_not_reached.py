# SPDX-License-Identifier: Apache-2.0
"""NET102: a process could not reach rank 0."""

from __future__ import annotations

from keepstep.model.facts import MeetingFailed, Reached
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Safety, duration, rule

_WHY = {
    Reached.CONNECTED: "the connection is open, and rank 0's check never finished",
    Reached.REFUSED: "the host is up, but nothing listens there: rank 0's check is not running or is on another host, "
    "or a firewall rejects the connection",
    Reached.NO_ANSWER: "no packet comes back: a firewall drops them, or no running host has this address",
    Reached.REJECTED: "the network says that the host cannot be reached: no route, or a firewall rejects connections",
    Reached.RESET: "the connection was cut: rank 0's check ended, or something between the hosts cuts connections",
    Reached.SILENT: "the connection is open, and no data comes through it",
    Reached.STRANGER: "something else answers there: another program, or a check with another token",
    Reached.UNRESOLVED: "the name of rank 0's host does not resolve here",
}


@rule(id="NET102", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(MeetingFailed,), confidence=Confidence.SUPPORTED)
def rank_0_not_reached(seen: EvidenceSet) -> Findings:
    """A process of the job could not reach rank 0.

    ## What it looks like
    The other ranks wait, and this one repeats `Connection refused` or hangs in its first connection.

    ## Why it happens
    A firewall blocks the port on rank 0's host, the address (MASTER_ADDR, the first entry of the cluster) is not rank
    0's, or rank 0 was never started.

    ## How we know
    This process kept trying for the time given by `--wait`, and the kernel said how each attempt ended.

    ## What to do
    Check whether rank 0 is running, and where. Open the port on its host.

    ## When this is wrong
    Rank 0 starts much later than the others. Give `--wait` more seconds.
    """
    for each in seen.all(MeetingFailed):
        fact = each.fact
        if fact.reached is Reached.UNRESOLVED:
            continue  # the name has its own finding
        if fact.loopback is not None:
            continue  # CFG113: no firewall stands between a host and itself
        if fact.where == "rank 0":
            yield Found(
                title="rank 0's check ended before it was complete",
                because=f"the connection to rank 0 broke: {fact.said}",
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
                    do="check whether this host can reach rank 0's host at all",
                    command=f"ping -c 3 {host}; nc -vz -w 3 {host} {port}",
                ),
                Fix(
                    do="on rank 0's host, allow connections from the job's hosts",
                    command="iptables -I INPUT -p tcp -s ADDRESS_OF_THIS_HOST -j ACCEPT",
                    safety=Safety.NEEDS_OWNER,
                ),
                Fix(
                    do="or name another address where the processes can meet",
                    command="keepstep check --meet HOST_OF_RANK_0:PORT",
                ),
            ),
        )
