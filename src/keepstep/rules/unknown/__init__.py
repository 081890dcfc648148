# SPDX-License-Identifier: Apache-2.0
"""Failures that no rule explains: which rank was first, and what its messages suggest."""
