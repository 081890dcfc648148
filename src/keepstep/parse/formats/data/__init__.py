# SPDX-License-Identifier: Apache-2.0
"""Formats of data files, read from bytes that are given."""
