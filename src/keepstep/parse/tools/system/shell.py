# SPDX-License-Identifier: Apache-2.0
"""Shells: a child that was killed, as bash, dash and sh report it."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited
from keepstep.parse.scan.signature import Signature, signature

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
_TRANSLATED = {
    "已杀死": "SIGKILL",
    "已终止": "SIGTERM",
    "段错误": "SIGSEGV",
    "段错误 (核心已转储)": "SIGSEGV",
    "段错误 (吐核)": "SIGSEGV",
    "已放弃": "SIGABRT",
    "已放弃 (核心已转储)": "SIGABRT",
    "已放弃 (吐核)": "SIGABRT",
    "已中止 (核心已转储)": "SIGABRT",
    "总线错误 (核心已转储)": "SIGBUS",
    "非法指令 (核心已转储)": "SIGILL",
    "強制終了": "SIGKILL",
    "強制終了しました": "SIGKILL",
    "죽었음": "SIGKILL",
    "세그멘테이션 오류 (core dumped)": "SIGSEGV",
    "Getötet": "SIGKILL",
    "Speicherzugriffsfehler": "SIGSEGV",
    "Speicherzugriffsfehler (Speicherabzug geschrieben)": "SIGSEGV",
    "Abgebrochen (Speicherabzug geschrieben)": "SIGABRT",
    "Processus arrêté": "SIGKILL",
    "Erreur de segmentation": "SIGSEGV",
    "Erreur de segmentation (core dumped)": "SIGSEGV",
    "Terminado (killed)": "SIGKILL",
    "Violación de segmento": "SIGSEGV",
    "Violación de segmento (`core' generado)": "SIGSEGV",
    "Убито": "SIGKILL",
    "Ошибка сегментирования": "SIGSEGV",
    "Ошибка сегментирования (стек памяти сброшен на диск)": "SIGSEGV",
    "Falha de segmentação (imagem do núcleo gravada)": "SIGSEGV",
    "Morto": "SIGKILL",
    "Ucciso": "SIGKILL",
    "Errore di segmentazione (core dump creato)": "SIGSEGV",
}
"""What bash says in other languages, alone on a line."""
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


_LOCAL = lazy_pattern(r"--local[-_]rank=(\d+)")


def _child(match: re.Match[str]) -> Fact:
    """A child of a launcher. The command is its own, or that of the last child started; not if it is the first."""
    groups = match.groupdict()
    local = _LOCAL.search(match.string)
    code = groups.get("code")
    return ProcessExited(
        reporter="subprocess",
        code=int(code) if code else None,
        signal=groups.get("signal"),
        local_rank=0 if local and int(local[1]) == 0 else None,
    )


SIGNATURES = (
    # zsh: killed     python a.py; [1]    11880 killed     python a.py; ./train.sh:60: 11880 killed    python a.py
    signature(
        r"^(?:zsh: |\[\d+\] +[+-]? *|\S{1,120}: *\d+: +(?=\d))(?P<pid>\d+ +)?(?P<how>"
        + "|".join(_OF_ZSH)
        + r")(?: \(core dumped\))?  +\S",
        _ended_in_zsh,
    ),
    signature(r"line \d+: +(?P<pid>\d+) (?P<how>" + _WORDS + r")\b(?! by)", _ended),
    signature(r"^ ?(?P<how>" + _WORDS + r") \(core dumped\)", _ended),
    signature(
        r"^ ?\[?\d*\]?[+-]? *(?P<how>Killed|Segmentation fault|Bus error|Illegal instruction)(?:: \d{1,2})?\s*$", _ended
    ),
    # behind a progress bar that was being drawn: ...[00:18<14:23,  2.93s/it]Killed
    signature(
        r"(?:it/s|s/it|\?it/s)[^\]\n]{0,200}\] *(?P<how>Killed|Segmentation fault|Bus error|Illegal instruction)(?: \(core dumped\))?\s*$",
        _ended,
    ),
    # over the beginning of a line that was drawn again and again: Killedng examples:  35%|███▌ | 35000/100000
    signature(
        r"^(?P<how>Killed|Segmentation fault|Bus error)(?=[a-z%|])[^\n]{0,120}?(?:\b\d{1,3}%\||\d ?/ ?\d)", _ended
    ),
    signature(r"^(?:/bin/)?(?:ba|da|z)?sh: line \d+: +(?P<pid>\d+) (?P<how>" + _WORDS + r")", _ended),
    signature(
        r"(?:died with|Command terminated by|terminated by|[Kk]illed by|exited on) signal (?P<number>\d+)\b",
        lambda m: _by_number(m),
    ),
    signature(r"died with <Signals\.(?P<signal>SIG\w+): \d+>", _child),
    signature(
        r"Command '\[(?=[^\n]{0,1000}?(?:python|torch|bash|deepspeed))[^\n]{0,60000}returned non-zero exit status (?P<code>-?\d+)",
        _child,
    ),
    signature(
        r"\b(?:task|job|process|worker|command|trial|run|child) failed with (?:error|exit|return) ?code:? (?P<number>-\d{1,2})\b",
        lambda m: _by_number(m),
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


def _translated(match: re.Match[str]) -> Fact:
    return ProcessExited(reporter="shell", signal=_TRANSLATED[" ".join(match["how"].split())])


LAST_WORDS = (
    Signature(
        r"^ ?(?:[^\n]{0,120}: (?:line|行|第) ?\d+[^\n]{0,8}: +\d+ )?(?P<how>"
        + "|".join(map(re.escape, sorted(_TRANSLATED, key=len, reverse=True)))
        + r")(?:  +\S[^\n]{0,400})?\s*$",
        _translated,
        (),
    ),
)
"""Words too short to be looked for in all of a log."""
