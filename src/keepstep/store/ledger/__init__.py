# SPDX-License-Identifier: Apache-2.0
"""The ledger of checkpoints: what was saved, byte for byte, and whether that is what lies there now."""
