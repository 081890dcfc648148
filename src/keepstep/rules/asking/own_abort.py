# SPDX-License-Identifier: Apache-2.0
"""Whether a process that aborted did so for its own reasons, or because of another rank, the device or memory."""

from __future__ import annotations

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.process import NativeAbort

_CONSEQUENCE = lazy_pattern(
    r"DistBackendError|DistNetworkError|DistStoreError|[Ww]atchdog|NCCL|nccl|RCCL|gloo::"
    r"|[Cc]onnection (?:closed|reset|refused|aborted)"
    r"|[Ss]ocket (?:closed|[Tt]ime)|Broken pipe|[Cc]oordination [Ss]ervice|[Hh]eartbeat|distributed service"
    r"|Terminating process because"
    r"|UNAVAILABLE|DEADLINE_EXCEEDED|[Bb]arrier timed out|ProcessGroup|[Rr]endezvous|tensorpipe|[Pp]eer"
    r"|CUDA (?:error|driver)|CUDA_ERROR"
    r"|cudaError|cuDNN|CUDNN|cublas|CUBLAS|HIP error|hipError|[Oo]ut of memory|OUT_OF_MEMORY|RESOURCE_EXHAUSTED"
    r"|bad_alloc|TCPStore"
    r"|shut(?:ting)? ?down|MPI_|Horovod|horovod|[Ii]nterrupted|SIGTERM|timed out|[Tt]imeout|TPU|libtpu|No space left"
    r"|interpreter shutdown"
)
"""Other rules report these."""
_OF_A_COMPILER = lazy_pattern(r"^Check failed: !?[\w.>()\[\]-]{3,80}(?:has_value\(\)|empty\(\)|is\w{2,30}\(\)) *$")
"""A condition inside a compiler: it depends on the program, not on other ranks."""


def tells_of_another(what: str) -> bool:
    """Whether the message is about another rank, the device or memory."""
    return bool(_CONSEQUENCE.search(what))


def echoes_another(abort: NativeAbort) -> bool:
    """Whether it aborted because of another rank, the device or memory, by its message or its place in the code."""
    if tells_of_another(abort.what):
        return True
    return tells_of_another(abort.where or "") and not _OF_A_COMPILER.search(abort.what)
