"""A compiled extension needs a shared library that the node of this rank does not have."""

import ctypes


def at(step: int, rank: int) -> None:
    ctypes.CDLL("libcudart.so.12")
