"""Validates manifests against the schemas of Kubernetes, and prints the command of each container as a JSON list."""

import json
import sys

import kubernetes_validate
import yaml

VERSION = "1.37"

with open(sys.argv[1], encoding="utf-8") as file:
    manifests = list(yaml.safe_load_all(file))
for manifest in manifests:
    kubernetes_validate.validate(manifest, VERSION, strict=True)
    template = manifest["spec"].get("template", {})
    for container in template.get("spec", {}).get("containers", []):
        print(json.dumps(container["args"]))
