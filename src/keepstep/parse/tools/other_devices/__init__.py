# SPDX-License-Identifier: Apache-2.0
"""Accelerators that are neither NVIDIA's nor Google's."""
