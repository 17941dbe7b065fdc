"""small.py - a run that trains in moments, for tests of what a run tells other programs."""
import os
import socket
import struct
import subprocess

FRUGAL = os.path.abspath(os.environ.get("FRUGAL", "build/frugal"))
ENV = dict(os.environ, FRUGAL_RUN_LEDGER="none", FRUGAL_TRAIN_PRECISION="fp32")  # not the user's runs; the same on every processor
RUN = """
data: {kind: idx, path: images, labels: labels}
model:
  layers:
    - flatten
    - dense: {units: 64, activation: relu}
    - dense: 4
train: {epochs: 2, batch: 20}
"""


def write(folder):
    """400 images of 8x8 pixels in four classes, and run.yaml."""
    with open(os.path.join(folder, "images"), "wb") as f:
        f.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 400, 8, 8))
        for i in range(400):
            f.write(bytes(255 if pixel % 4 == i % 4 else i % 251 for pixel in range(64)))
    with open(os.path.join(folder, "labels"), "wb") as f:
        f.write(struct.pack(">BBBBI", 0, 0, 8, 1, 400) + bytes(i % 4 for i in range(400)))
    with open(os.path.join(folder, "run.yaml"), "w") as f:
        f.write(RUN)


def frugal(folder, *args, rc=0):
    """Its stdout; a failure where the exit code is another."""
    done = subprocess.run([FRUGAL, *args], cwd=folder, env=ENV, capture_output=True, text=True)
    assert done.returncode == rc, (args, done.returncode, done.stderr)
    return done.stdout


def start(folder, *args):
    return subprocess.Popen([FRUGAL, *args], cwd=folder, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
