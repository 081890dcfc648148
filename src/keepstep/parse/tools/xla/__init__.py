# SPDX-License-Identifier: Apache-2.0
"""XLA, and PyTorch on it."""
