# SPDX-License-Identifier: Apache-2.0
"""What starts agents on several nodes, and whose word it is who leads: one file per engine, each makes a `Station`."""
