# SPDX-License-Identifier: Apache-2.0
"""What frameworks say about combinations they do not support, and about faults of their own."""

from __future__ import annotations

from keepstep.model.facts.environment import InternalFault, UnsupportedCombination
from keepstep.parse.scan.signature import signature

_NOT = (
    r"(?=[iawdnc])(?:(?:is|are|was) (?:not|n't) (?:yet |currently |officially )?(?:supported|compatible|implemented|"
    r"allowed)|isn't (?:yet |currently )?(?:supported|compatible)|(?:is|are) incompatible|does(?: not|n't) (?:yet |currently )?(?:support|work)|"
    r"not (?:yet |currently )?supported|cannot be (?:used|combined)|can't be (?:used|combined|trained)|can(?:not|'t) use)"
)
_PARALLEL = (
    r"(?=[DFZMNSGdgmnpt])(?:DDP|FSDP2?|DistributedDataParallel|FullyShardedDataParallel|DataParallel|[Dd]eep[Ss]peed|"
    r"Ze[Rr][Oo](?:[- ]?\d|Redundancy| stage)|ddp_\w|distributed (?:mode|training|backend|environment)|multi-?GPU|multiple (?:GPUs|devices|nodes)|"
    r"pipeline parallel|tensor parallel|[Mm]egatron|multi-?process|multi-?host|torchrun|multi-?node|SyncBatchNorm|NCCL|"
    r"nccl|[Gg]loo|GLOO|process group)"
)

SIGNATURES = (
    signature(
        rf"(?:Error|Exception|Exit): (?P<what>(?=([^\n]{{0,240}}?{_NOT}))\2[^\n]{{0,160}}?{_PARALLEL})",
        UnsupportedCombination,
    ),
    signature(
        rf"(?:Error|Exception|Exit): (?P<what>(?=([^\n]{{0,200}}?{_PARALLEL}))\2[^\n]{{0,200}}?{_NOT}[^\n]{{0,80}})",
        UnsupportedCombination,
    ),
    # tf.distribute, and Keras under it
    signature(
        r"(?P<what>sparse (?:gradients|tensors|allreduce)[^\n]{0,40}(?:not|n't) (?:yet )?supported[^\n]{0,60})",
        UnsupportedCombination,
    ),
    # Faults that the framework calls its own
    signature(r"(?P<what>INTERNAL ASSERT FAILED at [^\n]{0,120})", InternalFault),
    signature(r"Error: (?P<what>TT_(?:ASSERT|FATAL|THROW) @ [^\n]{0,300})", InternalFault),
    signature(
        r"(?P<what>please (?:report a bug to PyTorch|file an issue at https://github\.com/(?:jax-ml|google)/jax))",
        InternalFault,
    ),
    signature(
        r"(?P<what>[Tt]his (?:is|must be|indicates|is likely|is probably|is most likely) an? (?:internal )?bug[^\n]{0,80})",
        InternalFault,
    ),
    signature(r"(?P<what>[Ii]nternal error: [Pp]lease file a bug)", InternalFault),
)
