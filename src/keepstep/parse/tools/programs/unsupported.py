# SPDX-License-Identifier: Apache-2.0
"""What frameworks say of combinations that they do not support, and of faults of their own."""

from __future__ import annotations

from keepstep.core.facts.environment import InternalFault, UnsupportedCombination
from keepstep.parse.scan.signature import signature

_NOT = (
    r"(?=[iawdnc])(?:(?:is|are|was) (?:not|n't) (?:yet |currently |officially )?(?:supported|compatible|implemented|"
    r"allowed)|isn't (?:yet |currently )?"
    r"(?:supported|compatible)|(?:is|are) incompatible|does(?: not|n't) (?:yet |currently )?(?:support|work)|"
    r"not (?:yet |currently )?"
    r"supported|cannot be (?:used|combined)|can't be (?:used|combined|trained)|can(?:not|'t) use)"
)
_PARALLEL = (
    r"(?=[DFZMNSGdgmnpt])(?:DDP|FSDP2?|DistributedDataParallel|FullyShardedDataParallel|DataParallel|[Dd]eep[Ss]peed|"
    r"Ze[Rr][Oo](?:[- ]?\d|Redundancy| stage)|"
    r"ddp_\w|distributed (?:mode|training|backend|environment)|multi-?GPU|multiple (?:GPUs|devices|nodes)|"
    r"pipeline parallel|"
    r"tensor parallel|[Mm]egatron|multi-?process|multi-?host|torchrun|multi-?node|SyncBatchNorm|NCCL|"
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
    # activations that are computed again in the backward pass: under ZeRO-3 or FSDP parameters may be sharded again by then
    signature(
        r"torch\.utils\.checkpoint: (?:Recomputed values for the following tensors have different metadata|A different number of tensors was saved"
        r"|trying to save more tensors during recomputation|Unpack is being triggered for a tensor that was already unpacked)",
        UnsupportedCombination,
        what="activation checkpointing, and a forward pass that differs when it is run again (as when parameters are sharded)",
    ),
    signature(
        r"(?:torch\.utils\.checkpoint|Checkpointing) is (?P<what>(?:incompatible|not compatible) with \.grad\(\))",
        UnsupportedCombination,
    ),
    # tf.distribute, and Keras under it
    signature(
        r"Error: (?P<what>[^\n]{0,200}\bonly works with the tf\.Estimator API)",
        UnsupportedCombination,
    ),
    signature(
        r"NotImplementedError: (?P<what>[^\n]{0,120}\b(?:TPUs?|GPUs|replicas?|workers|hosts|[Ss]trategy|strategies)\b[^\n]{0,80}"
        r"not (?:yet |currently )?(?:been )?implemented)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>You can't train a model that has been loaded (?:in \d-bit (?:or \d-bit )?precision|with "
        r"`?device_map)[^\n]{0,120})",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>ProcessGroup\w{1,40} (?:only supports|does not support)[^\n]{0,80})",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>no support for \w+ in \w+ process group)", UnsupportedCombination),
    signature(r"(?P<what>A CPU backend must be enabled for async save)", UnsupportedCombination),
    signature(r"(?P<what>No backend type associated with device type \w+)", UnsupportedCombination),
    signature(r"Error: (?P<what>Tensors must be CUDA and dense)", UnsupportedCombination),
    signature(
        r"(?P<what>Process[Gg]roup NCCL is only supported with GPUs|ProcessGroupNCCL is only supported with "
        r"GPUs)",
        UnsupportedCombination,
    ),
    signature(
        r"Caught StopIteration in replica \d+",
        UnsupportedCombination,
        what="a module that reads its own parameters inside of a DataParallel replica (torch >= 1.5)",
    ),
    signature(
        r"(?P<what>`?DataParallel`? replicas?[^\n]{0,60}(?:not|n't) (?:have|support)[^\n]{0,60})",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>Cannot copy out of meta tensor; no data!)", UnsupportedCombination),
    signature(
        r"(?P<what>sparse (?:gradients|tensors|allreduce)[^\n]{0,40}(?:not|n't) (?:yet "
        r")?supported[^\n]{0,60})",
        UnsupportedCombination,
    ),
    # Faults that the framework calls its own
    signature(
        r"(?P<what>torch\.?_dynamo\.exc\.(?:InternalTorchDynamoError|BackendCompilerFailed): [^\n]{0,120})",
        InternalFault,
    ),
    signature(
        r"(?P<what>torch\._inductor\.exc\.(?:LoweringException|InductorError): [^\n]{0,120})",
        InternalFault,
    ),
    signature(r"(?P<what>INTERNAL ASSERT FAILED at [^\n]{0,120})", InternalFault),
    signature(
        r"Error: (?P<what>TT_(?:ASSERT|FATAL|THROW) @ [^\n]{0,300})",
        InternalFault,
    ),
    signature(
        r"(?P<what>please (?:report a bug to PyTorch|file an issue at https://github\.com/(?:jax-ml|"
        r"google)/jax))",
        InternalFault,
    ),
    signature(
        r"(?P<what>[Tt]his (?:is|must be|indicates|is likely|is probably|is most likely) an? (?:internal "
        r")?bug[^\n]{0,80})",
        InternalFault,
    ),
    signature(r"(?P<what>[Ii]nternal error: [Pp]lease file a bug)", InternalFault),
)
