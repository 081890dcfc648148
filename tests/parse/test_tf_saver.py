# SPDX-License-Identifier: Apache-2.0
"""Files of checkpoints that TensorFlow could not write."""

from __future__ import annotations

import pytest

from keepstep.core.facts.sync import SharedStateRace
from keepstep.core.facts.training import CheckpointUnreadable
from keepstep.parse.tools.tensorflow import saving as tf_saver
from tests.parse.reading import reader

read = reader(tf_saver)

TEMPORARY = "/ckpt/model.ckpt-0_temp_1/part-00000-of-00001.data-00000-of-00001"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ValueError: Parent directory of ckpt/model doesn't exist, can't save.", CheckpointUnreadable),
        ("NotFoundError: Failed to create a directory: gs://b/x; No such file or directory", CheckpointUnreadable),
        (f"errors_impl.PermissionDeniedError: {TEMPORARY}.tempstate11; Permission denied", CheckpointUnreadable),
        (
            "FailedPreconditionError: model.ckpt.data-00000-of-00001; Read-only file system [Op:SaveV2]",
            CheckpointUnreadable,
        ),
        (
            f"UnknownError: Failed to rename: {TEMPORARY}.tempstate17 to: {TEMPORARY} : Access is denied.",
            SharedStateRace,
        ),
        (
            "NotFoundError: Failed to rename: /r/checkpoint.tmp12 to: /r/checkpoint; No such file or directory",
            SharedStateRace,
        ),
    ],
)
def test_a_file_that_was_not_written_is_read(text: str, kind: type) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "ls: cannot open directory '/root': Permission denied",
        "PermissionDeniedError: /data/train.tfrecord; Permission denied",
        "W tensorflow/core/util/x.cc:1] Failed to rename: /r/checkpoint.tmp12 to: /r/checkpoint",
        "INFO:tensorflow:Saving checkpoints for 0 into /ckpt/model.ckpt.",
    ],
)
def test_another_line_says_nothing(text: str) -> None:
    assert read(text) == []
