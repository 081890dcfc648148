# SPDX-License-Identifier: Apache-2.0
"""PyTorch's checkpoints (``torch.load``, ``torch.distributed.checkpoint``): unreadable, or of another model."""

from __future__ import annotations

from keepstep.model.facts.training import CheckpointUnreadable
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"don't know how to restore data location of (?P<type>[\w.]{3,60}) \(tagged with (?P<device>[\w:.-]{2,30})\)",
        lambda match: CheckpointUnreadable(
            why=f"it holds {match['type']} of the device {match['device']}, which is not known here"
        ),
    ),
)
