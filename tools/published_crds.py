# SPDX-License-Identifier: Apache-2.0
"""Validate docs/kubernetes against the CRDs that other projects publish: python -m tools.published_crds CRD.yaml ...

The CRD files are not ours and are not kept here. Take them from checkouts of kubernetes-sigs/jobset
(config/components/crd/bases), kubeflow/trainer (manifests/base/crds) and ray-project/kuberay
(ray-operator/config/crd/bases), and run this in an environment with kubernetes-validate.
A manifest whose kind has no CRD among the files is an error, unless Kubernetes itself has the kind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

FOLDER = Path(__file__).parent.parent / "docs" / "kubernetes"
CORE = ("v1", "batch/v1", "rbac.authorization.k8s.io/v1")
VERSION = "1.34"


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each document with its file's name."""
    for path in sorted(each for each in FOLDER.rglob("*.yaml") if each.name != "kustomization.yaml"):
        for document in yaml.safe_load_all(path.read_text("utf-8")):
            yield path.name, document


def published(paths: list[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """The schemas of CRD files, by apiVersion and kind."""
    found = {}
    for path in paths:
        spec = yaml.safe_load(Path(path).read_text("utf-8"))["spec"]
        for version in spec["versions"]:
            key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            found[key] = strict(version["schema"]["openAPIV3Schema"])
    return found


def strict(schema: Any) -> Any:
    """As the API server in strict mode: unknown fields are errors. A number or a string may stand for a quantity."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and isinstance(schema["properties"], dict) and "type" in schema:
        open_ = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-embedded-resource")
        if not open_ and "additionalProperties" not in schema:
            made["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


def main(paths: list[str]) -> int:
    schemas, wrong = published(paths), 0
    for name, document in manifests():
        key = document["apiVersion"], document["kind"]
        try:
            if document["apiVersion"] in CORE:
                kubernetes_validate.validate(document, VERSION, strict=True)
            else:
                body = {k: v for k, v in document.items() if k != "metadata"}
                jsonschema.Draft202012Validator(schemas[key]).validate(body)
            said = "valid"
        except (KeyError, jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
            wrong += 1
            said = "no CRD given" if isinstance(error, KeyError) else f"{list(error.path)}: {error.message[:200]}"
        print(f"{name}: {key[1]} ({key[0]}): {said}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
