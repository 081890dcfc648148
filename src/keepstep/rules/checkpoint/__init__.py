# SPDX-License-Identifier: Apache-2.0
"""Causes in saved state: damaged, missing, not matching the model, too slow to write."""
