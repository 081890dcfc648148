# SPDX-License-Identifier: Apache-2.0
"""Which rank failed, told by a node, a device, a pod, a pid, a role or a file name: small logs of whole jobs.

A case is a text: what must be found (`-`: no rank), how the report says the rank is known, and the files.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths

CASES = sorted((Path(__file__).parent / "whose").glob("*.txt"))


def _written(case: Path, folder: Path) -> dict[str, str]:
    head, *parts = re.split(r"^=== (\S+)\n", case.read_text(), flags=re.M)
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return dict(line.split(": ", 1) for line in head.splitlines())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_rank_is_found(case, tmp_path):
    wanted = _written(case, tmp_path)
    causes, rank = wanted["want"].rsplit(" ", 1)
    root = explain_paths([tmp_path]).report.root
    assert root is not None
    assert root.ranks == (() if rank == "-" else (int(rank),)), root.title
    assert causes == "*" or root.cause.value in causes.split("|")
    if "how" in wanted:
        assert any(wanted["how"] in line for line in root.placed), root.placed
