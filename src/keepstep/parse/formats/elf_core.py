# SPDX-License-Identifier: Apache-2.0
"""Core files: what their ELF notes say. Pure over a buffer (bytes or a memory map), bounded.

Only headers, notes and the top of the main stack are read, so a core of many
gigabytes costs no more than a small one.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.parse.scan.lines.rank_variables import NAMES

Buffer = bytes | mmap.mmap

MOST_SEGMENTS = 200_000
MOST_NOTES = 64 << 20
MOST_FILES = 50_000
STACK_TOP = 4 << 20

_MACHINES = {
    2: "sparc", 3: "i386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390x", 40: "arm", 43: "sparc64", 50: "ia64",
    62: "x86_64", 183: "aarch64", 243: "riscv64", 258: "loongarch64",
}  # fmt: skip
_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
_WITH_ADDRESS = {4, 5, 7, 8, 11}
_SENT = {0, -1, -6}
"""kill, sigqueue, tkill: a process sent the signal. Other negative codes (timers, queues) name no process."""
_PT_LOAD, _PT_NOTE = 1, 4
_NT_PRSTATUS, _NT_PRPSINFO, _NT_AUXV = 1, 3, 6
_NT_SIGINFO, _NT_FILE = 0x53494749, 0x46494C45


class NotACore(ValueError):
    """The bytes are not a core file that can be understood; the text says why."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """One file that the process had mapped."""

    start: int
    end: int
    path: str


@dataclass(slots=True)
class Core:
    """What a core's notes say."""

    machine: str
    bits: int
    signal: int | None = None
    code: int | None = None
    address: int | None = None
    sender: int | None = None
    """The process that sent the signal, if one did; 0: a process outside this one's namespace."""
    pid: int | None = None
    thread: int | None = None
    """The thread that crashed: the kernel writes it first."""
    counter: int | None = None
    """Where it crashed: the program counter."""
    program: str | None = None
    arguments: str | None = None
    executable: str | None = None
    files: list[Mapped] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    """Only the variables that say which rank the process was."""
    truncated: bool = False

    @property
    def signal_name(self) -> str | None:
        return None if self.signal is None else signal_name(self.signal)

    @property
    def sent_by(self) -> int | None:
        """The other process that sent the signal; None where this process crashed or aborted by itself."""
        return None if self.sender == self.pid else self.sender

    def file_at(self, address: int) -> str | None:
        return next((m.path for m in self.files if m.start <= address < m.end), None)


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11."""
    return _SIGNALS.get(number, f"signal {number}")


def looks_like_core(head: bytes) -> bool:
    """Whether the first 20 bytes of a file are those of an ELF core."""
    if len(head) < 18 or head[:4] != b"\x7fELF" or head[5] not in (1, 2):
        return False
    (kind,) = struct.unpack_from("<H" if head[5] == 1 else ">H", head, 16)
    return bool(kind == 4)


def read(data: Buffer) -> Core:
    """The notes of a core. Raises :class:`NotACore` where there is nothing to read."""
    if not looks_like_core(bytes(data[:20])):
        raise NotACore("it is not an ELF core file")
    try:
        return _CoreReader(data).core()
    except struct.error:
        raise NotACore("its ELF header is cut off or damaged") from None


class _CoreReader:
    def __init__(self, data: Buffer) -> None:
        self._data = data
        self._size = len(data)
        self._wide = data[4] == 2
        self._end = "<" if data[5] == 1 else ">"

    def core(self) -> Core:
        data, end = self._data, self._end
        machine = struct.unpack_from(end + "H", data, 18)[0]
        core = Core(machine=_MACHINES.get(machine, f"machine {machine}"), bits=64 if self._wide else 32)
        loads: list[tuple[int, int, int]] = []
        notes: list[tuple[int, int]] = []
        for kind, offset, address, in_file in self._segments():
            if kind == _PT_LOAD:
                loads.append((address, offset, in_file))
            elif kind == _PT_NOTE:
                notes.append((offset, in_file))
            if offset + in_file > self._size:
                core.truncated = True
        stack = None
        for offset, length in notes:
            for name, kind, at, size in self._notes(offset, length):
                if name in (b"CORE", b"LINUX", b""):
                    stack = self._note(core, kind, at, size, stack)
        if core.files:
            core.executable = _main_file(core)
        self._environment(core, loads, stack)
        return core

    def _segments(self) -> Iterator[tuple[int, int, int, int]]:
        data, end = self._data, self._end
        if self._wide:
            (place,) = struct.unpack_from(end + "Q", data, 32)
            entry, count = struct.unpack_from(end + "HH", data, 54)
            (sections,) = struct.unpack_from(end + "Q", data, 40)
        else:
            (place,) = struct.unpack_from(end + "I", data, 28)
            entry, count = struct.unpack_from(end + "HH", data, 42)
            (sections,) = struct.unpack_from(end + "I", data, 32)
        if count == 0xFFFF and sections and sections + 64 <= self._size:  # the true number is in section 0
            (count,) = struct.unpack_from(end + "I", data, sections + (44 if self._wide else 28))
        smallest = 56 if self._wide else 32
        if entry < smallest or count > MOST_SEGMENTS:
            raise NotACore("its program headers make no sense")
        for n in range(count):
            at = place + n * entry
            if at + smallest > self._size:
                if n == 0:
                    raise NotACore("it is cut off before its program headers")
                return
            if self._wide:
                kind, _, offset, address, _, in_file = struct.unpack_from(end + "IIQQQQ", data, at)
            else:
                kind, offset, address, _, in_file = struct.unpack_from(end + "IIIII", data, at)
            yield kind, offset, address, in_file

    def _notes(self, offset: int, length: int) -> Iterator[tuple[bytes, int, int, int]]:
        stop = min(offset + min(length, MOST_NOTES), self._size)
        at = offset
        while at + 12 <= stop:
            name_size, size, kind = struct.unpack_from(self._end + "III", self._data, at)
            at += 12
            if name_size > 64:
                return
            name = bytes(self._data[at : at + name_size]).rstrip(b"\0")
            at += (name_size + 3) & ~3
            if at + size > stop:
                return
            yield name, kind, at, size
            at += (size + 3) & ~3

    def _note(self, core: Core, kind: int, at: int, size: int, stack: int | None) -> int | None:
        data, end = self._data, self._end
        if kind == _NT_PRSTATUS and core.thread is None and size >= 36:
            (signal,) = struct.unpack_from(end + "H", data, at + 12)
            (thread,) = struct.unpack_from(end + "i", data, at + (32 if self._wide else 24))
            core.thread = thread
            if core.signal is None and signal:
                core.signal = signal
            if self._wide and core.machine == "x86_64" and size >= 112 + 21 * 8:
                core.counter = int(struct.unpack_from("<Q", data, at + 112 + 16 * 8)[0])  # rip
                return int(struct.unpack_from("<Q", data, at + 112 + 19 * 8)[0])  # rsp
            if self._wide and core.machine == "aarch64" and size >= 112 + 33 * 8:
                core.counter = int(struct.unpack_from("<Q", data, at + 112 + 32 * 8)[0])  # pc
                return int(struct.unpack_from("<Q", data, at + 112 + 31 * 8)[0])  # sp
        elif kind == _NT_PRPSINFO:
            self._process(core, at, size)
        elif kind == _NT_SIGINFO and size >= 24:
            core.signal, _, core.code = struct.unpack_from(end + "iii", data, at)
            if core.signal in _WITH_ADDRESS and (core.code or 0) > 0:
                (core.address,) = struct.unpack_from(
                    end + ("Q" if self._wide else "I"), data, at + (16 if self._wide else 12)
                )
            elif core.code in _SENT:
                (core.sender,) = struct.unpack_from(end + "i", data, at + (16 if self._wide else 12))
        elif kind == _NT_FILE:
            core.files = self._files(at, size)
        return stack

    def _process(self, core: Core, at: int, size: int) -> None:
        data = self._data
        if self._wide and size >= 136:
            (core.pid,) = struct.unpack_from(self._end + "i", data, at + 24)
            name, arguments = at + 40, at + 56
        elif not self._wide and size >= 124:
            (core.pid,) = struct.unpack_from(self._end + "i", data, at + 12)
            name, arguments = at + 28, at + 44
        else:
            return
        core.program = _text(data[name : name + 16])
        core.arguments = _text(data[arguments : arguments + 80])

    def _files(self, at: int, size: int) -> list[Mapped]:
        data, end = self._data, self._end
        word = 8 if self._wide else 4
        letter = "Q" if self._wide else "I"
        if size < 2 * word:
            return []
        count, _ = struct.unpack_from(end + letter * 2, data, at)
        count = min(count, MOST_FILES)
        names_at = at + 2 * word + count * 3 * word
        if names_at > at + size:
            return []
        names = bytes(data[names_at : at + size]).split(b"\0")
        found = []
        for n in range(min(count, len(names))):
            start, stop, _ = struct.unpack_from(end + letter * 3, data, at + 2 * word + n * 3 * word)
            found.append(Mapped(start, stop, names[n].decode("utf-8", "replace")))
        return found

    def _environment(self, core: Core, loads: list[tuple[int, int, int]], stack: int | None) -> None:
        """The variables of interest, from the block of strings at the top of the main stack."""
        for address, offset, in_file in self._likely_stacks(loads, stack):
            begin = max(offset, offset + in_file - STACK_TOP)
            text = bytes(self._data[begin : min(offset + in_file, self._size)])
            found = _variables(text)
            if found:
                core.environment = found
                return
            del address

    @staticmethod
    def _likely_stacks(loads: list[tuple[int, int, int]], stack: int | None) -> list[tuple[int, int, int]]:
        """The main stack is the highest mapping of the user's half, or just below vdso and friends."""
        written = sorted((s for s in loads if s[2]), reverse=True)
        usual = [s for s in written if s[0] < 1 << 63][:6]
        if stack is not None:
            usual += [s for s in written if s[0] <= stack < s[0] + s[2] and s not in usual]
        return usual


_VARIABLE = lazy_pattern(
    rb"(?:^|\0)(" + b"|".join(sorted((n.encode() for n in NAMES), reverse=True)) + rb")=([^\0]{0,262144})\0"
)
_SHELL = lazy_pattern(rb"\0(?:PATH|HOME|PWD|LANG|SHLVL|_|USER|HOSTNAME|VIRTUAL_ENV)=")


def _variables(text: bytes) -> dict[str, str]:
    if not _SHELL.search(text):
        return {}
    found = {}
    position = 0
    while match := _VARIABLE.search(text, position):
        found[match[1].decode()] = match[2].decode("utf-8", "replace")
        position = match.end() - 1
    return found


def _main_file(core: Core) -> str | None:
    """The program itself: the first mapped file with the process's name, else the lowest one."""
    for mapped in core.files:
        if core.program and mapped.path.rsplit("/", 1)[-1].startswith(core.program[:15]):
            return mapped.path
    return next((m.path for m in core.files if ".so" not in m.path), None)


def _text(raw: bytes) -> str | None:
    text = raw.split(b"\0", 1)[0].decode("utf-8", "replace").strip()
    return text or None
