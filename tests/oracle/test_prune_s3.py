#!/usr/bin/env python3
"""frugal checkpoints prune in an object store, over HTTP: what is superseded goes, manifest first; and
what is damaged is copied neither there nor back."""
import os, subprocess, sys, tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_server import KEY_ID, SECRET, REGION, Server

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FRUGAL, SAVE = os.path.join(TOP, "build", "frugal"), os.path.join(TOP, "build", "save_checkpoints")
THERE = "s3://bucket/runs/7"
if not os.path.exists(FRUGAL) or not os.path.exists(SAVE):
    print("no build/frugal or build/save_checkpoints yet")
    sys.exit(77)


def checkpoints(server, *args, rc=0):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "*",
           "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION,
           "AWS_ENDPOINT_URL_S3": server.url}
    done = subprocess.run([FRUGAL, "checkpoints", *args], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == rc, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def check(server, top):
    here, back = os.path.join(top, "here"), os.path.join(top, "back")
    subprocess.run([SAVE, here, "4"], check=True)
    for step in 10, 20, 30, 40:
        checkpoints(server, "copy", here, THERE, str(step))
    server.objects["runs/7/step-000000030.1.3/weights.safetensors"] = b"x" * 4104
    assert "is damaged" in checkpoints(server, "copy", THERE, back, "30", rc=3)
    assert os.listdir(back) == ["lock"]
    with open(os.path.join(here, "step-000000040.1.4", "state.safetensors"), "r+b") as f:
        f.write(b"\xff")
    assert "is damaged" in checkpoints(server, "copy", here, "s3://bucket/other", "40", rc=1)
    assert not any(key.startswith("other/step") for key in server.objects)

    assert "2 kept, 2 deleted" in checkpoints(server, "prune", THERE, "--keep", "1")
    left = {key.split("/")[2] for key in server.objects}
    assert left == {"step-000000040.1.4", "step-000000020.1.2"}, left  # the newest and the best
    gone = [path for method, path in server.log if method == "DELETE" and "step-000000010" in path]
    assert "manifest.json" in gone[0] and len(gone) == 3, gone
    checkpoints(server, "prune", THERE, "--keep", "none", rc=2)


with Server() as server, tempfile.TemporaryDirectory() as top:
    check(server, top)
print("what is superseded is gone, what is damaged came nowhere")
