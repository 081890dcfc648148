# SPDX-License-Identifier: Apache-2.0
"""The guard's hooks in PyTorch, and in the trainers built on it. `attach.py` puts them in place."""
