# SPDX-License-Identifier: Apache-2.0
"""Formats that are the same whichever program writes them: cores, tracebacks, stacks, flight-recorder dumps."""
