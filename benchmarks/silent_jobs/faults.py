# SPDX-License-Identifier: Apache-2.0
"""Which bits change where: drawn by the number of a round, so the job and who judges it know the same.

After the published distribution of silent faults: 1 % make a number NaN or infinite, 60 % change several bits.
"""

from __future__ import annotations

import ctypes
import random
import threading
from dataclasses import dataclass

STEPS, LOOKS = 16, 4
"""Of a round; and every how many steps there is a look: two before the fault, and one that must find it."""
NOT_FINITE, SEVERAL = 0.01, 0.6
EXPONENT = 0x7F800000


@dataclass(frozen=True)
class SilentFault:
    """``tensor`` and ``word``: shares of what there is to choose from."""

    replica: int
    after_step: int
    state: bool
    """In the optimizer's state, not in a weight."""
    tensor: float
    word: float
    bits: int
    kind: str


def fault(number: int, replicas: int) -> SilentFault | None:
    """None: every other round is healthy."""
    if number % 2 == 0:
        return None
    drawn = random.Random(f"silent {number}")
    chance = drawn.random()
    if chance < NOT_FINITE:
        kind, bits = "not finite", EXPONENT
    elif chance < NOT_FINITE + SEVERAL:
        kind, bits = "several bits", sum(1 << bit for bit in drawn.sample(range(32), drawn.randint(2, 8)))
    else:
        kind, bits = "one bit", 1 << drawn.randrange(32)
    return SilentFault(
        replica=drawn.randrange(replicas),
        after_step=drawn.randrange(2 * LOOKS + 1, 3 * LOOKS),
        state=drawn.random() < 0.5,
        tensor=drawn.random(),
        word=drawn.random(),
        bits=bits,
        kind=kind,
    )


def strike(address: int, words: int, drawn: SilentFault) -> None:
    """Change the bits in memory, by another thread: no operation of the framework is involved."""
    place = address + 4 * int(drawn.word * words)

    def write() -> None:
        word = ctypes.c_uint32.from_address(place)
        word.value = word.value | drawn.bits if drawn.kind == "not finite" else word.value ^ drawn.bits

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
