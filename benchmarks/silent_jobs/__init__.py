# SPDX-License-Identifier: Apache-2.0
"""The programs whose numbers benchmarks/silent_faults.py changes, and which bits of them."""
