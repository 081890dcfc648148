# SPDX-License-Identifier: Apache-2.0
"""The learning rate is far too large."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

RATE = "30"


def prepare(run: Run) -> None:
    for args in run.args:
        args += ["--rate", RATE]


def proof(run: Run) -> str:
    return f"every rank was started with --rate {RATE}"
