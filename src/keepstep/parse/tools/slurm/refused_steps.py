# SPDX-License-Identifier: Apache-2.0
"""Slurm: steps and jobs that it would not start, and nodes that it lost while a step ran, beyond what ``slurm`` reads.

The words are those of srun's, salloc's and sbatch's own errors and of Slurm's table of error texts (slurm_errno).
"""

from __future__ import annotations

from keepstep.core.facts.config import ClusterSpecInvalid
from keepstep.core.facts.environment import LibraryMissing, UnsupportedCombination, VersionConflict
from keepstep.core.facts.network import ConnectFailed, Why
from keepstep.core.facts.platform import MachineFault, Preempted
from keepstep.parse.scan.signature import signature

_ASKED = r"(?:srun|sbatch|salloc): (?:error|fatal): (?:Unable to (?:create step for job \d+|allocate resources|create job step)|(?:Batch )?[Jj]ob submission failed): "

SIGNATURES = (
    # the launcher of MPI ranks
    signature(
        r"srun: error: MPI: (?:Cannot create context for (?P<name>mpi/\w+)|Unable to load any plugin)|Failed mpi_g_slurmstepd_prefork",
        lambda m: UnsupportedCombination(what=f"Slurm has no usable plugin {m['name'] or 'for MPI'}"),
    ),
    signature(
        r"unable to resolve MPI plugin offset from plugin_id=\d+",
        UnsupportedCombination,
        what="srun and slurmd were built with different MPI plugins",
    ),
    # what was asked for
    signature(
        _ASKED
        + r"(?P<detail>(?:Access/permission denied|Requested nodes not in this partition|Job size specification needs to be provided|Invalid"
        r" (?:user id|group id|license|job array|time specified|mcs_label)|CPU count specification invalid|Task distribution specification invalid"
        r"|No partition specified|Partition in DOWN state|Required partition not available|Step limit reached|Requested reservation"
        r"|Access denied to requested reservation|Error generating job credential|Protocol authentication error|Requires more ports than can be reserved"
        r"|Requested operation not supported|System submissions disabled|Burst Buffer|Pathname of a file|Job dependency problem|Error configuring interconnect"
        r"|Invalid job credential)[^\n]{0,60})",
        ClusterSpecInvalid,
    ),
    signature(
        _ASKED + r"(?P<detail>Required node not available \(down, drained or reserved\))",
        ClusterSpecInvalid,
    ),
    signature(_ASKED + r"Incompatible versions of client and server code", VersionConflict, component="Slurm"),
    signature(
        r"(?:srun|sbatch|salloc): (?:error|fatal): (?P<detail>You asked for \d+ tasks but hostlist specified \d+ nodes|Too few NodeNames in Slurm Hostfile"
        r"|Requested nodelist \S{1,200} overlaps with excluded|Invalid (?:node list|hostfile|task count|task range|task id|MPMD configuration)[^\n]{0,80}"
        r"|Hostlist is empty!|No nodes in allocation, can't run job|invalid number of (?:cpus per task|nodes|tasks)[^\n]{0,40}"
        r"|Slurm job \d+ has expired|Expired or invalid job \d+|--relative and [^\n]{0,80}|Requested het-group offset exceeds[^\n]{0,40}"
        r"|(?:srun|task)[ -]prolog failed[^\n]{0,40}|Failed to broadcast '\S{1,200}'\. Step launch aborted)",
        ClusterSpecInvalid,
    ),
    signature(
        r"slurmstepd: error: (?P<detail>(?:couldn't chdir to /tmp either|Task(?:Prolog|prolog) failed|[Pp]rolog failed|Unable to (?:attach to interconnect"
        r"|drop privileges)|Failed to invoke (?:spank plugin stack|task plugins)|Plugin stack initialization failed|namespace_g_join)[^\n]{0,60})",
        ClusterSpecInvalid,
    ),
    signature(
        r"slurmstepd: error: execve\((?P<path>[^)\n]{0,200})\): (?:bad interpreter\((?P<name>[^)\n]{1,200})\): )?No such file",
        lambda m: LibraryMissing(name=m["name"] or m["path"] or None) if m["name"] or m["path"] else None,
    ),
    # nodes that went away
    signature(
        r"srun: error: (?:Aborting, (?:io error and missing step|step missing and io error|can not test connection to|lost contact with \S+)|\w+: aborting,"
        r" io error with slurmstepd)(?: on)? node (?P<node>\S{1,60})",
        MachineFault,
        what="Slurm ended the job, whose step on a node it had lost",
    ),
    signature(
        r"(?:srun|salloc|sbatch): error: (?P<detail>Nodes \S{1,200} are still not ready|Something is wrong with the boot of the nodes)",
        ClusterSpecInvalid,
    ),
    signature(
        r"srun: error: timeout waiting for task launch, started \d+ of \d+ tasks", ConnectFailed, why=Why.TIMED_OUT
    ),
    signature(
        r"(?:salloc|srun): (?:error: )?Job allocation \d+ has been revoked",
        Preempted,
        by="Slurm",
        reason="the allocation was taken back",
    ),
    signature(
        r"slurmstepd: error: \*\*\* (?:JOB|STEP) \S{1,40} STEPD TERMINATED ON (?P<node>\S+) AT \S+ DUE TO JOB NOT (?:ENDING WITH SIGNALS|RUNNING)",
        MachineFault,
        what="a step could not be killed (Slurm drains such a node)",
    ),
)
