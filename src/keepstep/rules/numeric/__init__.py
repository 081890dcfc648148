# SPDX-License-Identifier: Apache-2.0
"""Causes in the numbers: losses that are no number any more, or that stand still."""
