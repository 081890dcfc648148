"""The rank reads address 0 in native code: SIGSEGV, as a broken extension module would."""

import ctypes


def at(step: int, rank: int) -> None:
    ctypes.string_at(0)
