# SPDX-License-Identifier: Apache-2.0
"""Failures that no table knows, told by their words."""
