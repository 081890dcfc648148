# SPDX-License-Identifier: Apache-2.0
"""Sums of files: what they notice, and that a record can be checked with NumPy and without it."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from keepstep.store.ledger import file_sums
from keepstep.store.ledger.file_sums import BLOCK, CRC, PARITIES, Changing, FileSums, sums_of

PIECE = 64 * 1021 * 8


def sums(path: Path, by: str) -> FileSums:
    with path.open("rb") as stream:
        return sums_of(stream.fileno(), by=by, imports=True)


@pytest.mark.parametrize("size", [0, 1, 8168, PIECE - 1, PIECE + 9, BLOCK + 1])
def test_with_numpy_and_without_it_they_are_the_same(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    path = tmp_path / "x"
    path.write_bytes(random.Random(size).randbytes(size))
    fast = sums(path, PARITIES)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert sums(path, PARITIES) == fast
    assert len(fast.blocks) == -(-size // BLOCK)


@pytest.mark.parametrize("by", [CRC, PARITIES])
def test_every_flipped_bit_is_noticed(by: str, tmp_path: Path) -> None:
    """In words of zeros and of ones, where a change of one bit carries through all the others."""
    path = tmp_path / "x"
    found = set()
    for fill in (b"\x00", b"\xff"):
        data = bytearray(fill * (PIECE + 8))
        path.write_bytes(data)
        found.add(sums(path, by).blocks)
        for bit in range(64):
            at = random.Random(bit).randrange(0, PIECE + 8, 8) + bit // 8
            data[at] ^= 1 << bit % 8
            path.write_bytes(data)
            found.add(sums(path, by).blocks)
            data[at] ^= 1 << bit % 8
    assert len(found) == 2 * 65


@pytest.mark.parametrize("by", [CRC, PARITIES])
@pytest.mark.parametrize("apart", [8, 8 * 1021, 8 * 1021 * 63, PIECE, PIECE + 8 * 1021])
def test_every_pair_of_flipped_bits_is_noticed(by: str, apart: int, tmp_path: Path) -> None:
    """The same bit in two words, which it turns in opposite directions or not: of one row, one column, two pieces."""
    path = tmp_path / "x"
    whole = random.Random(apart).randbytes(2 * PIECE)
    path.write_bytes(whole)
    found = {sums(path, by).blocks}
    for bit in range(64):
        data = bytearray(whole)
        at = random.Random(bit).randrange(0, PIECE - apart % PIECE, 8) + bit // 8
        for place in (at, at + apart):
            data[place] ^= 1 << bit % 8
        path.write_bytes(data)
        found.add(sums(path, by).blocks)
    assert len(found) == 65


def test_sectors_that_change_places_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    whole = random.Random(1).randbytes(PIECE // 512 * 512)
    path.write_bytes(whole)
    found = {sums(path, PARITIES).blocks}
    last = len(whole) // 512
    for other in range(1, last, 25):
        data = bytearray(whole)
        data[:512], data[other * 512 : other * 512 + 512] = data[other * 512 : other * 512 + 512], data[:512]
        path.write_bytes(data)
        found.add(sums(path, PARITIES).blocks)
    assert len(found) == 1 + len(range(1, last, 25))


def test_a_file_that_is_being_written_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(10))
    read = os.preadv

    def read_and_write_more(handle: int, buffers: list[memoryview], start: int) -> int:
        with path.open("ab") as more:
            more.write(b"1")
        return read(handle, buffers, start)

    monkeypatch.setattr(file_sums.os, "preadv", read_and_write_more)
    with pytest.raises(Changing):
        sums(path, CRC)
