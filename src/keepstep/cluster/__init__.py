# SPDX-License-Identifier: Apache-2.0
"""What launchers say about a run's shape, as one type."""
