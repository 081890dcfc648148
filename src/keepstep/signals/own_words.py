# SPDX-License-Identifier: Apache-2.0
"""What a program itself said last, without what launchers, watchdogs and crash handlers wrote below it. Pure."""

from __future__ import annotations

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.training import StreamEnded

_OF_A_LAUNCHER = lazy_pattern(
    r"torch[./]distributed[./](?:elastic|launch|run)|closing signal"
    r"|^(?:srun|slurmstepd|prterun|mpirun|mpiexec|orterun|keepstep): "
    r"|\b(?:Sending|Received|Got) (?:signal )?(?:SIG[A-Z]+|\d+|process)"
    r"|^\W*(?:Terminated|Killed|Aborted)\b|\bcore dumped\b"
    r"|\[launcher\]|\blaunch\.py:\d+:sigkill_handler|Killing subprocess|\*{3,} (?:JOB|STEP) "
)
_OF_A_CRASH = lazy_pattern(
    r"^(?:Fatal Python error|(?:Current )?[Tt]hread 0x|File \"|frame #\d|<no Python frame>|Extension modules:"
    r"|\*\*\* |@ +0x|#\d+ +0x"
    r"|Traceback \(most recent|terminate called|what\(\):|Stack trace|Exception raised from)"
)
_OF_A_LIBRARY = lazy_pattern(
    r"^\[?[EFW]\d{3,4} \d\d:|: [EFW] \S{1,200}\.(?:cc|h|cpp):\d|\[[EFW]\d* [^\]]{0,120}\.(?:cpp|cc|h|py):\d"
    r"|\bNCCL WARN\b|^WARNING:"
)


def is_own(line: str) -> bool:
    """Whether a program may have written this about its work."""
    return not any(each.search(line) for each in (_OF_A_LAUNCHER, _OF_A_CRASH, _OF_A_LIBRARY))


def is_of_a_launcher(line: str) -> bool:
    return _OF_A_LAUNCHER.search(line) is not None


def own_words(end: StreamEnded) -> list[str]:
    """The lines at the end of a stream that its program wrote about its work, the newest first."""
    return [line for line in (end.last, *reversed(end.above)) if is_own(line)]
