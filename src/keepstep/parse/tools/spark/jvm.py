# SPDX-License-Identifier: Apache-2.0
"""Java's loader under libhdfs, Spark and Flink: classes that are missing, or of another version than their callers."""

from __future__ import annotations

from keepstep.model.facts.environment import LibraryMissing, SymbolMissing
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"java\.lang\.(?:NoSuch(?:Method|Field)Error|AbstractMethodError|IncompatibleClassChangeError): (?P<symbol>[\w.$/<>]{1,160})",
        SymbolMissing,
    ),
    signature(
        r"java\.lang\.UnsupportedClassVersionError: (?P<symbol>[\w.$/]{1,160})",
        SymbolMissing,
    ),
    signature(
        r"java\.lang\.UnsatisfiedLinkError: no (?P<name>[\w.\-]{1,80}) in java\.library\.path",
        LibraryMissing,
    ),
)  # fmt: skip
