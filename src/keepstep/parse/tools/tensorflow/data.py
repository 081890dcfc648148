# SPDX-License-Identifier: Apache-2.0
"""``tf.data`` and TensorFlow's input queues: records, images, parsing, the end of a sequence."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import CorruptData, EndOfData, UnevenShards
from keepstep.parse.scan.signature import signature


def _ended(match: re.Match[str]) -> Fact:
    """Who noticed the end: a collective that was aborted, an exception, or only a log line."""
    text = match.string
    if re.search(r"Aborting Ring|OP_REQUIRES failed at collective_ops|Collective ops is aborted", text):
        return EndOfData(what="collective aborted")
    if re.match(r"\s*\(\d+\) (?i:out[ _]of[ _]range): ", text):
        return EndOfData(what="exception")
    if "OutOfRangeError" in text and not re.match(r"\s*(?:\d{4}-\d\d-\d\d [\d:.]+: )?[IWE] ", text):
        return EndOfData(what="exception")
    return EndOfData(what="logged")


def _queue(match: re.Match[str]) -> Fact:
    return EndOfData(what=f"queue closed with {match['current']} elements")


def _record(match: re.Match[str]) -> Fact:
    path = re.search(r"(?:in|from|file:?) (?P<path>/?[\w./\-]+\.\w+|gs://\S+|\S*tfrecord\S*)", match.string)
    return CorruptData(what=match["what"].lower(), path=path["path"] if path else None)


def _sharded_by_file(match: re.Match[str]) -> Fact | None:
    """Under the policy AUTO it is a warning: shards are then cut by element."""
    return None if "AUTO sharding policy" in match.string else UnevenShards(detail=match["detail"])


SIGNATURES = (
    signature(r"(?i)Out ?_?of ?_?range[^\n]{0,160}?End of sequence", _ended),
    signature(r"OutOfRangeError[^\n]{0,200}", _ended),
    signature(
        r"(?:Queue|Barrier) '?[\w/]+'? is closed and has insufficient elements \(requested \d+, current size (?P<current>\d+)\)",
        _queue,
    ),
    signature(r"(?P<what>(?:corrupted|truncated) record) at \d+", _record),
    # A replica without rows
    signature(
        r"Could not apply FILE based sharding: (?P<detail>The dataset does not have enough file\(s\) for the required \d*)",
        _sharded_by_file,
    ),
    signature(
        r"(?P<detail>Unable to shard this input\. You may need to wrap the inputs to your reader dataset)",
        _sharded_by_file,
    ),
)
