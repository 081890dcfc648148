# SPDX-License-Identifier: Apache-2.0
"""Questions that all ranks answer before any of them goes on. Never a part of the training's own collectives.

Each rank writes its answer under one key, and reads those of all others. Keys are replaced, not added: nobody can be
more than one question ahead of a rank whose answer it needs, so an answer holds the one before it, too. Where there are
many ranks, rank 0 reads all answers, and its own key then holds the result.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

from keepstep.base.wording import ranks as ranks_in_words
from keepstep.errors import OutOfStep
from keepstep.guard.exchange import SharedFolder, get_all
from keepstep.guard.same_step import channel
from keepstep.guard.same_step.channel import Channel
from keepstep.guard.same_step.pauses import pauses
from keepstep.guard.together.guarding import guarding

TOPIC = "together"
WAIT_S = 600.0
"""As long as a collective of NCCL: another rank may compile, evaluate or save."""
LONGEST_WORDS = 300
MOST_EACH = 8
"""In a larger world, one rank counts for all."""


@dataclass(frozen=True)
class Answers:
    """The ranks that said yes, and what they added."""

    yes: tuple[int, ...]
    words: dict[int, str] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """Who said yes, and why."""
        words = next(iter(self.words.values()), "")
        return ranks_in_words(self.yes) + (f" ({words})" if words else "")


class Rounds:
    """The questions of this process, in order."""

    def __init__(self, found: Channel) -> None:
        self._channel = found
        self._number, self._pid = 0, os.getpid()
        self._before: dict[str, Any] | None = None
        """This rank's answer to the question before."""
        self._replaces = bool(getattr(found.exchange, "overwrites", True))

    def ask(self, question: str, yes: bool, wait_s: float, words: str = "") -> Answers:
        """Answer, and wait for all others. Raises OutOfStep if they ask something else, have left, or stay silent."""
        self._number += 1
        own = {"n": self._number, "ask": question, "yes": yes, "words": words[:LONGEST_WORDS]}
        try:
            if self._channel.world <= MOST_EACH:
                result = self._read_all(own, wait_s)
            else:
                result = self._count(own, wait_s) if self._channel.rank == 0 else self._hear(own, wait_s)
        except OutOfStep:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise OutOfStep(f"{question}: the ranks cannot ask each other any more ({said[:200]})") from error
        return self._judged(question, result, wait_s)

    def leave(self) -> None:
        """This rank leaves the training: the others need not wait for its next answer.

        It may come back in a new world, together with all others: the number tells the old word from a new one.
        """
        self._number += 1
        with contextlib.suppress(Exception):
            if os.getpid() == self._pid:
                self._put({"n": self._number, "left": True, "before": self._before})

    def _read_all(self, own: dict[str, Any], wait_s: float) -> dict[str, Any]:
        """Every rank comes to the same result by itself."""
        said_now = {**own, "before": self._before}
        self._before = own
        self._put(said_now)
        heard, missing = {self._channel.rank: own}, list[int]()
        for _ in pauses(wait_s):
            missing = [rank for rank in range(self._channel.world) if rank not in heard]
            texts = get_all(self._channel.exchange, [self._key(rank, self._number) for rank in missing])
            answers = zip(missing, map(self._answer, texts), strict=True)
            heard.update((rank, said) for rank, said in answers if said is not None)
            missing = [rank for rank in missing if rank not in heard]
            left = [rank for rank, said in heard.items() if said.get("left")]
            if not missing or left:
                break
            if (late := next((said for said in heard.values() if said.get("late")), None)) is not None:
                return late
        else:
            gave_up = {**said_now, "waits": missing, "late": True}
            if self._replaces:
                self._put(gave_up)  # whoever comes later gives up as well
            return gave_up
        late = next((said for said in heard.values() if said.get("late")), {})
        return late or {**_counted(heard), "left": left}

    def _count(self, own: dict[str, Any], wait_s: float) -> dict[str, Any]:
        heard, result = {0: own}, None
        for is_long in pauses(wait_s):
            for rank in range(1, self._channel.world):
                if rank not in heard and (said := self._get(rank)) is not None:
                    heard[rank] = said
            missing = [rank for rank in range(self._channel.world) if rank not in heard]
            left = [rank for rank, said in heard.items() if said.get("left")]
            if not missing or left:
                result = {**_counted(heard), "left": left}
                break
            if is_long:
                self._put({"n": self._number, "waits": missing})
        result = result or {"waits": missing, "late": True}
        self._put({"n": self._number, **result})
        return result

    def _hear(self, own: dict[str, Any], wait_s: float) -> dict[str, Any]:
        self._put(own)
        result: dict[str, Any] = {"waits": [0], "late": True}
        for _ in pauses(wait_s):
            said = self._get(0)
            if said is None:
                continue
            if said.get("left") is True:
                return {"left": [0]}
            if "waits" not in said or said.get("late"):
                return said
            result = {**said, "late": True}
        return result

    def _judged(self, question: str, result: dict[str, Any], wait_s: float) -> Answers:
        rank = self._channel.rank
        if result.get("left"):
            gone = ranks_in_words(result["left"])
            raise OutOfStep(
                f"rank {rank}: {question}: {gone} left the training and will not answer",
                hint="see how it ended: `keepstep why`; every rank must take the same steps",
            )
        if result.get("late"):
            raise OutOfStep(
                f"rank {rank}: {question}: no answer from {ranks_in_words(result['waits'])} in {wait_s:.0f} s",
                hint="`keepstep why --live` says where it is; a longer wait: wait_s=SECONDS",
            )
        if result.get("asks"):
            asked = "; ".join(f"{ranks_in_words(ranks)}: {ask}" for ask, ranks in result["asks"][:3])
            raise OutOfStep(
                f"rank {rank}: the ranks ask each other different things ({asked})",
                hint="call it on all ranks, in the same order and for the same steps",
            )
        return Answers(tuple(result["yes"]), {int(rank): words for rank, words in result["words"].items()})

    def _put(self, said: dict[str, Any]) -> None:
        self._channel.exchange.put(self._key(self._channel.rank, said["n"]), json.dumps(said))

    def _get(self, rank: int) -> dict[str, Any] | None:
        """What a rank said in this round, or that it has left."""
        return self._answer(self._channel.exchange.get(self._key(rank, self._number)))

    def _answer(self, text: str | None) -> dict[str, Any] | None:
        said = json.loads(text) if text is not None else None
        if said is not None and said["n"] > self._number and (before := said.get("before")) is not None:
            said = before  # it is one question ahead
        return said if said is not None and said["n"] >= self._number else None

    def _key(self, rank: int, number: int) -> str:
        return self._channel.key(TOPIC if self._replaces else f"{TOPIC} {number}", rank)


def _counted(heard: dict[int, dict[str, Any]]) -> dict[str, Any]:
    yes = [rank for rank, said in sorted(heard.items()) if said.get("yes")]
    asks: dict[str, list[int]] = {}
    for rank, said in sorted(heard.items()):
        asks.setdefault(str(said.get("ask")), []).append(rank)
    words = {rank: heard[rank]["words"] for rank in yes[:1]}
    return {"yes": yes, "words": words, "asks": list(asks.items()) if len(asks) > 1 else []}


_rounds: Rounds | None = None


def rounds(call: str) -> Rounds | None:
    """Those of this process; None where it trains alone."""
    global _rounds
    if _rounds is None:
        session = guarding()
        found = channel.find(session, call)
        if found is None:
            return None
        _rounds = Rounds(found)
        atexit.register(_rounds.leave)
        if session is not None and not isinstance(found.exchange, SharedFolder):  # that outlives the framework's world
            session.at_leaving.append(_rounds.leave)
    return _rounds
