# SPDX-License-Identifier: Apache-2.0
"""What there is to read: files, shards and stores below the given paths, and the format of each."""
