# SPDX-License-Identifier: Apache-2.0
"""What everything else stands on: text, secrets, safe files, launchers' variables. Standard library only."""
