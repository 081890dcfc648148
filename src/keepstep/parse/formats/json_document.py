# SPDX-License-Identifier: Apache-2.0
"""Tell a JSON document (a configuration, a package's description, results) from a log that is written as JSON. Pure."""

from __future__ import annotations

from keepstep.base.lazy_pattern import lazy_pattern

_BEGINS = lazy_pattern(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)*(?:\{\s*(?:"(?:[^"\\\n]|\\.){0,400}"\s*:|\})|\[\s*["\[])')
"""An object with a key, or a list of such or of texts. A log's ``[rank0]`` and ``[1,0]<stderr>`` are not."""
_TOKENS = lazy_pattern(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_MESSAGE = lazy_pattern(
    rb'(?i)"(?:log|message|msg|textPayload|error|exception|exc_info|traceback|stack_?trace|stderr|stdout|reason'
    rb'|apiVersion)"\s*:\s*"'
)
"""A field in which a logger, a container's runtime, torchrun's error file or a cluster's answer holds text."""


def is_document(head: bytes, whole: bool) -> bool:
    """Whether the first bytes of a file (``whole``: all of them) are one JSON document in which nobody reports anything.

    Several values, one after the other, are the lines of a log.
    """
    if not _BEGINS.match(head) or _MESSAGE.search(head):
        return False
    depth = 0
    for token in _TOKENS.finditer(head):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return not head[token.end() :].strip()
    return not whole
