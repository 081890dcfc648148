# SPDX-License-Identifier: Apache-2.0
"""Signatures written as TOML, each with the rule that it makes. Pure: a parsed document in, rules out.

[[signature]]
name = "quota-refused"
pattern = 'quota service: job (?P<job>\\S+) refused'
cause = "resource.contention"
title = "the quota service refused job {job}"
because = "the group's GPU quota is used up"
fix = "wait, or ask for more quota"
command = "quota show --job {job}"
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole
from keepstep.extend.search_apart import SearchChild, users_signature
from keepstep.model.cause import Cause
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.platform import SignatureMatched
from keepstep.model.finding import Fix, Found, Safety, Severity
from keepstep.model.rule import Rule
from keepstep.parse.scan.signature import Signature, signature

MOST_FOUND = 20
LONGEST_GROUP = 200
LONGEST_PATTERN = 4_000

_NEEDED = ("name", "pattern", "cause", "title")
_KNOWN = (*_NEEDED, "because", "fix", "command", "severity", "safety", "id", "anchors")
_HOLE = lazy_pattern(r"\{(\w+)\}")
_ID = lazy_pattern(r"[A-Z]{3}\d{3}")


@dataclass(frozen=True, slots=True)
class OwnSignature:
    signature: Signature
    rule: Rule


class _Wrong(Exception):
    """Why an entry cannot be used."""


def read_signatures(
    document: dict[str, Any], taken: Collection[str], child: SearchChild
) -> Iterator[OwnSignature | str]:
    """Each entry as a signature with its rule, or as a sentence that says what is wrong with it.

    ``child``: where their patterns are searched for.
    """
    unknown = set(document) - {"signature"}
    if unknown:
        yield f"unknown table {_nearest(min(unknown), ['signature'])}"
    entries = document.get("signature", [])
    if not isinstance(entries, list):
        yield "write [[signature]], with two brackets"
        return
    for number, entry in enumerate(entries, 1):
        called = entry.get("name") if isinstance(entry, dict) else None
        try:
            yield _read(entry, taken, child)
        except _Wrong as wrong:
            yield f"signature {number}{f' ({called})' if called else ''}: {wrong}"


def _read(entry: Any, taken: Collection[str], child: SearchChild) -> OwnSignature:
    if not isinstance(entry, dict):
        raise _Wrong("not a table")
    for key, value in entry.items():
        if key not in _KNOWN:
            raise _Wrong(f"unknown key {_nearest(key, _KNOWN)}")
        if key == "anchors":
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise _Wrong("anchors must be a list of strings")
        elif not isinstance(value, str):
            raise _Wrong(f"{key} must be a string in quotes")
    missing = [key for key in _NEEDED if not entry.get(key)]
    if missing:
        raise _Wrong(f"lacks {', '.join(missing)}")
    sign = _signature(entry, child)
    _check_holes(entry, sign)
    return OwnSignature(sign, _rule(entry, taken))


def _signature(entry: dict[str, Any], child: SearchChild) -> Signature:
    name = entry["name"]

    def make(match: re.Match[str]) -> SignatureMatched:
        groups = tuple((key, value[:LONGEST_GROUP]) for key, value in match.groupdict().items() if value is not None)
        rank = match.groupdict().get("rank")
        return SignatureMatched(name=name, groups=groups, rank=whole(rank))

    if len(entry["pattern"]) > LONGEST_PATTERN:
        raise _Wrong(f"pattern is longer than {LONGEST_PATTERN:,} characters")
    try:
        return users_signature(signature(entry["pattern"], make, anchors=entry.get("anchors", ())), name, child)
    except (re.error, RecursionError, OverflowError) as error:
        raise _Wrong(f"pattern is not a valid regular expression: {error}") from error
    except ValueError as error:
        why = 'pattern has no fixed text of 4 or more characters; lengthen it, or give anchors = ["..."]'
        raise _Wrong(why) from error


def _check_holes(entry: dict[str, Any], sign: Signature) -> None:
    for key in ("title", "because", "fix", "command"):
        for hole in _HOLE.findall(entry.get(key, "")):
            if hole not in sign.pattern.groupindex:
                raise _Wrong(f"{key} names {{{hole}}}, but pattern has no (?P<{hole}>...)")


def _rule(entry: dict[str, Any], taken: Collection[str]) -> Rule:
    name = entry["name"]
    causes = {cause.value: cause for cause in Cause}
    if entry["cause"] not in causes:
        raise _Wrong(f"unknown cause {_nearest(entry['cause'], list(causes))}")
    severity = _choice(entry, "severity", Severity, Severity.FATAL)
    safety = _choice(entry, "safety", Safety, Safety.SAFE)
    because = entry.get("because") or f"the text matches the signature {name}"

    def find(seen: EvidenceSet) -> Iterator[Found]:
        groups = seen.groups(SignatureMatched, by=lambda fact: (fact.name, _fill(entry["title"], fact.groups)))
        mine = [group for group in groups if group[0].fact.name == name]
        for group in mine[:MOST_FOUND]:
            kept = tuple(e for e in group if severity is not Severity.FATAL or not seen.survived(e))
            if not kept:
                continue
            said = kept[0].fact.groups
            fixes: tuple[Fix, ...] = ()
            if entry.get("fix") or entry.get("command"):
                command = _fill(entry["command"], said, quote=True) if entry.get("command") else None
                fixes = (Fix(do=_fill(entry.get("fix") or "run", said), command=command, safety=safety),)
            yield Found(title=_fill(entry["title"], said), because=_fill(because, said), evidence=kept, fixes=fixes)

    return Rule(
        id=_id(entry, taken),
        name=name,
        cause=causes[entry["cause"]],
        needs=(SignatureMatched,),
        find=find,
        doc=f"{entry['title']}\n\nYour own signature: `{entry['pattern']}`. {because}.",
        severity=severity,
    )


def _id(entry: dict[str, Any], taken: Collection[str]) -> str:
    given = entry.get("id")
    if given is None:
        free = next((free for n in range(1, 1000) if (free := f"OWN{n:03}") not in taken), None)
        if free is None:
            raise _Wrong("you have 999 signatures already")
        return free
    if not _ID.fullmatch(given):
        raise _Wrong(f"id {given!r} is not three capital letters and three digits")
    return str(given)


def _choice(entry: dict[str, Any], key: str, kind: Any, otherwise: Any) -> Any:
    options = [each.value for each in kind]
    if key not in entry:
        return otherwise
    if entry[key] not in options:
        raise _Wrong(f"{key} must be one of {', '.join(options)}")
    return kind(entry[key])


def _fill(text: str, groups: tuple[tuple[str, str], ...], *, quote: bool = False) -> str:
    """The text with ``{name}`` replaced. A value in a command comes from a log, so it is quoted."""
    said = dict(groups)

    def put(hole: re.Match[str]) -> str:
        value = said.get(hole[1], "?")
        return shlex.quote(value) if quote else value

    return _HOLE.sub(put, text)


def _nearest(word: str, options: Collection[str]) -> str:
    near = get_close_matches(word, options, n=1, cutoff=0.5)
    return f"{word!r}; did you mean {near[0]!r}?" if near else f"{word!r}; the known ones are {', '.join(options)}"
