# SPDX-License-Identifier: Apache-2.0
"""Whether a process that gave up says so of itself, or tells of another rank, of the device or of memory."""

from __future__ import annotations

from keepstep.core.facts.process import NativeAbort
from keepstep.core.lazy_pattern import lazy_pattern

_CONSEQUENCE = lazy_pattern(
    r"DistBackendError|DistNetworkError|DistStoreError|[Ww]atchdog|NCCL|nccl|RCCL|gloo::|[Cc]onnection (?:closed|reset|refused|aborted)"
    r"|[Ss]ocket (?:closed|[Tt]ime)|Broken pipe|[Cc]oordination [Ss]ervice|[Hh]eartbeat|distributed service|Terminating process because"
    r"|UNAVAILABLE|DEADLINE_EXCEEDED|[Bb]arrier timed out|ProcessGroup|[Rr]endezvous|tensorpipe|[Pp]eer|CUDA (?:error|driver)|CUDA_ERROR"
    r"|cudaError|cuDNN|CUDNN|cublas|CUBLAS|HIP error|hipError|[Oo]ut of memory|OUT_OF_MEMORY|RESOURCE_EXHAUSTED|bad_alloc|TCPStore"
    r"|shut(?:ting)? ?down|MPI_|Horovod|horovod|[Ii]nterrupted|SIGTERM|timed out|[Tt]imeout|TPU|libtpu|No space left|interpreter shutdown"
)
"""Other rules speak of those."""
_OF_A_COMPILER = lazy_pattern(r"^Check failed: !?[\w.>()\[\]-]{3,80}(?:has_value\(\)|empty\(\)|is\w{2,30}\(\)) *$")
"""A condition of a compiler's own: it holds of the program, whatever other ranks do."""


def tells_of_another(what: str) -> bool:
    """Whether the words are of another rank, of the device or of memory."""
    return bool(_CONSEQUENCE.search(what))


def echoes_another(abort: NativeAbort) -> bool:
    """Whether it gave up for another rank, the device or memory, by its words or by the place in the code."""
    if tells_of_another(abort.what):
        return True
    return tells_of_another(abort.where or "") and not _OF_A_COMPILER.search(abort.what)
