# SPDX-License-Identifier: Apache-2.0
"""A user's own rules and signatures (see docs/your-own-rules.md). They come in by

- a package with the entry point group ``keepstep.rules``, naming a module, a package or a rule;
- a folder the user named: on the command line, in a ``keepstep.toml`` named there, or in the user's ``config.toml``;
- the nearest ``keepstep.toml`` in this folder or above: TOML signatures only, and Python once the user trusts it.

What is broken or untrusted is left out and listed as coverage, with its file and the reason; the rest is used.
"""

from __future__ import annotations

from keepstep.extend.load_extensions import Extensions, load_extensions

__all__ = ["Extensions", "load_extensions"]
