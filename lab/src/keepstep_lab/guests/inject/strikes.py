# SPDX-License-Identifier: Apache-2.0
"""Which fault strikes, where, and what it does to a rank of any framework."""

from __future__ import annotations

import os
import time

FAULT = os.environ.get("GUEST_FAULT", "")
RANK = int(os.environ.get("GUEST_RANK", "1"))
STEP = int(os.environ.get("GUEST_STEP", "20"))
NOTES = os.environ.get("GUEST_NOTES", "")
FRAMEWORK = os.environ.get("GUEST_FRAMEWORK", "")
OWN_MODULE = os.environ.get("GUEST_MODULE", "")
"""A module of the program's own, beside it."""


def struck(what):
    """Note it once; False where it was noted before (an earlier attempt)."""
    path = os.path.join(NOTES, "struck")
    before = os.path.exists(path)
    with open(path, "a") as notes:
        notes.write(f"{time.time()} {os.getpid()} {what}\n")
    return not before


def raise_exception():
    struck("raises")
    raise TypeError("unsupported operand type(s) for +: 'NoneType' and 'float'")


def sleep_for_ever():
    if struck("sleeps"):
        while True:
            time.sleep(3600)


def lonely_collective():
    import torch
    import torch.distributed as dist

    struck("issues an all_reduce that no other rank does")
    dist.all_reduce(torch.ones(6))


STRIKES = {
    "exception": raise_exception,
    "asleep": sleep_for_ever,
    "interrupted": sleep_for_ever,
    "lonely_collective": lonely_collective,
}
