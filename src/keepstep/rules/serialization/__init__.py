# SPDX-License-Identifier: Apache-2.0
"""Causes in data that is sent or stored as one message."""
