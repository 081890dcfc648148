# SPDX-License-Identifier: Apache-2.0
"""The dynamic loader's words: libraries not found, symbols and versions that do not fit."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import GpuLibrariesMissing, LibraryMissing, SymbolMissing
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.system.windows import PAGING_FILE

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
    signature(r"error while loading shared libraries: (?P<name>[^\s:]+):", LibraryMissing),
    signature(r"Could not load dynamic library '(?P<name>[^'\n]+)'", LibraryMissing, fatal=False),
    signature(r"Cannot dlopen some GPU libraries", GpuLibrariesMissing),
    # TensorFlow's check of itself on Windows
    signature(
        r"Error: Could not find (?:the DLL\(s\) )?'(?P<name>[\w.\-]+\.dll)[^'\n]{0,80}'\. TensorFlow requires that",
        LibraryMissing,
    ),
    signature(_LIBRARY + r": cannot open shared object file", _missing),
    signature(
        _LIBRARY + r"[^\n]{0,40}: (?:failed to map segment from shared object|invalid ELF header|wrong ELF class"
        r"|file too short"
        r"|cannot allocate memory in static TLS block)",
        _unreadable,
    ),
    signature(r"Could not load library (?P<name>lib\S+?)\.? Error:", LibraryMissing),
    signature(r"Unable to load any of \{(?P<name>lib[^,}\s]+)", LibraryMissing),
    signature(
        r"(?:\(\d+\) (?:Not found|NOT_FOUND): |Error: +|OP_REQUIRES failed at xla_\w+\.cc:\d+ : (?:Not found|NOT_FOUND): )\./bin/(?P<name>ptxas|nvlink) not found",
        LibraryMissing,
    ),
    signature(r"No PTX compilation provider is available", LibraryMissing, name="ptxas"),
    signature(
        r"(?:INTERNAL|Internal|InternalError): +libdevice not found at \S*?(?P<name>libdevice[\w.]*\.bc)",
        LibraryMissing,
    ),
    # libhdfs whose JVM has no classes of Hadoop: CLASSPATH lacks the output of `hadoop classpath --glob`
    signature(
        r"\(unable to get (?:root cause|stack trace) for java\.lang\.NoClassDefFoundError\)|^could not find method getRootCauseMessage",
        LibraryMissing,
        name="Hadoop's classes",
    ),
    signature(r"Unable to locate (?P<name>lib\S+\.so\S*)", LibraryMissing, fatal=False),
    signature(
        r"(?:DLL load failed(?![^\n]{0,120}(?:"
        + PAGING_FILE
        + r"))|Library not loaded: (?P<name>\S+)|image not found)",
        LibraryMissing,
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
    signature(r"Symbol not found: (?P<symbol>_\w+)", SymbolMissing),
    signature(r"cannot locate symbol \"(?P<symbol>\w+)\"", SymbolMissing),
    signature(r"Inconsistency detected by ld\.so", SymbolMissing),
    signature(
        r": Relink `(?P<library>[^'\n]{1,200})' with `[^'\n]{1,200}' for IFUNC symbol `(?P<symbol>\w{1,80})'",
        lambda m: SymbolMissing(symbol=m["symbol"], library=m["library"].rpartition("/")[2]),
    ),
)
