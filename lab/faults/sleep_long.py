"""The rank stops for five minutes at one step: the others wait in the collective."""

import time


def at(step: int, rank: int) -> None:
    time.sleep(300)
