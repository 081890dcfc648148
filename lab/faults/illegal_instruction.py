"""The rank runs machine code that this CPU does not have: SIGILL, as a binary built for a newer CPU would."""

import ctypes
import mmap

UD2 = b"\x0f\x0b"


def at(step: int, rank: int) -> None:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(UD2)
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
