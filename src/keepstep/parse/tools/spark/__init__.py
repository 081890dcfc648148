# SPDX-License-Identifier: Apache-2.0
"""Spark, Flink and the Java below them."""
