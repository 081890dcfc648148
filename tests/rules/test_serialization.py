# SPDX-License-Identifier: Apache-2.0
"""Messages that are too large."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding


def findings(folder: Path, **logs: str) -> tuple[Finding, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report.findings


def causes(folder: Path, **logs: str) -> list[str]:
    return [found.cause.value for found in findings(folder, **logs)]


STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: GraphDef cannot be larger than 2GB.",
        "OverflowError: cannot serialize a bytes object larger than 4 GiB",
        'grpc._channel._Rendezvous: details = "Received message larger than max (8672945 vs. 4194304)"',
    ],
)
def test_a_message_that_is_too_large_is_named(tmp_path, text):
    assert causes(tmp_path, rank0=text + "\n")[0] == "serialization.too_large_or_protobuf"


def test_a_run_that_trains_on_gives_nothing(tmp_path):
    assert findings(tmp_path, rank0='details = "Received message larger than max (8 vs. 4)"\n' + STEPS) == ()
