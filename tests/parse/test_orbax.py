# SPDX-License-Identifier: Apache-2.0
"""What Orbax says of checkpoints that it cannot restore or finish."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
from keepstep.parse.tools.jax import orbax as table

WORDINGS = [
    (
        "ValueError: No ArrayMetadata found for process_index=3 in the checkpoint directory: /c/1",
        CheckpointUnreadable,
        {},
    ),
    ("ValueError: Step metadata not found at /ckpt/100", CheckpointUnreadable, {"path": "/ckpt/100"}),
    ("ValueError: Step directory /ckpt/100 does not exist.", CheckpointUnreadable, {"path": "/ckpt/100"}),
    (
        "ValueError: Structure mismatch: Target path ('a', 'b') not found in metadata_tree. Expected identical structures.",
        CheckpointMismatch,
        {},
    ),
    (
        "ValueError: The available devices are different from the devices used to save the checkpoint. Please restore",
        CheckpointMismatch,
        {},
    ),
    (
        "ValueError: [process_index=3] Timed out waiting for array_metadatas base directory creation: gs://b/c.",
        SlowStorage,
        {},
    ),
    (
        "TimeoutError: ChainedFuture completed 0/1 futures but timed out after 1199.96 seconds.",
        SlowStorage,
        {"detail": "ChainedFuture completed 0/1 futures but timed out after 1199.96 seconds"},
    ),
    ("TimeoutError: Thread commit_3 did not complete within 1199.5 seconds.", SlowStorage, {}),
    ("TimeoutError: Timed out while waiting for async_write_complete barrier.", SlowStorage, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "Step directory /ckpt/100 was created.",
        "Waiting at barrier 'save'",
        "Restoring item from /c/1.",
        "ChainedFuture completed 3/3 futures in 41.20 seconds.",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ValueError: StepMetadata.item_handlers must be a dict, but is a <class 'str'>.", CheckpointUnreadable),
        ("ValidationError: Expected /c/100/commit_success.txt (/c/100) to exist.", CheckpointUnreadable),
        (
            "InvalidShardingError: The provided sharding is not valid. The primary replica has the following devices: [0, 1]",
            ClusterSpecInvalid,
        ),
        ("ValueError: The product of DCN parallelism values 4 must equal num_slices 2.", WorldSizeConflict),
    ],
)
def test_a_mesh_or_metadata_that_does_not_fit_is_read(text, kind, read, holds):
    assert holds(read(table, text), kind)
