# SPDX-License-Identifier: Apache-2.0
"""What was measured during a run, over time: tiles of falling resolution, one folder for each attempt and writer."""
