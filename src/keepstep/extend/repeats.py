# SPDX-License-Identifier: Apache-2.0
"""Whether a user's pattern could run for ever: a repeat inside a repeat, ``(a+)+``.

Python's ``re`` tries every way to divide a text between the two, and there are exponentially many. A running search
cannot be interrupted, so such a pattern is refused.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

if hasattr(re, "_parser"):  # Python 3.11 and later
    from re import _constants as constants  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as constants
    import sre_parse as parser

MANY = 8
"""A repeat of at most this many times does not matter."""


def repeats_a_repeat(pattern: str) -> bool:
    """Also False for an invalid pattern: compiling it will say so."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _nested(parser.parse(pattern), inside=False)
    except (re.error, RecursionError, OverflowError):
        return False


def _nested(parsed: Any, *, inside: bool) -> bool:
    for operation, argument in parsed:
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            _, most, body = argument
            many = most is constants.MAXREPEAT or most > MANY
            if many and inside:
                return True
            if _nested(body, inside=inside or many):
                return True
        elif operation is constants.BRANCH:
            if any(_nested(branch, inside=inside) for branch in argument[1]):
                return True
        elif operation is constants.SUBPATTERN:
            if _nested(argument[-1], inside=inside):
                return True
        elif operation in (constants.ASSERT, constants.ASSERT_NOT) and _nested(argument[1], inside=inside):
            return True
    return False
