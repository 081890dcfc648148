# SPDX-License-Identifier: Apache-2.0
"""Causes in how the run was configured: ranks, sizes, addresses."""
