# SPDX-License-Identifier: Apache-2.0
"""The agent of one node: its lease, its beats, its ranks."""
