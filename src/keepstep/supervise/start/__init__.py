# SPDX-License-Identifier: Apache-2.0
"""How processes of a run are started, and ended."""
