# SPDX-License-Identifier: Apache-2.0
"""The tables of messages, ready for use: what is slow to derive from them is kept between starts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from keepstep.parse.scan.block import Block
from keepstep.parse.scan.knowledge import Knowledge, build
from keepstep.parse.scan.signature import Signature
from keepstep.parse.scan.tables import tables
from keepstep.store.user_cache import Kept, user_folder


@cache
def known() -> Knowledge:
    """The knowledge that comes with keepstep."""
    return known_with((), ())


def known_with(own_signatures: Iterable[Signature], own_blocks: Iterable[Block], kept: Kept | None = None) -> Knowledge:
    """The knowledge that comes with keepstep, and the user's."""
    kept = kept or Kept(user_folder())
    signatures, blocks, progress = tables(kept)
    return build((*signatures, *own_signatures), (*blocks, *own_blocks), progress, kept)
