# SPDX-License-Identifier: Apache-2.0
"""What the guard notes about its own rank: pace, processor, pauses, the user's line."""
