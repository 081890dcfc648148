# SPDX-License-Identifier: Apache-2.0
"""PyTorch flight-recorder dumps (``nccl_trace_rank_0``, ``comm_lib_trace_rank_0``), pickled or JSON.

torch 2.2 writes a bare list of entries and numbers its groups in each process for itself; 2.3 (format 1.4) adds the
members of each number; since 2.4 (format 2.1) groups have names that all processes share.

Sizes and depth are bounded, and so is what is made of a value: lists that hold each other are small in the file and
endless when they are written out.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole
from keepstep.base.wording import ranks as say_ranks
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import Frame
from keepstep.model.facts.sync import CollectiveProgress, RecordedCollective, SendsUnrecorded
from keepstep.parse.formats.plain_pickle import NotADump as NotADump
from keepstep.parse.formats.plain_pickle import unpickle
from keepstep.signals.stacks import innermost_user

MOST_BYTES = 256 << 20
MOST_PARTS = 10_000_000
"""Of a dump in JSON. The largest buffers that torch offers stay far below all of these."""
MOST_ENTRIES, MOST_GROUPS, MOST_MEMBERS = 200_000, 1000, 2_000_000
DEEPEST = 12
LAST = 50
"""Entries kept per group: what a rank did long ago does not show where it is now."""

_NAMED = lazy_pattern(r"(?:nccl|comm_lib|fr|flight_?recorder)_?(?:trace|dump)", re.I)
_RANK = lazy_pattern(r"rank[_\-]?(\d+)|(?:trace|dump)[\w\-]{0,60}?[_\-.](\d{1,9})(?:\.\w+)?$", re.I)
_WORDS = (b"pg_config", b"collective_seq_id", b"nccl_version", b"comm_lib_version", b"profiling_name")
_PEERS = lazy_pattern(
    r"(?P<op>send|recv) (?:(?P<from>\d{1,7})->(?P<to>\d{1,7})|(?P<by>\d{1,7})<-(?P<of>\d{1,7}))$", most=200
)
_BYTES_PER_DTYPE = 64
LONGEST = 500


def looks_like_dump(name: str, head: bytes) -> bool:
    """Whether a file is a flight-recorder dump, by its first bytes (some 64 KB) and its name."""
    if not head:
        return _NAMED.search(name) is not None and rank_of(name) is not None
    if len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return _NAMED.search(name) is not None or any(word in head for word in _WORDS)
    if head.lstrip()[:1] == b"{":
        return sum(word in head for word in _WORDS) >= 2
    return False


def rank_of(name: str) -> int | None:
    """The rank in a dump's file name: ``nccl_trace_rank_3``, ``nccl_trace_3``."""
    match = _RANK.search(name)
    digits = (match[1] or match[2]) if match else ""
    return int(digits) if digits and len(digits) < 8 else None


def read(data: bytes) -> list[Fact]:
    """The last collectives of each group, in order, and how far the rank says it got."""
    if not data:
        raise NotADump("it is empty: nothing was written before the process ended")
    if len(data) > MOST_BYTES:
        raise NotADump(f"it is larger than {MOST_BYTES >> 20} MB")
    dump = unpickle(data) if data[:1] == b"\x80" else _from_json(data)
    if isinstance(dump, list) and any(isinstance(each, dict) and "profiling_name" in each for each in dump[:1]):
        dump = {"entries": dump}
    if not isinstance(dump, dict):
        raise NotADump("it holds no flight-recorder entries")
    entries = dump.get("entries")
    if not isinstance(entries, (list, tuple)):
        if not any(key in dump for key in ("pg_config", "pg_status")):
            raise NotADump("it holds no flight-recorder entries")
        entries = ()
    return [
        *_entries(entries, dump.get("pg_config")),
        *_progress(dump.get("pg_status")),
        *([SendsUnrecorded()] if _may_send_unseen(entries[-MOST_ENTRIES:]) else []),
    ]


def _from_json(data: bytes) -> Any:
    try:
        return foreign_json.loads(data, most_parts=MOST_PARTS)
    except ValueError as error:
        raise NotADump(f"it is neither a pickle nor JSON that can be read ({error})") from None


def _may_send_unseen(entries: Any) -> bool:
    """gloo records no sends and recvs; a group without any record may be one of a pipeline."""
    found = [each for each in entries if isinstance(each, dict)]
    names = (each.get("profiling_name") for each in found)
    if not any(isinstance(name, str) and name.startswith("gloo:") for name in names):
        return False
    numbers = {n for each in found if (n := _whole(each.get("pg_id"))) is not None and n >= 0}
    return bool(numbers) and len(numbers) <= max(numbers)


def _entries(entries: Any, config: Any) -> Iterator[Fact]:
    members = _members(config)
    names = _shared_names(members)
    ends = _ends_of_batches(entries)
    kept: dict[object, deque[RecordedCollective]] = defaultdict(lambda: deque(maxlen=LAST))
    for entry in entries[-MOST_ENTRIES:]:
        fact = _entry(entry, members, names) if isinstance(entry, dict) else None
        if fact is None:
            continue
        if fact.between is not None and (end := ends.get(_batch(entry))) is not None:
            fact = replace(fact, state=end)
        key = (fact.group, fact.between)
        if key in kept or len(kept) < MOST_GROUPS:
            kept[key].append(fact)
    room = MOST_MEMBERS
    for group in kept.values():
        for fact in _counted(list(group)):
            room -= len(fact.members)
            yield fact if room >= 0 else replace(fact, members=())


def _batch(entry: dict[Any, Any]) -> tuple[str, int | None]:
    """Calls of one batch (``batch_isend_irecv``) have one number."""
    group = entry.get("process_group", entry.get("pg_id", 0))
    return _plain(group), _whole(entry.get("p2p_seq_id"))


def _ends_of_batches(entries: Any) -> dict[tuple[str, int | None], str]:
    """How the batches of point-to-point calls ended: only the entry that closes a batch is ever updated."""
    return {
        _batch(entry): _state(entry)
        for entry in entries[-MOST_ENTRIES:]
        if isinstance(entry, dict) and entry.get("is_p2p") and _name(entry).endswith("coalesced")
    }


def _counted(group: list[RecordedCollective]) -> Iterator[RecordedCollective]:
    """Between two ranks, count from the first unfinished call: each rank's own numbers include calls to others."""
    done = sum(fact.state == "completed" for fact in group)
    for number, fact in enumerate(group, 1 - done):
        yield fact if fact.between is None else replace(fact, seq=number)


def _entry(
    entry: dict[Any, Any], members: dict[str, tuple[int, ...]], names: dict[str, str]
) -> RecordedCollective | None:
    name = _name(entry)
    peers = _PEERS.match(name)
    sequence = _whole(entry.get("p2p_seq_id" if peers else "collective_seq_id", entry.get("seq_id")))
    if sequence is None or not name or (not peers and (entry.get("is_p2p") or _is_batch_of_old(entry, name))):
        return None
    group = entry.get("process_group")
    named = [_text(p, 200) for p in group[:4]] if isinstance(group, (list, tuple)) else []
    parts = named or [_text(entry.get("pg_id", 0), 200)]
    ranks = members.get(parts[0], members.get("", ()) if len(members) == 1 and _is_whole(parts) else ())
    between = _between(peers, ranks, parts) if peers else None
    if peers and between is None:
        return None
    if between is not None and peers:
        ranks = between
        name = f"send {between[0]}->{between[1]}" if peers["op"] == "send" else f"recv {between[1]}<-{between[0]}"
    return RecordedCollective(
        group=":".join(dict.fromkeys(p for p in parts if p and p != "undefined")) or "default"
        if named or _is_whole(parts) or not ranks
        else names[parts[0]],
        own_name=not named and not ranks and not _is_whole(parts),
        seq=sequence,
        op=name[:200],
        between=between,
        state=_state(entry),
        sizes=_sizes(entry),
        dtype=_dtypes(entry),
        frame=_frame(entry.get("frames")),
        world=len(ranks) or None,
        members=ranks,
    )


def _is_batch_of_old(entry: dict[Any, Any], name: str) -> bool:
    """Before torch 2.4, nothing says whether a batch holds collectives, or sends and recvs with a number of their own."""
    return "is_p2p" not in entry and name.endswith("coalesced")


def _is_whole(parts: list[str]) -> bool:
    """Whether it is the group of all ranks."""
    return "default_pg" in parts or parts[0] in ("0", "")


def _name(entry: dict[Any, Any]) -> str:
    """``nccl:all_reduce`` without the library."""
    name = entry.get("profiling_name")
    return (name.partition(":")[2] or name)[:200] if isinstance(name, str) else ""


def _between(peers: re.Match[str], ranks: tuple[int, ...], parts: list[str]) -> tuple[int, int] | None:
    """The global ranks of sender and receiver, which the entry numbers within the group."""
    pair = (int(peers["from"] or peers["of"]), int(peers["to"] or peers["by"]))
    if ranks:
        ordered = sorted(ranks)
        return (ordered[pair[0]], ordered[pair[1]]) if max(pair) < len(ordered) else None
    return pair if _is_whole(parts) else None


def _state(entry: dict[Any, Any]) -> str:
    """``retired`` entries are done where a backend (gloo) never updates their state; those of NCCL may have failed."""
    state = entry.get("state")
    retired = entry.get("retired") is True and not _text(entry.get("profiling_name"), 40).startswith("nccl:")
    done = retired or bool(entry.get("time_discovered_completed_ns"))
    return "completed" if done else state[:40] if isinstance(state, str) else "unknown"


def _sizes(entry: dict[Any, Any]) -> str | None:
    parts = [entry.get("input_sizes"), entry.get("output_sizes")]
    if not all(isinstance(p, (list, tuple)) for p in parts):
        return None
    into, out = (_plain(p) for p in parts)
    return into if into == out else f"{into} -> {out}"


def _plain(value: Any) -> str:
    """As JSON, as far as it is short and flat."""
    out: list[str] = []
    return "".join(out)[:LONGEST] if _put(value, out, LONGEST, DEEPEST) is not None else "?"


def _put(value: Any, out: list[str], room: int, depth: int) -> int | None:
    """Add a value's words; returns how much room is left then, None for what has no place in sizes."""
    if not isinstance(value, (list, tuple)):
        if depth <= 0 or not (value is None or isinstance(value, (str, int, float))):
            return None
        words = json.dumps(value[:LONGEST] if isinstance(value, str) else value)
        out.append(words)
        return room - len(words)
    out.append("[")
    left: int | None = room - 2
    for n, each in enumerate(value):
        if left is None or depth <= 0:
            return None
        if left <= 0:
            break
        if n:
            out.append(", ")
        left = _put(each, out, left - 2, depth - 1)
    out.append("]")
    return left


def _text(value: Any, most: int) -> str:
    """A name or a number; anything else is left out."""
    return str(value)[:most] if isinstance(value, (str, int, float)) else ""


def _dtypes(entry: dict[Any, Any]) -> str | None:
    found = entry.get("input_dtypes")
    if not isinstance(found, (list, tuple)):
        return None
    return ", ".join(dict.fromkeys(_text(d, _BYTES_PER_DTYPE) for d in found[:50])) or None


def _frame(frames: Any) -> Frame | None:
    """The user's innermost line of the call, else the innermost line."""
    if not isinstance(frames, (list, tuple)):
        return None
    stack = [
        Frame(function=_text(f.get("name"), 300), file=_text(f.get("filename"), 1000), line=_whole(f.get("line")))
        for f in frames[:100]
        if isinstance(f, dict)
    ]
    return innermost_user(stack) or (stack[0] if stack else None)


def _members(config: Any) -> dict[str, tuple[int, ...]]:
    """``pg_config``: ``{"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}``, in torch 2.3 ``{0: [0, 1]}``.

    It may be nested by rank.
    """
    found: dict[str, tuple[int, ...]] = {}
    room = MOST_MEMBERS
    for name, group in list(config.items())[:100_000] if isinstance(config, dict) else ():
        if isinstance(group, dict) and "ranks" not in group:
            found.update(_members(group) if len(found) < 100_000 and _flat(group) else {})
            continue
        ranks = group["ranks"] if isinstance(group, dict) else group
        numbers = re.findall(r"[0-9]+", ranks[: 10 * room]) if isinstance(ranks, str) else ranks
        if isinstance(numbers, (list, tuple)) and room > 0:
            told = tuple(n for r in numbers[:room] if (n := _whole(r)) is not None)
            room -= len(told)
            found[_text(name, 200)] = told
    return found


def _shared_names(members: dict[str, tuple[int, ...]]) -> dict[str, str]:
    """By a process's own number of a group, a name that all its members share.

    Groups of the same ranks are made in the same order everywhere.
    """
    names: dict[str, str] = {}
    alike: Counter[tuple[int, ...]] = Counter()
    for number in sorted(members, key=lambda each: (whole(each) or 0, each)):
        ranks = members[number]
        alike[ranks] += 1
        names[number] = f"of {say_ranks(ranks)}" + (f", number {alike[ranks]}" if alike[ranks] > 1 else "")
    return names


def _flat(group: dict[Any, Any]) -> bool:
    return all(isinstance(v, dict) and "ranks" in v for v in group.values())


def _progress(status: Any) -> Iterator[Fact]:
    if isinstance(status, dict):
        for group, each in list(status.items())[:1000]:
            if isinstance(each, dict):
                enqueued = _whole(each.get("last_enqueued_collective"))
                completed = _whole(each.get("last_completed_collective"))
                if enqueued is not None:
                    yield CollectiveProgress(last_enqueued=enqueued, last_completed=completed, group=_text(group, 200))


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        return whole(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None
