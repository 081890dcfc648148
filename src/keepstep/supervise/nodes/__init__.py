# SPDX-License-Identifier: Apache-2.0
"""A run on several machines: one agent per node starts and watches that node's ranks, and one agent leads.

`messages` is all that travels. `lease` keeps two attempts from ever running at once. `connection` carries messages,
`parcels` evidence, `relay` what guards tell each other. `agent` runs a node's part of each attempt, and `world` makes
the parts one attempt, about which the supervisor decides as about one of its own machine.
"""
