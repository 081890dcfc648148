# SPDX-License-Identifier: Apache-2.0
"""NET002: a rank could not listen because its port was taken."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.model.facts import EndpointGiven, PortTaken
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, lazy_pattern, ranks_of, rule
from keepstep.story.life_of_file import job_of


@rule(id="NET002", cause=Cause.NETWORK_PORT_IN_USE, needs=(PortTaken,))
def port_in_use(seen: EvidenceSet) -> Findings:
    """A rank could not listen on its port because another process holds it.

    ## What it looks like
    `Address already in use`, `errno: 98` (48 on macOS), `EADDRINUSE`, or gRPC's `No address added out of
    total 1 resolved`, from the rank that hosts the rendezvous, a TensorFlow server or a parameter server.
    The other ranks wait, or time out.

    ## Why it happens
    An earlier run is still alive and listening; two jobs on one host use the same default port (29500, 2222, 1234);
    or two ranks of this run were given the same address.

    ## How we know
    The kernel refused `bind` with EADDRINUSE, and the message says so.

    ## What to do
    Find and end the process that holds the port, or give this run its own port.

    ## When this is wrong
    Some libraries try several ports in turn and go on. Then training continues after the message.
    """
    taken = [e for e in seen.all(PortTaken) if not seen.survived(e)]
    if not taken:
        return
    port = next((e.fact.port for e in taken if e.fact.port), None)
    where = f"port {port}" if port else "its port"
    other = _other_job(seen, taken, port)
    because = (
        f"job {job_of(other.origin.source)} was given {where} too"
        if other is not None
        else f"another process, often left over from an earlier run, holds {where}"
    )
    yield Found(
        title=f"{where} was already in use when the run tried to listen on it",
        because=because,
        evidence=(*taken, other) if other is not None else tuple(taken),
        ranks=ranks_of(tuple(taken)) or ((0,) if all(_STORE.search(e.quote) for e in taken) else ()),
        fixes=(
            Fix(
                do="find the process that holds the port, and end it if it is a leftover",
                command=f"ss -ltnp 'sport = :{port or 'PORT'}'",
            ),
            Fix(do="or give a PyTorch run its own port", command="export MASTER_PORT=29517"),
            Fix(do="or give a TensorFlow run its own ports, in TF_CONFIG on every host", command="echo $TF_CONFIG"),
            Fix(do="or give a JAX run its own coordinator port", command="export JAX_COORDINATOR_ADDRESS=HOST:29517"),
        ),
    )


_STORE = lazy_pattern(r"\[c10d\] The server socket|TCPStore|coordination service|coordinator_address")
"""Only rank 0 listens there."""


def _other_job(
    seen: EvidenceSet, taken: Sequence[Evidence[PortTaken]], port: int | None
) -> Evidence[EndpointGiven] | None:
    """A Slurm job besides the one that could not listen, with the same port."""
    jobs = {job_of(e.origin.source) for e in taken}
    for each in seen.all(EndpointGiven):
        job = job_of(each.origin.source)
        if None not in jobs and job is not None and job not in jobs and each.fact.port == port:
            return each
    return None
