# SPDX-License-Identifier: Apache-2.0
"""Weights & Biases."""

from __future__ import annotations

import pytest

from keepstep.core.facts.network import ConnectFailed
from keepstep.parse.tools.trainers import wandb as table

WORDINGS = [
    (
        "wandb.errors.CommError: Run initialization has timed out after 90.0 sec.",
        ConnectFailed,
        {"peer": "api.wandb.ai"},
    ),
    (
        "wandb: Network error (ConnectTimeout), entering retry loop.",
        ConnectFailed,
        {"final": False},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
