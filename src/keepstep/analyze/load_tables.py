# SPDX-License-Identifier: Apache-2.0
"""The tables of messages, ready for use: what is slow to derive from them is kept between starts."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from keepstep.parse.scan import bounded, literals, signature
from keepstep.parse.scan.block import Block
from keepstep.parse.scan.knowledge import Knowledge, build, tables
from keepstep.parse.scan.signature import Derived, Signature
from keepstep.store.user_cache import Kept, user_folder

PATTERNS = "patterns"


@cache
def known() -> Knowledge:
    """The knowledge that comes with keepstep."""
    return known_with((), ())


def known_with(own_signatures: Iterable[Signature], own_blocks: Iterable[Block], kept: Kept | None = None) -> Knowledge:
    """The knowledge that comes with keepstep, and the user's."""
    kept = kept or Kept(user_folder())
    recall(kept)
    signatures, blocks, progress = tables()
    keep(kept)
    return build((*signatures, *own_signatures), (*blocks, *own_blocks), progress, kept)


def recall(kept: Kept) -> None:
    """What an earlier start derived from patterns, to save parsing them again."""
    body = kept.get(PATTERNS, _way_of_deriving())
    for pattern, (expression, anchors, folds_case, groups) in json.loads(body or b"{}").items():
        signature.recalled[pattern] = Derived(expression, tuple(anchors), folds_case, tuple(groups))


def keep(kept: Kept) -> None:
    """Keep what this start derived, if it derived anything new."""
    if signature.derived.keys() - signature.recalled.keys():
        kept.put(PATTERNS, _way_of_deriving(), json.dumps(signature.derived).encode())


@cache
def _way_of_deriving() -> str:
    """Changes with the code that derives and keeps, and with Python's own parser of patterns."""
    files = (Path(signature.__file__), Path(bounded.__file__), Path(literals.__file__), Path(__file__))
    code = b"".join(file.read_bytes() for file in files if file.is_file())
    return f"{sys.version} {hashlib.sha256(code).hexdigest()}"
