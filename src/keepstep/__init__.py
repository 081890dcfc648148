# SPDX-License-Identifier: Apache-2.0
"""keepstep keeps distributed training in step, or tells you why it is not."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
