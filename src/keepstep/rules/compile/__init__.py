# SPDX-License-Identifier: Apache-2.0
"""Causes in the compiled program itself."""
