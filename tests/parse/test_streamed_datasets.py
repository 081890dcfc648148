# SPDX-License-Identifier: Apache-2.0
"""Datasets that are streamed in shards."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid
from keepstep.core.facts.data import CorruptData, DataMissing
from keepstep.core.facts.sync import ForkOrThread, SharedStateRace
from keepstep.core.facts.training import CheckpointMismatch
from keepstep.parse.tools.trainers.streamed_datasets import SIGNATURES


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        (
            "The provided dataset `/data/mine` doesn't contain any index.json file. HINT: Did you",
            DataMissing,
            {"path": "/data/mine"},
        ),
        (
            "ValueError: The provided dataset `/root/.lightning/chunks/a1/b2` doesn't contain any index.json file.",
            CorruptData,
            {"path": "/root/.lightning/chunks/a1/b2"},
        ),
        (
            "FileNotFoundError: The provided dataset path `/w/cache/a1a323c1c1c3/1745685808.544671` does not exist.",
            SharedStateRace,
            {},
        ),
        (
            "FileNotFoundError: The provided dataset path `/root/.lightning/chunks/a1/b2` does not exist.",
            CorruptData,
            {"path": "/root/.lightning/chunks/a1/b2"},
        ),
        (
            "The provided dataset `/data/x` has no index.json and no worker index shards ({rank}.index.json)",
            DataMissing,
            {"path": "/data/x"},
        ),
        (
            "This should not have happened. No index.json file found in cache: /c/index.json",
            DataMissing,
            {"path": "/c/index.json"},
        ),
        ("FileNotFoundError: The provided remote_path doesn't exist: /mnt/a.bin", DataMissing, {"path": "/mnt/a.bin"}),
        (
            "OSError: Decompressed chunk /c/chunk-0-1.bin is smaller than expected (10 < 20).",
            CorruptData,
            {"path": "/c/chunk-0-1.bin"},
        ),
        ("RuntimeError: The file /c/a.jpeg has 0 bytes!", CorruptData, {"path": "/c/a.jpeg"}),
        ("RuntimeError: All the chunks should have been deleted. Found ['chunk-0-0.bin']", SharedStateRace, {}),
        (
            "The `ParquetLoader` uses Polars, which is not compatible with the `fork` multiprocessing context used",
            ForkOrThread,
            {},
        ),
        (
            "The provided `shuffle` state doesn't match the current one. Found `True` instead of `False`.",
            CheckpointMismatch,
            {},
        ),
        ("The provided `input_dir` path state doesn't match the current one. Found", CheckpointMismatch, {}),
        (
            "support resume only when world_size, num_workers, and batch_size match the checkpoint.",
            CheckpointMismatch,
            {},
        ),
        (
            "The number of workers in the checkpoints doesn't match the current number of workers.",
            CheckpointMismatch,
            {},
        ),
        ("RuntimeError: Stream contains no samples: /d/index.json.", DataMissing, {"path": "/d/index.json"}),
        (
            "No `remote` provided, but local file /d/index.json does not exist either",
            DataMissing,
            {"path": "/d/index.json"},
        ),
        ("Check if the shard file exists in your remote location or have you deleted the shard file", DataMissing, {}),
        ("ValueError: Checksum failure: /d/shard.00000.mds.zstd", CorruptData, {"path": "/d/shard.00000.mds.zstd"}),
        ("ValueError: Data is too short w.r.t the number of images decoded", CorruptData, {}),
        (
            "Could not create a temporary local directory /tmp/ab12 because it already exists. If",
            SharedStateRace,
            {"path": "/tmp/ab12"},
        ),
        ("Internal error: shared memory prefix=3 was not registered by local leader. This may", ClusterSpecInvalid, {}),
        ("Internal error: shared memory registered does not match local leader as", ClusterSpecInvalid, {}),
        (
            "For `device_per_stream` batching, num_canonical_nodes must be divisible by physical nodes. ",
            ClusterSpecInvalid,
            {},
        ),
    ],
)
def test_says(line, kind, fields):
    facts = [fact for each in SIGNATURES if (fact := each.read(line)) is not None]
    assert any(isinstance(f, kind) and all(getattr(f, k) == v for k, v in fields.items()) for f in facts), facts


def test_a_folder_of_the_user_that_is_not_there_is_not_told():
    line = "FileNotFoundError: The provided dataset path `/data/mine` does not exist."
    assert [fact for each in SIGNATURES if (fact := each.read(line)) is not None] == []
