# SPDX-License-Identifier: Apache-2.0
"""The supervisor: starts ranks, watches them from outside, decides by cause, and is the only code that acts."""
