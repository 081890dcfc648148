# SPDX-License-Identifier: Apache-2.0
"""CFG113: an address that means the host itself, in a cluster of several hosts."""

from __future__ import annotations

from keepstep.model.facts import ClusterSeen, Fact, MeetingFailed, MemberMissing, NameLookedUp, NodesNamed
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    listing,
    ranks,
    ranks_of,
    rule,
)
from keepstep.rules.asking.every_task_here import (
    all_came,
    all_tasks_here,
    first_of_each,
    machines,
    means_itself,
    names_in,
    resolves_to_itself,
)


@rule(id="CFG113", cause=Cause.CONFIG_LOCALHOST_ADDRESS, needs=(ClusterSeen, MemberMissing, MeetingFailed))
def loopback_between_hosts(seen: EvidenceSet) -> Findings:
    """A cluster of several hosts lists an address that means the host itself.

    ## What it looks like
    TF_CONFIG, MASTER_ADDR or JAX's coordinator has `localhost`, `127.0.0.1`, `0.0.0.0` or `169.254.x.y` while processes
    run on several hosts, or a host's own name that its /etc/hosts maps to 127.0.1.1. Each process waits on its own host
    for the others.

    ## Why it happens
    A setting that was right for one host was used for several. Most examples for TF_CONFIG have `localhost`.

    ## How we know
    The processes run on several hosts, or other addresses in the same list are real ones, or the launcher's variables
    name several nodes. Where only a process did not come, it is a hypothesis.

    ## What to do
    Use an address that the other hosts can reach.

    ## When this is wrong
    All processes run on one host, and the one that is missing was not started.
    """
    missing = _missing(seen)
    told = False
    for each in first_of_each(seen):
        fact = each.fact
        named = names_in(fact)
        local = [name for name in named if means_itself(name) or resolves_to_itself(seen, name)]
        looked_up = tuple(e for e in seen.all(NameLookedUp) if e.fact.name in local)
        if local and fact.size > 1 and (len(machines(seen)) > 1 or len(local) < len(named)):
            told = True
            yield Found(
                title=f"{fact.said_by} has {listing(local[:3])} in a cluster of several hosts",
                because="that address never leaves the host that uses it, so other hosts connect to themselves",
                evidence=(each, *looked_up),
                fixes=_FIXES,
            )
        elif all_tasks_here(seen, fact) and not all_came(seen, fact.size) and (nodes := _several_nodes(seen)):
            told = True
            what = "pods" if nodes.fact.said_by == "Kubernetes" else "nodes"
            yield Found(
                title=f"{_every_task(fact)}, while {nodes.fact.said_by} names {nodes.fact.count} {what}",
                because="that address means the host that uses it, so a task on another one would look for the others "
                "on its own host",
                evidence=(each, nodes, *looked_up, *missing),
                ranks=ranks_of(missing) or None,
                confidence=Confidence.SUPPORTED,
                fixes=_FIXES,
            )
    if missing and not told:
        yield _not_come(missing)


def _every_task(fact: ClusterSeen) -> str:
    """``TF_CONFIG has localhost for every task``; the others know only where to meet."""
    named = listing(names_in(fact)[:3])
    return f"{fact.said_by} has {named} for every task" if len(fact.members) > 1 else f"{fact.said_by} meets at {named}"


def _several_nodes(seen: EvidenceSet) -> Evidence[NodesNamed] | None:
    return next((e for e in seen.all(NodesNamed) if e.fact.count > 1), None)


def _missing(seen: EvidenceSet) -> tuple[Evidence[Fact], ...]:
    """The processes that did not come to a loopback address, or found nobody there."""
    missed: list[Evidence[Fact]] = [
        e
        for e in seen.all(MemberMissing)
        if e.fact.loopback is not None and e.fact.arrived < e.fact.expected  # else one has another's rank: CFG111
    ]
    return (*missed, *(e for e in seen.all(MeetingFailed) if e.fact.loopback is not None))


def _not_come(missing: tuple[Evidence[Fact], ...]) -> Found:
    first = missing[0].fact
    assert isinstance(first, MemberMissing | MeetingFailed)
    where, who = first.loopback, ranks_of(missing)
    came = "rank 0 was not found at" if isinstance(first, MeetingFailed) else f"{ranks(who)} did not come to"
    met = f" ({first.arrived} of {first.expected} processes did)" if isinstance(first, MemberMissing) else ""
    return Found(
        title=f"{came} {where}{met}, which is another place on every host",
        because=f"a task on another host would look for the others on its own {where}; if all run on this host, "
        "the missing one was not started or has ended",
        evidence=missing,
        ranks=who,
        confidence=Confidence.HYPOTHESIS,
        fixes=(
            *_FIXES,
            Fix(
                do="if all tasks run on this host, read what the missing one printed, and check that it was started",
                command="ps -ef | grep '[k]eepstep check'",
            ),
        ),
    )


_FIXES = (
    Fix(do="list this host's addresses, and use one that the other hosts can reach", command="ip -brief address"),
    Fix(
        do="write the variables of every rank from the list of hosts",
        command="keepstep check --write --hosts HOST_0,HOST_1",
    ),
    Fix(
        do="or take the first host's name from the scheduler",
        command="export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)",
    ),
)
