# SPDX-License-Identifier: Apache-2.0
"""NET101: a process of the job never joined the check."""

from __future__ import annotations

from collections import defaultdict

from keepstep.model.facts import ClusterSeen, HostNotStarted, MemberMissing, Reached
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    duration,
    listing,
    ranks,
    rule,
)


@rule(id="NET101", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(MemberMissing,), confidence=Confidence.SUPPORTED)
def process_never_arrived(seen: EvidenceSet) -> Findings:
    """A process of the job never joined the check: it was not started, or cannot reach rank 0.

    ## What it looks like
    The job itself would wait here until its own time-out, often half an hour, and then blame the network.

    ## Why it happens
    The process was never started (too few tasks, a host that is down, a pending pod), it exited at once, or a firewall
    keeps it from reaching rank 0's host.

    ## How we know
    The launcher's variables say how many processes there are. Rank 0 was listening the whole time, and tried to reach
    the hosts of the missing processes.

    ## What to do
    Read what the missing process prints: its own check ends with the reason why it cannot reach rank 0.

    ## When this is wrong
    The processes start far apart. Give `--wait` more seconds.
    """
    groups: dict[tuple[Reached | None, str], list[Evidence[MemberMissing]]] = defaultdict(list)
    not_started = {e.fact.rank for e in seen.all(HostNotStarted)}
    for each in seen.all(MemberMissing):
        if each.fact.rank in not_started:
            continue  # ssh said why
        if each.fact.arrived >= each.fact.expected and seen.all(ClusterSeen):
            continue  # as many joined as there are: one of them has another's rank, which CFG111 reports
        if each.fact.loopback is not None and each.fact.arrived < each.fact.expected:
            continue  # CFG113: perhaps it waits on another host, where that address is another place
        groups[each.fact.reached, each.fact.said].append(each)
    for (reached, said), found in groups.items():
        fact = found[0].fact
        missing = [e.fact.rank for e in found if e.fact.rank is not None]
        hosts = list(dict.fromkeys(e.fact.host for e in found if e.fact.host))
        on = f" ({listing(hosts[:4])}{' and others' if len(hosts) > 4 else ''})" if hosts else ""
        yield Found(
            title=f"{ranks(missing)}{on} never joined: "
            f"{fact.arrived} of {fact.expected} processes met in {duration(fact.waited_s)}",
            because=_because(reached, said),
            evidence=tuple(found),
            ranks=tuple(missing),
            fixes=_fixes(reached, hosts[0] if hosts else None),
        )


def _because(reached: Reached | None, said: str) -> str:
    if reached in (Reached.REFUSED, Reached.CONNECTED):
        return "its host answers, so the process was not started there or cannot connect to rank 0"
    if reached is Reached.NO_ANSWER:
        return "its host does not answer either: it is down, or a firewall keeps the two hosts apart"
    if reached is Reached.UNRESOLVED:
        return f"the name of its host does not resolve here: {said}"
    if reached is not None:
        return f"its host cannot be reached from here: {said or reached.value}"
    return "it was not started, or cannot reach rank 0; nothing here says which host it belongs on"


def _fixes(reached: Reached | None, host: str | None) -> tuple[Fix, ...]:
    own = Fix(
        do="read the output of that process itself, or run the check alone on its host",
        command=f"ssh {host} keepstep check" if host else "keepstep check",
    )
    if reached is Reached.NO_ANSWER:
        return (Fix(do="check whether the host is up", command=f"ping -c 3 {host}"), own)
    started = Fix(
        do="check how many processes the launcher started; under Slurm", command="squeue --steps; echo $SLURM_NTASKS"
    )
    return (own, started, Fix(do="or give slow starters more time", command="keepstep check --wait 120"))
