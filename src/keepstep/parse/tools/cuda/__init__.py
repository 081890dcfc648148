# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver, runtime, libraries and diagnostics."""
