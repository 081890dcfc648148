# SPDX-License-Identifier: Apache-2.0
"""What a run folder shows to somebody who looks: one model (``look.py``), a terminal view, a page. Only reads."""
