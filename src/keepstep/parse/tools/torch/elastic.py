# SPDX-License-Identifier: Apache-2.0
"""torchrun and torchelastic: what the agent says about its workers, the failure table, the rendezvous, etcd."""

from __future__ import annotations

import re
import signal as _signals
from collections.abc import Iterable, Iterator
from datetime import datetime

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import PeerLost
from keepstep.model.facts.process import ProcessExited, TerminationRequested
from keepstep.model.facts.sync import RanksMissing
from keepstep.parse.scan.block import Read, block
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.system.windows import as_signal


def _signal_name(number: int) -> str:
    try:
        return _signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _exited(code: int, **known: object) -> ProcessExited:
    signal = as_signal(code)
    if signal is None:
        signal = _signal_name(-code) if code < 0 else _signal_name(code - 128) if 128 < code < 160 else None
    return ProcessExited(reporter="torchrun", code=code, signal=signal, **known)  # type: ignore[arg-type]


def _failed(match: re.Match[str]) -> Fact:
    local = match["local"]
    return _exited(int(match["code"]), local_rank=int(local) if local else None, pid=int(match["pid"]))


def _row(match: re.Match[str]) -> Fact:
    """A row by itself, without the table around it."""
    found = match.groupdict()
    rank, local = found.get("rank"), found.get("local")
    return _exited(
        int(found["code"]),
        pid=int(found["pid"]),
        rank=int(rank) if rank else None,
        local_rank=int(local) if local else None,
    )


_FIELD = lazy_pattern(r"^\s*(?P<name>time|host|rank|exitcode|error_file|traceback|msg)\s*: (?P<value>.*)$")
_RECORD = lazy_pattern(r"^\s*\[(?P<index>\d+)\]:\s*$")
_RULE = lazy_pattern(r"^\s*[=*\-]{10,}\s*$")
LONGEST = 4000


def _table(first: bool) -> Read:
    def read(match: re.Match[str], lines: Iterator[str]) -> Iterable[Fact]:
        fields: dict[str, str] = {}
        for number, line in enumerate(lines):
            record = _RECORD.match(line)
            if record or _RULE.match(line) or number > LONGEST:
                fact = _entry(fields, first)
                if fact is not None:
                    yield fact
                fields = {}
                if record is None and number:
                    return
                continue
            field = _FIELD.match(line)
            if field:
                fields.setdefault(field["name"], field["value"])
            elif not fields and line.strip() and number > 1:
                return
        fact = _entry(fields, first)
        if fact is not None:
            yield fact

    return read


def _entry(fields: dict[str, str], first: bool) -> Fact | None:
    exit_code = re.match(r"(-?\d+)(?: \(pid: (\d+)\))?", fields.get("exitcode", ""))
    if exit_code is None:
        return None
    rank = re.match(r"(\d+)(?: \(local_rank: (\d+)\))?", fields.get("rank", ""))
    return _exited(
        int(exit_code[1]),
        pid=int(exit_code[2]) if exit_code[2] else None,
        rank=int(rank[1]) if rank else None,
        local_rank=int(rank[2]) if rank and rank[2] else None,
        node=fields.get("host", "").strip() or None,
        first=first,
        failed_at=_seconds(fields.get("time", "")),
    )


_TIME = lazy_pattern(r"(?P<day>\d{4}-\d\d-\d\d)[_ T](?P<clock>\d\d:\d\d:\d\d)")


def _seconds(time: str) -> float | None:
    match = _TIME.match(time.strip())
    try:
        return datetime.fromisoformat(f"{match['day']}T{match['clock']}+00:00").timestamp() if match else None
    except ValueError:
        return None


def _passed_on(match: re.Match[str]) -> Fact:
    """The agent ends workers with SIGTERM; any other signal is one that it received itself and passes on."""
    by = "agent" if match["signal"] in ("SIGTERM", "SIGKILL") else None
    return TerminationRequested(signal=match["signal"], pid=int(match["pid"]), by=by)


BLOCKS = (
    block(r"^\s*Root Cause(?: \(first observed failure\))?:\s*$", _table(True)),
    block(r"^\s*(?:Other )?Failures:\s*$", _table(False)),
)


def _ranks(listed: str) -> tuple[int, ...]:
    """``[1, 3]``, or the ranks' names with their hosts, of which none is a number alone."""
    inside = re.match(r"[\[{]([\d', ]+)[\]}]", listed)
    return tuple(int(n) for n in re.findall(r"\d+", inside[1])) if inside else ()


SIGNATURES = (
    # rows of a failure table whose head is missing
    signature(
        r"rank +: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)\s+exitcode +: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)",
        _row,
    ),
    signature(r"^\s*exitcode +: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)", _row),
    signature(
        r"failed \(exitcode: (?P<code>-?\d+)\)(?:[^\n]{0,200}? local_rank: (?P<local>\d+))? \((?:pid|process ID): (?P<pid>\d+)\)",
        _failed,
    ),
    # the record itself, as agents and trainers of other makes print it
    signature(r"ProcessFailure\(local_rank=(?P<local>\d+), pid=(?P<pid>\d+), exitcode=(?P<code>-?\d+)", _failed),
    # torch 1.9
    signature(r"Child process (?P<pid>\d+) \(local_rank (?P<local>\d+)\) FAILED \(exitcode (?P<code>-?\d+)\)", _failed),
    signature(r"Sending process (?P<pid>\d+) closing signal (?P<signal>SIG\w+)", _passed_on),
    # rendezvous
    signature(
        r"failed to send a keep-alive heartbeat to the rendezvous \S+ due to an error of type (?P<how>\w+)",
        lambda m: PeerLost(how=f"rendezvous store gone ({m['how']})"),
    ),
    signature(
        r"failed to (?:shutdown|close|sync|leave) the rendezvous \S+ due to an error of type (?P<how>\w+)",
        lambda m: PeerLost(how=f"rendezvous store gone ({m['how']})", final=False),
    ),
    signature(
        r"Timed out waiting on barrier on rank \d+, for key prefix: [^\n]{1,120} \(world_size=\d+, missing_ranks=(?P<ranks>[^\n]{0,200})",
        lambda m: RanksMissing(missing=_ranks(m["ranks"]), what="barrier of torchelastic's agents"),
    ),
)
