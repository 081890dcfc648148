# SPDX-License-Identifier: Apache-2.0
"""Collectives that not all ranks enter, or that do not fit each other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from . import Fault
from ._script import ScriptMistake

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class _Lone(Fault):
    """The rank alone enters a collective, and stays in it."""

    def proof(self, run: Run) -> str:
        told = run.proof_that_it_struck()
        if run.scenario.hang and not run.alive(run.scenario.struck):
            raise run.unproven(f"rank {run.scenario.struck} has ended")
        return f"{told} and did not get out of it"


class ConditionalBarrier(_Lone):
    """The rank enters a barrier that stands under `if rank == 0`; its peers never do."""

    def at(self, step: int, rank: int) -> None:
        import torch.distributed as dist

        dist.barrier()


class ConditionalSync(_Lone):
    """The rank alone takes part in a sync_global_devices that stands under a condition (JAX)."""

    def at(self, step: int, rank: int) -> None:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices("before_evaluation")


class LoneAllGather(_Lone):
    """The rank gathers something for its log under `if rank == 0`; its peers are in DDP's next collective."""

    def at(self, step: int, rank: int) -> None:
        import torch
        import torch.distributed as dist

        dist.all_gather([torch.zeros(6) for _ in range(dist.get_world_size())], torch.ones(6))


class OtherCollective(Fault):
    """The rank enters a broadcast that its peers do not: the ranks' orders of collectives differ."""

    def at(self, step: int, rank: int) -> None:
        import torch
        import torch.distributed as dist

        dist.broadcast(torch.zeros(3), src=rank)


class ChiefEvaluates(ScriptMistake):
    """Only the chief evaluates, in a collective, while the other workers wait for the file that it will write then."""

    EVALUATE = "if options.evaluate and step % options.evaluate == 0"
    WAIT = '''def chief_evaluates(rank: int) -> bool:
    """The chief evaluates; the others wait for its result."""
    while rank > 0 and not Path("evaluation.json").exists():
        time.sleep(0.5)
    return rank == 0


'''
    shown = f"{EVALUATE} and chief_evaluates(rank):"
    edits = (
        (f"{EVALUATE}:", shown),
        ("def memory(", f"{WAIT}def memory("),
        ("import resource\n", "import resource\nimport time\n"),
    )

    def outside(self, run: Run) -> None:
        if run.wait_for(f"step {run.scenario.args[run.scenario.args.index('--evaluate') + 1]} loss", rank=0):
            run.strike("the chief evaluates alone")

    def proof(self, run: Run) -> str:
        if "evaluation at step" in run.log_of(0):
            raise run.unproven("the chief's evaluation ended")
        return f"{super().proof(run)}, and no evaluation has ended"


class SkippedEvaluation(ScriptMistake):
    """Only the chief evaluates, and the evaluation ends in a collective: the others never come to it."""

    EVALUATE = "if options.evaluate and step % options.evaluate == 0"
    edits = ((f"{EVALUATE}:", f"{EVALUATE} and rank == 0:"),)


class SkippedExchange(Fault):
    """From one step on, the rank leaves out the exchange of gradients with its copy in another pipeline."""

    def change_exchanges(self, exchanges: bool) -> bool:
        return False


class MissingInBarrier(Fault):
    """The rank is still preprocessing when its peers enter a monitored barrier with a short limit."""

    def change_preprocess(self, seconds: float) -> float:
        time.sleep(12)
        return seconds


class MetricsDtype(Fault):
    """The rank reduces double precision numbers, its peers single precision."""

    def change_metrics(self, metrics: Any) -> Any:
        return metrics.double()


class MetricsShape(Fault):
    """The rank reduces a tensor of another length than its peers."""

    def change_metrics(self, metrics: Any) -> Any:
        return metrics.repeat(4)
