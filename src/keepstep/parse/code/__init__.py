# SPDX-License-Identifier: Apache-2.0
"""Training programs, read by their syntax trees: what each file calls, on which ranks, in which order."""
