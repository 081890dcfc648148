# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM and what is built on it: parallel sizes, NaN checks, checkpoints."""

from __future__ import annotations

from keepstep.core.facts.config import WorldSeen, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible
from keepstep.core.facts.sync import SharedStateRace
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable, NonFinite
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Rank (?P<rank>\d+)(?:, node [^,\n]{1,80}, device [^,\n]{1,20}, iteration -?(?P<step>\d+))?: Unexpected result (?P<what>nan|inf|-inf)\b",
        NonFinite,
    ),
    signature(
        r"Unexpected result (?P<what>nan|inf|-inf)\b[^\n]{0,40}?on rank (?P<rank>\d+)",
        NonFinite,
    ),
    signature(r"Unexpected result (?P<what>nan|inf|-inf)\b", NonFinite),
    signature(
        r"(?:Rank (?P<rank>\d+):? )?found (?P<what>NaN|Inf|NaN or Inf) in (?:local )?(?:grad norm|forward loss|gradient)",
        NonFinite,
    ),
    signature(r"(?P<what>found NaN) in local (?:forward|loss)", NonFinite),
    signature(
        r"world[ _]size \((?P<seen>\d+)\) is not divisible by (?:the )?(?P<what>[\w ]{0,80})\(?(?P<expected>\d+)?",
        WorldSizeConflict,
    ),
    signature(
        r"global batch size \((?P<batch>\d+)\) is not divisible by micro batch size \(\d+\) times data parallel size \((?P<parts>\d+)\)",
        BatchNotDivisible,
    ),
    signature(
        r"(?P<detail>\S{1,60} value from checkpoint \([^)\n]{0,80}\) is not equal to the (?:input argument|currently set)? ?(?:argument )?value)",
        CheckpointMismatch,
    ),
    signature(r"could not load the checkpoint(?! file metadata)", CheckpointUnreadable),
    # index files that one rank writes and the others map
    signature(
        r"(?:No such file or directory: |Failed to open local file )['\"](?P<path>[^'\"\n]{0,300}(?:_(?:doc|sample|shuffle|document|description)_(?:idx|index)|_indexmap_[\w]{1,80}|-(?:document|sample|shuffle)_index)\.npy)",
        SharedStateRace,
        what="an index file that rank 0 of one host writes was not there on another",
    ),
    signature(r"using world size: (?P<size>\d+), data-parallel", WorldSeen),
)
