# SPDX-License-Identifier: Apache-2.0
r"""Text made safe to show: what a terminal or browser would obey, or a reader would not see, is spelled out.

Logs, file names, JSON and variables may hold escape sequences that move the cursor or set the title or clipboard, marks
that reverse text, and zero-width characters. They become ``\x1b``, ``\u202e``. Line ends and tabs stay. Applied where
text leaves keepstep, after redaction; what ranks print, and `keepstep run` passes on, stays as it is.
"""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern

_ACTS = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except tab and line end, delete, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u3164\ufeff\uffa0"  # zero width
    "\u2028\u2029\ufff9-\ufffb\ufffe\uffff\ud800-\udfff"  # line ends, non-characters
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # format controls, tags
)


def visible(text: str) -> str:
    """The text, with control and invisible characters as Python escapes."""
    return text if text.isascii() and text.isprintable() else _ACTS.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is not UTF-8
        code -= 0xDC00
    if code == 0x0D:
        return r"\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
