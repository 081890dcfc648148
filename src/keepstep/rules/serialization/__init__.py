# SPDX-License-Identifier: Apache-2.0
"""Causes in what is sent or stored as one message."""
