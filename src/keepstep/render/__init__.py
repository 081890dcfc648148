# SPDX-License-Identifier: Apache-2.0
"""A report to bytes: terminal, JSON, HTML, bundle. Nothing here looks at the world."""
