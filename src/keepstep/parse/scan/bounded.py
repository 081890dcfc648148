# SPDX-License-Identifier: Apache-2.0
"""Makes a pattern of a table span wrapped lines, and cost no more on a hostile line than on any other.

Python's ``re`` tries every way to divide characters among adjacent repeats, from every place of a line.
So what a table leaves open is bounded here, once for all tables:

- A blank is a run of white space, which may hold a line break: terminals and pagers wrap lines.
- White space that is repeated is at most ``BLANKS`` long, a number at most ``DIGITS``. ``narrowed`` takes out of
  a text what would be longer: columns of a table, the padding of a log viewer.
- Blanks beside a gap (``[^\\n]{0,60}``) are all matched by the blank of the pattern, none by the gap; so are words and
  numbers before it.
- A word that a match begins with is matched from where the word begins, not again from each of its letters.
"""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern

BLANKS = 16
DIGITS = 40
SHORT = 8
LONG = 100
"""Repeats from this length on are worth a look at what stands before them."""

_PADDING = 7
_PADDED = " " * (_PADDING + 1)
_PAD = lazy_pattern(_PADDED + r"+")

_TOKEN = lazy_pattern(
    r"\\.|\[\^?\]?(?:[^\]\\]|\\[\s\S])*(?:\]|\\?\Z)|\(\?P<\w+>|\(\?P=\w+\)|\(\?[aiLmsux]+\)|\(\?[aimsux-]*:|\(\?<?[=!]|\(\?>|[\s\S]"
)
_REPEAT = lazy_pattern(r"(?:(?P<sign>[*+])|\{(?P<least>\d*)(?:,(?P<most>\d*))?\})\??")
_BRACKETS = lazy_pattern(r"\)*\??(?:\(\?P<\w+>|\(\?[aimsux-]*:|\(\?=|\((?!\?))*")
"""Groups that end and begin, between one part of a pattern and the next."""
_BLANK = {" ", r"\s", r"[ \t]", r"[^\S\n]"}
_WORDY = {r"\d", r"\w", r"\S"}
_HOLD_BLANK = {" ", r"\ ", r"\s", r"\W", r"\D", r"\x20"}


def narrowed(text: str) -> str:
    """The text with no more than a few blanks in a row."""
    return _PAD.sub(" " * _PADDING, text) if _PADDED in text else text


def bounded(pattern: str) -> str:
    """The same pattern without what takes long."""
    tokens = _TOKEN.findall(pattern)
    closing = _closing(tokens)
    out: list[str] = []
    opened: list[tuple[bool, bool, bool]] = []
    """The state where each open group began: whether a match may begin there, after what, and after a gap or not."""
    first, behind = True, False
    gap_above = False
    place = 0
    number = 0
    while number < len(tokens):
        token = tokens[number]
        place += len(token)
        number += 1
        if token[0] == "(" and not token.endswith(")"):
            opened.append((first, behind, gap_above))
            behind = behind or (token.startswith("(?<") and token[3] in "=!")
            ahead = token.startswith(("(?=", "(?!", "(?<=", "(?<!"))
            first = first and not ahead and not _is_repeated(tokens, closing[number - 1])
            out.append(token)
            continue
        if token == ")":
            _, behind, _ = opened.pop()
            first = False
            out.append(token)
            continue
        if token == "|":
            first, _, gap_above = opened[-1] if opened else (True, False, False)
            out.append(token)
            continue
        repeat = None if behind else _REPEAT.match(pattern, place)
        if repeat:
            number += _tokens_of(tokens, number, len(repeat[0]))
            place += len(repeat[0])
            out.append(_repeated(token, repeat, first) + _whole(token, repeat, _is_before_gap(pattern, place)))
        elif token == " " and not behind and pattern[place : place + 1] != "?":
            out.append(_blank(gap_above, _is_before_gap(pattern, place)))
        else:
            out.append(token)
        gap_above = repeat is not None and _is_gap(token, repeat)
        first = first and token.startswith("(?") and token.endswith(")") and token[2] != "P"
    return "".join(out)


def _blank(gap_above: bool, gap_below: bool) -> str:
    """Beside a repeat that takes blanks too it takes all that there are: they are not shared out in every way."""
    return (r"(?<!\s)" if gap_above else "") + rf"\s{{1,{BLANKS}}}" + (r"(?!\s)" if gap_below else "")


def _whole(token: str, repeat: re.Match[str], gap_below: bool) -> str:
    """A word or number before a gap is matched to its end: no part of it is left to the gap."""
    _, most = _limits(repeat)
    long = most is None or most >= SHORT
    return rf"(?!{token})" if gap_below and long and token in (r"\w", r"\d") and not repeat[0].endswith("?") else ""


def _is_before_gap(pattern: str, place: int) -> bool:
    opened = _BRACKETS.match(pattern, place)
    token = _TOKEN.match(pattern, opened.end() if opened else place)
    repeat = _REPEAT.match(pattern, token.end()) if token else None
    return token is not None and repeat is not None and _is_gap(token[0], repeat)


def _is_gap(token: str, repeat: re.Match[str]) -> bool:
    """Whether it takes many characters, blanks among them."""
    _, most = _limits(repeat)
    return (most is None or most >= SHORT) and (token == "." or (token[0] == "[" and _takes_blank(token)))


def _closing(tokens: list[str]) -> dict[int, int]:
    """By the number of the token that opens a group: that of the token that closes it."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for number, token in enumerate(tokens):
        if token[0] == "(" and not token.endswith(")"):
            opened.append(number)
        elif token == ")":
            found[opened.pop()] = number
    return found


def _is_repeated(tokens: list[str], closing: int) -> bool:
    return tokens[closing + 1 : closing + 2] in (["*"], ["+"], ["{"])


def _tokens_of(tokens: list[str], number: int, length: int) -> int:
    """How many tokens make up so many characters."""
    count = 0
    while length > 0:
        length -= len(tokens[number + count])
        count += 1
    return count


def _repeated(token: str, repeat: re.Match[str], first: bool) -> str:
    least, most = _limits(repeat)
    lazy = "?" if repeat[0].endswith("?") else ""
    guard = f"(?<!{token})" if first and (most is None or most >= LONG) and _is_word(token) else ""
    limit = BLANKS if token in _BLANK else DIGITS if token == r"\d" else None
    if limit and most is None and least < limit:
        return f"{guard}{token}{{{least},{limit}}}{lazy}"
    return guard + token + repeat[0]


def _limits(repeat: re.Match[str]) -> tuple[int, int | None]:
    """The least and the most; None: no limit."""
    if repeat["sign"]:
        return (1 if repeat["sign"] == "+" else 0), None
    least = int(repeat["least"] or 0)
    if repeat["most"] is None:
        return least, least
    return least, int(repeat["most"]) if repeat["most"] else None


def _is_word(token: str) -> bool:
    """Whether it takes no blank."""
    return token in _WORDY or (token[0] == "[" and not _takes_blank(token))


def _takes_blank(token: str) -> bool:
    """Whether a blank is in this class of characters. (Compiling hundreds of classes would take longer.)"""
    inside = token[1:-1]
    negated = inside.startswith("^")
    parts = _TOKEN.findall(inside.removeprefix("^"))
    held = any(part in _HOLD_BLANK for part in parts)
    for low, dash, high in zip(parts, parts[1:], parts[2:], strict=False):
        held = held or (dash == "-" and len(low) == len(high) == 1 and low <= " " <= high)
    return held is not negated
