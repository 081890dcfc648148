"""Token shards: one file of tokens, and an index of where each document begins."""

import ctypes
import mmap
import os
import struct

import numpy as np

HEADER = b"TOKS0002"


def write_shard(folder, number, documents):
    """A shard of our format: `shard-N.bin` and `shard-N.idx`."""
    os.makedirs(folder, exist_ok=True)
    offsets, lengths, place = [], [], 0
    with open(os.path.join(folder, f"shard-{number}.bin"), "wb") as out:
        for document in documents:
            data = np.asarray(document, dtype=np.int32).tobytes()
            out.write(data)
            offsets.append(place)
            lengths.append(len(document))
            place += len(data)
    width = "<q" if number == 0 else "<i"
    with open(os.path.join(folder, f"shard-{number}.idx"), "wb") as out:
        out.write(HEADER)
        out.write(struct.pack("<q", len(documents)))
        for offset in offsets:
            out.write(struct.pack(width, offset))
        for length in lengths:
            out.write(struct.pack("<i", length))
        out.write(b"\0" * (4 * len(documents)))


class Shard:
    """Reads documents out of a mapped file without a copy of the whole."""

    def __init__(self, folder, number):
        with open(os.path.join(folder, f"shard-{number}.idx"), "rb") as index:
            data = index.read()
        if data[:8] != HEADER:
            raise ValueError(f"shard {number} is not one of ours")
        (self.count,) = struct.unpack_from("<q", data, 8)
        self.offsets = np.frombuffer(data, dtype="<q", count=self.count, offset=16)
        self.lengths = np.frombuffer(data, dtype="<i", count=self.count, offset=16 + 8 * self.count)
        with open(os.path.join(folder, f"shard-{number}.bin"), "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def __len__(self):
        return self.count

    def document(self, number, most):
        """At most so many tokens of a document."""
        length = max(1, min(int(self.lengths[number]), most))
        out = np.zeros(most, dtype=np.int32)
        ctypes.memmove(out.ctypes.data, self.address + int(self.offsets[number]), 4 * length)
        return out
