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
BUDDY, STUCK_STEPS = 2, 40
"""Every how many steps there is a buddy step (torch); and the steps of a round with a stuck bit: 20 buddy steps."""
AFTER, STUCK, BEFORE = "after the exchange", "stuck in one operation", "once before the exchange"
ROUNDS = {"torch": (AFTER, STUCK, STUCK, BEFORE, None)}
"""What happens in the rounds, in turn; None: a healthy one."""
USUAL = (AFTER, AFTER, AFTER, None)
NOT_FINITE, SEVERAL = 0.01, 0.6
EXPONENT = 0x7F800000


@dataclass(frozen=True)
class SilentFault:
    """``tensor`` and ``word``: shares of what there is to choose from."""

    where: str
    replica: int
    after_step: int
    state: bool
    """In the optimizer's state, not in a weight."""
    tensor: float
    word: float
    bits: int
    bits_are: str
    at_one: bool
    """A stuck bit is always one, or always zero."""

    def changed(self, word: int) -> int:
        if self.bits_are == "not finite" or (self.where == STUCK and self.at_one):
            return word | self.bits
        return word & ~self.bits if self.where == STUCK else word ^ self.bits


def fault(framework: str, number: int, replicas: int) -> SilentFault | None:
    """None: a healthy round."""
    rounds = ROUNDS.get(framework, USUAL)
    where = rounds[(number - 1) % len(rounds)]
    if where is None:
        return None
    drawn = random.Random(f"silent {number}")
    chance = drawn.random()
    if chance < NOT_FINITE:
        bits_are, bits = "not finite", EXPONENT
    elif chance < NOT_FINITE + SEVERAL:
        bits_are, bits = "several bits", sum(1 << bit for bit in drawn.sample(range(32), drawn.randint(2, 8)))
    else:
        bits_are, bits = "one bit", 1 << drawn.randrange(32)
    return SilentFault(
        where=where,
        replica=drawn.randrange(replicas),
        after_step=drawn.randrange(2 * LOOKS + 1, 3 * LOOKS),
        state=drawn.random() < 0.5,
        tensor=drawn.random(),
        word=drawn.random(),
        bits=bits,
        bits_are=bits_are,
        at_one=drawn.random() < 0.5,
    )


def strike(address: int, words: int, drawn: SilentFault) -> bool:
    """Change the bits in memory, by another thread: no operation of the framework is involved. Whether any changed."""
    word = ctypes.c_uint32.from_address(address + 4 * int(drawn.word * words))
    before = word.value

    def write() -> None:
        word.value = drawn.changed(before)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    return word.value != before
