# SPDX-License-Identifier: Apache-2.0
"""PyTorch's loaders and samplers, and the libraries around them: shards, labels, lengths."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible, EmptyBatch, EndOfData, LabelOutOfRange, UnevenShards
from keepstep.model.facts.sync import RanksMissing
from keepstep.model.facts.training import Slowness
from keepstep.parse.scan.signature import by_hand, signature


def _not_divisible(match: re.Match[str]) -> Fact | None:
    """A batch only; a world that does not divide is the launcher's matter and read elsewhere."""
    if re.search(r"(?i)world[ _]?size|layers|heads|experts", match.string):
        return None
    return BatchNotDivisible(batch=match["batch"], parts=match["parts"])


_SEED = "the seed that all loaders share"

SIGNATURES = (
    # Rank 0 draws the seed of the pipes and writes it into the store; the others wait for it
    signature(
        r"Timed out receiving the shared seed from the distri\w+ store on Rank (?P<rank>\d+)",
        RanksMissing,
        missing=(0,),
        what=_SEED,
    ),
    signature(
        r"\bstore\.(?:wait|get)\(\[?(?:_utils\.)?(?:DATAPIPE_)?SHARED_SEED\b", RanksMissing, missing=(0,), what=_SEED
    ),
    signature(r"Fail to fetch data within (?P<detail>[\d.]+ seconds)", Slowness, what="loader"),
    signature(
        r"assert len\(indices\) == self\.(?:total_size|num_samples)\b",
        UnevenShards,
        detail="the sampler has too few samples for so many ranks",
    ),
    # Labels and ids
    signature(r"IndexError: Target (?P<label>-?\d+) is out of bounds", LabelOutOfRange),
    signature(r"index out of range in self", LabelOutOfRange),
    signature(
        r"Assertion `(?:cur_target|t|target_val|target) >= 0 && (?:cur_target|t|target_val|target) < "
        r"(?:n_classes|n_class|static_cast<[^>]*>\(n_classes\)|C)`? failed",
        LabelOutOfRange,
    ),
    signature(r"Assertion `[^`\n]{0,60}n_classes[^`\n]{0,20}` failed", LabelOutOfRange),
    signature(r"Assertion `srcIndex < srcSelectDimSize` failed", LabelOutOfRange),
    signature(r"Assertion `[^`'\n]{0,60}n_classes' failed", LabelOutOfRange),
    signature(r"Tried to access index (?P<label>\d+) out of table with (?P<limit>\d+) rows", LabelOutOfRange),
    signature(r"all elements of target should be between 0 and 1", LabelOutOfRange),
    signature(r"Assertion `[^`\n]{0,80}index out of bounds\"?`? failed", LabelOutOfRange, certain=False),
    signature(r"cuda runtime error \(59\)", LabelOutOfRange, certain=False),
    signature(r"Class values must be (?:smaller than num_classes|non-negative)", LabelOutOfRange),
    # Shards
    signature(r"% per_replica_batch_size[^\n]{0,40}\n *ZeroDivisionError", BatchNotDivisible),
    signature(
        r"Asked to retrieve element \d+, but the Sequence has length 0",
        UnevenShards,
        detail="a rank's dataset has no full batch",
    ),
    signature(
        r"you need to add an explicit nodesplitter to your input pipeline",
        UnevenShards,
        detail="the web dataset is not split between the nodes",
    ),
    signature(
        r"Detected at least one rank that exhausted inputs|\bRank (?P<rank>\d+) exhausted all inputs",
        UnevenShards,
        detail="one rank ran out of inputs before the others",
    ),
    signature(
        r"(?:DataLoader|IterableDataset|Dataset)[^\n]{0,60}has (?:length |len )?0(?: samples)?\b[^\n]{0,60}",
        UnevenShards,
        detail="a rank's dataset is empty",
        anchors=by_hand("datasets are on many lines", "has length 0", "has len 0", "has 0 samples", "has 0"),
    ),
    signature(
        r"num_samples should be a positive integer value, but got num_samples=0|datasets should not be an empty iterable",
        UnevenShards,
        detail="a rank's dataset is empty",
    ),
    signature(
        r"No samples found in dataset|(?:no|No) shards? (?:found|assigned|available|for this|left)[^\n]{0,60}|"
        r"(?:not enough|fewer|less) shards (?:for|than|to)[^\n]{0,60}",
        UnevenShards,
        detail="a rank or worker got no shard",
    ),
    signature(r"world_size (?P<detail>\d+ > num_shards \d+)", UnevenShards),
    signature(
        r"have fewer shards than (?:workers|ranks|nodes|processes)|number of shards[^\n]{0,60}(?:less|smaller|fewer) "
        r"than[^\n]{0,40}(?:world|rank|worker|process|node)|(?:row-?groups|shards)[^\n]{0,40}(?:less|fewer) than "
        r"(?:the )?(?:number of )?(?:shards|shard_count|workers|ranks)",
        UnevenShards,
        detail="fewer shards than ranks",
    ),
    signature(
        r"Number of row-groups in the dataset must be greater or equal to the number of requested shards",
        UnevenShards,
        detail="fewer row groups than ranks",
    ),
    signature(r"_get_pipeline_from_tar\(tar_paths\[0\]", UnevenShards, detail="a rank got no shard of the web dataset"),
    signature(
        r"(?:Stream contains no samples|The dataset (?:size|length) \(?\d+\)?[^\n]{0,40} is (?:less|smaller) than the (?:world size|number of (?:ranks|canonical nodes|processes)))",
        UnevenShards,
        detail="fewer samples than ranks",
    ),
    # open_lm and its kin; the same words with another end are a warning, and samples are used again
    signature(
        r"(?:Number of shards requested for a single epoch is more than the number of shards available\.(?! Consider lowering)"
        r"|IndexError: Source idx \d+ runs out of shards)",
        UnevenShards,
        detail="more shards were requested than there are",
    ),
    signature(r"NoDataAvailableError", UnevenShards, detail="a rank got no data"),
    signature(
        r"Number of (?:subsampled )?indices \((?P<seen>\d+)\) does not match (?:total_size|num_samples) \((?P<expected>\d+)\)",
        WorldSizeConflict,
        what="samples of the sampler",
    ),
    signature(r"RuntimeError: generator raised StopIteration|^\s{0,16}StopIteration\s*$", EndOfData, what="exception"),
    # Batches that do not divide
    signature(
        r"Expected more than 1 value per channel when training, got input size (?P<what>[^\n]{0,80})", EmptyBatch
    ),
    signature(r"Expected reduction dim[^\n]{0,60}numel\(\) == 0", EmptyBatch, what="a reduction over no rows"),
    signature(
        r"[Nn]on-empty \d\w?D? (?:or \dD )?\(batch mode\) tensor expected",
        EmptyBatch,
        what="an operator got an empty batch",
    ),
    signature(
        r"(?:train_)?batch_size(?:\D{1,40}(?P<batch>\d+))?[^\n]{0,100}?(?:must be|is not|not|should be)(?: evenly| a)? "
        r"(?:divisible by|multiple of)[^\n]{0,80}?(?P<parts>\d+)?",
        BatchNotDivisible,
    ),
    signature(r"(?P<batch>\d+) is not divisible by (?P<parts>\d+)", _not_divisible),
    signature(
        r"(?:mini)?-?batch size[^\n]{0,40}(?:cannot|can't|could not) be (?:evenly )?(?:divided|split)[^\n]{0,80}",
        BatchNotDivisible,
    ),
)
