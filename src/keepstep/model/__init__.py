# SPDX-License-Identifier: Apache-2.0
"""The pipe's own types: facts, evidence, rules, findings, reports."""
