# SPDX-License-Identifier: Apache-2.0
"""Causes in taking hold of a TPU."""
