# SPDX-License-Identifier: Apache-2.0
"""Evidence on its way from a node's attempt folder to the leader's: bounded, redacted, compressed.

A parcel is a piece of a file at its place. A place before the end of what is there cuts the file back; an empty piece
at place 0 removes it. So files grow, are replaced and disappear at the leader as they do on the node. Core files stay
where they are: what they show is sent as evidence.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from keepstep.base.redact import redact, redacted
from keepstep.base.safe_files import open_private, open_regular, private_folder, write_whole
from keepstep.base.wording import size as sized
from keepstep.model.codec import from_dict, to_dict
from keepstep.model.evidence import Coverage, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import GuardPart
from keepstep.model.facts.process import ProcessExited
from keepstep.model.identity import Rank
from keepstep.signals import blackbox
from keepstep.signals.box_files import open_box
from keepstep.sources.files.left_files import GAPS
from keepstep.sources.recorded.line_arrivals import NAME as ARRIVALS
from keepstep.sources.recorded.node_folders import LIVING, LIVING_SCHEMA, NODE, NODE_SCHEMA
from keepstep.sources.recorded.own_records import is_alive
from keepstep.store.history.writer import FILE as TILES
from keepstep.store.history.writer import FOLDER as HISTORY
from keepstep.supervise.nodes.evidence.sent_log import HEAD, SLACK, TAIL, SentLog
from keepstep.supervise.nodes.messages import BadMessage, Parcel
from keepstep.supervise.start.layout import Layout

PIECE = 128 << 10
"""Bytes in one parcel, before they are compressed."""
MOST = 64 << 20
"""Of one node in one attempt."""
FOR_LOGS = 40 << 20
LARGEST_FILE = 16 << 20
MOST_FILES = 10_000
CLOCKS_S = 1.0
"""Clocks that differ by less count as the same: a hello takes a while to arrive."""
CORES, KERNEL, LEFT_OUT, EVENTS = "cores.jsonl", "kernel.jsonl", "left-out.jsonl", "events.jsonl"
OURS = (CORES, KERNEL, LEFT_OUT, LIVING)
"""Files that are only at the leader."""
_RECORDS = ("start.jsonl", "exits.jsonl", "stacks.jsonl", "pace.jsonl", EVENTS, "metrics.jsonl", GAPS)
_LOG = re.compile(r"[a-z]{1,12}\d{0,7}\.log")
_OF_GUARD = re.compile(
    r"(?:rank\d{1,7}|unranked|others)(?:-\d{1,10}){1,2}\.(?:box|notes\.jsonl)|\.[a-z0-9-]{1,40}\.exit"
)
_ASIDE = re.compile(r"lost/attempt-\d{1,7}-rank\d{1,7}-\d{1,3}/(?P<name>[^/]+)")
"""What a worker left that was restarted alone: beside the attempt's folder, on the node as in the run's folder."""
_TRIES = 3


def is_known(name: str) -> bool:
    """Whether a node may send a file of this name."""
    if aside := _ASIDE.fullmatch(name):
        return any(each.fullmatch(aside["name"]) for each in (_LOG, _OF_GUARD))
    if name.startswith(f"{HISTORY}/"):
        return TILES.fullmatch(name.removeprefix(f"{HISTORY}/")) is not None
    if name.startswith("guard/"):
        return _OF_GUARD.fullmatch(name.removeprefix("guard/")) is not None
    return name in (*_RECORDS, *OURS, ARRIVALS) or _LOG.fullmatch(name) is not None


def _is_log(name: str) -> bool:
    return _LOG.fullmatch(name.rpartition("/")[2]) is not None


class Sender:
    """What of one attempt's folder the leader has, and what it lacks."""

    def __init__(self, folder: Path, attempt: int) -> None:
        self._folder, self._attempt = folder, attempt
        self._cores: dict[str, list[Evidence[Fact]]] = {}
        self._kernel: list[Evidence[Fact]] | None = None
        self.again()

    def again(self) -> None:
        """The leader may have lost some of it, or another node leads: send everything once more."""
        self._held: dict[str, int] = {}
        """The leader's files with their sizes."""
        self._seen: dict[str, tuple[int, ...]] = {}
        self._sent: dict[str, tuple[int, bytes]] = {}
        """How long each was, and its digest."""
        self._logs: dict[str, SentLog] = {}
        self._left_out: dict[str, str] = {}

    def parcels(self, *, most_bytes: int, ended: bool = False) -> Iterator[Parcel]:
        """What is new or has changed since the last call, the most telling first, about ``most_bytes`` before packing.

        What does not fit waits for the next call, except the middle of a long log. ``ended``: no rank lives any more.
        All of them must be sent, or :meth:`again` be called.
        """
        there = self._listed()
        left = most_bytes
        for name in sorted(self._held.keys() - {*there, *OURS}):
            yield from self._forget(name)
        for name in there:
            if left > 0 and not _is_log(name) and name != ARRIVALS:
                for parcel, size in self._file(name):
                    left -= size
                    yield parcel
        yield from self._living(there)
        yield from self._virtual(CORES, (e for each in self._read_cores() for e in each))
        if ended:
            yield from self._virtual(KERNEL, self._of_kernel())
        logs = [name for name in there if _is_log(name)]
        for number, name in enumerate(logs):
            if left > 0:
                for parcel, size in self._log(name, left // (len(logs) - number), len(logs), ended):
                    left -= size
                    yield parcel
        if ARRIVALS in there and left > 0:
            yield from self._arrivals()
        yield from self._virtual(LEFT_OUT, self._words_on_left_out())

    def so_far(self) -> Iterator[Parcel]:
        """What is new while ranks run: history, notes and records, which only grow; logs and boxes come when asked for.

        All of it must be sent, or :meth:`again` be called.
        """
        there = [name for name in self._listed() if name.startswith(f"{HISTORY}/") or name.endswith(".jsonl")]
        for name in sorted({name for name in self._held if name.startswith(f"{HISTORY}/")} - set(there)):
            yield from self._forget(name)
        for name in there:
            for parcel, _ in self._file(name):
                yield parcel

    def _listed(self) -> list[str]:
        """The folder's files that are sent, evidence first."""
        found = [name for name in _names(self._folder) if is_known(name) and "/" not in name]
        for below in ("guard", HISTORY):
            found += [f"{below}/{name}" for name in _names(self._folder / below) if is_known(f"{below}/{name}")]
        lost = [f"lost/{each}" for each in _names(self._path("lost")) if each.startswith(f"{self._folder.name}-")]
        found += [f"{each}/{name}" for each in lost for name in _names(self._path(each)) if is_known(f"{each}/{name}")]
        order = {name: number for number, name in enumerate(_RECORDS)}
        last = (".box", ".tiles")
        return sorted(found, key=lambda name: (order.get(name, 99), name.endswith(last), name))[:MOST_FILES]

    def _path(self, name: str) -> Path:
        return (self._folder.parent if name.startswith("lost") else self._folder) / name

    # --- files

    def _file(self, name: str) -> Iterator[tuple[Parcel, int]]:
        """A file that grows by whole lines, or is replaced; nothing if it cannot be read just now."""
        try:
            if self._changed(name):
                data = self._read(name)
                yield from self._put(name, data)
        except OSError:
            self._seen.pop(name, None)

    def _changed(self, name: str) -> bool:
        info = self._path(name).stat()
        ident = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
        if name.endswith(".box"):  # written through memory: its time of change says nothing
            return True
        changed, self._seen[name] = self._seen.get(name) != ident, ident
        return changed

    def _read(self, name: str) -> bytes:
        path = self._path(name)
        if name.endswith(".box"):
            return _read_box(path)
        with open_regular(path, follow=False) as stream:
            data = stream.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            self._left_out[name] = f"it is larger than {sized(LARGEST_FILE)}"
            data = data[:LARGEST_FILE]
        if name.endswith(".jsonl"):
            data = data[: data.rfind(b"\n") + 1]
        return redact(data.decode("utf-8", "replace")).encode() if name == EVENTS else data

    def _put(self, name: str, data: bytes) -> Iterator[tuple[Parcel, int]]:
        """All of it, or what follows the part that was sent before."""
        length, digest = self._sent.get(name, (0, b""))
        same = name in self._held and _digest(data[:length]) == digest
        if same and length == len(data):
            return
        if sum(self._held.values()) - self._held.get(name, 0) + len(data) > MOST:
            self._left_out[name] = f"more than {sized(MOST)} from one host"
            return
        self._sent[name] = len(data), _digest(data)
        if not data:
            yield self._parcel(name, 0, b"\n" if name == GAPS else b""), 0
        for begin in range(length if same else 0, len(data), PIECE):
            piece = data[begin : begin + PIECE]
            yield self._parcel(name, begin, piece), len(piece)

    def _parcel(self, name: str, place: int, data: bytes) -> Parcel:
        self._held[name] = place + len(data)
        packed = base64.b64encode(zlib.compress(data, 1)).decode() if data else ""
        return Parcel(attempt=self._attempt, name=name, offset=place, data=packed)

    def _forget(self, name: str) -> Iterator[Parcel]:
        """A file that is gone."""
        parcel = self._parcel(name, 0, b"")
        for known in (self._held, self._seen, self._sent, self._logs, self._left_out):
            known.pop(name, None)
        yield parcel

    # --- logs

    def _log(self, name: str, most: int, logs: int, ended: bool) -> Iterator[tuple[Parcel, int]]:
        log = self._logs.setdefault(name, SentLog(self._path(name)))
        log.tail = min(TAIL, max(HEAD, int(FOR_LOGS / SLACK / logs)))
        with contextlib.suppress(OSError):
            for place, data in log.pieces(most, ended=ended):
                others = sum(self._held.values()) - self._held.get(name, 0)
                if others + place + len(data) > MOST:
                    self._left_out[name] = f"more than {sized(MOST)} from one host"
                    return
                if not data:
                    yield self._parcel(name, place, data), 0
                for begin in range(0, len(data), PIECE):
                    piece = data[begin : begin + PIECE]
                    yield self._parcel(name, place + begin, piece), len(piece)
        if log.missing:
            self._left_out[name] = f"{sized(log.missing)} in its middle stayed on its host"
        elif name in self._left_out and log.size:
            del self._left_out[name]

    def _arrivals(self) -> Iterator[Parcel]:
        """When lines arrived, at their places in what the leader has."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            with open_regular(self._folder / ARRIVALS, follow=False) as stream:
                found = json.loads(stream.read(LARGEST_FILE))
            for name, said in found["logs"].items():
                log = self._logs.get(name)
                if log is not None:
                    said["marks"] = [[log.translated(place), at] for place, at in said["marks"]]
            for parcel, _ in self._put(ARRIVALS, json.dumps(found).encode()):
                yield parcel

    # --- what is no file

    def _virtual(self, name: str, evidence: Iterable[Evidence[Fact]]) -> Iterator[Parcel]:
        lines = [json.dumps(to_dict(redacted(each)), default=str) + "\n" for each in evidence]
        if lines or name in self._held:
            for parcel, _ in self._put(name, "".join(lines).encode()):
                yield parcel

    def _read_cores(self) -> Iterable[list[Evidence[Fact]]]:
        for name in _names(self._folder / "cores"):
            if name not in self._cores:
                from keepstep.parse.scan.lines.writer import identify
                from keepstep.sources.stacks.cores import read_core

                index = identify(name.lower()).rank
                rank = Rank(index=index) if index is not None else None
                found, looked = read_core(self._folder / "cores" / name, f"cores/{name}", rank)
                self._cores[name] = [*found, *_as_evidence(looked, CORES, rank)]
        return self._cores.values()

    def _of_kernel(self) -> list[Evidence[Fact]]:
        """What this host's kernel says about ranks that ended badly; asked once."""
        if self._kernel is None:
            self._kernel = []
            exits = self._bad_exits()
            if exits:
                from keepstep.analyze.kernel_window import said_about

                found, looked = said_about(set(exits), max(exits.values()), broken=True)
                self._kernel = [*found, *_as_evidence(looked, KERNEL, None)]
        return self._kernel

    def _bad_exits(self) -> dict[int, float]:
        """The processes of this node that ended badly, and when."""
        found: dict[int, float] = {}
        with contextlib.suppress(OSError), open_regular(self._folder / "exits.jsonl", follow=False) as stream:
            for line in stream.read(LARGEST_FILE).splitlines():
                with contextlib.suppress(ValueError):
                    each = from_dict(json.loads(line))
                    fact = each.fact
                    if isinstance(fact, ProcessExited) and fact.pid and each.at and (fact.code or fact.signal):
                        found[fact.pid] = each.at
        return found

    def _living(self, there: list[str]) -> Iterator[Parcel]:
        """Which processes live, and now, by this host's monotonic clock: at the leader neither can be known."""
        boxes = [name for name in there if name.startswith("guard/") and name.endswith(".box")]
        if boxes:
            pids = sorted({pid for name in boxes if (pid := _alive(self._folder / name)) is not None})
            said = {"schema": LIVING_SCHEMA, "pids": pids, "now_ns": time.monotonic_ns()}
            for parcel, _ in self._put(LIVING, json.dumps(said).encode()):
                yield parcel

    def _words_on_left_out(self) -> Iterator[Evidence[Fact]]:
        for name, why in sorted(self._left_out.items()):
            fact = GuardPart(part=name, why=why, off=False)
            yield Evidence(fact=fact, origin=Origin(source=LEFT_OUT), quote=f"{name}: {why}")


def _as_evidence(coverage: Iterable[Coverage], source: str, rank: Rank | None) -> Iterator[Evidence[Fact]]:
    """What could not be looked at here."""
    for each in coverage:
        if each.why:
            fact = GuardPart(part=each.what, why=each.why, off=False)
            yield Evidence(fact=fact, origin=Origin(source=source), rank=rank, quote=f"{each.what}: {each.why}")


def _alive(box: Path) -> int | None:
    """The process that writes a box, if it lives."""
    with contextlib.suppress(OSError, blackbox.NotABox, ValueError):
        with open_box(box) as stream:
            who = blackbox.identity(stream.read(blackbox.HEADER_SIZE))
        pid = who.get("pid")
        if isinstance(pid, int) and is_alive(who):
            return pid
    return None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _read_box(path: Path) -> bytes:
    """A box that a living rank writes: read once more where its description was torn."""
    for _ in range(_TRIES):
        with open_box(path) as stream:
            data = stream.read(min(blackbox.MOST_BYTES, LARGEST_FILE))
        with contextlib.suppress(blackbox.NotABox):
            blackbox.read(data)
            break
    return data


def write_node(folder: Path, *, host: str, **more: object) -> None:
    """Say at the leader which host a folder (``nodeN``) is of, and what else is known of it. Raises ``OSError``.

    Its ``address``; its ``ranks``, and those of them that are ``serving``; how far its clock is ahead (``ahead_s``).
    """
    private_folder(folder)
    said = {"schema": NODE_SCHEMA, "node": int(folder.name.removeprefix("node")), "host": host, **more}
    write_whole(folder / NODE, json.dumps(said).encode())


def describe(folder: Path, node: int, layout: Layout, *, host: str, address: str, ahead_s: float) -> None:
    """Write which machine a node of an attempt is, if there is room. ``ahead_s``: its clock, against the leader's."""
    seats, served = [seat for seat in layout.seats if seat.node == node], layout.servers > 0
    with contextlib.suppress(OSError):
        write_node(
            folder / f"node{node}",
            host=host,
            address=address,
            ranks=[seat.rank for seat in seats],
            serving=[seat.rank for seat in seats if not seat.member.ends_training(served=served)],
            ahead_s=round(ahead_s, 3) if abs(ahead_s) > CLOCKS_S else 0.0,
        )


class Receiver:
    """One node's files in the leader's attempt folder. What comes may be hostile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: dict[str, int] = {}
        self._lost: set[str] = set()
        self.full = False
        """Whether something could not be written."""

    def take(self, parcel: Parcel) -> None:
        """Write a piece. Raises :class:`BadMessage`."""
        name = parcel.name
        data = _unpacked(parcel.data)
        size = self._sizes.get(name, 0)
        if not is_known(name):
            raise BadMessage(f"no file of an attempt: {name[:80]!r}")
        if not 0 <= parcel.offset <= size and name not in self._lost:
            raise BadMessage(f"{name} has {size} bytes, and a piece for place {parcel.offset} came")
        if len(self._sizes) >= MOST_FILES and name not in self._sizes:
            raise BadMessage(f"more than {MOST_FILES:,} files from one node")
        if sum(self._sizes.values()) - size + parcel.offset + len(data) > MOST + PIECE:
            raise BadMessage(f"more than {sized(MOST)} from one node")
        if parcel.offset == 0:
            self._lost.discard(name)
        if name in self._lost:
            return
        try:
            self._write(name, parcel.offset, data)
            self._sizes[name] = parcel.offset + len(data)
        except OSError:
            self.full = True
            self._lost.add(name)

    def _write(self, name: str, place: int, data: bytes) -> None:
        path = (self._folder.parents[1] if name.startswith("lost/") else self._folder) / name
        for folder in (self._folder, *((path.parents[1], path.parent) if "/" in name else ())):
            private_folder(folder)
        if place == 0 and not data:
            path.unlink(missing_ok=True)
            return
        handle = open_private(path, os.O_WRONLY)
        try:
            os.ftruncate(handle, place)
            while data:
                done = os.pwrite(handle, data, place)
                place, data = place + done, data[done:]
        finally:
            os.close(handle)


def _unpacked(text: str) -> bytes:
    if not text:
        return b""
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text.encode("ascii"), validate=True), PIECE + 1)
        if not unpacker.eof or unpacker.unused_data or len(data) > PIECE:
            raise BadMessage(f"a piece has more than {PIECE} bytes, or is cut off")
        return data
    except (binascii.Error, zlib.error, ValueError) as error:
        if isinstance(error, BadMessage):
            raise
        raise BadMessage(f"a piece cannot be unpacked: {error}") from None
