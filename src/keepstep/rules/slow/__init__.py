# SPDX-License-Identifier: Apache-2.0
"""Causes of runs that go on, but too slowly."""
