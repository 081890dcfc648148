# SPDX-License-Identifier: Apache-2.0
"""Datasets that are streamed in shards or chunks: MosaicML streaming, LitData."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.data import CorruptData, DataMissing, UnevenShards
from keepstep.model.facts.sync import ForkOrThread, SharedStateRace
from keepstep.model.facts.training import CheckpointMismatch
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # LitData; its cache is its own, a folder of the user is not
    signature(
        r"The provided dataset [`'\"]?(?P<path>[^`'\"\n]{0,200}/chunks/[^`'\"\n]{1,100})[`'\"]? doesn't contain any index\.json file",
        CorruptData,
        what="the local copy of a streamed dataset has no index",
    ),
    signature(
        r"The provided dataset [`'\"]?(?P<path>[^`'\"\n]{0,300}[^\s`'\"])[`'\"]? (?:doesn't contain any index\.json file|has no index\.json)",
        DataMissing,
    ),
    # the folder is named after the moment at which some process of this run wrote the index
    signature(
        r"The provided dataset path [`'\"][^`'\"\n]{1,300}/\d{10}\.\d{1,9}[`'\"] does not exist",
        SharedStateRace,
        what="another process's copy of a streamed dataset is missing",
    ),
    signature(
        r"The provided dataset path [`'\"](?P<path>[^`'\"\n]{0,200}/chunks/[^`'\"\n]{1,100})[`'\"] does not exist",
        CorruptData,
        what="the local copy of a streamed dataset is missing",
    ),
    signature(r"No index\.json file found in cache: (?P<path>\S{1,300})", DataMissing),
    signature(r"The provided remote_path doesn't exist: (?P<path>\S{1,300})", DataMissing),
    signature(r"(?P<what>Decompressed chunk (?P<path>\S{1,300}) is smaller than expected)", CorruptData),
    signature(r"RuntimeError: (?P<what>The file (?P<path>\S{1,300}) has 0 bytes)!", CorruptData),
    signature(r"(?P<what>All the chunks should have been deleted)\. Found", SharedStateRace),
    signature(
        r"`ParquetLoader` uses Polars, which is not compatible with the `fork` multiprocessing context",
        ForkOrThread,
        what="Polars in a forked loader worker",
    ),
    signature(
        r"(?P<detail>The provided `\w{1,40}` (?:path |URL )?state doesn't match the current one)", CheckpointMismatch
    ),
    signature(
        r"(?P<detail>support resume only when world_size, num_workers, and batch_size match the checkpoint)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The number of workers in the checkpoints doesn't match the current number of workers)",
        CheckpointMismatch,
    ),
    # MosaicML streaming
    signature(r"Stream contains no samples: (?P<path>\S{1,300}?)\.?$", DataMissing),
    signature(r"No `remote` provided, but local file (?P<path>\S{1,300}) does not exist either", DataMissing),
    signature(r"Check if the shard file exists in your remote location", DataMissing),
    signature(r"ValueError: (?P<what>Checksum failure): (?P<path>\S{1,300})", CorruptData),
    signature(
        r"(?P<what>Data is too short w\.r\.t the number of images decoded|Input data is too short to contain valid jpeg arrays)",
        CorruptData,
    ),
    signature(
        r"Could not create a temporary local directory (?P<path>\S{1,300}) because it already exists",
        SharedStateRace,
        what="the local folder of a streamed dataset already existed",
    ),
    signature(r"(?P<detail>shared memory prefix=\d+ was not registered by local leader)", ClusterSpecInvalid),
    signature(r"(?P<detail>shared memory registered does not match local leader)", ClusterSpecInvalid),
    signature(r"(?P<detail>num_canonical_nodes must be divisible by physical nodes)", ClusterSpecInvalid),
    signature(
        r"(?P<detail>dataset has \d+ rows, fewer than dp_world_size=\d+|pattern \S{1,120} did not match any tar shards"
        r"|No \.tar or \.tgz shards found under \S{1,200}|has no \S{1,60} and no worker index shards)",
        UnevenShards,
    ),
    signature(r"(?P<what>shared memory prefix=\S{1,60} was not registered by local leader)", SharedStateRace),
)
