# SPDX-License-Identifier: Apache-2.0
"""Who wrote a line: the prefixes that launchers, log viewers and libraries put before it.

Pure text to :class:`Writer`. A strong prefix is believed anywhere in a line (also after a
progress bar); a weak one (``3: ``) only where most lines of the file carry one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.parse.scan.lines.numbered_prefix import numbered
from keepstep.parse.scan.lines.writer import NOBODY, Writer, as_rank, identify

_STRONG = (
    # torch's own excepthook: [rank1]: — Determined: [rank=1] ||
    lazy_pattern(r"\[(?:rank[ :_=-]? ?|(?:worker|node|agent|task)[ _-]?)(?P<rank>\d{1,5})\](?: \|\||:)? ?"),
    # torchrun --tee: the role and the rank on that host, [default0]: [trainer3]:
    lazy_pattern(r"\[(?:default|trainer)[ _-]?(?P<local>\d{1,5})\](?: \|\||:)? ?"),
    # JAX programs: [process 3] [host 2] [proc=1]
    lazy_pattern(r"\[(?:[Pp]rocess|proc|[Hh]ost)[ _=:]? ?(?P<rank>\d{1,3})\]:? ?"),
    # Open MPI --tag-output, horovodrun: [1,0]<stderr>:
    lazy_pattern(r"\[\d+,(?P<rank>\d+)\](?:\[[^\]]*\])?<(?:stdout|stderr|stddiag)>: ?"),
    # SageMaker: [1,mpirank:7,algo-1]<stderr>:
    lazy_pattern(r"\[\d+,mpirank:(?P<rank>\d+),(?P<node>[\w.\-]+)\]<(?:stdout|stderr)>: ?"),
    # horovodrun with gloo: [0]<stderr>:
    lazy_pattern(r"\[(?P<rank>\d+)\]<(?:stdout|stderr)>: ?"),
    # Ray: (RayTrainWorker pid=4711, ip=10.0.0.2)
    lazy_pattern(
        r"\((?P<name>[\w.<>\-: ]+? )?(?:rank=(?P<rank>\d+),? )?pid=(?P<pid>\d+)(?:, ip=(?P<node>[\w.:\-]+))?\) ?"
    ),
    # SkyPilot: (head, rank=0, pid=4711)
    lazy_pattern(r"\((?:(?P<name>[\w.\-]+), )?rank=(?P<rank>\d+), pid=(?P<pid>\d+)(?:, ip=(?P<node>[\w.:\-]+))?\) ?"),
    # kubectl logs --prefix: [pod/trainer-worker-1/pytorch]
    lazy_pattern(r"\[pod/(?P<name>[\w.\-]+)/(?P<container>[\w.\-]+)\] ?"),
)

_ANY_STRONG = lazy_pattern("|".join(re.sub(r"\(\?P<\w+>", "(?:", pattern.pattern) for pattern in _STRONG))

_RANK_ITSELF = lazy_pattern(r"\[rank|\[[^\]]*\](?:\[[^\]]*\])?<std")
_ANY_MEMBER = lazy_pattern(r"\[(?:worker|node|agent|task|[Pp]roc|[Hh]ost)")

_ANY_STRONG_RAW = lazy_pattern(_ANY_STRONG.pattern.encode())
_DOUBTFUL = lazy_pattern(rb"\[(?:rank|default|trainer|worker|node|agent|task|pod/|[Pp]roc|[Hh]ost|[\d;]*m)|\]<std")
"""After a first prefix: perhaps another one, or a colour spelled out."""

# "Rank 0: text", "worker1 | text": believed at the beginning of a line
# (TensorFlow's multi_process_runner fills it up to 15 columns: "[chief-0]:     text")
_SPOKEN = lazy_pattern(
    r"^\[?(?P<name>(?:[Rr]ank|RANK|[Ww]orker|[Tt]rainer|[Cc]hief|ps|evaluator)[ _#-]?\d+)(?:\]: +(?<=^.{15})|\]? ?[:|>] ?(?=\S))"
)
# Google's ML Engine and Vertex: "master-replica-0 ERROR text"
_CLOUD = lazy_pattern(
    r"^(?:[DIWEF] {1,2})?(?P<name>(?:master|worker|ps|chief|evaluator)-replica-\d+)\s+(?:(?:INFO|WARNING|ERROR|CRITICAL)\s+)?"
)
# DeepSpeed, Ascend and others put the rank into the line: it stays part of the text
_INSIDE = lazy_pattern(r"\[Rank:? ?(?P<rank>\d+)\]|\bRankID:(?P<id>\d+)\b")
# written by programs: "Rank 3 got exception: ..."
_TOLD = lazy_pattern(
    r"^\W{0,3}[Rr]ank:? ?(?P<rank>\d{1,5})\b\W{0,2} (?:got|raised|hit|caught|threw|encountered|failed with|crashed) "
)

_NAMED_FIRST = lazy_pattern(r"(?:[DIWEF] )?\W{0,3}(?:[Rr]ank|RANK|[Ww]orker|[Tt]rainer|[Cc]hief|ps|master|evaluator)")
"""The beginning of every line that any of these may match."""

_WEAK = (
    # srun --label, parallel --tag, xla_dist: "3: text"
    lazy_pattern(r"^ {0,4}(?P<rank>\d{1,5}):(?!\d\d:\d\d) ?"),
    lazy_pattern(r"^\[(?P<rank>\d{1,5})\]:? "),
    # xla_dist: "2021-04-23 18:14:43 10.164.0.29 [3] text"
    lazy_pattern(
        r"^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? )?(?P<node>\d+\.\d+\.\d+\.\d+|[\w.\-]+) \[(?P<rank>\d{1,5})\] "
    ),
    # docker compose: "worker-1  | text"
    lazy_pattern(r"^(?P<name>[\w.\-]+?) +\| ?"),
    # stern: "pod-name container text"
    lazy_pattern(r"^(?P<name>(?=[a-z0-9.]+-)[a-z0-9][a-z0-9.\-]*[a-z0-9]) (?P<container>[a-z0-9][a-z0-9\-]*) (?= *\S)"),
    # torchrun --role "$(hostname):" --tee 3: the host and the rank on it, "[node-3:0]:text"
    lazy_pattern(r"^\[(?P<node>[A-Za-z](?=[\w\-]*\d)[\w\-]+):(?P<local>\d{1,3})\]: ?"),
    # pdsh, clush, ansible-like: "node-3: text"
    lazy_pattern(r"^(?P<node>[A-Za-z](?=[\w.\-]*\d)[\w.\-]+):(?: |$)"),
)

# host:pid:tid [device] NCCL INFO ... — the rank is stated elsewhere, but the process is known
_NCCL = lazy_pattern(
    r"(?<![\w.\-])(?P<node>[\w.\-]+):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] (?=NCCL |\S+:\d+ NCCL |\d{4}-\d\d-\d\d)"
)
_NCCL_MIDDLE = lazy_pattern(r":\d+:\d+ \[\d+\] ")
"""Searched first: a pattern that may begin with any word is slow where it fails."""

# container runtimes, docker logs -t, kubectl logs --timestamps: before every line; no rank
_STAMP = lazy_pattern(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d) (?:(?:stdout|stderr) [FP] )?")

# logs quoted in mails and issues
_QUOTED = lazy_pattern(r"^> ?")

# the logger of a parent that passes on what its child wrote (Spark, launchers):
# "20/03/04 05:06:07 INFO PythonRunner: text"
_TIMES = r"\d{2,4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
_LEVELS = r"(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)"
_RELAYED = lazy_pattern(
    rf"^(?:\[?{_TIMES}\]?(?: ?[-|] ?| )(?:[\w.\-]+ [-|] )?\[?{_LEVELS}\]?(?: [\w.$]+:| ?[-|:]|(?<=\])) ?|{_LEVELS}\|{_TIMES}\|[^|\s]+\|\d+\| ?)"
)
_OF_CHILD = lazy_pattern(
    r"Traceback \(most recent call last|\s+File \"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] |[IWEF]\d{4} \d\d:\d\d:\d\d"
)
"""What no logger writes after its own time: then the time is not the program's."""

# viewers number lines: "[80746] text", "  12: text", "12<tab>text"
_COUNTED = lazy_pattern(r"^ *\[?(?P<number>\d{1,8})(?:\]:?|:|\t) ?")

_UNPLAIN = (b"pid=", b"\x1b", b"\x00")
_BRACKET = lazy_pattern(r"\[(?:rank|default|trainer|worker|node|agent|task|pod/|[Pp]roc|[Hh]ost)|\]<std")


def _is_marked(line: str) -> bool:
    """Whether a line may hold a strong prefix. Every line is checked, so this must be cheap."""
    return "pid=" in line or ("[" in line and _BRACKET.search(line) is not None)


_IN_BRACKETS = frozenset(
    {"rank", "defa", "trai", "work", "node", "agen", "task", "pod/", "Proc", "proc", "Host", "host"}
)


def _are_marked(lines: list[str]) -> bool:
    """Whether any of the lines is, all checked at once."""
    text = "\n".join(lines)
    if "pid=" in text or "]<std" in text:
        return True
    if _IN_BRACKETS.isdisjoint([words[:4] for words in text.split("[")]):
        return False
    return any(map(_is_marked, lines))


WEAK_SHARE = 0.6
FEWEST = 3
"""Fewest lines from which a habit can be learned."""


_NEEDED = {
    _STAMP: "T",
    _QUOTED: ">",
    _RELAYED: ":",
    _WEAK[0]: ":",
    _WEAK[1]: "[",
    _WEAK[2]: " [",
    _WEAK[3]: "|",
    _WEAK[4]: "-",
    _WEAK[5]: "]:",
    _WEAK[6]: ":",
}
"""In every line that they match."""


def _matches(pattern: re.Pattern[str], lines: list[str], share: float) -> list[re.Match[str]]:
    """The matches, if at least that share of the lines match, else none. Most logs are given up on soon."""
    most_misses = len(lines) - share * len(lines)
    needed = _NEEDED.get(pattern, "")
    if sum([needed not in line for line in lines]) > most_misses:
        return []
    hits: list[re.Match[str]] = []
    misses = 0
    for line in lines if len(lines) >= FEWEST else ():
        match = pattern.match(line)
        if match:
            hits.append(match)
        else:
            misses += 1
            if misses > most_misses:
                return []
    return hits


MANY = 12
PAST_MOST_RANKS = 64


def _are_counted(lines: list[str]) -> bool:
    """Whether each line has a higher number than the line before. Ranks write in any order, so theirs soon do not.

    Ranks that all say the same, each once, may come in order too.
    """
    found = list(_matches(_COUNTED, lines, 1.0))
    numbers = [int(match["number"][:18]) for match in found]
    rising = all(one < two for one, two in pairwise(numbers))
    if 2 * len({match.string[match.end() :] for match in found}) <= len(found):
        return False
    return rising and (len(numbers) >= MANY or (len(numbers) >= FEWEST and numbers[0] >= PAST_MOST_RANKS))


def _are_relayed(lines: list[str]) -> bool:
    return any(_OF_CHILD.match(match.string, match.end()) for match in _matches(_RELAYED, lines, 0.9))


class Prefixes:
    """The prefixes in use in one file, learned from a sample of its lines."""

    def __init__(self, sample: Iterable[str]) -> None:
        lines = [line for line in sample if line.strip()]
        self._stamp = next((pattern for pattern in (_STAMP, _QUOTED) if _matches(pattern, lines, 0.9)), None)
        if self._stamp is None and _are_counted(lines):
            self._stamp = _COUNTED
        if self._stamp is None and _are_relayed(lines):
            self._stamp = _RELAYED
        if self._stamp is not None:
            lines = [self._unstamped(line) for line in lines]
        self._weak: re.Pattern[str] | None = None
        for pattern in _WEAK:
            hits = _matches(pattern, lines, WEAK_SHARE)
            if hits:
                if pattern is _WEAK[-1] and len({m["node"] for m in hits}) == 1 and len(hits) < len(lines):
                    continue
                self._weak = pattern
                break
        if self._weak is None:
            self._weak = numbered(lines, lambda line: _is_marked(line) and _ANY_STRONG.search(line) is not None)
        self.in_use = self._weak is not None or _are_marked(lines)
        """Whether lines of this file say who wrote them."""

    def _unstamped(self, line: str) -> str:
        match = self._stamp.match(line) if self._stamp is not None else None
        return line[match.end() :] if match else line

    def split(self, line: str, upto: int | None = None) -> tuple[Writer, str]:
        """The writer of the text around ``upto`` (default: of the end of the line), and the text."""
        bare = line if self._stamp is None else self._unstamped(line)
        writer, text = self._outer(bare, None if upto is None else max(0, upto - len(line) + len(bare)))
        if "NCCL" in text and _NCCL_MIDDLE.search(text):
            match = _NCCL.search(text)
            if match:
                writer = Writer(
                    key=writer.key,
                    rank=writer.rank,
                    local=writer.local if writer.local is not None else as_rank(match["device"]),
                    role=writer.role,
                    node=writer.node or match["node"],
                    name=writer.name,
                    pid=int(match["pid"][:9]),
                    own=writer.own,
                )
        return writer, text

    def is_of_another(self, buffer: bytes, start: int, stop: int, key: str) -> bool:
        """Whether a raw line was certainly not written by ``key``. False where only reading the line would tell."""
        first = _ANY_STRONG_RAW.match(buffer, start, stop) if self._stamp is None else None
        if first is None:
            return False
        its = _key_of_prefix(first[0])
        if its == "" or its == key:
            return False
        for mark in _UNPLAIN:
            if buffer.find(mark, start, stop) >= 0:
                return False
        more = buffer.find(b"[", first.end(), stop)
        return more < 0 or _DOUBTFUL.search(buffer, more, stop) is None

    def _outer(self, line: str, upto: int | None) -> tuple[Writer, str]:
        limit = len(line) if upto is None else upto
        found = _of_writers(list(_ANY_STRONG.finditer(line))) if _is_marked(line) else []
        following: int | None = None
        for strong in reversed(found):
            if strong.start() <= limit:
                return _strong_writer(strong[0]), line[strong.end() : following]
            following = strong.start()
        best = self._weak.match(line) if self._weak is not None else None
        named = best is None and _NAMED_FIRST.match(line) is not None
        if named:
            best = _SPOKEN.match(line) or _CLOUD.match(line)
        if best is None:
            inside = _INSIDE.search(line, 0, limit) if "[Rank" in line or "RankID:" in line else None
            if inside is None:
                told = _TOLD.match(line) if named else None
                return (Writer(rank=as_rank(told["rank"])) if told else NOBODY), line
            return Writer(rank=as_rank(inside["rank"] or inside["id"])), line
        following = next((m.start() for m in found if m.start() >= best.end()), None)
        return _writer_of(best), line[best.end() : following]


def _of_writers(found: list[re.Match[str]]) -> list[re.Match[str]]:
    """Without what a rank numbers inside its own line: ``[rank1]: [worker 3] boom``."""
    if len(found) < 2 or not _RANK_ITSELF.match(found[0][0]):
        return found
    return [found[0], *(each for each in found[1:] if not _ANY_MEMBER.match(each[0]))]


@lru_cache(maxsize=8192)
def _strong_writer(prefix: str) -> Writer:
    writer = _writer_of(next(m for pattern in _STRONG if (m := pattern.match(prefix))))
    return replace(writer, own=True) if prefix.startswith("[rank") else writer


@lru_cache(maxsize=8192)
def _key_of_prefix(raw: bytes) -> str:
    return _strong_writer(raw.decode("utf-8", "replace")).key


def _writer_of(match: re.Match[str]) -> Writer:
    groups = match.groupdict()
    return _writer(groups.get("rank"), groups.get("name"), groups.get("node"), groups.get("pid"), groups.get("local"))


@lru_cache(maxsize=8192)
def _writer(rank: str | None, name: str | None, node: str | None, pid: str | None, local: str | None) -> Writer:
    """The writer of a prefix, remembered: there are few of them and millions of lines."""
    name = (name or "").strip() or None
    by_name = identify(re.sub(r"[ #]+|-replica(?=-)", "", name)) if name else NOBODY
    if local is not None:
        return Writer(key=f"{node}:{local}" if node else local, local=as_rank(local), node=node)
    index = as_rank(rank) if rank is not None else by_name.rank
    key = rank if rank is not None else f"{name or ''}{'@' + node if node else ''}{'#' + pid if pid else ''}"
    role = by_name.role if rank is None else None
    return Writer(key=key, rank=index, role=role, node=node, name=name, pid=int(pid[:9]) if pid else None)
