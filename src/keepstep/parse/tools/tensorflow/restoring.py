# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own refusals when it restores: tensors that are not there, or of another shape.

Warnings on objects that were not restored (``Unresolved object in checkpoint``) end healthy runs too, and are not here.
"""

from __future__ import annotations

from keepstep.core.facts.training import CheckpointMismatch
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # tf.train.init_from_checkpoint, and what Mesh TensorFlow copied of it
    signature(
        r"(?P<detail>Shape of variable \S{1,300} \([^\n]{1,80}\) doesn't match with shape of tensor \S{1,300} \([^\n]{1,80}\)) from checkpoint reader",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Tensor \S{1,300}(?: \(\S{1,300} in \S{1,300}\))? is not found in \S{1,300} checkpoint)\b",
        CheckpointMismatch,
    ),
    # tf.train.Checkpoint.restore
    signature(
        r"(?P<detail>Received incompatible tensor with shape [^\n]{1,80} when attempting to restore variable with shape [^\n]{1,80})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Size for (?:saveable_objects|serialized_tensors) for Trackable: \d+ did not match (?:the )?size for serialized_tensors for checkpoint: \d+)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Trackable [^\n]{1,300} (?:expects|does not expect) checkpointed values but checkpoint (?:does not contain|contains) serialized tensors)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>to Trackable [^\n]{1,300} to restore does not exist in the checkpoint)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Forward compatibility load error: Unable to load checkpoint saved in future version of TensorFlow)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Nothing except the root object matched a checkpointed value)", CheckpointMismatch),
)
