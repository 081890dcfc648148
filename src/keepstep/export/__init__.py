# SPDX-License-Identifier: Apache-2.0
"""A run for other people's tools: made from its folder alone, live or over."""
