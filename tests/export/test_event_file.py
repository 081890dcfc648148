# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own reader of event files reads what keepstep writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.export.event_file import Scalar, event_file
from tests.lazy_framework import lazy_framework


@pytest.mark.slow
@pytest.mark.frameworks("tensorflow")
def test_tensorflow_reads_it(tmp_path: Path) -> None:
    tensorflow = lazy_framework("tensorflow")

    curves = [
        Scalar("memory (bytes)", 1000.5, 0, 1.5),
        Scalar("memory (bytes)", 1300.0, 300, 2e9),
        Scalar("ü", 1, 7, 0),
    ]
    path = tmp_path / "events.out.tfevents.1000.keepstep"
    path.write_bytes(b"".join(event_file(1000.0, curves)))
    first, *events = tensorflow.compat.v1.train.summary_iterator(str(path))
    assert (first.file_version, first.wall_time) == ("brain.Event:2", 1000.0)
    read = [
        (each.summary.value[0].tag, each.wall_time, each.step, each.summary.value[0].simple_value) for each in events
    ]
    assert read == [tuple(each) for each in curves]
