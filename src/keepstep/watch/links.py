# SPDX-License-Identifier: Apache-2.0
"""The links between the hosts of a run, as measured once an attempt had failed for network or hardware."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from keepstep.base import foreign_json
from keepstep.base.safe_files import open_regular
from keepstep.model.codec import from_dict
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.render.link_matrix import lay_out_links, worst_hosts
from keepstep.watch.run_view import LinksView, LinkView

FILES = ("*.jsonl", "node*/*.jsonl")
MOST_BYTES = 32 << 20
FACT = b'"LinkProbed"'


def links_in(attempt: Path, number: int) -> LinksView | None:
    """None where nothing was measured. Of very many hosts, those with the worst links."""
    matrix = lay_out_links(list(_probed(attempt)))
    if matrix is None:
        return None
    hosts = worst_hosts(matrix)
    place = {host: n for n, host in enumerate(hosts)}
    return LinksView(
        attempt=number,
        hosts=hosts,
        left_out=len(matrix.hosts) - len(hosts),
        usual_bytes_s=matrix.usual,
        links=tuple(
            LinkView(
                source=place[each.source], target=place[each.target], text=each.text, level=each.level, said=each.said
            )
            for each in matrix.cells.values()
            if each.source in place and each.target in place
        ),
    )


def _probed(attempt: Path) -> Iterator[Evidence[Fact]]:
    for path in sorted(path for name in FILES for path in attempt.glob(name)):
        with contextlib.suppress(OSError), open_regular(path, follow=False) as stream:
            for line in stream.read(MOST_BYTES).split(b"\n"):
                if FACT in line[:80]:
                    with contextlib.suppress(ValueError, TypeError):
                        yield from_dict(foreign_json.loads(line))
