# SPDX-License-Identifier: Apache-2.0
"""Writes that failed for lack of space."""

from __future__ import annotations

import pytest

from keepstep.core.facts.resource import DiskFull
from keepstep.parse.tools.system import disk as table

WORDINGS = [
    (
        "OSError: [Errno 28] No space left on device: '/data/ckpt/x.pt'",
        DiskFull,
        {"path": "/data/ckpt/x.pt", "quota": False},
    ),
    ("OSError: [Errno 122] Disk quota exceeded", DiskFull, {"quota": True}),
    (
        "RuntimeError: [enforce fail at inline_container.cc:445] . PytorchStreamWriter failed writing file data/176: file write failed",
        DiskFull,
        {},
    ),
    ("RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 1280 vs 1174", DiskFull, {}),
    (
        "RuntimeError: File out/checkpoints/checkpoint_0.pt cannot be opened.",
        DiskFull,
        {"path": "out/checkpoints/checkpoint_0.pt"},
    ),
    ("RuntimeError: write(): fd 29 failed with Input/output error", DiskFull, {}),
    (
        "ResourceExhaustedError (see above for traceback): train_log/model-1200.data-00000-of-00001.tempstate1773",
        DiskFull,
        {"path": "train_log/model-1200.data-00000-of-00001.tempstate1773"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 28] No space left on device: '/dev/shm/x'",
        "NCCL WARN Call to posix_fallocate failed : No space left on device",
        "Disk usage: 71 % of 2 TB",
        "RuntimeError: write(): fd 29 failed with Broken pipe",
        "warning: File labels.txt cannot be opened",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "ResourceExhaustedError: ./model/model-49.tempstate5787507096018461664",
        "W tensorflow/core/framework/op_kernel.cc:975] Resource exhausted: /home/x/win.emb-354830.data-00000-of-00001",
        "ResourceExhaustedError: Could not append to the internal temporary file. [Op:MergeV2Checkpoints]",
    ],
)
def test_a_file_that_could_not_be_written_is_a_full_disk(text, read):
    assert any(isinstance(fact, DiskFull) for fact in read(table, text))


@pytest.mark.parametrize(
    "text",
    [
        "ResourceExhaustedError: OOM when allocating tensor with shape[64,512]",
        "Resource exhausted: /data/train-00391-of-01024.tempstate12; Too many open files",
    ],
)
def test_what_ran_out_otherwise_is_no_full_disk(text, read):
    assert read(table, text) == []
