# SPDX-License-Identifier: Apache-2.0
"""Causes in the user's own program."""
