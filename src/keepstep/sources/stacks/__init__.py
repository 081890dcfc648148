# SPDX-License-Identifier: Apache-2.0
"""Stacks of live processes and of cores."""
