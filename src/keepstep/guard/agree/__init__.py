# SPDX-License-Identifier: Apache-2.0
"""What the guards of all ranks settle together: who is there, where they write, what all must have in common."""
