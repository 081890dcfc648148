# SPDX-License-Identifier: Apache-2.0
"""How far each rank got, and what it was doing when its output ended: who was late, who was done."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from keepstep.model.facts import (
    CollectiveTimeout,
    ConnectFailed,
    ErrorSaid,
    ExceptionRaised,
    Fact,
    FatalSignal,
    GroupShutDown,
    LastOwnLine,
    Loudness,
    NameUnresolved,
    NativeAbort,
    PeerLost,
    PhaseSeen,
    Preempted,
    RendezvousTimeout,
    StepSeen,
    StreamEnded,
    TracebackCut,
)
from keepstep.rules.api import Evidence, EvidenceSet, lazy_pattern
from keepstep.signals.own_words import is_of_a_launcher, own_words

STILL_S, STILL_STEPS, FEW_STEPS = 900.0, 50, 3
"""A run without a step for this long, in time and in usual steps, had stopped. A few steps show what is usual."""
SILENT_TIMES, AT_ONCE_S = 20, 60.0
"""How many times longer than the run before it a silence must be; what is written this near the end belongs to it."""
LAST_LINES = 200
"""How far above the end of a log its program's last line may be; other streams may write in between."""
NEAR_THE_END = 3
"""Lines: a phase that was announced so near the end of a log was going on."""
FEW_RANKS = 3
"""With fewer ranks, neither of two lines is the odd one."""
MOST_AHEAD = 50
"""Steps: ranks further apart than this count different things."""

AT = "at"
"""How a work begins that only its numbers describe."""
SAVING, LOADING = "saving", "loading a model or checkpoint"
_INSTALLING, _COMPILING, _LOCKED = "installing packages", "compiling", "waiting for a lock"
_OF_A_MODEL = r"[^\n]{0,40}\b(?:checkpoint|ckpt|model|weights|state|snapshot|optimizer)"
_DOING = (
    (
        lazy_pattern(
            r"(?i)\b(?:pip3?|conda|mamba|uv|apt|apt-get|yum|dnf) (?:[\w-]+ )?(?:install|update|sync)\b|\binstalling\b"
            r"|^\W*(?:Collecting|Preparing metadata|Getting requirements)\b|Building wheels?\b|Solving environment"
        ),
        _INSTALLING,
    ),
    (
        lazy_pattern(
            r"(?i)\b(?:re)?compiling\b|\blowering\b|\bautotun\w+|\btracing \w|\bcc1plus\b|\bnvcc\b|\bninja -v"
            r"|(?:Building|Loading) extension module|torch_extensions|slow compile|\bcompilation (?:of|is) \w"
        ),
        _COMPILING,
    ),
    (
        lazy_pattern(
            r"(?i)\b(?:copying|promoting|moving|transferring|syncing|mirroring|publishing|uploading)\b[^\n]{0,120}"
            r"(?:checkpoint|ckpt|snapshot|global_?step|weights)"
        ),
        SAVING,
    ),
    (
        lazy_pattern(
            r"(?i)\b(?:download(?:ing|ed \d)|fetching|pulling (?:image|layer|from)|extracting|unpacking|rsync|gsutil"
            r"|aws s3|staging (?:in|data)|copying)\b"
        ),
        "downloading or copying files",
    ),
    (lazy_pattern(rf"(?i)\b(?:saving|writing|uploading|flushing|gathering)\b{_OF_A_MODEL}"), SAVING),
    (
        lazy_pattern(
            rf"(?i)\b(?:restoring|loading|resuming|reading|deserializing)\b{_OF_A_MODEL}"
            r"|\b_?deserializ\w{1,30}[^\n]{0,60}?\b\d{1,9}/\d{1,9}\b"
            r"|\b(?:reading|restoring)\b[^\n]{0,40}\b(?:tensorstore|orbax)"
            r"|\b(?:tensorstore|orbax|checkpoint)\b[^\n]{0,40}\b(?:read|restore|load|deserializ\w+)\b"
        ),
        LOADING,
    ),
    (
        lazy_pattern(
            r"(?i)\b(?:tokeniz(?:ing|er on)|preprocessing|indexing|caching|shuffling|scanning|decoding|packing"
            r"|grouping|building (?:the )?(?:dataset|index|vocab\w*|cache)|generating \w+ split|listing files"
            r"|(?:loading|reading) (?:the |next )?(?:data\w*|shards?|files?|records?|train\w*|batch(?:es)?|samples?))\b"
            r"|\bMap(?: \(num_proc=\d+\))?: +\d+%"
        ),
        "reading or preparing data",
    ),
    (lazy_pattern(r"(?i)\b(?:evaluating|validating|running (?:evaluation|validation))\b"), "evaluating"),
    (lazy_pattern(r"(?i)\b(?:pre)?allocating\b|\bpinning (?:host )?memory"), "allocating memory"),
    (lazy_pattern(r"(?i)\b(?:waiting (?:for|on|to acquire)|acquiring) (?:the )?(?:\w+ )?lock\b"), _LOCKED),
)
"""What a program's last line may say that it is doing, which the other ranks do not see."""
_WAITS = lazy_pattern(
    r"(?i)\b(?:waiting|wait(?:s|ed)?) (?:for|on|until|at)\b(?! (?:the )?(?:\w+ )?lock\b)"
    r"|\b(?:entering|entered|at|in) (?:the |a )?\w{0,30} ?barrier\b"
)
_UNTIL_TOLD = (_INSTALLING, _COMPILING, _LOCKED)
_OVER = lazy_pattern(
    r"(?i)\b(?:done|finished|completed?|successfully|succeeded|saved|loaded|skipp\w+|ready|took \d)\b"
    r"|\bin \d[\d.]* ?s(?:ec\w*)?\b|\b100 ?%"
)
_DONE = lazy_pattern(
    r"(?i)\b(?:exit(?:ing|ed)?(?: normally)?(?: with)? (?:status|code|rc)[ =:]{0,2}0|finished training|clean exit"
    r"|(?:training|run|job|work|all)(?: is| was| has)? (?:done|finished|completed?|over)|exiting (?:normally|cleanly)"
    r"|good ?bye|reached max(?:imum)?[_ ]steps|no more (?:data|batches|samples)|end of (?:data|training))\b"
)
_LEFT = lazy_pattern(
    r"(?i)\b(?:(?:target|goal|max\w* (?:steps?|epochs?)) (?:is |was |has been )?reached"
    r"|nothing (?:left|more|else) to do)\b"
    r"|\b(?:leaving|exiting|quitting|stopping)(?: now| here| early| the (?:loop|run|job|training))?\W*$"
)
"""A rank that decided by itself that it was done."""
_WITH_TROUBLE = lazy_pattern(
    r"(?i)error|exception|fail|fatal|could ?n.t|cannot|unable|invalid|missing|not found|no such|lost|abort|timed? ?out"
    r"|signal|SIG[A-Z]|interrupt|preempt|terminat|kill|crash|nan\b|out of"
)
_COUNTED = lazy_pattern(
    r"(?<![\w./-])(?P<done>\d{1,12}) ?(?:/|of|out of) ?(?P<all>\d{1,12})(?![\w./:-]*\d)(?: (?P<what>[a-z]{3,30})\b)?"
)
"""Work whose end is known, and not yet reached."""
_OF_THE_RUN = lazy_pattern(
    r"(?i)\b(?:ranks?|process(?:es)?|workers?|tasks?|nodes?|hosts?|members?|clients?|gpus?|devices?|attempts?|retr\w+|tr(?:y|ies)"
    r"|epochs?|steps?|world)\b"
)
"""What is counted there is the run itself."""
FEWEST_COUNTED = 10
_NUMBERS = lazy_pattern(r"\d+")
_CONTINUES = lazy_pattern(r"(?i)\bstill\b|\.\.\.\s*$|\d ?%|\b\d+(?:\.\d+)? ?(?:/|of) ?\d+|^\s*\[\d+/\d+\]|\d [KMGT]i?B")
"""A last line that goes on with what a line above it began."""
_FAILED: tuple[type[Fact], ...] = (
    ConnectFailed, NameUnresolved, PeerLost, RendezvousTimeout, CollectiveTimeout, GroupShutDown, ExceptionRaised,
    TracebackCut, FatalSignal, NativeAbort,
)  # fmt: skip


@dataclass(frozen=True)
class LateAtEnd:
    """A rank that was alive and busy when its output ended, and reported no trouble."""

    rank: int
    doing: str
    evidence: Evidence[Fact]
    sure: bool
    """Whether that work goes on until a line says that it is over; other work may have ended without a word."""


def untroubled(seen: EvidenceSet) -> dict[int, Evidence[StreamEnded]]:
    """The end of the output of each rank that reports no failure of its own."""
    ends: dict[int, Evidence[StreamEnded]] = {}
    for each in seen.all(StreamEnded):
        known = ends.get(each.who) if each.who is not None else None
        if each.who is not None and (known is None or not _ends_above(seen, each, known)):
            ends[each.who] = each
    troubled = {e.who for kind in _FAILED for e in seen.all(kind) if not seen.survived(e)}
    troubled |= {e.who for e in seen.bad_exits if not _told_to(e.fact.signal, e.fact.code)}
    troubled |= {
        e.who
        for e in seen.all(ErrorSaid)
        if e.fact.loudness in (Loudness.ERROR, Loudness.FATAL) and not is_of_a_launcher(e.fact.text)
    }
    return {rank: end for rank, end in ends.items() if rank not in troubled}


def _ends_above(seen: EvidenceSet, one: Evidence[StreamEnded], other: Evidence[StreamEnded]) -> bool:
    """Whether one writer of a log said its last word above another: the rank went on as the other."""
    if one.origin.source != other.origin.source:
        return False
    lines = [(own_end(seen, each).origin.line or 0) if own_words(each.fact) else 0 for each in (one, other)]
    return lines[0] < lines[1]


def late(seen: EvidenceSet, waiting: set[int]) -> list[LateAtEnd]:
    """Ranks outside ``waiting`` whose last line says that they were busy with something that others do not see."""
    found = []
    for rank, end in sorted(seen.once(untroubled).items()):
        doing = what_it_did(seen, end) if rank not in waiting else None
        if doing is not None:
            sure = doing in _UNTIL_TOLD or bool(_CONTINUES.search(own_words(end.fact)[0]))
            found.append(LateAtEnd(rank, doing, own_end(seen, end), sure))
    return found


def waits_in_words(seen: EvidenceSet) -> dict[int, Evidence[Fact]]:
    """The last own line of each untroubled rank that says that it waits for others."""
    ends = sorted(seen.once(untroubled).items())
    return {rank: own_end(seen, end) for rank, end in ends if _WAITS.search(next(iter(own_words(end.fact)), ""))}


def own_end(seen: EvidenceSet, end: Evidence[StreamEnded]) -> Evidence[Fact]:
    """The last line of a stream that its program wrote itself."""
    words = own_words(end.fact)
    if not words or words[0] == end.fact.last:
        return end
    above = seen.near(end, LastOwnLine, before=LAST_LINES)
    return next((each for each in reversed(above) if each.fact.text == words[0]), end)


def what_it_did(seen: EvidenceSet, end: Evidence[StreamEnded]) -> str | None:
    """What the last line of a rank says that it was doing, if that was still going on."""
    words = own_words(end.fact)
    if not words or _OVER.search(words[0]):
        return None
    said = work_in(words[0])
    if said is not None:
        return said
    if _CONTINUES.search(words[0]):
        below = (end.origin.line or 0) - (own_end(seen, end).origin.line or 0)
        phases = seen.near(end, PhaseSeen, before=NEAR_THE_END + max(0, below))
        if phases:
            return phases[-1].fact.phase.value
        for line in words[1:NEAR_THE_END]:
            if _OVER.search(line):
                break
            if work_in(line):
                return work_in(line)
    return _counting(words[0]) if not any(e.who == end.who for e in seen.all(StepSeen)) else None


def work_in(line: str) -> str | None:
    """What a line says that the program is doing, in words that name no rank and no framework."""
    return next((doing for pattern, doing in _DOING if pattern.search(line)), None)


def _counting(last: str) -> str | None:
    """How far a rank had come that counts something before its first step."""
    counted = _COUNTED.search(last)
    if counted is None or _OF_THE_RUN.search(last) or not FEWEST_COUNTED <= int(counted["all"]) > int(counted["done"]):
        return None
    return f"{AT} {counted['done']} of {counted['all']}{' ' + counted['what'] if counted['what'] else ''}"


def says_done(seen: EvidenceSet) -> dict[int, Evidence[StreamEnded]]:
    """The ranks whose last line says that their work was done, without any trouble."""
    return {rank: end for rank, end in seen.once(untroubled).items() if _is_done(end.fact.last)}


def ever_done(seen: EvidenceSet) -> set[int | None]:
    """The ranks of which a writer ended by saying that the work was done, whatever others wrote then."""
    return {end.who for end in seen.all(StreamEnded) if _is_done(end.fact.last)}


def _is_done(last: str) -> bool:
    return bool(_DONE.search(last)) or says_it_leaves(last)


def says_it_leaves(last: str) -> bool:
    """Whether a last line says that the rank goes of its own accord, not because of some trouble."""
    return bool(_LEFT.search(last)) and not _WITH_TROUBLE.search(last)


def stood_still(seen: EvidenceSet, until: float | None) -> tuple[Evidence[Fact], float] | None:
    """The last step or line of any rank, and for how long nothing followed it; None if not unusual, or not known."""
    if until is None:
        return None
    timed = sorted((e for e in seen.all(StepSeen) if e.at is not None and e.who is not None), key=lambda e: e.at or 0.0)
    own = [e.at or 0.0 for e in timed if e.who == timed[-1].who]
    usual = sorted(b - a for a, b in itertools.pairwise(own))
    if len(usual) < FEW_STEPS:
        return _silent(seen, until)
    still = until - (timed[-1].at or 0.0)
    later = any(e.at is not None and (timed[-1].at or 0.0) < e.at < until - STILL_S for e in seen.all(PhaseSeen))
    usually = max(usual[len(usual) // 2], usual[-1] / 4)
    return (timed[-1], still) if not later and still > max(STILL_S, STILL_STEPS * usually) else None


def _silent(seen: EvidenceSet, until: float) -> tuple[Evidence[Fact], float] | None:
    """Without steps: the last line of any rank, if the silence after it was far longer than all that it had written."""
    lines = [e for e in seen.all(StreamEnded) if e.at is not None and e.at < until - AT_ONCE_S]
    lines = [e for e in lines if not _by_another_clock(seen, e)]
    first = min((e.at for e in seen.items if e.at is not None), default=until)
    if not lines:
        return None
    last = max(lines, key=lambda e: e.at or 0.0)
    at = last.at or 0.0
    alike = until - at > max(STILL_S, SILENT_TIMES * (at - first))
    return (last, until - at) if alike else None


def _by_another_clock(seen: EvidenceSet, end: Evidence[StreamEnded]) -> bool:
    """Whether its log has later times further up: two programs wrote it, each in a time zone of its own."""
    return any(
        e.origin.source == end.origin.source
        and (e.origin.line or 0) < (end.origin.line or 0)
        and (e.at or 0.0) > (end.at or 0.0) + STILL_S
        for e in seen.items
    )


def behind(seen: EvidenceSet) -> tuple[Evidence[StepSeen], ...]:
    """The last step of the few ranks that got less far than all others, where every rank prints its steps."""
    last: dict[int, Evidence[StepSeen]] = {}
    for each in seen.all(StepSeen):
        if each.who is not None and each.fact.step is not None:
            last[each.who] = each
    steps = sorted({e.fact.step or 0 for e in last.values()})
    if len(steps) != 2 or steps[1] - steps[0] > MOST_AHEAD or len({e.fact.of for e in last.values()}) > 1:
        return ()
    few = tuple(e for _, e in sorted(last.items()) if e.fact.step == steps[0])
    return few if len(few) * 2 < len(last) or (len(few), len(last)) == (1, 2) else ()


def elsewhere(seen: EvidenceSet) -> tuple[Evidence[StreamEnded], ...]:
    """The last line of the one rank that printed something else last than all others did, who printed the same.

    Rank 0 often prints more than the others: its line counts only if it says what the rank was doing.
    """
    told = {(e.origin.source, e.origin.line) for kind in (Preempted, ErrorSaid) for e in seen.all(kind)}
    last: dict[int, Evidence[StreamEnded]] = {}
    for each in seen.all(StreamEnded):
        if each.who is not None and (each.origin.source, each.origin.line) not in told:
            last[each.who] = each
    shapes: dict[str, list[int]] = {}
    for rank, end in last.items():
        shapes.setdefault(_NUMBERS.sub("#", end.fact.last), []).append(rank)
    alone = [ranks[0] for ranks in shapes.values() if len(ranks) == 1]
    if len(last) < FEW_RANKS or len(shapes) != 2 or len(alone) != 1:
        return ()
    odd = last[alone[0]]
    return (odd,) if alone[0] != 0 or what_it_did(seen, odd) else ()


def _told_to(signal: str | None, code: int | None) -> bool:
    """Whether something else ended it: that is how a late rank ends, too."""
    return signal in ("SIGTERM", "SIGKILL", "SIGINT") or code in (143, -15, 137, -9, 130, -2)
