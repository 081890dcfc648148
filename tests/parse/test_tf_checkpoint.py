# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow refuses to restore."""

from __future__ import annotations

import pytest

from keepstep.core.facts.training import CheckpointMismatch
from keepstep.parse.tools.tensorflow import restoring as table


@pytest.mark.parametrize(
    "text",
    [
        "ERROR:tensorflow:Error recorded from training_loop: Shape of variable decoder/k:0 ((768, 768)) doesn't match with shape of "
        "tensor decoder/k ([1024, 16384]) from checkpoint reader.",
        "Tensor bert/embeddings is not found in gs://b/model.ckpt checkpoint {'a': [1]}",
        "Tensor bert/embeddings (embeddings in bert) is not found in gs://b/model.ckpt checkpoint",
        "ValueError: Received incompatible tensor with shape (2,) when attempting to restore variable with shape (3,) and name x.",
        "Size for saveable_objects for Trackable: 3 did not match the size for serialized_tensors for checkpoint: 4.",
        "Trackable <x> expects checkpointed values but checkpoint does not contain serialized tensors for node_id: 4.",
        "The expected node_id: 3 to Trackable <x> to restore does not exist in the checkpoint.",
        "Nothing except the root object matched a checkpointed value. Typically this means that the checkpoint does not match",
    ],
)
def test_what_does_not_fit_is_told(text, read, holds):
    assert holds(read(table, text), CheckpointMismatch)


@pytest.mark.parametrize(
    "text",
    [
        "WARNING:tensorflow:Unresolved object in checkpoint: (root).optimizer.iter",
        "WARNING:tensorflow:Value in checkpoint could not be found in the restored object: (root).optimizer.decay",
        "INFO:tensorflow:Restoring parameters from gs://b/model.ckpt-100",
        "Tensor x is not found in the graph",
    ],
)
def test_words_of_healthy_runs_say_nothing(text, read):
    assert read(table, text) == []
