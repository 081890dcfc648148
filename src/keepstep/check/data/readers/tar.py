# SPDX-License-Identifier: Apache-2.0
"""WebDataset tar: every header, every sample complete, and members whose format shows damage; packed or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from keepstep.base.wording import listing
from keepstep.check.data.readers.members import wrong_with
from keepstep.check.data.readers.source import LARGEST_WHOLE, DataSource, Joined
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.parse.formats.data.tar_header import BLOCK, ZEROS, NotAHeader, TarHeader, pax_fields, read_header
from keepstep.sources.files.unpack import Damaged, TooMuch

MOST_SAMPLES_KEPT = 200_000
"""Samples whose parts are remembered: enough to know which parts are usual."""


def read(source: DataSource, asked: ReadRequest, packed: str = "") -> UnitRead:
    """All members."""
    looked = UnitRead("tar", packed=packed, protected=packed in ("gz", "zst", "xz", "bz2"))
    reader = _Tar(source.content(packed), looked)
    try:
        reader.read()
    except Damaged as error:
        kind = "truncated" if "missing" in str(error) else "corrupt"
        looked.broken(Bad(kind, f"unpacking failed: {error}", reader.samples, reader.at))
    except TooMuch as error:
        looked.unread = str(error)
    reader.finish()
    return looked


class _Tar:
    """One pass through the members."""

    def __init__(self, content: Iterator[bytes], looked: UnitRead) -> None:
        self._stream = Joined(content)
        self._looked = looked
        self.at = self.samples = 0
        self._key: str | None = None
        self._parts: list[str] = []
        self._began = 0
        self._usual: Counter[str] = Counter()
        self._kept: list[tuple[int, int, str, frozenset[str]]] = []

    def _take(self, length: int) -> bytes:
        """So many bytes, or fewer at the end of the file."""
        parts, left = [], length
        while left:
            data = self._stream.read(left)
            if not data:
                break
            parts.append(data)
            left -= len(data)
        self.at += length - left
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _skip(self, length: int) -> int:
        done = 0
        while done < length and (data := self._stream.read(min(1 << 20, length - done))):
            done += len(data)
        self.at += done
        return done

    def read(self) -> None:
        renamed: dict[str, str] = {}
        begin = 0
        while True:
            begin = begin if renamed else self.at
            block = self._take(BLOCK)
            if block == ZEROS:
                self._after_the_end()
                return
            if len(block) < BLOCK:
                if block:
                    self._bad("truncated", "the file ends inside a header", begin)
                elif self._looked.records is None:
                    self._looked.broken(Bad("truncated", "the mark at the end is missing", self.samples, begin))
                return
            try:
                header = read_header(block)
            except NotAHeader as error:
                self._bad("corrupt", f"{error}; what follows cannot be read", begin)
                return
            if header.kind in "xgLK":
                renamed |= {"": "", **self._further(header)}
                continue
            size = int(renamed["size"]) if renamed.get("size", "").isdecimal() else header.size
            header = TarHeader(renamed.get("path", header.name), size, header.kind)
            renamed = {}
            if not self._member(header, begin):
                return

    def _further(self, header: TarHeader) -> dict[str, str]:
        """Fields of the member that follows."""
        content = self._take(min(header.size, LARGEST_WHOLE))
        self._skip(header.padded - len(content))
        if header.kind == "L":
            return {"path": content.partition(b"\0")[0].decode("utf-8", "replace")}
        return pax_fields(content) if header.kind == "x" else {}

    def _member(self, header: TarHeader, begin: int) -> bool:
        """Whether the archive goes on after it."""
        small = header.size <= LARGEST_WHOLE
        content = self._take(header.size) if small else b""
        done = len(content) if small else self._skip(header.size)
        if header.kind == "0":
            self._note(header.name, begin)
        if done < header.size:
            self._bad("truncated", f"{done:,} of its {header.size:,} bytes are there", begin, header)
            return False
        if header.kind == "0" and small and (wrong := wrong_with(header.name, content)):
            self._bad(wrong[0], wrong[1], begin, header)
        missing = header.padded - header.size
        if self._skip(missing) < missing:
            self._bad("truncated", "the file ends right after it", begin, header)
            return False
        return True

    def _note(self, name: str, begin: int) -> None:
        """Members of one sample share the name up to the first dot of its last part."""
        folder, _, base = name.rpartition("/")
        stem, dot, ending = base.partition(".")
        if not dot or base.startswith("."):
            return
        key = f"{folder}/{stem}"
        if key != self._key:
            self._close()
            self._key, self._began = key, begin
        self._parts.append(ending.lower())

    def _close(self) -> None:
        """A sample is complete."""
        if self._key is None:
            return
        parts = frozenset(self._parts)
        self._usual.update(parts)
        if len(self._kept) < MOST_SAMPLES_KEPT:
            self._kept.append((self.samples, self._began, self._key, parts))
        self.samples += 1
        self._key, self._parts = None, []

    def _bad(self, kind: str, how: str, begin: int, header: TarHeader | None = None) -> None:
        part = f"(member {header.name[:100]})" if header else None
        number = self.samples
        self._looked.broken(Bad(kind, how, number, begin, self.at - begin, part=part))

    def _after_the_end(self) -> None:
        """A second block of zeros, then padding. Members after it are not read by WebDataset."""
        second = self._take(BLOCK)
        if second and second != ZEROS:
            self._looked.broken(
                Bad(
                    "corrupt", "data follows the mark at the end; readers stop before it", self.samples, self.at - BLOCK
                )
            )
        while rest := self._stream.read(1 << 20):
            self.at += len(rest)
            if rest.count(0) != len(rest) and second == ZEROS:
                how = "data follows the mark at the end; readers stop before it"
                self._looked.broken(Bad("corrupt", how, self.samples, self.at - len(rest)))
                second = b""

    def finish(self) -> None:
        """Samples that lack what nine in ten have; not the last one of an archive that is cut."""
        self._close()
        if self._kept and (self._looked.unread or any(bad.kind == "truncated" for bad in self._looked.bad.first)):
            self._kept.pop()
        self._looked.records = self.samples
        usual = {part for part, number in self._usual.items() if number >= 0.9 * self.samples}
        self._looked.fields = [Field(part, "member") for part in sorted(usual)]
        for number, begin, key, parts in self._kept:
            if lacking := sorted(usual - parts):
                how = f"{key.lstrip('/')} has no {listing(lacking)}"
                self._looked.broken(Bad("incomplete", how, number, begin))
        if not self.samples and not len(self._looked.bad) and not self._looked.unread:
            self._looked.broken(Bad("empty", "it has no samples"))
