# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel and its wrappers: parameters unused or used twice, models that differ."""

from __future__ import annotations

from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.sync import MarkedReadyTwice, ModelsDiffer, ReplicasDiffer, UnusedParameters
from keepstep.parse.scan.signature import by_hand, signature

SIGNATURES = (
    # reducer.cpp, all versions
    signature(
        r"Expected to have finished reduction in the prior iteration before starting a new one", UnusedParameters
    ),
    signature(
        r"Parameters? (?:indices )?which did not receive grad for rank (?P<rank>\d+): (?P<names>[^\n]{0,300})",
        UnusedParameters,
    ),
    signature(r"Your training graph has changed in this iteration", UnusedParameters),
    signature(r"has parameters that were not used in producing (?:the |its )?(?:loss|output)", UnusedParameters),
    # torch before 1.1 hands a gradient that never came to the reducer; apex counts its buckets
    signature(r"_queue_reduction\(\): incompatible function arguments", UnusedParameters),
    signature(r"In epilogue, next_bucket \(\d+\) != num_buckets \(\d+\)", UnusedParameters),
    # fairscale
    signature(r"A bucket failed to be sent, probably unused parameters", UnusedParameters),
    # wrapped without anything to train; tf.distribute and Keras optimizers
    signature(
        r"DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient",
        UnusedParameters,
    ),
    signature(r"No gradients provided for any variable(?:: (?P<names>[^\n]{0,300}))?", UnusedParameters),
    # Horovod; DeepSpeed ZeRO
    signature(r"Gradients? (?:was|were) computed more than backward_passes_per_step times", MarkedReadyTwice),
    signature(r"[Tt]he parameter (?P<name>\S+) has already been reduced", MarkedReadyTwice),
    signature(r"Expected to mark a variable ready only once", MarkedReadyTwice),
    signature(r"Parameter at index \d+(?: with name (?P<name>\S+))? has been marked as ready twice", MarkedReadyTwice),
    # apex: a parameter that was not there, or had no gradient, when the buckets were made
    signature(r"self\.param_id_to_bucket\[id\(param\)\]", UnusedParameters),
    signature(
        r"'DistributedDataParallel' object has no attribute '(?:buckets_ready_size|param_id_to_bucket|active_i_buckets|bucket_sizes|num_buckets)'",
        UnusedParameters,
    ),
    # comm.cpp / reducer.cpp
    signature(
        r"DDP expects same model across all ranks, but Rank (?P<rank>\d+) has (?P<detail>\d+ params, while rank (?:\d+) has [^\n]{0,40}params)",
        ModelsDiffer,
    ),
    signature(
        r"(?:\[(?P<rank>\d+)\]: )?(?P<detail>(?:params\[\d+\]|replicas\[\d+\]\[\d+\]) in this process with (?:sizes|strides) [^\n]{0,80} appears "
        r"not to match (?:sizes?|strides) of the same param in process \d+)",
        ModelsDiffer,
    ),
    # distributed/checkpoint/utils.py
    signature(r"(?P<detail>Key\(s\) present in other ranks but not this one)", ReplicasDiffer),
    # programs that compare the ranks themselves
    signature(
        r"(?:Error|Exception|assert)\b[^\n]{0,80}\b(?P<detail>[Pp]arameters?|[Ww]eights?|[Gg]radients?|[Mm]odels?|[Bb]uffers?|[Rr]eplicas?|"
        r"[Cc]hecksums?|[Oo]ptimizer states?)\b[^\n]{0,40}\b(?:differs?|diverged?|out of sync|desync\w*|not (?:equal|identical|in sync|"
        r"synced|synchroni[sz]ed|the same)|mismatch(?:ed)?)\b[^\n]{0,20}\b(?:across|between|among|on)(?: all| the| different)? "
        r"(?:ranks?|workers?|replicas|processes|hosts|[Gg][Pp][Uu]s|devices|nodes)\b",
        ReplicasDiffer,
        anchors=by_hand(
            "models and errors are on many lines",
            "across ranks",
            "across workers",
            "across replicas",
            "across processes",
            "across GPUs",
            "across devices",
            "across all ranks",
            "between ranks",
            "between rank",
            "between workers",
            "between replicas",
            "between processes",
            "between GPUs",
            "among ranks",
            "on different ranks",
        ),
    ),
    signature(
        r"Caught StopIteration in replica \d+",
        UnsupportedCombination,
        what="a module that reads its own parameters inside a DataParallel replica (torch >= 1.5)",
    ),
    signature(
        r"(?P<what>`?DataParallel`? replicas?[^\n]{0,60}(?:not|n't) (?:have|support)[^\n]{0,60})",
        UnsupportedCombination,
    ),
)
