# SPDX-License-Identifier: Apache-2.0
"""Programs of any framework."""
