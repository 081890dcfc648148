# SPDX-License-Identifier: Apache-2.0
"""Causes in the input: batches, files, labels, shards."""
