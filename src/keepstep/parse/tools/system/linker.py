# SPDX-License-Identifier: Apache-2.0
"""The dynamic loader's words: libraries not found, symbols and versions that do not fit."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import LibraryMissing, SymbolMissing
from keepstep.parse.scan.signature import signature

_CACHED = lazy_pattern(r"\.triton/|triton_cache|torchinductor_|inductor_cache")
"""A file that some rank is compiling; ``compiled_kernels`` reports it."""
_LIBRARY = r"(?P<name>[\w.+\-/]+\.so(?:\.\w[\w.]{0,40})?)"


def _missing(match: re.Match[str]) -> Fact | None:
    """A loader that is asked for an optional library says the same words and the program goes on."""
    line = match.string
    if _CACHED.search(match["name"]):
        return None
    optional = re.search(
        r"Could not load dynamic library|could not open library|WARNING|\bWARN\b|[Ww]arning|Unable to (?:open|load) lib|"
        r"NCCL INFO|\bI tensorflow|dso_loader|dlerror|Failed to (?:open|find)|plugin|Skipping|Ignore|\(ignored\)|failed to load module",
        line,
    )
    return LibraryMissing(name=match["name"].rpartition("/")[2], fatal=optional is None)


def _symbol(match: re.Match[str]) -> Fact | None:
    """Not where NCCL, at the level of its notes, only looks whether a library has an optional function."""
    if "NCCL INFO" in match.string[: match.start()]:
        return None
    return SymbolMissing(symbol=match["symbol"], library=(match["library"] or "").rpartition("/")[2] or None)


def _unreadable(match: re.Match[str]) -> Fact | None:
    name = match["name"].rpartition("/")[2]
    if _CACHED.search(match["name"]):
        return None
    if "ELF" not in match[0] and "TLS" not in match[0]:
        return LibraryMissing(name=name)
    return SymbolMissing(library=name, symbol=None)


SIGNATURES = (
    # TensorFlow's check of itself on Windows
    signature(_LIBRARY + r": cannot open shared object file", _missing),
    signature(
        _LIBRARY + r"[^\n]{0,40}: (?:failed to map segment from shared object|invalid ELF header|wrong ELF class"
        r"|file too short"
        r"|cannot allocate memory in static TLS block)",
        _unreadable,
    ),
    signature(r"(?:(?P<library>[^\s:]+): )?undefined symbol: (?P<symbol>[\w@.]+)", _symbol),
    signature(
        r"version `(?P<symbol>(?:GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OMP|LIBFABRIC|OPENSSL|ZLIB|CURL)[\w.]{1,60})' not found"
        r"(?: \(required by (?P<library>[^)\n]+)\))?",
        lambda m: SymbolMissing(symbol=m["symbol"], library=(m["library"] or "").rpartition("/")[2] or None),
    ),
    signature(
        r"version `(?P<symbol>[\w.]+)' not found \(required by (?P<library>[^)\n]+)\)",
        lambda m: SymbolMissing(symbol=m["symbol"], library=m["library"].rpartition("/")[2]),
    ),
    signature(
        r"(?:(?P<library>[^\s:]+): )?symbol (?P<symbol>\w+),? version \S+ not defined in file \S+ with link time reference",
        lambda m: SymbolMissing(symbol=m["symbol"], library=(m["library"] or "").rpartition("/")[2] or None),
    ),
    signature(r"\bld: cannot find -l(?P<name>[\w+\-]+)", lambda m: LibraryMissing(name=f"lib{m['name']}")),
    signature(
        r": Relink `(?P<library>[^'\n]{1,200})' with `[^'\n]{1,200}' for IFUNC symbol `(?P<symbol>\w{1,80})'",
        lambda m: SymbolMissing(symbol=m["symbol"], library=m["library"].rpartition("/")[2]),
    ),
)
