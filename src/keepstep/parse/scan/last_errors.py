# SPDX-License-Identifier: Apache-2.0
"""Which of the last lines of a stream look like errors, whatever they say.

Read only at the end of a stream, so no table needs to know the message. A level that the writer gave counts first;
without one, words of failure count. What healthy programs print as well is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.process import ErrorSaid, Loudness

LAST_LINES = 40
MOST_ERRORS = 16
MOST_BELOW = 3
"""Lines without a level of their own that are read as the rest of the message above them."""
LONGEST = 1000
RESULTS = 3
"""Lines in a row."""
LONGEST_QUOTED = 120

_DAY = r"\d{4}-\d\d-\d\d[ T][\d:.,]+Z?"
_GLOG = r"(?:^|[\s:>\]])\[?{0}\d{{3,4}} \d\d:|{1}: {0} |^{0} \S+\.(?:cc|h|cpp)\b|\[{0}\d* [\w/]+\.(?:cc|h|cpp|py)|^{0}\s{{2,}}\S|\d\d:\d\d:\d\d,\d{{3}} {0} \d+ \d+\]"


def _level(letter: str) -> str:
    """How glog, absl, TensorFlow and torch mark a level: F0512 10:00:01, 2024-05-12 10:00:01.1: F, [F socket.cpp:1]."""
    return _GLOG.format(letter, _DAY)


_FATAL = lazy_pattern(
    _level("F") + r"|\b(?:FATAL|CRITICAL|PANIC)\b|\b(?:terminate called|core dumped|Check failed:|dumping core)"
    r"|^\s*(?:Killed|Aborted|Segmentation fault|Bus error|Terminated)\b|^\s*SIG(?:KILL|SEGV|ABRT|BUS|ILL)\s*$|\*\*\* SIG\w+ received"
    r"|\bAssertion .{1,200} failed\b|MPI_ABORT|MPI_ERRORS_ARE_FATAL"
)
_FATAL_WORDS = lazy_pattern(r"(?i)^\W*(?:fatal|panic)\b|: (?:fatal|panic):|\bfatal (?:error|exception|signal)")
_ERROR = lazy_pattern(
    _level("E") + r"|(?<![a-zA-Z])(?:ERROR|SEVERE|ERRO)\b|<E>| ERR "
    r"|(?i:\berr(?:or)?(?: \(\w+\)| code| number| message)? ?[:!](?! ?[-\d.]+(?:e-?\d+)?\b))|\b\w*[a-z](?:Error|Exception)\b(?!\w| ignored)"
    r"|(?i:\berrno\b|\berror (?:\d|in |at |while |when |opening |reading |writing |loading |from |code |message |returned|reported)|\ban error (?:occurred|was))"
    r"|(?i:exit(?:ed)? (?:with )?(?:code|status):? -?[1-9]|non-zero exit)|(?i:(?:^|: )\s*error\b)|\bwhat\(\):|^cannot |: cannot |command not found"
    r"|\bKilling subprocess\b|\b(?:CrashLoopBackOff|ImagePullBackOff|ErrImagePull)\b|\bException in (?:device|thread|worker|process|rank)\b"
)
# the only level that NCCL has for errors, and how Kubernetes marks an event
_ERROR_AS_WARNING = lazy_pattern(
    r"\b[NR]CCL WARN\b.{0,300}(?i:fail|error|mismatch|no |cannot|refused|time|truncated|invalid|closed)"
    r"|\bWarning\s{2,}(?:Evicted|Failed\w*|BackOff|Unhealthy|OOM\w*|Node\w+|Exceeded\w*)\b",
    most=LONGEST,
)
_TOLD_OF_ERRORS = lazy_pattern(
    r"(?i:\berror (?:reported|recorded)\b|\ban error (?:occurred|was)\b)|\b\w*[a-z](?:Error|Exception)\b['>:]|\b[NR]CCL INFO \S+:\d+ -> [1-9]\b"
)
_COMPLAINT = lazy_pattern(
    r"(?i)\b(?:fail(?:ed|ure|s|ing)?|can(?:not|'t)|could(?: not|n't)|unable to|unreachable|refus(?:ed|es)|denied|timed[ -]out|time-?out|no such"
    r"|not (?:found|available|supported|implemented|permitted|enough|match|valid|compatible|responding|initialized|compiled)|invalid|unsupported|mismatch\w*"
    r"|corrupt\w*|truncated|exceed(?:s|ed|ing)|insufficient|out of (?:memory|range|space|bounds)|abort(?:ed|ing)?|killed|terminat(?:ed|ing)|evicted|preempted"
    r"|lost|undefined|missing|incompatible|stuck|hung|hangs|stall(?:ed)?|deadlock\w*|dead|died|crash(?:ed)?|access fault|illegal|unexpected(?:ly)?|unhealthy|exhausted|unrecognized"
    r"|too (?:many|large|big|old|long|small)|does(?: not|n't) (?:exist|match|support|have)|must (?:be|have|match)|already in use|nan|overflow\w*|diverged|preempt\w*|SIG(?:TERM|HUP|KILL|ABRT|SEGV)|termination (?:signal|notice))\b"
)
_WARNED = lazy_pattern(_level("W") + r"|\b(?i:WARN(?:ING)?)\b|\w{1,60}Warning:")
_TOLD = lazy_pattern(_level("I") + r"|\b(?:INFO|DEBUG|NOTICE|TRACE|VERBOSE)\b")
_WAITS = lazy_pattern(
    r"(?i)\bstill waiting\b|\bwaiting (?:for|in|on|up to)\b|\bstuck\b|\bno progress\b|\bretry(?:ing)?\b|\bhang(?:s|ing)?\b|\bhung\b"
)

_HARMLESS = lazy_pattern(
    r"(?i)\bignor(?:e|ed|ing)\b|\bskipp(?:ed|ing)\b|\bdeprecat\w*|\bcontinuing\b|\bwill (?:retry|proceed|continue|be retried)\b|will fail if|set to (?:ignore|warn)"
    r"|\b(?:register|registering) (?:cuDNN|cuFFT|cuBLAS|computation_placer)|already been registered|\bTF-TRT\b|TensorRT|libnvinfer|could not find cuda drivers"
    r"|NUMA node|UNKNOWN ERROR \(\d{3}\)|slow_operation_alarm|SO_REUSEPORT|newly initialized|leaked (?:semaphore|shared_memory)|resource_tracker|retracing"
    r"|destroy_process_group|was not called|\bstate (?:FINISHED|SUCCEEDED)|\b(?:severity=)?corrected\b|machine check events logged|\d CE memory"
    r"|help message help-|orte_base_help_aggregate|libibverbs|no plugin found|performance may|using (?:the )?(?:regular|default)"
    r"|\b(?:0|no|zero|without) (?:errors?|failures?|missing)\b|(?:^|[,;:(] ?)0 failed\b|\b(?:errors?|failed|failures?|missing)[\"']?[ =:]+(?:0\b(?![.x])|none|false|\[\]|null)|: 0(?: OK)?$"
)
"""Healthy runs say this too, also at the level of an error."""
_WORDY = lazy_pattern(
    r"(?i)\b(?:mean|squared|absolute|percentage|training|train|test|validation|val|eval|top-?\d|word|char|max|reconstruction)[ _-](?:\w+[ _-])?err(?:or)?\b"
    r"|\berror[ _-](?:rate|bars?|handling|handler|feedback|correction|correcting|polling|tolerance)|\berrors? ?[=:] ?[-\d.]|_error\b|\berr(?:or)? [\d.]+$"
    r"|\bfall(?:s|ing|en)? ?back\b|\bfail[ -]?(?:safe|over|fast)\b|if (?:you|this|it|any|the)\b.{0,60}\b(?:fails?|error)|may (?:fail|cause)"
    r"|\bno longer (?:needed|required)|\b(?:recovered|recovering|succeeded|successful(?:ly)?)\b|gpu_process_state|usage(?: note)?:"
    r"|(?<![\[<])\bstderr\b|error_?file|--\w*(?:error|oom|nan|timeout)|log[ _-]?level\W{1,3}(?:error|critical|fatal|warn)"
    r"|(?:with|using|set|default) (?:a )?time-?out|time-?out (?:of|is|set)\b"
)
"""Words of failure that mean none, where no level says so."""
_FRAME = lazy_pattern(
    r'^\s*(?:File "|at [\w.$<>]+\(|frame #\d|@ +0x|#\d+ |\[[^\]]*\] +(?:/|\[0x)|raise |return |self\.|\^+|~+|/\S+\.(?:so|py)[.\d]*(?:\(|:\d+))|^\s+(?!what\(\):)\w[\w.]*\(|^\s*\w[\w., ]* = \w[\w.]*\(|\+ 0x[0-9a-f]+'
)
_NAN_METRIC = lazy_pattern(
    r"(?i)\b\w{0,40}?(?:loss|norm|grad\w{0,20}|perplexity|ppl)\b['\"]?[ =:]+\[?[-+]?(?:nan|inf)\b"
)


def read_errors(lines: Sequence[str]) -> Iterator[tuple[int, ErrorSaid]]:
    """The errors among the last lines of one stream, as (index of the line, what it said)."""
    levels = _as_one_message([loudness(text) for text in lines], lines)
    found = [(number, level, _below(lines, levels, number)) for number, level in enumerate(levels) if level is not None]
    found = [
        each for each in found if each[1] is Loudness.FATAL or not (each[2] and _MADE_DO.search(each[2][0][:LONGEST]))
    ]
    if _ends_in_results(lines):
        found = [(number, level, below) for number, level, below in found if level is Loudness.FATAL]
    if not found:
        return
    of_errors = {number + more for number, _, below in found for more in range(len(below) + 1)}
    words = max(1, sum(not _FRAME.search(text[:LONGEST]) for text in lines))
    for number, level, below in found[-MOST_ERRORS:]:
        text = "\n".join([lines[number].strip(), *below])[:LONGEST]
        share = min(1.0, len(of_errors) / words)
        yield number, ErrorSaid(text=text, loudness=level, below=len(lines) - 1 - number, share=round(share, 2))


def _ends_in_results(lines: Sequence[str]) -> bool:
    """Whether a program got as far as printing its counts or measurements: then no error above ended it."""
    last = [text for text in lines[-2 * RESULTS :] if _WORD.search(text)][-RESULTS:]
    return len(last) == RESULTS and all(_RESULT.search(text) for text in last)


def _as_one_message(levels: list[Loudness | None], lines: Sequence[str]) -> list[Loudness | None]:
    """Whether a complaint without a level, right below a warning or in the box it opens, is the rest of it."""
    boxed = False
    for number, text in enumerate(lines[:-1]):
        if _RULER.match(text):
            boxed = bool(_WARNS.match(lines[number + 1]))
        elif boxed and levels[number] is Loudness.COMPLAINED:
            levels[number] = Loudness.WARNED
    for number in range(1, len(levels)):
        if (
            levels[number] is Loudness.COMPLAINED
            and levels[number - 1] is Loudness.WARNED
            and not _TOLD.search(lines[number])
        ):
            levels[number] = Loudness.WARNED
    return levels


def _below(lines: Sequence[str], levels: Sequence[Loudness | None], number: int) -> list[str]:
    """The lines that go on with a message: the next few, up to one with a level of its own."""
    below: list[str] = []
    for text, level in zip(lines[number + 1 :], levels[number + 1 :], strict=True):
        if len(below) == MOST_BELOW or level in (Loudness.ERROR, Loudness.FATAL):
            break
        if _TOLD.search(text) or _WARNED.search(text) or _FRAME.search(text):
            break
        below.append(text.strip())
    return below


def loudness(text: str) -> Loudness | None:
    """How loudly a line complains, by its level or else by its words; None where it does not."""
    return _loudness_of(text[:LONGEST].translate(_DIGITS))


@lru_cache(maxsize=4096)
def _loudness_of(head: str) -> Loudness | None:
    """The same for all lines of one shape: thousands of ranks end with the same message and other numbers."""
    if _FRAME.search(head) or _OF_THE_SYSTEM.search(head):
        return None
    level = _loudness(head)
    return None if level is None or _HARMLESS.search(head) else level


def _loudness(head: str) -> Loudness | None:
    if _FATAL.search(head):
        return Loudness.FATAL
    complains = bool(_COMPLAINT.search(head)) and not _WORDY.search(head)
    if len(head) > LONGEST_QUOTED and _QUOTED.search(head):
        return None  # a text that the program reads, not a message of its own
    if _ERROR_AS_WARNING.search(head):
        return Loudness.ERROR
    if _TOLD.search(head) or (_WARNED.search(head) and not _MARKED.search(head)):
        if _TOLD_OF_ERRORS.search(head):
            return Loudness.COMPLAINED
        return Loudness.WARNED if complains or _WAITS.search(head) else None
    if _FATAL_WORDS.search(head):
        return Loudness.FATAL
    if _ERROR.search(head):
        return None if _WORDY.search(head) and not _MARKED.search(head) else Loudness.ERROR
    if complains or _NAN_METRIC.search(head):
        return Loudness.COMPLAINED
    return Loudness.WARNED if _WAITS.search(head) else None


_MADE_DO = lazy_pattern(
    r"(?i)^\W*(?:defaulting|falling back|reverting) to\b|^\W*(?:continuing|proceeding|going on) (?:with|anyway)"
)
"""Said right below an error: what the program does instead."""
_OF_THE_SYSTEM = lazy_pattern(
    r"^\s*(?:<\d+>)?\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? |^\w{3} +\d+ [\d:]+ \S+ (?:kernel|systemd(?:-\w+)?(?:\[\d+\])?): "
)
"""The kernel complains about much that no run notices; what ends runs is in its own tables."""
_RULER = lazy_pattern(r"^\s*(?:-{20,}|={20,}|\*{20,})\s*$")
_WARNS = lazy_pattern(r"^\s*WARNING\b")
_WORD = lazy_pattern(r"[A-Za-z]")
_RESULT = lazy_pattern(
    r"^\s*(?!(?i:exit|return|status|err|rank|pid|signal|code|node|task|job))[A-Za-z][\w %@/()\-]{2,40}[:=] *-?\d+(?:\.\d+)?%?\s*$"
)
_QUOTED = lazy_pattern(r"^\s*\[?['\"]")
_MARKED = lazy_pattern(_level("E") + r"|\b(?:ERROR|SEVERE)\b")
_DIGITS = str.maketrans("23456789", "11111111")
