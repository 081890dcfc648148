# SPDX-License-Identifier: Apache-2.0
"""The files beside a program that decide how it is started: settings as JSON or YAML, manifests, shell scripts."""
