# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's status lines, as the Python exceptions they stand for.

``(0) Internal: Failed to ...`` in a list of root errors, ``OP_REQUIRES failed at x.cc:1 : Internal: Failed to ...``,
the message under ``Node: 'x'`` and one after ``{{function_node f}}`` all mean ``InternalError: Failed to ...``.
Tables that require ``Error: `` before a message, to pass over mere warnings, can then read them too.
"""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern

STATUS = (
    r"(?i:invalid[ _]argument|resource[ _]exhausted|not[ _]found|out[ _]of[ _]range|failed[ _]precondition|internal|unknown"
    r"|unimplemented|data[ _]loss|permission[ _]denied|unavailable)"
)
# an iterator that ended, or a call that was cancelled, is reported so too, and is no failure
KERNEL_STATUS = STATUS.replace("|out[ _]of[ _]range", "").replace("|unavailable", "")
KERNEL_FAILED = r"(?:OP_REQUIRES failed at \S+ : |Compute status: |Executor::StartAbort )"

_ROOT_ERROR = lazy_pattern(rf"^\s*\(\d+\) +(?P<code>{STATUS}): +(?P<message>\S.*)")
_KERNEL = lazy_pattern(rf"{KERNEL_FAILED}(?P<code>{KERNEL_STATUS}): +(?P<message>\S.*)")
_FUNCTION = lazy_pattern(r"(?P<before>(?:Error|: )) *(?:\{\{function_node \S{1,200}?\}\} *)+")
_NODE = lazy_pattern(r"^\s*Node: '[^'\n]{1,300}'\s*$")


def type_of(code: str) -> str:
    """The Python class of a status code: ``InvalidArgumentError`` of ``Invalid argument`` or ``INVALID_ARGUMENT``."""
    return "".join(word.capitalize() for word in re.split(r"[ _]", code)) + "Error"


def under_node(buffer: bytes, start: int) -> bool:
    """Whether the line above one that starts here may name the node that failed: cheaper than reading it."""
    return buffer.rfind(b"Node: '", max(0, start - 320), start) >= 0


def as_raised(text: str, above: str) -> str | None:
    """The line as an exception would say it, or None where it is no status line. ``above``: the line before it."""
    match = None
    if text.lstrip()[:1] == "(":
        match = _ROOT_ERROR.match(text)
    if match is None and ("OP_REQUIRES" in text or "Compute status: " in text or "Executor::StartAbort " in text):
        match = _KERNEL.search(text)
    if match is not None:
        said = f"{type_of(match['code'])}: {match['message']}"
    elif _NODE.match(above):
        said = f"Error: {text.strip()}"
    else:
        said = text
    if "{{function_node " in said:
        said = _FUNCTION.sub(lambda m: m["before"] if m["before"].endswith(" ") else m["before"] + ": ", said, count=1)
    return None if said is text else said
