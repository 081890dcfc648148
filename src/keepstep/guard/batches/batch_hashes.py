# SPDX-License-Identifier: Apache-2.0
"""What this rank is fed, as hashes of a few batches, which are compared with those of the other ranks.

The first batches are hashed, the first one of each further epoch, and one now and then in between; only a bounded part
of each, and only what lies on the host. Nothing is kept but the hash. The guard's thread tells it to the other ranks.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

from keepstep.base.wording import count
from keepstep.base.wording import ranks as say_ranks
from keepstep.guard.batches.batch_contract import leaves
from keepstep.guard.exchange import key_of
from keepstep.guard.hook_cost import EVERY
from keepstep.signals.same_batches import FIRST, fed_alike

if TYPE_CHECKING:
    from keepstep.guard.protocols import ComparesBatches, Feeds

MOST_EPOCHS = 16
"""Of each further epoch, its first batch."""
BETWEEN = 2 * EVERY
"""After this many steps, and after twice as many each time: all of them steps that are recorded in full."""
PIECES, PIECE, LEAST = 64, 1024, 256
"""A tensor's hash is that of this many pieces, evenly spaced, of this many bytes; of a part of it, of fewer pieces."""


class Fed:
    """Hashes that wait until it is known whether the ranks train on different data by design."""

    def __init__(self, session: Feeds) -> None:
        self._session = session
        self.next_step = BETWEEN
        """The batch after this step is hashed."""
        self._waiting: list[tuple[str, int, int, str]] = []
        self._alike = session.fed_alike

    def wants(self, epoch: int, batch: int) -> str | None:
        """The name of this batch of an epoch, both counted from 1, if it is to be hashed. Hot."""
        if epoch == 1 and batch <= FIRST:
            return f"batch {batch}"
        steps = self._session.steps
        if steps >= self.next_step:
            due = self.next_step
            while self.next_step <= steps:
                self.next_step *= 2
            if steps == due:
                return f"step {steps}"
        return f"epoch {epoch}" if batch == 1 and 1 < epoch <= MOST_EPOCHS else None

    def see(self, name: str, epoch: int, batch: int, data: Any) -> None:
        digest = digest_of(data)
        if digest is not None:
            self._waiting.append((name, epoch, batch, digest))

    def add(self, name: str, digest: str) -> None:
        """A batch that was trained on and hashed elsewhere."""
        self._waiting.append((name, 1, int(name.rpartition(" ")[2]), digest))
        self.stepped(data_parallel=True)

    @property
    def waits(self) -> bool:
        """Whether a batch was hashed since the last step."""
        return bool(self._waiting)

    def forget(self) -> None:
        """What was hashed since the last step is not trained on."""
        self._waiting.clear()

    def stepped(self, data_parallel: bool) -> None:
        """A step was taken. Where the groups are not known, nothing is noted."""
        if data_parallel:
            for name, epoch, batch, digest in self._waiting:
                self._alike.add(name, digest)
                if not name.startswith("step "):
                    fields = {"epoch": epoch, "batch": batch, "digest": digest}
                    self._session.note("BatchFed", fields, f"batch {batch} of epoch {epoch} has the hash {digest}")
        self._waiting.clear()


def digest_of(batch: Any) -> str | None:
    """A hash of pieces of every tensor of a batch.

    None where one is not on the host, or none has rows: numbers, such as a step's, are the same on all ranks.
    """
    parts = leaves(batch)
    if not any(shape for _, shape, _, _ in parts):
        return None
    found = hashlib.blake2b(digest_size=8)
    for name, shape, dtype, tensor in parts:
        data = content_of(tensor)
        if data is None:
            return None
        found.update(f"{name} {shape} {dtype} ".encode())
        found.update(data)
    return found.hexdigest()


def content_of(tensor: Any) -> bytes | None:
    """Pieces from all over a tensor of the host; None where it is elsewhere. A large one is never copied as a whole."""
    device = getattr(tensor, "device", None)
    if device is not None and not str(getattr(device, "type", device)).lower().endswith(("cpu", "cpu:0")):
        return None
    try:
        if hasattr(tensor, "detach"):  # torch's
            array = tensor.detach().numpy()
        elif hasattr(tensor, "_numpy"):  # TensorFlow's: this shares its memory, `numpy()` makes a copy
            array = tensor._numpy()
        else:
            array = tensor
        return _text(array) if array.dtype.hasobject else _pieces(array, PIECES * PIECE)
    except Exception:  # a type that NumPy does not know, a tensor without storage
        return None


def _text(array: Any) -> bytes:
    """Strings, which NumPy holds as objects."""
    some = array.reshape(-1)[:PIECES].tolist()
    if not all(isinstance(each, bytes | str) for each in some):
        raise TypeError("objects that are no text")
    return repr([each[:PIECE] for each in some]).encode()


def _pieces(array: Any, most: int) -> bytes:
    """At most about ``most`` bytes, evenly spaced."""
    if array.nbytes <= most:
        return bytes(array.tobytes())
    many = max(2, min(PIECES, most // LEAST))
    if array.flags.c_contiguous:
        flat, length = array.reshape(-1), max(1, most // many // array.itemsize)
        last = flat.size - length
        starts = (last * number // (many - 1) for number in range(many))
        return b"".join(flat[start : start + length].tobytes() for start in starts)
    last, many = len(array) - 1, min(many, len(array))
    numbers = (last * number // max(1, many - 1) for number in range(many))
    return b"".join(_pieces(array[number], max(array.itemsize, most // many)) for number in numbers)


# --- Ranks that are fed the same batches, found while they train: the guards' threads exchange hashes, rank 0 compares.
#
# Nothing here runs in a step, and a service that is gone ends the comparison without a word: the run is over then.

PART = "batches of all ranks"
TOPIC = "fed"
LOOK_S = 1.0
PEERS_AT_ONCE = 16
"""Ranks that are asked in one look: one service answers them all."""
FEW_S = 5.0
"""After this long, fewer than the first batches are compared: there may be no more."""
LONGEST_S = 60.0
"""The longest pause before a rank that has said nothing new is asked again."""
MOST_KEPT = 64


class FedAlike:
    """The hashes of this rank, and on rank 0 those of the others."""

    def __init__(self, session: ComparesBatches) -> None:
        self._session = session
        self._own: dict[str, str] = {}
        self._began = 0.0
        self._said = 0
        self._heard: dict[int, dict[str, str]] = {}
        self._due: dict[int, tuple[float, float]] = {}
        """When a rank is asked next, and how long after the time before."""
        self._told: set[tuple[int, ...]] = set()
        self._over = False

    def add(self, name: str, digest: str) -> None:
        """One more batch of this rank."""
        if not self._own:
            self._began = time.monotonic()
            self._session.pulse.every(LOOK_S, PART, self.look)
        if len(self._own) < MOST_KEPT:
            self._own.setdefault(name, digest)

    def look(self) -> None:
        """Called by the guard's thread."""
        exchange, who = self._session.exchange, self._session.who
        if self._over or exchange is None or who.rank is None or (who.world or 1) < 2:
            return
        own = dict(self._own)
        if len(own) < FIRST and time.monotonic() - self._began < FEW_S:
            return
        try:
            if len(own) > self._said and getattr(exchange, "overwrites", True):
                exchange.put(self._key(who.rank), json.dumps(own))
                self._said = len(own)
            if who.rank == 0 and self._hear(own):
                self._compare(own)
        except Exception as error:  # the service ends with the first rank that leaves
            self._over = True
            self._session.uncovered(PART, f"{type(error).__name__}: {str(error)[:200]}")

    def _hear(self, own: dict[str, str]) -> bool:
        """Ask those ranks that have not said all that this one has; whether any said something new."""
        exchange, now, asked, new = self._session.exchange, time.monotonic(), 0, False
        assert exchange is not None
        for rank in range(1, self._session.who.world or 1):
            known = self._heard.get(rank, {})
            due, pause = self._due.get(rank, (0.0, LOOK_S / 2))
            if now < due or asked == PEERS_AT_ONCE or own.keys() <= known.keys():
                continue
            asked += 1
            found = _read(exchange.get(self._key(rank)))
            if len(found) > len(known):
                self._heard[rank], pause, new = found, LOOK_S / 2, True
            self._due[rank] = (now + min(2 * pause, LONGEST_S), min(2 * pause, LONGEST_S))
        return new

    def _compare(self, own: dict[str, str]) -> None:
        session = self._session
        for each in fed_alike({0: own, **self._heard}):
            if any(set(each.ranks) <= set(known) for known in self._told):
                continue
            self._told.add(each.ranks)
            many = count(len(each.batches), "batch", "batches")
            which = (
                f"the first {many}" if each.batches[0].startswith("batch ") else f"{many}, from {each.batches[0]} on,"
            )
            words = f"{say_ranks(each.ranks)} are fed the same records: {which} of these ranks have the same content"
            session.note("RanksFedAlike", {"ranks": each.ranks, "batches": each.batches, "step": session.steps}, words)
            session.say(words)
            session.flush()

    def _key(self, rank: int) -> str:
        return key_of(self._session.who, TOPIC, rank)


def _read(text: str | None) -> dict[str, str]:
    found = json.loads(text) if text else {}
    return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}
