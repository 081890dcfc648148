# SPDX-License-Identifier: Apache-2.0
"""Windows: the exit codes of processes that crashed (NTSTATUS), as the signals that other systems send for them;
and its messages for memory that ran out, in the language of the machine.
"""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited
from keepstep.parse.scan.signature import signature

_STATUS = {
    0xC0000005: "SIGSEGV",
    0xC00000FD: "SIGSEGV",
    0xC0000374: "SIGABRT",
    0xC0000409: "SIGABRT",
    0xC000001D: "SIGILL",
    0xC0000094: "SIGFPE",
    0xC0000006: "SIGBUS",
}
"""Access violation, stack overflow, heap corruption, overrun or abort, illegal instruction, division, page error."""
_WRAP = 1 << 32
PAGING_FILE = (
    r"[Tt]he paging file is too small|Auslagerungsdatei ist zu klein|fichier de pagination est insuffisant"
    r"|archivo de paginaci.{1,2}n es demasiado|arquivo de pagina.{2,4}o . muito pequeno|[Ff]ile di paging insufficiente"
    r"|页面文件太小|頁面檔太小|分頁檔太小|Файл подкачки слишком мал|ページング ファイルが小さすぎる|페이징 파일이 너무 작"
)
"""What Windows says, in its languages, when memory and paging file are used up (error 1455)."""


def as_signal(code: int) -> str | None:
    """The signal that stands for an exit code of Windows; both spellings of it, with and without a sign, are known."""
    return _STATUS.get(code % _WRAP) if not 0 <= code <= 255 else None


def _exited(match: re.Match[str]) -> Fact | None:
    signal = as_signal(int(match["code"], 0))
    return ProcessExited(reporter="Windows", signal=signal) if signal else None


SIGNATURES = (
    signature(
        r"\b(?:exit(?:ed)?|return(?:ed)?|terminated|finished)\b[^\n]{0,40}?\b(?:code|status|value)[ :=(]{1,3}(?P<code>3221\d{6}|-10737\d{5}|0[xX][cC]0000\w{3})\b",
        _exited,
    ),
)
