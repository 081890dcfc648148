# SPDX-License-Identifier: Apache-2.0
"""The plan: which rank would get which records, from how many records each file holds. Pure.

>>> made = plan([FileRecords("a", 5), FileRecords("b", 3)], ranks=2, batch=2, policy="webdataset")
>>> made.steps
(3, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from keepstep.check.data.plan import slices, streams, tensorflow, torch
from keepstep.check.data.plan.problems import problems_of
from keepstep.check.data.plan.types import FileRecords, Plan, PlanRequest, Share, Split

__all__ = ["POLICIES", "FileRecords", "Plan", "Policy", "Share", "plan"]


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to divide data. ``says``: what it is, for people."""

    divide: Callable[[PlanRequest], Split]
    says: str
    global_batch: bool = False
    """Whether ``batch`` is the batch of all ranks together."""


POLICIES = {
    "tf-auto": Policy(tensorflow.by_file, "tf.data under a strategy, AutoShardPolicy.AUTO on files", True),
    "tf-file": Policy(tensorflow.by_file, "tf.data under a strategy, AutoShardPolicy.FILE", True),
    "tf-data": Policy(tensorflow.by_data, "tf.data under a strategy, AutoShardPolicy.DATA", True),
    "tf-off": Policy(tensorflow.off, "tf.data under a strategy, AutoShardPolicy.OFF", True),
    "tf-shard": Policy(tensorflow.shard_records, "dataset.shard() on records"),
    "tf-shard-files": Policy(tensorflow.shard_files, "dataset.shard() on the names of the files"),
    "torch-sampler": Policy(torch.sampler, "DistributedSampler"),
    "torch-sampler-drop": Policy(torch.sampler_dropping, "DistributedSampler(drop_last=True)"),
    "torch-iterable": Policy(torch.iterable_whole, "an IterableDataset that divides nothing itself"),
    "torch-iterable-records": Policy(torch.iterable_records, "an IterableDataset that takes every M-th record"),
    "torch-iterable-files": Policy(torch.iterable_files, "an IterableDataset that takes every M-th file"),
    "webdataset": Policy(streams.webdataset, "WebDataset with split_by_node"),
    "huggingface": Policy(streams.huggingface, "split_dataset_by_node on an IterableDataset"),
    "huggingface-map": Policy(streams.huggingface_map, "split_dataset_by_node on a Dataset"),
    "litdata": Policy(streams.litdata, "LitData's StreamingDataset"),
    "litdata-keep": Policy(streams.litdata_keeping, "LitData's StreamingDataset(drop_last=False)"),
    "mds": Policy(streams.mds, "MosaicML's StreamingDataset"),
    "jax": Policy(slices.jax_slices, "one slice per JAX process"),
    "grain-slice": Policy(slices.strided, "Grain's MapDataset, or any data, as data[rank::ranks]"),
    "grain": Policy(slices.grain, "Grain's DataLoader with ShardByJaxProcess()"),
    "grain-drop": Policy(slices.grain_dropping, "Grain's DataLoader with ShardByJaxProcess(drop_remainder=True)"),
}


def plan(
    files: Sequence[FileRecords],
    *,
    ranks: int,
    batch: int,
    policy: str,
    workers: int = 0,
    nodes: int = 1,
    drop_last: bool = False,
    seed: int = 0,
    epoch: int = 0,
) -> Plan:
    """What each of ``ranks`` ranks would be fed in one epoch.

    ``batch`` is what the script gives its loader: the global batch for tf.data under a strategy, else that of one rank.
    ``seed`` and ``epoch`` decide the order of policies that shuffle, never how much a rank gets.
    """
    if policy not in POLICIES:
        raise ValueError(f"no such policy: {policy}; the policies are {', '.join(POLICIES)}")
    for name, value, least in (("ranks", ranks, 1), ("batch", batch, 1), ("workers", workers, 0), ("nodes", nodes, 1)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")
    asked = PlanRequest(files=tuple(files), ranks=ranks, batch=batch, workers=workers, nodes=nodes, drop_last=drop_last)
    made = Plan(policy=policy, asked=asked, split=POLICIES[policy].divide(asked), seed=seed, epoch=epoch)
    return replace(made, problems=tuple(problems_of(made)))
