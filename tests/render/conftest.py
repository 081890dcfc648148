# SPDX-License-Identifier: Apache-2.0
"""Lets the tests here import ``made_reports``, the reports they share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
