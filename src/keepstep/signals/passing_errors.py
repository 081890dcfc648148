# SPDX-License-Identifier: Apache-2.0
"""Exceptions about a connection, a service or a disk, which may be over at the next try. Pure.

`keepstep run` asks this before it restarts a run, `keepstep.retry` before it calls a function again.
"""

from __future__ import annotations

from keepstep.base.lazy_pattern import lazy_pattern

_TYPES = lazy_pattern(
    r"(?:^|\.)(?:\w{0,80}(?:Connection|Connect|Read|Write|Pool)(?:Aborted|Refused|Reset)?(?:Error|Timeout\w{0,80})|BrokenPipeError|TimeoutError|timeout"
    r"|BlockingIOError|InterruptedError|IncompleteRead|RemoteDisconnected|ChunkedEncodingError|ServiceUnavailable|UnavailableError"
    r"|DeadlineExceeded\w{0,80}|TooManyRequests|InternalServerError|GatewayTimeout|EndpointConnectionError|SlowDown)$"
)
_WORDS = lazy_pattern(
    r"\[Errno (?:5|11|70|103|104|107|110|111|112|113|116|121)\]"
    r"|HTTP Error (?:429|5\d\d)|\b(?:429|50[0234]) (?:Client|Server) Error"
    r"|\((?:SlowDown|Throttl\w{0,40}|TooManyRequests\w{0,40}|RequestLimitExceeded|RequestTimeout|ServiceUnavailable|InternalError|50[0234])\)"
    r"|[Tt]emporarily unavailable|Temporary failure|Stale file handle|Remote I/O error|Too Many Requests|Read timed out"
    r"|[Rr]ate ?[Ll]imit ?[Ee]xceeded|reduce your request rate|Unable to find a context_id matching the specified one"
)
_GROUP_IS_BROKEN = lazy_pattern(r"Collective ops is aborted|Restart your program to reset")
LONGEST_MESSAGE = 2000


def is_passing(type_: str, message: str) -> bool:
    """By the exception's type, with its module if that is known, and its message."""
    return _TYPES.search(type_) is not None or (
        type_.endswith("Error") and _WORDS.search(message[:LONGEST_MESSAGE]) is not None
    )


def breaks_group(message: str) -> bool:
    """Whether no collective of this process can work after it: only a restart of all ranks helps."""
    return _GROUP_IS_BROKEN.search(message[:LONGEST_MESSAGE]) is not None
