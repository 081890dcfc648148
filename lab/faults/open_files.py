"""The rank opens files and never closes them, until the limit of open files is reached."""

import os

held = []


def at(step: int, rank: int) -> None:
    while True:
        held.append(open(os.path.join(os.environ["LAB_WORK"], f"shard-{len(held):05d}.txt"), "a"))
