# SPDX-License-Identifier: Apache-2.0
"""Incompatible libraries, drivers and versions."""
