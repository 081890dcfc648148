# SPDX-License-Identifier: Apache-2.0
"""Connections between agents and the leader that carry messages, and only between those who know the run's secret.

A message is one line of JSON. The leader has a `hub`. An agent has one `interface.Connection`: over TLS or over ssh's
pipes (`dial`), or within the leader's process (`in_memory`, ``Hub.local``). Nothing here ever waits for the other side,
and what may wait for it is bounded.
"""
