# SPDX-License-Identifier: Apache-2.0
"""Causes in acquiring and initialising a TPU."""
