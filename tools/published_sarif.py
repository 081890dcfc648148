# SPDX-License-Identifier: Apache-2.0
"""Validate SARIF files against the schema that OASIS publishes: python -m tools.published_sarif SCHEMA.json FILE ...

The schema is not ours and is not kept here. Take sarif-2.1/schema/sarif-schema-2.1.0.json from a checkout of
oasis-tcs/sarif-spec. `make test` validates what we write against the fields in tests/render/sarif_fields.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema


def main(paths: list[str]) -> int:
    if len(paths) < 2:
        print("usage: python -m tools.published_sarif SCHEMA.json FILE ...")
        return 2
    schema = json.loads(Path(paths[0]).read_text("utf-8"))
    validator, wrong = jsonschema.validators.validator_for(schema)(schema), 0
    for name in paths[1:]:
        errors = list(validator.iter_errors(json.loads(Path(name).read_text("utf-8"))))
        wrong += bool(errors)
        print(f"{name}: valid" if not errors else f"{name}: {len(errors)} errors")
        for error in errors[:5]:
            print(f"  {list(error.absolute_path)}: {error.message[:200]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
