# SPDX-License-Identifier: Apache-2.0
"""How a rank ends: its exception, its status, its last words."""
