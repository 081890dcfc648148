# SPDX-License-Identifier: Apache-2.0
"""How the processes of one check find each other, prove who they are, and exchange what they saw."""
