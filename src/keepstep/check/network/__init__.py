# SPDX-License-Identifier: Apache-2.0
"""The network between hosts: who calls whom and when, what a link shows, and the other ways to a host."""
