# SPDX-License-Identifier: Apache-2.0
"""Look for a second start in logs that continue after something ended the run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.restarts import LifeBegan
from keepstep.model.facts.training import StreamEnded
from keepstep.parse.scan.lines.first_lines import come_again
from keepstep.parse.scan.sighting import QUOTE
from keepstep.sources.files.left_files import Chunks, LeftFile
from keepstep.story.lives import ends_a_run

LARGEST = 64 << 20
"""Of a larger log only what the launchers say counts."""
LAST_WORDS = 3
"""In lines: what launchers print when a run is over."""
FIRST_LINE = "the log's first line"


def started_again(logs: Iterable[LeftFile], evidence: Sequence[Evidence[Fact]]) -> Iterator[Evidence[Fact]]:
    """The first lines of logs that come again after an end, each as a start."""
    ended: dict[str, int] = {}
    last: dict[str, int] = defaultdict(int)
    for each in evidence:
        source, line = each.origin.source, each.origin.line or 0
        if ends_a_run(each.fact):
            ended[source] = min(line, ended.get(source, line))
        if isinstance(each.fact, StreamEnded):
            last[source] = max(line, last[source])
    for log in logs:
        end = ended.get(log.name)
        if end is None or last[log.name] - end <= LAST_WORDS or log.size > LARGEST:
            continue
        for line, quote in come_again(_text(log), end):
            origin = Origin(source=log.name, line=line)
            yield Evidence(fact=LifeBegan(by=FIRST_LINE), origin=origin, quote=quote[:QUOTE])


def _text(log: LeftFile) -> bytes:
    """All of it, up to the limit."""
    text = bytearray()
    for chunk in Chunks(log):
        text += chunk
        if len(text) > LARGEST:
            return b""
    return bytes(text)
