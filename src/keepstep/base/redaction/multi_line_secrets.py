# SPDX-License-Identifier: Apache-2.0
"""Secrets over several lines: armoured keys, YAML blocks, and what a terminal wrapped. The number of lines stays."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.redaction.named_secrets import CREDENTIALS, KEYS, PASSWORDS, SECRETS
from keepstep.base.redaction.secret_row import MARK, NOT_YET, after, row
from keepstep.base.redaction.secret_values import QUOTED, changes, is_nothing, keep_name, looks_random

_BEGIN = lazy_pattern(r"-{4,5} ?BEGIN [A-Z0-9 _-]{0,60}PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-\d:")
_END = lazy_pattern(r"-{4,5} ?END [A-Z0-9 _-]{0,60}PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-MAC: ?[0-9a-f]{0,128}")
_BODY = lazy_pattern(r"(?:\\[nr]|[A-Za-z0-9+/=\s])*")
LONGEST_KEY = 64 << 10
SPEAKER = (
    r"(?:[\[(<][^\])>\n]{1,60}[\])>][:|>]? ?|\d{1,5}: |[\w.-]{1,40} \| |\d{4}-\d\d-\d\d[T ][\d:.,]{5,15}"
    r"[Z+\d:]{0,6} (?:[A-Z]{4,8} )?)?"
)
"""Launchers' prefixes of a line: ``[rank0]: ``, ``(Worker pid=12) ``, ``0: ``, ``worker-0 | ``."""
_SEAM = rf"[^\S\n]{{0,4}}\\?\n{SPEAKER}[^\S\n]{{0,40}}"
_NAME = rf"(?:{PASSWORDS}|{KEYS}|{SECRETS}|{CREDENTIALS}|token)"


def without_armour(text: str) -> str:
    """Remove private keys in PEM, PGP and PuTTY form, whole or cut off."""
    if "PRIVATE KEY" not in text and "PuTTY-User-Key-File" not in text:
        return text
    out: list[str] = []
    at = 0
    ends = [each.end() for each in _END.finditer(text)]
    for begin in _BEGIN.finditer(text):
        if begin.start() < at:
            continue
        later = bisect_right(ends, begin.end())
        end = ends[later] if later < len(ends) and ends[later] <= begin.end() + LONGEST_KEY else None
        body = _BODY.match(text, begin.end())
        stop = end if end else body.end() if body else begin.end()
        if not end:  # blank lines after a cut-off key are not part of it
            stop = begin.end() + len(text[begin.end() : stop].rstrip())
        out += [text[at : begin.start()], _marks(text[begin.start() : stop])]
        at = stop
    return "".join([*out, text[at:]])


def _marks(gone: str) -> str:
    return "\n".join([MARK] * (gone.count("\n") + 1))


def _next_line(match: re.Match[str]) -> str:
    """``password:`` and its value on the next line, unless that begins a list or another setting."""
    value = match["value"]
    if is_nothing(value) or (value.isalpha() and value.islower() and match["block"] is None):
        return match[0]
    if match["name"].lower() == "token" and not looks_random(value):
        return match[0]
    return match[0][: match.start("value") - match.start()] + MARK


SPANNING = (
    # what is pasted at a prompt of W&B, on the same line or on one of the next two
    after(
        "paste",
        rf"(\bpaste an api key\b[^\n]{{0,200}}?(?:{_SEAM}){{0,2}}(?:wandb: ?)?(?:(?<=\s)|(?<=:))){NOT_YET}"
        rf"(?:local-)?[A-Za-z0-9_]{{40,128}}(?!\w)",
        re.IGNORECASE,
        gate="paste an api key",
    ),
    # what a script of expect or pexpect types when it is asked for a password
    after(
        "assword assphrase asscode",
        rf"""((?<!\$p)(?<!\$P)(?<!_p)ass(?:word|phrase|code)[^\n]{{0,40}}?(?:{_SEAM}|[^\S\n]{{1,8}}|[;{{])[^\S\n]{{0,8}}(?:[\w.]{{1,20}}\.)?"""
        rf"""send(?:line)?(?:[^\S\n]{{1,4}}-{{1,2}}\w{{0,8}}){{0,2}}[^\S\n]{{0,4}}\(?["'](?!\$)){NOT_YET}"""
        rf"""[^"'\n]{{1,200}}?(?=\\[rn]["']|["'])""",
        gate=r"""ass(?:word|phrase|code)[^\n]{0,40}(?:send|\n|\Z)""",
    ),
    row(
        "</",
        rf"(<(?P<tag>[\w:.-]{{0,40}}(?:password|secret|token|apikey)[\w:.-]{{0,40}})>){NOT_YET}"
        rf"(?P<value>[^<]{{1,4096}})(?=</(?P=tag)>)",
        lambda match: match[1] + _marks(match["value"]),
        re.IGNORECASE,
    ),
    after(
        "</",
        rf"(<(?:name|key|td|th|dt|string[^\S\n]name=)[\"'>]{{1,2}}[\w .-]{{0,60}}?(?:{_NAME})[\"']?(?:</(?:name"
        rf"|key|td|th|dt)>\s{{0,40}}<(?:value|string|td|dd))?>){NOT_YET}[^<\n]{{4,4096}}(?=</)",
        re.IGNORECASE,
        gate=r"pass|secret|key|credential|token",
    ),
    row(
        "username",
        r"""("username\\{0,8}"\s*:\s*\\{0,8}"[^"\n]{0,128}",\s*\\{0,8}"key\\{0,8}"\s*:\s*)"""
        r"""(?P<value>\\{0,8}"[^"\n]*")""",
        keep_name,
    ),
    after(
        "password",
        rf"(\b(?:machine\s{{1,4}}\S{{1,256}}"
        rf"|default)\s{{1,8}}login\s{{1,4}}\S{{1,256}}\s{{1,8}}password\s{{1,4}}){NOT_YET}\S+",
    ),
    # name and value as a pair of settings: environments in Kubernetes, ECS, XML
    row(
        "pass secret key cred token _pat",
        rf"""\b(?:name|key)\\{{0,8}}["']?[^\S\n]{{0,4}}[:=][^\S\n]{{0,4}}\\{{0,8}}"""
        rf"""["']?[\w.-]{{0,60}}?(?:{_NAME}|_PAT)\\{{0,8}}["']?[^\S\n]{{0,4}},?(?:{_SEAM}|[^\S\n]{{0,8}})"""
        rf"""\\{{0,8}}["']?value\\{{0,8}}["']?[^\S\n]{{0,4}}[:=][^\S\n]{{0,4}}(?P<value>{QUOTED}|\\"[^"\n]*"""
        rf"""|[^\s"'\\{{][^\s"'\\]*)""",
        keep_name,
        re.IGNORECASE,
        gate=r"""(?:name|key)\\{0,8}["']?[^\S\n]{0,4}[:=][^\S\n]{0,4}\\{0,8}["']?[\w.-]{0,80}\\{0,8}"""
        r"""["']?[^\S\n]{0,4}(?:,|\n|\Z|\\{0,8}["']?value)""",
    ),
    # the value on the next line
    row(
        "pass secret key credential token phrase mnemonic",
        rf"""(?P<name>{_NAME})\\{{0,8}}["']?(?:[^\S\n]{{0,4}}[:=][^\S\n]{{0,4}}(?P<block>[|>][-+]?)?"""
        rf"""|(?P<flag>[^\S\n]{{1,4}}\\)){_SEAM}{NOT_YET}(?P<value>[^\s:"'\[\]{{}}#,<>-]"""
        rf"""[^\s:"'\[\]{{}},<>]{{3,4000}})(?(flag)(?=\s|\Z)|(?=[^\S\n]*(?:\n|\Z|\\)))""",
        _next_line,
        re.IGNORECASE,
        gate=r"""(?:pass|secret|key|credential|token|phrase|mnemonic)[a-z0-9_-]{0,20}\\{0,8}["']?[^\S\n]{0,4}"""
        r"""(?:[:=][^\S\n]{0,4}(?:[|>][-+]?)?|\\)[^\S\n]{0,4}\\?\n""",
    ),
)

_SECTION = lazy_pattern(
    rf"""(?im)^{SPEAKER}(?P<indent>[^\S\n]{{0,40}})(?:[^\n]{{0,120}}(?:[^\S\n]|["'{{]))?(?:secrets|stringdata|passwords|api_?keys)"""
    rf"""["']?[^\S\n]{{0,4}}:[^\S\n]{{0,4}}\{{?[^\S\n]{{0,4}}\r?$"""
)
_ITEM = lazy_pattern(
    rf"""{SPEAKER}(?P<indent>[^\S\n]{{0,80}})["']?(?P<key>[\w.-]{{1,80}})["']?[^\S\n]{{0,4}}:"""
    rf"""(?:[^\S\n]{{1,4}}(?P<value>\S[^\n]{{0,4000}}?)?(?P<tail>,?[^\S\n]{{0,4}}))?\Z"""
)
_ABOUT = frozenset(
    "description required file external name environment source target uid gid mode driver type path optional key"
    " secretname secret_name version username user".split()
)
"""Keys below ``secrets:`` that describe a secret and do not hold it."""
_ELSEWHERE = ("!", "op://", "vault:", "arn:", "ref+", "projects/", "|", ">", "{", "[", "&", "*")
MOST_ITEMS = 200


def without_sections(text: str) -> str:
    """Remove the values of a section ``secrets:`` of YAML, or of JSON over several lines."""
    lines = text.split("\n")
    changed = False
    number = {begin: n for n, begin in enumerate(_begins(lines))}
    for section in _SECTION.finditer(text):
        at = number.get(section.start())
        for n in range(at + 1, min(at + MOST_ITEMS, len(lines))) if at is not None else ():
            item = _ITEM.match(lines[n].rstrip("\r"))
            if item is None or len(item["indent"]) <= len(section["indent"]):
                break
            if _holds(item):
                value = item["value"]
                quote = value[0] if value[0] in "\"'" and value.endswith(value[0]) and len(value) > 1 else ""
                lines[n] = lines[n][: item.start("value")] + quote + MARK + quote + lines[n][item.end("value") :]
                changed = True
    return "\n".join(lines) if changed else text


def _begins(lines: list[str]) -> list[int]:
    return [0, *accumulate(len(line) + 1 for line in lines[:-1])]


def _holds(item: re.Match[str]) -> bool:
    """Whether the value is a secret, not a description of one and not where it is kept."""
    value = item["value"]
    if value is None or item["key"].lower() in _ABOUT or value.startswith(_ELSEWHERE) or MARK in value:
        return False
    return not is_nothing(value) and len(value.strip("\"'")) >= 4 and not value.isdigit()


_STRING = r"""[^"'\\\n]{1,400}"""
_PLUS = r"[^\S\n]{0,4}\+[^\S\n]{0,4}"
_JOIN = rf"(?:(?:{_PLUS})?{_SEAM}(?:{_PLUS})?|{_PLUS})[bBrRuUfF]{{0,2}}"
_JOINED = lazy_pattern(
    rf"""(?P<quote>["'])(?P<first>{_STRING})(?P=quote)(?P<rest>(?:{_JOIN}(?P=quote){_STRING}(?P=quote)){{1,20}})"""
)
_EACH = lazy_pattern(rf"""(["']){_STRING}(?:\1)""")


def without_joined(text: str, clean: Callable[[str], str]) -> str:
    """Remove a secret that a program writes as several strings, one after the other or with ``+`` between them."""

    def put(match: re.Match[str]) -> str:
        begin = max(match.string.rfind("\n", 0, match.start()) + 1, match.start() - 400)
        quote = match["quote"]
        whole = match["first"] + "".join(each[0][1:-1] for each in _EACH.finditer(match["rest"]))
        if not clean(f"{match.string[begin : match.start()]}{quote}{whole}{quote}").endswith(f"{quote}{MARK}{quote}"):
            return match[0]
        mark = f"{quote}{MARK}{quote}"
        return mark + _EACH.sub(mark, match["rest"])

    return _JOINED.sub(put, text)


_WRAP = lazy_pattern(
    rf"""(?P<seam>\n{SPEAKER}[^\S\n]{{0,40}}(?P<quote>[bu]?["'])?)(?P<rest>[\w+/.~%-]{{4,4096}}={{0,2}})"""
    rf"""(?P<alone>[\\"'`,;)\]}}]{{0,4}}[^\S\n]*(?=\n|\Z))?(?=[\s"'`,;)\]}}\\]|\Z)"""
)
_BROKEN = lazy_pattern(r"[\w+/=.~%-]\Z")
WIDE = 60
"""A terminal that wraps lines has at least this many columns; a shorter line was wrapped only if the rest looks
random."""
MOST_LINES = 60


def unwrapped(text: str, clean: Callable[[str], str]) -> str:
    """Remove the rest of a secret broken over lines, and its beginning if that was too short to recognise alone."""
    at = 0
    out: list[str] = []
    for wrap in _WRAP.finditer(text):
        if wrap.start() < at or not (
            text[wrap.start() - 1 : wrap.start()].isalnum()
            or text[wrap.start() - 1 : wrap.start()] in "+/=.~%-_\\\r\"'"
        ):
            continue
        begin = max(text.rfind("\n", 0, wrap.start("seam")) + 1, at)
        head = text[begin : wrap.start("seam")].rstrip("\\\r")
        if wrap["quote"] is not None:  # Python prints a long string as several, each in its own quotes
            if not head.endswith(wrap["quote"][-1]):
                continue
            head = head[:-1]
        if not _BROKEN.search(head) or not _goes_on(head, wrap) or not _is_one(head, wrap["rest"], clean):
            continue
        rests = [wrap]
        while len(rests) < MOST_LINES and rests[-1]["alone"] in ("", "'", '"', "\\"):
            more = _WRAP.match(text, rests[-1].end("alone"))
            if more is None or not _goes_on(rests[-1]["rest"], more):
                break
            rests.append(more)
        out += [
            text[at:begin],
            clean(head + wrap["rest"]),
            *(each["seam"] + MARK + ((each["alone"] or "") if each is not rests[-1] else "") for each in rests),
        ]
        at = rests[-1].end("rest")
    return "".join([*out, text[at:]])


def _is_one(head: str, rest: str, clean: Callable[[str], str]) -> bool:
    """Together they are one secret: it ends where the rest does, and did not begin with it."""
    joined = clean(head + rest)
    return joined.endswith(MARK) and joined != clean(head) + MARK


def _goes_on(line: str, wrap: re.Match[str]) -> bool:
    rest = wrap["rest"]
    letters, changed = changes(rest)
    if letters >= 8 and changed >= 3 and changed >= 0.3 * letters:
        return True
    mixed = any(c.isdigit() for c in rest) + any(c.islower() for c in rest) + any(c.isupper() for c in rest[1:]) >= 2
    return len(line) >= WIDE and wrap["alone"] is not None and mixed and rest.rstrip("=").isalnum()
