"""The rank is still preprocessing when its peers enter a monitored barrier with a short limit."""

import time


def change_preprocess(seconds: float) -> float:
    time.sleep(12)
    return seconds
