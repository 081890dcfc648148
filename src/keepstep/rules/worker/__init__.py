# SPDX-License-Identifier: Apache-2.0
"""Causes in workers that were lost or came back."""
