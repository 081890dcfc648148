# SPDX-License-Identifier: Apache-2.0
"""CFG001: the cluster description is wrong or contradicts itself."""

from __future__ import annotations

from keepstep.model.facts import ClusterSpecInvalid, DeviceShared, DuplicateMember
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule, shorten
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.fallout import FALLOUT, lasting
from keepstep.rules.asking.process_endings import ended_badly

A_DEVICE_EACH = (
    Fix(
        do="let each process choose the device of its local rank",
        code='torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
    ),
    Fix(do="start no more processes on a host than it has devices", command="nvidia-smi -L | wc -l"),
)


@rule(
    id="CFG001",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(ClusterSpecInvalid, DeviceShared, DuplicateMember),
    explains=(
        *FALLOUT,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_PORT_IN_USE,
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.TPU_INITIALIZATION_FAILURE,
    ),
)
def cluster_spec(seen: EvidenceSet) -> Findings:
    """The cluster description is wrong: a task, device or rank does not fit the others.

    ## What it looks like
    `"task" is not found in TF_CONFIG`, `task_type 'worker' not found in cluster_spec`, `Could not satisfy
    explicit device specification '/job:ps/task:0'`, `Duplicate GPU detected : rank 0 and rank 1 both on CUDA
    device`, or two processes that announce themselves as the same rank.

    ## Why it happens
    TF_CONFIG differs between the hosts, or names a task that no process runs; a session does not use the server's
    target; ranks are not pinned to their own devices; or two processes have the same index.

    ## How we know
    The framework rejects the description, or names the ranks that share a device.

    ## What to do
    Print the description on every host and compare. The list of tasks must be the same, the index must differ.

    ## When this is wrong
    A remote task's device is also missing when its host was not reached in time.
    """
    spec = lasting(seen, ClusterSpecInvalid)
    if spec:
        detail = spec[0].fact.detail
        unseen = detail.startswith("no device of")
        yield Found(
            title="the cluster description does not fit: " + shorten(detail, 90),
            because="this process knows no such task or device, so the description and the running tasks differ"
            if unseen
            else "the framework rejected the cluster description",
            evidence=spec,
            confidence=Confidence.SUPPORTED if unseen else Confidence.ESTABLISHED,
            fixes=(
                Fix(
                    do="compare the description on every host; only the task's index may differ",
                    command="echo $TF_CONFIG",
                ),
                Fix(do="check that every task of the list has a running process, and that sessions use server.target"),
            ),
        )
    shared = tuple(e for e in lasting(seen, DeviceShared) if e.fact.ranks)
    if shared:
        who = sorted({n for e in shared for n in e.fact.ranks})
        yield Found(
            title=f"{say_ranks(who)} use the same device",
            because="each rank needs its own device, and these ranks chose the same one",
            evidence=shared,
            ranks=tuple(who),
            fixes=A_DEVICE_EACH,
        )
    twice = tuple(e for e in lasting(seen, DuplicateMember) if e.fact.certain or ended_badly(seen))
    if twice:
        member = next((e.fact.member for e in twice if e.fact.member), None)
        yield Found(
            title="two processes announced themselves as " + (f"member {member}" if member else "the same member"),
            because="two processes were given the same rank or task index",
            evidence=twice,
            confidence=None if any(e.fact.certain for e in twice) else Confidence.SUPPORTED,
            fixes=(
                Fix(do="with PyTorch, give every process its own rank", command="echo $RANK $LOCAL_RANK"),
                Fix(do="with TensorFlow, give every process its own task index", command="echo $TF_CONFIG"),
                Fix(do="with JAX, give every process its own id", command="echo $JAX_PROCESS_ID $SLURM_PROCID"),
            ),
        )
