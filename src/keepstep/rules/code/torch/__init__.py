# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch, and what is built on it."""
