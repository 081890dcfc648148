# SPDX-License-Identifier: Apache-2.0
"""The files that a run left behind: found, told apart, unpacked, never left."""
