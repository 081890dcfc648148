# SPDX-License-Identifier: Apache-2.0
"""Causes in the numbers: losses that are NaN, or that stopped changing."""
