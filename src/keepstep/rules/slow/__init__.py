# SPDX-License-Identifier: Apache-2.0
"""Causes of runs that continue, but too slowly."""
