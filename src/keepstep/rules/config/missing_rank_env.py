# SPDX-License-Identifier: Apache-2.0
"""CFG003: a process does not know its rank."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, RankVariableMissing, rule
from keepstep.rules.asking.fallout import FALLOUT, lasting

OF_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables that torchrun sets."""
THROUGH_TORCHRUN = Fix(do="start a PyTorch script through its launcher", command="torchrun --nproc-per-node=2 train.py")


@rule(
    id="CFG003",
    cause=Cause.CONFIG_MISSING_RANK_ENV,
    needs=(RankVariableMissing,),
    explains=(
        *FALLOUT,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.CONFIG_WORLD_SIZE_MISMATCH,
        Cause.CONFIG_CLUSTER_SPEC,
    ),
)
def missing_rank_env(seen: EvidenceSet) -> Findings:
    """A process does not know its rank: a variable or argument is missing, or was not understood.

    ## What it looks like
    `environment variable RANK expected, but not set`, `KeyError: 'LOCAL_RANK'`, `KeyError: 'SLURM_NTASKS'`, or
    a script that rejects the launcher's own argument: `unrecognized arguments: --local-rank=0`.

    ## Why it happens
    The script was started with plain `python` instead of its launcher, in a shell without the scheduler's variables, or
    by a launcher with another convention (torchrun sets variables; its predecessor passed `--local_rank`, and later
    `--local-rank`).

    ## How we know
    The message names the missing variable or argument.

    ## What to do
    Start through the launcher, or set the variables. Read the rank from the environment, not from arguments.

    ## When this is wrong
    The program looks for the variable only to find out whether it is distributed, and goes on without it.
    """
    found = lasting(seen, RankVariableMissing)
    if not found:
        return
    name = next((e.fact.name for e in found if e.fact.name), None)
    if name == "the process group":
        yield _never_set_up(found)
        return
    argument = name is not None and name.lower().replace("_", "-") == "local-rank" and name.islower()
    yield Found(
        title=f"the script did not accept the launcher's argument --{name}"
        if argument
        else f"{name or 'a rank variable'} was not set, so a process did not know its place in the run",
        because="the launcher and the script do not agree on how a process learns its rank",
        evidence=found,
        fixes=(
            *(
                (
                    THROUGH_TORCHRUN,
                    Fix(
                        do="read the local rank from the environment", code='local_rank = int(os.environ["LOCAL_RANK"])'
                    ),
                )
                if name is None or name.upper().replace("-", "_") in OF_TORCHRUN
                else (
                    Fix(
                        do=f"set {name} for each process before it starts, or let a launcher set it",
                        command="keepstep run -n 2 -- python train.py",
                    ),
                )
            ),
        ),
    )


def _never_set_up(found: tuple[Evidence[RankVariableMissing], ...]) -> Found:
    """PyTorch says only that there is no group; the reason given here is the usual one, not a proven one."""
    return Found(
        title="the program used a process group, but this process had not created one",
        because="init_process_group had not been called; usually, the script was started without its launcher "
        "and took itself for a run of one process",
        evidence=found,
        confidence=Confidence.SUPPORTED,
        fixes=(
            THROUGH_TORCHRUN,
            Fix(
                do="or call torch.distributed.init_process_group() before the line that needs it, "
                "and destroy the group afterwards"
            ),
        ),
    )
