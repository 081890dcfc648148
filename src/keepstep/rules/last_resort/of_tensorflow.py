# SPDX-License-Identifier: Apache-2.0
"""Words that TensorFlow, Keras, XLA and JAX use for a cause, in addition to the general ones."""

from __future__ import annotations

from keepstep.model.cause import Cause
from keepstep.rules.last_resort.row import row

OF_TENSORFLOW = (
    row(
        Cause.CONFIG_CLUSTER_SPEC,
        "a wrong cluster description",
        w3=r"""
            cannot assign a device|explicitly assigned to /job|no such job in cluster
              |\bjob:?\b.{0,40}\bnot (?:in|part of) (?:the )?cluster|number of executors|unrecognized option
        """,
    ),
    row(
        Cause.CONFIG_WORLD_SIZE_MISMATCH,
        "a wrong number of processes or devices",
        w3=r"""
            (?:process|rank|worker)(?:es|s)?(?: number| count)?\b.{0,60}\b(?:larger|more|greater|fewer|less
              |exceeds?)\b.{0,40}\b(?:slots|gpus|devices|available|hosts)
            (?:insufficient|not enough|too few) (?:devices|accelerators|chips|cores)\b
              |expect(?:ed)? (?:the following )?(?:\d+ )?(?:devices|replicas|cores|processes)\b.{0,200}\b(?:available
              |but|found|got|only)|\b(?:devices|replicas|cores|processes)\b.{0,60}\b(?:found|got|only) \d+
            mesh[_ ]shape\b.{0,80}\b(?:must|not|devices|product|invalid)
              |\bmesh\b.{0,60}\b(?:requires?|needs?|expects?) \d+ devices|replica groups? should|device assignment
              |on all TPU hosts|logical shapes must have the same product
              |cannot reshape array of size \d+ into shape \(\d+,[\d,]*\).{0,80}(?:mesh|devices)
        """,
    ),
    row(
        Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES,
        "mismatched versions",
        w3=r"""
            op type not registered|registered in (?:the )?binary running|client and server
              |not available in this library|mismatched PJRT|PJRT API version|NodeDef mentions attr
              |GraphDef (?:producer|version)|unknown (?:op|attr)\b
        """,
    ),
    row(
        Cause.ENV_FRAMEWORK_CUDA_MISMATCH,
        "a mismatch of CUDA, its driver and the GPU",
        w3=r"""
            loaded runtime cuDNN library|source was compiled with|JAX was built against|plugin .{0,40}is not compatible
        """,
    ),
    row(
        Cause.RESOURCE_GPU_OOM,
        "a shortage of GPU memory",
        w3=r"dst tensor is not initialized|_STATUS_ALLOC_FAILED|BFC\w* (?:allocator|\w+) ran out|H2D_stream",
    ),
    row(
        Cause.RESOURCE_TPU_HBM_OOM,
        "a shortage of TPU memory",
        w3=r"""
            error allocating device buffer|_HBM\d|TPU\b.{0,80}\bresource[ _]exhausted|hbm requirement
              |would exceed (?:the )?memory
        """,
    ),
    row(
        Cause.RESOURCE_HOST_OOM_KILLED,
        "a shortage of host memory",
        w3=r"""
            out of memory: kill|exceeded (?:job |step )?memory limit|(?:error|return|exit) ?code:? -9\b
              |memory limit \(.{1,40}\), being killed
        """,
    ),
    row(
        Cause.NETWORK_DNS,
        "a host name that cannot be resolved",
        w3=r"gethostby\w+ failed|name resolution failure|hostname .{0,40}does not (?:match|resolve)",
    ),
    row(
        Cause.NETWORK_TIMEOUT_SLOW,
        "a network timeout",
        w2=r"wait timeout|timeout (?:while|when|waiting)|timed? ?-?out (?:while|when|waiting)",
    ),
    row(
        Cause.DATA_BATCH_NOT_DIVISIBLE,
        "a batch that does not divide evenly",
        w3=r"""
            \bindivisible\b|is partitioned \d+ times|not evenly divisible
              |(?:leading|batch|first) (?:axis|dimension)\b.{0,80}\b(?:divisible|number of devices|local devices)
              |remainder batch|RecvAsync is cancelled
        """,
    ),
    row(
        Cause.DATA_SHAPE_MISMATCH,
        "shapes that do not match",
        w3=r"""
            same size and shape|conflicting shapes|ConcatOp|not broadcastable|incompatible shapes|must be rank \d
              |unknown rank|unknown shape|rank (?:mismatch|of)\b.{0,60}\b(?:expected|must|but)
        """,
    ),
    row(
        Cause.DATA_CORRUPT_OR_TRUNCATED,
        "unreadable data",
        w3=r"""
            data ?loss(?:error)?\b|(?:truncated|corrupted) record|could not parse example
              |key: .{1,60}(?:data types don't match|can't parse serialized)|unable to decode
              |invalid (?:JPEG|PNG|image)|expected image
        """,
    ),
    row(
        Cause.CHECKPOINT_CORRUPT_OR_MISSING,
        "a missing or unreadable checkpoint",
        w3=r"""
            not ?found(?:error)?(?: \(see above for traceback\))?:? \S{0,200}(?:ckpt|checkpoint)
              |(?:tensor|checkpoint) bundle|matching files for|ckpt\S*; (?:no such file|input/output)
        """,
    ),
    row(
        Cause.NUMERIC_NAN_OR_DIVERGENCE,
        "NaN or divergence",
        w3=r"contains NaN|NaN,? infinity|checknumerics|diverged with loss|LossTensor is inf",
    ),
    row(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        "ranks that wait for each other",
        w3=r"""
            may be stuck|barrier timed out|waiting for all participants|not all of them arrived|subset of ranks
              |timeout while feeding partition
        """,
    ),
    row(
        Cause.SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE,
        "a variable outside the strategy's scope",
        w3=r"""
            scope used for the original variable|not created in the distribution strategy
              |under the scope for tf\.distribute|singleton tf\.Variable|created on first call
        """,
    ),
    row(
        Cause.COMPILE_PROGRAM_LIMIT_EXCEEDED,
        "a program too large for the compiler",
        w3=r"""
            program (?:is )?too large|exceeds? .{0,40}\b(?:vmem|smem|hlo|instruction)|compilation .{0,40}\btimed? ?-?out
        """,
    ),
    row(
        Cause.FRAMEWORK_UNSUPPORTED_COMBINATION,
        "an unsupported combination",
        w3=r"""
            must be a compile-time constant|dynamic (?:dimension|shape)s?\b|detected unsupported operations
              |no registered '?\w+'? (?:OpKernel|kernel)|complete shape not known|unrecognized data type
              |not (?:fully )?supported (?:on|for|by|with|in) (?:TPU|XLA|Keras|eager)
            with an unsupported type|received incompatible devices
              |(?:fully replicated or|spans non-|not fully) addressable|partially known TensorShape
            only (?:one|a single) .{0,40}\b(?:supported|allowed)|requires? (?:eager|graph) (?:mode|execution)
              |which is not implemented|currently unsupported
        """,
    ),
    row(
        Cause.USER_CODE_EXCEPTION,
        "an uninitialized value",
        w2=r"""
            \btable not initialized\b|uninitialized value\b
              |could mean that the variable (?:was|has been) (?:uninitialized|deleted)
        """,
    ),
)
