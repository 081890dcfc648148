# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import pytest

from keepstep.parse.formats.elf_core import NotACore, looks_like_core, read

X86, ARM = 62, 183
STACK_AT = 0x7FFD00000000


def note(kind: int, body: bytes) -> bytes:
    padded = body + b"\0" * (-len(body) % 4)
    return struct.pack("<III", 5, len(body), kind) + b"CORE\0\0\0\0" + padded


def core(machine: int = X86, signal: int = 11, environment: bytes = b"PATH=/bin\0RANK=3\0WORLD_SIZE=4\0") -> bytes:
    """A tiny but complete core: notes and a stack with the strings of an environment."""
    status = bytearray(336)
    struct.pack_into("<H", status, 12, signal)
    struct.pack_into("<i", status, 32, 4711)
    struct.pack_into("<Q", status, 112 + 16 * 8, 0x400123)
    info = bytearray(136)
    struct.pack_into("<i", info, 24, 4711)
    info[40:46] = b"python"
    info[56:71] = b"python train.py"
    siginfo = struct.pack("<iiiiQ", signal, 0, 1, 0, 0x10) + b"\0" * 104
    files = struct.pack("<QQ", 1, 4096) + struct.pack("<QQQ", 0x400000, 0x500000, 0) + b"/usr/bin/python3.11\0"
    notes = note(1, bytes(status)) + note(3, bytes(info)) + note(0x53494749, siginfo) + note(0x46494C45, files)
    stack = b"\0" * 64 + b"python\0train.py\0" + environment + b"\0" * 8
    place = 64 + 2 * 56
    header = (
        b"\x7fELF\x02\x01\x01"
        + b"\0" * 9
        + struct.pack("<HHIQQQIHHHHHH", 4, machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    )
    segments = struct.pack("<IIQQQQQQ", 4, 0, place, 0, 0, len(notes), 0, 4)
    segments += struct.pack("<IIQQQQQQ", 1, 6, place + len(notes), STACK_AT, 0, len(stack), len(stack), 4096)
    return header + segments + notes + stack


def test_the_notes_tell_signal_address_process_and_program() -> None:
    found = read(core())
    assert (found.signal_name, found.address, found.pid, found.thread) == ("SIGSEGV", 0x10, 4711, 4711)
    assert (found.machine, found.program, found.arguments) == ("x86_64", "python", "python train.py")
    assert found.executable == "/usr/bin/python3.11"
    assert found.counter is not None and found.file_at(found.counter) == "/usr/bin/python3.11"
    assert not found.truncated


def test_the_environment_on_the_stack_tells_the_rank_and_no_secret() -> None:
    found = read(core(environment=b"HOME=/root\0RANK=3\0SECRET_TOKEN=abc\0WORLD_SIZE=4\0"))
    assert found.environment == {"RANK": "3", "WORLD_SIZE": "4"}


def test_a_core_of_another_architecture_still_gives_its_notes() -> None:
    found = read(core(machine=ARM))
    assert (found.machine, found.signal_name) == ("aarch64", "SIGSEGV")


def test_a_truncated_core_says_so_and_keeps_what_is_there() -> None:
    whole = core()
    found = read(whole[:-100])
    assert found.truncated
    assert found.signal_name == "SIGSEGV"


def test_no_truncation_and_no_damage_ends_in_another_error() -> None:
    whole = core()
    for size in range(0, len(whole), 11):
        try:
            read(whole[:size])
        except NotACore as error:
            assert str(error)
    for place in range(16, len(whole), 13):
        damaged = bytearray(whole)
        damaged[place : place + 8] = b"\xff" * len(damaged[place : place + 8])
        try:
            read(bytes(damaged))
        except NotACore as error:
            assert str(error)


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"hello world, this is a log", b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x02\0"]
)
def test_what_is_no_core_is_not_taken_for_one(data: bytes) -> None:
    assert not looks_like_core(data)
    with pytest.raises(NotACore):
        read(data)
