# SPDX-License-Identifier: Apache-2.0
"""PyTorch: its process groups, wrappers, loaders, launchers and compilers."""
