# SPDX-License-Identifier: Apache-2.0
"""Shells: a child that was killed, as bash, dash and sh report it."""

from __future__ import annotations

import re

from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import ProcessExited
from keepstep.parse.signature import signature

SIGNALS = {
    "Killed": "SIGKILL",
    "Terminated": "SIGTERM",
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Hangup": "SIGHUP",
}
_WORDS = "|".join(SIGNALS)
_OF_ZSH = {
    "killed": "SIGKILL",
    "terminated": "SIGTERM",
    "segmentation fault": "SIGSEGV",
    "abort": "SIGABRT",
    "bus error": "SIGBUS",
    "illegal hardware instruction": "SIGILL",
}


def _ended(match: re.Match[str]) -> Fact:
    pid = match.groupdict().get("pid")
    return ProcessExited(reporter="shell", signal=SIGNALS[match["how"]], pid=int(pid) if pid else None)


def _ended_in_zsh(match: re.Match[str]) -> Fact:
    pid = match["pid"]
    return ProcessExited(reporter="shell", signal=_OF_ZSH[match["how"]], pid=int(pid) if pid else None)


SIGNATURES = (
    # zsh: killed     python a.py; [1]    11880 killed     python a.py; ./train.sh:60: 11880 killed    python a.py
    signature(
        r"^(?:zsh: |\[\d+\] +[+-]? *|\S{1,120}: *\d+: +(?=\d))(?P<pid>\d+ +)?(?P<how>" + "|".join(_OF_ZSH) + r")"
        r"(?: \(core dumped\))?  +\S",
        _ended_in_zsh,
        anchors=tuple(f" {word}" for word in _OF_ZSH),
    ),
    signature(
        r"line \d+: +(?P<pid>\d+) (?P<how>" + _WORDS + r")\b(?! by)",
        _ended,
        anchors=tuple(f" {w}" for w in SIGNALS),
    ),
    signature(
        r"^ ?(?P<how>" + _WORDS + r") \(core dumped\)",
        _ended,
        anchors=(
            "Segmentation fault (core",
            "Aborted (core",
            "Bus error (core",
            "Illegal instruction (core",
            "exception (core",
        ),
    ),
    signature(
        r"^ ?\[?\d*\]?[+-]? *(?P<how>Killed|Segmentation fault|Bus error|Illegal instruction)(?:: \d{1,2})?\s*$",
        _ended,
        anchors=("Killed", "Segmentation fault", "Bus error", "Illegal instruction"),
    ),
    # behind a progress bar that was being drawn: ...[00:18<14:23,  2.93s/it]Killed
    signature(
        r"(?:it/s|s/it|\?it/s)[^\]\n]{0,200}\] *(?P<how>Killed|Segmentation fault|Bus error|Illegal instruction)"
        r"(?: \(core dumped\))?\s*$",
        _ended,
        anchors=("]Killed", "]Segmentation fault", "]Bus error", "]Illegal instruction"),
    ),
    signature(
        r"^(?:/bin/)?(?:ba|da|z)?sh: line \d+: +(?P<pid>\d+) (?P<how>" + _WORDS + r")",
        _ended,
        anchors=tuple(f" {w}" for w in SIGNALS),
    ),
    signature(
        r"(?:died with|Command terminated by|terminated by|[Kk]illed by|exited on) signal (?P<number>\d+)\b",
        lambda m: _by_number(m),
        anchors=("died with", "erminated by", "illed by", "exited on"),
    ),
    signature(r"died with <Signals\.(?P<signal>SIG\w+): \d+>", ProcessExited, reporter="subprocess"),
    signature(
        r"Command '\[[^\n]{0,4000}(?:python|torch|bash|deepspeed)[^\n]{0,60000}returned non-zero exit"
        r" status (?P<code>-?\d+)",
        ProcessExited,
        reporter="subprocess",
        anchors=("returned non-zero exit status",),
    ),
    signature(r"[Pp]rocess finished with exit code (?P<code>1\d\d|-\d+)", ProcessExited, reporter="shell"),
    signature(
        r"\b(?:task|job|process|worker|command|trial|run|child) failed with (?:error|exit|return) ?code:? (?P<number>-\d{1,2})\b",
        lambda m: _by_number(m),
        anchors=("failed with error code", "failed with exit code", "failed with return code"),
    ),
)

_NUMBERS = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
    1: "SIGHUP",
    2: "SIGINT",
}


def _by_number(match: re.Match[str]) -> Fact | None:
    name = _NUMBERS.get(abs(int(match["number"])))
    if name is None or "mpirun" in match.string or "mpiexec" in match.string:
        return None
    return ProcessExited(reporter="shell", signal=name)
