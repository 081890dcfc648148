# SPDX-License-Identifier: Apache-2.0
"""How a process ended, in the words of launchers and wrappers that people write themselves.

Each sentence needs a member of the run with its number, a word for its end, and a status: ``rank 1 pid 6606 exited with
signal 11``, ``worker-3 died (exit status 137)``, ``rank=2 exit_code=0``. Messages of known launchers are left to their tables.
"""

from __future__ import annotations

import re
import signal as _signals
from typing import Any

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited
from keepstep.parse.scan.signature import by_hand, signature
from keepstep.parse.tools.system.shell import SIGNALS

REACH = 110
"""How far before the end of a process its name may be."""
BEHIND = 60
LONGEST = 2000
"""Launchers print short lines."""
LARGEST_RANK = 3
"""Digits: a process or child with a larger number is named by its process id."""

_MEMBER = lazy_pattern(
    r"(?i)(?<![\w./])(?P<kind>local[ _-]rank|rank|worker|trainer|replica|member|task|subprocess|process|proc|child|pid)"
    r"(?:[\"']?[=:] ?[\"']?(?:/?(?:[\w.\-]{1,60}/){1,6})?| ?[#\[]|[ _-])?(?P<number>\d{1,7})(?![\w.]|:\d)"
)
_OF_ANOTHER_KIND = lazy_pattern(
    r"(?i)(?:\b(?:data|(?:data ?)?loader|prefetch(?:er)?|decod(?:e|er|ing)|pool|thread|env(?:ironment)?|rollout|actor|eval|i/?o|download|upload|http|web"
    r"|map|reduce|stage|spark|node|host|group|tp|pp|dp|ep|cp|tensor|pipeline|expert)[ _-])$"
)
"""Before a member: it is a helper of a rank, or a place in a part of the world."""
_IMAGINED = lazy_pattern(
    r"(?i)\b(?:if|will|whenever|unless|in case|until|should|would|may|might|could|can|expect(?:s|ed)?|assum\w+|e\.g|such as|"
    r"for example|means|so that|retry(?:ing)?|old|previous|last run)\b"
)
_ONLY_SAID = lazy_pattern(
    r"(?i)^\W{0,3}(?:expected|means|indicates|is (?:ok|fine|normal)|would|will|tests?\b|samples?\b)"
)
_ENDED = lazy_pattern(
    r"(?i)\b(?:exit(?:ed|s|ing)?|ended|died|dead|crashed|terminated|killed|aborted|failed|finished|completed|returned|stopped|quit|gone|done"
    r"|\w+_(?:exit|exited|ended|died|finished|end|stop|crash))\b"
)
_STRONG = lazy_pattern(r"(?i)\b(?:exited|died|crashed|terminated|killed|aborted)\b[^\d\n.;]{0,40}$")
_OWN = lazy_pattern(
    r"(?i)^(?:[\d\s\-:.,TZ+/\[\]|]|INFO|WARN(?:ING)?|ERROR){0,40}(?:(?:the )?(?:training |main |python |worker )?(?:process|script|program)\b[\s:,]{1,2})?(?:has |was )?$"
)
"""The whole of a line before the end: whose it is, only its prefix or its file says."""
_NO_MORE = lazy_pattern(r"\s?(?:\([\w ]{1,30}\))?[\s.!]{0,3}(?:\n|$)")
_JOINED = lazy_pattern(r"^[\s:,;|()\[\]\-\"'>]{0,4}$")
_ON = lazy_pattern(r"^[\s(,]{1,3}(?:(?:on|for|from|in|by)\s)?$")
_PROSE = lazy_pattern(r"\b[A-Za-z]{2,15} [A-Za-z]{2,15} [A-Za-z]{2,15}\b")
_FIELD = lazy_pattern(r"[\w\"']\s?[=:]\s?[\"']?-?\w")
_KNOWN = lazy_pattern(
    r"\b(?:srun|slurmstepd|mpirun|mpiexec|mpiexec\.hydra|prterun|orterun|jsrun|aprun|raylet|kubelet|containerd|systemd\[|supervisord|DataLoader|ERR_FILE|[Pp]ods?|ExitedWithCode"
    r"|torch\.distributed|torchelastic|torchrun|ProcessExitedException|ProcessRaisedException|Horovod|horovod|spark|Executor|flux-shell|keepstep)"
    r"|^\s*(?!rank)(?:[\w.-]+[_-])?[A-Za-z]+[_-]\d+ exited with code \d+\s*$"  # Docker Compose: it numbers containers, from 1
    r"|\bexitcode ?: [^\n]{0,8}\) local_rank|\blaunch\.py:\d|\[KILLED\]|\bKilling subprocess|PE RANK|noticed rank|\bof binary\b"
)
"""Launchers with tables of their own, and words that are not of launchers."""
_REPORTER = lazy_pattern(
    r"(?:^|[\s|\[(])(?!(?i:info|warn|warning|error|critical|fatal|debug|runtimeerror|assertionerror)\b)([A-Za-z][\w./-]{2,30})(?:\[\d+\])?\]?\s?[:|>]\s"
)

_CODE = r"[\"']?(?:[ :=(]|is |was ){0,3}(?P<code>-?\d{1,3})(?![\d.%]|/\d)"
_STATED = r"(?:exit[ _-]?(?:code|status|value)|return[ _-]?(?:code|value|status)|exitcode|returncode|retcode|\brc)"
_NUMBER = r"(?:sig(?:nal)?[\"']?[ :=(#]{0,3}(?P<signal>\d{1,2})\b)"
_HOW = "|".join(how.lower() for how in SIGNALS if how not in ("Killed", "Terminated", "Hangup"))


def _stated(match: re.Match[str]) -> Fact | None:
    """A status without one of the strong words before it, which are read together with theirs."""
    return None if _STRONG.search(match.string, max(0, match.start() - 50), match.start()) else _end(match)


def _end(match: re.Match[str]) -> Fact | None:
    """The end of one member, if the words around the match name it."""
    text = match.string
    line = text[text.rfind("\n", 0, match.start()) + 1 : text.find("\n", match.end()) % (len(text) + 1)]
    if len(line) > LONGEST or _KNOWN.search(line):
        return None
    before = text[max(0, match.start() - REACH) : match.start()].rpartition("\n")[2]
    before = before[_sentence(before) :]
    if _IMAGINED.search(before) or _ONLY_SAID.search(text, match.end(), match.end() + BEHIND):
        return None
    named = [each for each in _MEMBER.finditer(before) if not _OF_ANOTHER_KIND.search(before, 0, each.start())]
    if named:
        between = before[named[-1].end() :] + match[0]
        if not (_ENDED.search(between) or _JOINED.match(before[named[-1].end() :]) or _fields(before, named)):
            return None
    else:
        named = [each for each in _MEMBER.finditer(text, match.start(), match.end() + BEHIND) if _near(match, each)][:1]
        if not _ENDED.search(match[0] + before[-20:]):
            return None
    whose = _whose(named)
    if not whose:
        own = _OWN.match(before) and _NO_MORE.match(text, match.end()) and not named
        return ProcessExited(reporter="a launcher", **_how(match)) if own else None
    said = _REPORTER.findall(before[: named[0].start()] if named[0].string is before else before)
    return ProcessExited(reporter=said[-1] if said else "a launcher", **_how(match), **whose)


def _sentence(before: str) -> int:
    """Where the last sentence begins."""
    return max(before.rfind(". "), before.rfind("; ")) + 1


def _fields(before: str, named: list[re.Match[str]]) -> bool:
    """Whether the line is a list of fields, with the member among them: ``rank=1 host=a pid=7 exit_code=139``."""
    return bool(_FIELD.match(before, named[0].start("kind") + len(named[0]["kind"]) - 1)) and not _PROSE.search(
        before, named[-1].end()
    )


def _near(match: re.Match[str], member: re.Match[str]) -> bool:
    """Whether a member behind the match belongs to it: ``exited with code 3 on rank 1``, ``exit code of rank 1: 3``."""
    between = match.string[match.end() : member.start()]
    return member.start() < match.end() or bool(_ON.match(between))


def _whose(named: list[re.Match[str]]) -> dict[str, Any]:
    """The fields of the fact that say which member it was; a rank stands for more than another name."""
    found: dict[str, Any] = {}
    for each in named:
        kind, number = each["kind"].lower(), each["number"]
        if kind.startswith("local"):
            found["local_rank"] = int(number)
        elif kind == "pid" or (kind in ("process", "subprocess", "proc", "child") and len(number) > LARGEST_RANK):
            found["pid"] = int(number)
        elif len(number) <= LARGEST_RANK + 2 and (kind == "rank" or "rank" not in found):
            found["rank"] = int(number)
    return found


def _how(match: re.Match[str]) -> dict[str, Any]:
    groups = match.groupdict()
    if groups.get("code"):
        return {"code": int(groups["code"])}
    if groups.get("signal"):
        try:
            return {"signal": _signals.Signals(int(groups["signal"])).name}
        except ValueError:
            return {"signal": f"signal {groups['signal']}"}
    if groups.get("how"):
        return {"signal": next(name for how, name in SIGNALS.items() if how.lower() == groups["how"].lower())}
    return {"signal": groups["name"]}


SIGNATURES = (
    # a strong word for the end, then any status
    signature(
        r"\b(?:[Ee]xited|[Dd]ied|[Cc]rashed|[Tt]erminated|[Kk]illed|[Aa]borted)\b[^\d\n.;]{0,40}?"
        rf"(?:(?:{_STATED}|\bstatus|\bcode){_CODE}|\b{_NUMBER}|\b(?P<name>SIG(?:KILL|SEGV|ABRT|BUS|ILL|FPE|TERM|INT|HUP|QUIT))\b|\b(?P<how>(?i:{_HOW}))\b)",
        _end,
        anchors=by_hand(
            "the words for a status are on many lines, and a process that ended is on few",
            *("xited", " died", "rashed", "erminated", "illed by ", "illed (", "illed with ", "illed: ", "borted"),
        ),
    ),
    # a status that is called so: returncode -11, rc=0, {"rank": 1, "exit_code": 139}
    signature(
        rf"(?<![\w-]){_STATED}(?: (?:of|for|from) (?:the )?[\w -]{{3,30}}?\d{{1,7}})?{_CODE}",
        _stated,
        anchors=by_hand(
            "exit, code, status and value are common words; together they are rare",
            *(
                "exit code",
                "exit_code",
                "exit-code",
                "exitcode",
                "exit status",
                "exit_status",
                "exit value",
                "return code",
                "return_code",
            ),
            *("returncode", "return value", "retcode", " rc=", "(rc="),
        ),
    ),
    signature(
        r"\breturned (?P<code>-\d{1,2})(?=\s*(?:$|[,;:()]))",
        _end,
        anchors=by_hand("returned is a common word", "returned -"),
    ),
    # rank 1 (pid 6606): Segmentation fault (core dumped)
    signature(
        r"\b(?:[Rr]ank|[Ww]orker|[Pp]id|[Tt]ask|[Pp]rocess)[ =#:-]?\d{1,7}[^\n\w]{0,3}(?:\(?(?:pid|rank)[ =:]\d{1,7}\))?: "
        r"(?P<how>" + "|".join(SIGNALS) + r")(?: \(core dumped\))?\s*$",
        lambda m: _shell(m),
        anchors=by_hand(
            "words that a shell has for signals",
            ": Segmentation fault",
            ": Killed",
            ": Aborted",
            ": Bus error",
            ": Terminated",
            ": Illegal instruction",
        ),
    ),
)


def _shell(match: re.Match[str]) -> Fact | None:
    whose = _whose(list(_MEMBER.finditer(match[0])))
    return ProcessExited(reporter="a launcher", **_how(match), **whose) if whose else None
