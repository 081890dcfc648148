# SPDX-License-Identifier: Apache-2.0
"""Remove secrets from text: tokens, keys, passwords, URLs with credentials, cookies.

Secrets are recognised by their shape (``ghp_...``, a JWT, a PEM block), by the name before them (``PASSWORD=``,
``--api-key``), or by their place (a URL, a command line). Ordinary text of training logs stays: paths, commit hashes,
shapes, ``pad_token='<pad>'``, ``PWD=/home/me``. docs/redaction.md says how well this works.

Pure and in linear time, for input that may be hostile. Redacting twice changes nothing, and the number of lines stays
the same. Standard library only: the guard uses it in the user's process.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.redaction.multi_line_secrets import (
    SPANNING,
    unwrapped,
    without_armour,
    without_joined,
    without_sections,
)
from keepstep.base.redaction.named_secrets import NAMES
from keepstep.base.redaction.placed_secrets import COMMANDS, LINES, SHORTEST_LINE, URLS, without_blocks_of_base64
from keepstep.base.redaction.secret_row import MARK, SecretRow, vocabulary
from keepstep.base.redaction.secret_values import looks_random
from keepstep.base.redaction.shaped_secrets import SHAPES

__all__ = ["MARK", "redact", "redacted", "taken_out"]

T = TypeVar("T")

_ROWS = (*SPANNING, *NAMES, *COMMANDS, *URLS, *SHAPES, *LINES)
_HINTED: dict[str, list[int]] = {}
for _number, _row in enumerate(_ROWS):
    for _hint in _row.hints:
        _HINTED.setdefault(_hint, []).append(_number)

_UNSEEN = lazy_pattern(
    r"\x1b\[[0-?]{0,32}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|\x1b[@-Z\\^_]|\x9b[0-?]{0,32}[@-~]"
    r"|(?:\\{1,4}x1b|\\{1,4}u001b|\\{1,4}033|\\{1,4}e|\^\[|#033|\u241b)?\[(?:\d{1,3}(?:;\d{1,3}){0,5})?[mK]"
    r"|\\{1,4}(?:u001b|x1b|033)"
    r"|[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]",
    re.IGNORECASE,
)
"""What a terminal does not show and may split a word: colours, raw or as loggers write them, and zero-width
characters."""
_COLOURED = ("\x1b", "\x9b", "[0m", "[m", "[39m", "\\x1b", "\\u001b", "033[", "\\033", "\\e[")
_PACKED = lazy_pattern(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}={0,2}")
_TELLING = lazy_pattern(r"pass|secret|key|token|auth|cred|pwd", re.IGNORECASE)
_DEEPEST = 2
_MOST_PASSES = 6
_SPANNED = 3
"""Lines from the name of a setting to its value."""


def redact(text: str) -> str:
    """The text with every recognised secret replaced by ``[redacted]``."""
    if any(code in text for code in _COLOURED) or not (text.isascii() or _UNSEEN.search(text) is None):
        return _redact_seen(text)
    return _redact_all(text)


def _redact_seen(text: str) -> str:
    """Judges the text as a reader sees it. Lines without a secret keep their colours."""
    seen = _UNSEEN.sub("", text)
    clean = _redact_all(seen)
    if clean == seen:
        return text
    lines = zip(text.split("\n"), seen.split("\n"), clean.split("\n"), strict=True)
    return "\n".join(line if before == after else after for line, before, after in lines)


def _redact_all(text: str) -> str:
    """Repeats until nothing more is found: removing one secret may expose another that was too close to it."""
    for _ in range(_MOST_PASSES):
        before, text = text, _redact(text)
        if text == before:
            break
    return text


def _redact(text: str, depth: int = 0) -> str:
    text = without_armour(text)
    words = vocabulary(text)
    if any(len(word) >= SHORTEST_LINE for word in words.split()):
        text = without_blocks_of_base64(text)
    if any(hint in words for hint in ("secrets", "stringdata", "passwords", "apikeys", "api_keys")):
        text = without_sections(text)
    numbers = sorted({number for hint, hinted in _HINTED.items() if hint in words for number in hinted})
    for number in numbers:
        if number < len(SPANNING):
            text = _redact_spans(text, SPANNING[number])
    rows = [_ROWS[number] for number in numbers if number >= len(SPANNING)]
    if rows and ("\n" in text or "+" in text):
        text = without_joined(text, lambda line: _redact_lines(line, rows, depth))
    if "\n" in text:
        text = unwrapped(text, lambda line: _redact_lines(line, rows, depth))
    return _redact_lines(text, rows, depth)


def _redact_spans(text: str, row: SecretRow) -> str:
    """Searches only from lines that pass its gate, a few lines each."""
    folded = text.lower()
    if row.gate is None or len(folded) != len(text):
        return row.pattern.sub(row.put, text)
    out: list[str] = []
    at = 0
    for begin in sorted(set(row.lines(folded))):
        end = max(begin, at)
        for _ in range(_SPANNED):
            end = text.find("\n", end) + 1 or len(text)
        match = row.pattern.search(text, max(begin, at), end)
        if match is not None:
            out += [text[at : match.start()], match.expand(row.put) if isinstance(row.put, str) else row.put(match)]
            at = match.end()
    return "".join([*out, text[at:]])


def _redact_lines(text: str, rows: list[SecretRow], depth: int) -> str:
    folded = text.lower()
    suspects: dict[int, list[SecretRow]] = {}
    for row in rows:
        for begin in dict.fromkeys(row.lines(folded)):
            suspects.setdefault(begin, []).append(row)
    if suspects:
        lines = text.split("\n")
        at = 0
        for number, line in enumerate(folded.split("\n")):
            for row in suspects.get(at, ()):
                lines[number] = row.pattern.sub(row.put, lines[number])
            at += len(line) + 1
        text = "\n".join(lines)
    return _PACKED.sub(lambda match: MARK if _holds_a_secret(match[0], depth) else match[0], text)


def _holds_a_secret(packed: str, depth: int) -> bool:
    """Whether it is base64 of a text with a secret in it: a key, a docker configuration, a service token."""
    if depth >= _DEEPEST or _unpacked(packed[:16]) is None:
        return False
    text = _unpacked(packed)
    return text is not None and _redact(text, depth + 1) != text


def _unpacked(packed: str) -> str | None:
    body = packed.rstrip("=")
    body = body[: len(body) - (len(body) % 4 == 1)]
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), b"-_" if "-" in body or "_" in body else None)
    except (binascii.Error, ValueError):
        return None
    return raw.decode() if all(32 <= c < 127 or c in b"\t\r\n" for c in raw) else None


def taken_out(before: str, after: str) -> set[str]:
    """The secrets that redaction removed from a text and that can be recognised elsewhere on their own."""
    found: set[str] = set()
    for line, clean in zip(before.split("\n"), after.split("\n"), strict=True):
        if line == clean:
            continue
        at = 0
        gone: list[str] = []
        for number, kept in enumerate(_UNSEEN.sub("", clean).split(MARK)):
            place = (
                line.find(kept, at) if kept else len(line) if number and at < len(line) and clean.endswith(MARK) else at
            )
            if place < 0:
                break  # split by colours
            gone.append(line[at:place])
            at = place + len(kept)
        found.update(each.strip("\"'`\\,;)]} ") for each in gone[1:])
    return {each for each in found if _is_distinct(each)}


def _is_distinct(word: str) -> bool:
    kinds = [any(map(test, word)) for test in (str.isdigit, str.islower, str.isupper, lambda c: c in "!#$%^&*+~=")]
    return 8 <= len(word) <= 4096 and (looks_random(word) or (sum(kinds) >= 3 and " " not in word))


def redacted(thing: T) -> T:
    """A report, a finding, evidence, a fact, or tuples and dictionaries of them, with every text in it redacted."""
    return _walk(thing, {})  # type: ignore[no-any-return]


_PLAIN = frozenset((int, float, bool, type(None)))
_FIELDS: dict[type, tuple[str, ...]] = {}
"""The fields of each dataclass: a report on a large project has tens of thousands of things."""


def _walk(thing: Any, known: dict[str, str]) -> Any:
    if isinstance(thing, str):
        if thing not in known:
            known[thing] = redact(thing)
        return known[thing]
    if type(thing) in _PLAIN:
        return thing
    if isinstance(thing, tuple | list):
        return type(thing)(_walk(each, known) for each in thing)
    if isinstance(thing, dict):
        return {key: _walk(_named(key, each), known) for key, each in thing.items()}
    kind = type(thing)
    if kind not in _FIELDS:
        is_ours = is_dataclass(thing) and not isinstance(thing, type | Enum)
        _FIELDS[kind] = tuple(field.name for field in fields(thing) if field.init) if is_ours else ()
    changed = {}
    for name in _FIELDS[kind]:
        before = getattr(thing, name)
        after = _walk(before, known)
        if after is not before and after != before:
            changed[name] = after
    return replace(thing, **changed) if changed else thing


def _named(key: Any, value: Any) -> Any:
    """A value that only its key identifies as a secret."""
    if isinstance(key, str) and isinstance(value, str) and "\n" not in value and _TELLING.search(key):
        lead = f"{key}="
        if redact(lead + value) == lead + MARK:
            return MARK
    return value
