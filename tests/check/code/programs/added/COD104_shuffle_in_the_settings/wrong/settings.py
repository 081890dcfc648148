# SPDX-License-Identifier: Apache-2.0
"""The settings of a run."""

from dataclasses import dataclass


@dataclass
class Settings:
    batch: int = 4
    mixed: bool = True
