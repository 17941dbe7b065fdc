#!/usr/bin/env python3
"""The files of `frugal manifest`, read by those they are for: SkyPilot's task schema (package skypilot) and Kubernetes' schemas (package
kubernetes-validate). Skips what is not installed; 77 where neither is. Seen to pass with skypilot 0.14.1 and kubernetes-validate's 1.31."""
import os
import subprocess
import sys
import tempfile

import importlib.util

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FRUGAL = os.environ.get("FRUGAL", os.path.join(TOP, "build", "frugal"))
RUN = """data: {kind: synthetic_clicks, samples: 60, buckets: 500}
model: {kind: ranker, table_width: 4, mlp: [8]}
train: {batch: 8, steps: 50}
"""


def manifest(folder, *arguments):
    path = os.path.join(folder, "run.yaml")
    with open(path, "w") as f:
        f.write(RUN)
    command = [FRUGAL, "manifest", "run.yaml", "checkpoint.to=s3://bucket/runs", *arguments]
    environment = dict(os.environ, FRUGAL_RUN_LEDGER="none")
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def machines():
    return [("aws/g5.xlarge", "--spot"), ("aws/g5.xlarge", "--on-demand"), ("gcp/g2-standard-4", "--spot")]


def check_skypilot(folder):
    import yaml
    from sky.utils import common_utils, schemas

    for machine, market in machines():
        config = yaml.safe_load(manifest(folder, "--for", "skypilot", "--machine", machine, market))
        common_utils.validate_schema(config, schemas.get_task_schema(), "Invalid task YAML: ")
        common_utils.validate_schema(config["resources"], schemas.get_resources_schema(), "Invalid resources YAML: ")
        assert config["resources"]["use_spot"] == (market == "--spot"), config
        assert "frugal train run.yaml" in config["run"], config


def check_kubernetes(folder):
    import kubernetes_validate
    import yaml

    for machine, market in machines():
        text = manifest(folder, "--for", "kubernetes", "--image", "me/frugal:1", "--machine", machine, market)
        documents = list(yaml.safe_load_all(text))
        assert [d["kind"] for d in documents] == ["ConfigMap", "Job"], documents
        for document in documents:
            kubernetes_validate.validate(document, "1.31", strict=True)
        assert documents[0]["data"]["run.yaml"] == RUN, documents[0]


def main():
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        for package, check in (("sky", check_skypilot), ("kubernetes_validate", check_kubernetes)):
            if importlib.util.find_spec(package) is None:
                print(f"{package} is not installed")
                continue
            check(folder)
            done += 1
    if not done:
        sys.exit(77)


main()
