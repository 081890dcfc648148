# SPDX-License-Identifier: Apache-2.0
"""Causes in members that left or came back."""
