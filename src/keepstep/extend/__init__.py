# SPDX-License-Identifier: Apache-2.0
"""A user's own rules and signatures (see docs/your-own-rules.md). They come in by

- a package with the entry point group ``keepstep.rules``, naming a module, a package or a rule;
- a folder that the user named: on the command line, by a ``keepstep.toml`` named there, or in the user's own ``config.toml``;
- the nearest ``keepstep.toml`` upwards, which nobody named: TOML signatures only, Python after a decision to trust it.

What is broken or a stranger's is left out and said as coverage, with its file and reason; the rest goes on.
"""

from __future__ import annotations

from keepstep.extend.load import Extensions, load_extensions

__all__ = ["Extensions", "load_extensions"]
