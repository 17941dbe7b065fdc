#!/usr/bin/env python3
"""A folder of checkpoints read by nothing of ours, as docs/formats/checkpoint.md says: the manifest
with json, the shards with safetensors, the hashes with a hash of our own here."""
import json, os, re, struct, subprocess, sys, tempfile

try:
    import numpy as np
    from safetensors.numpy import load_file
except ImportError as e:
    print(f"needs {e.name}: pip install numpy safetensors")
    sys.exit(77)

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAVE = os.path.join(TOP, "build", "save_checkpoints")
M = 2**64 - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                      0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def rotl(x, n):
    return ((x << n) | (x >> (64 - n))) & M


def rnd(acc, lane):
    return rotl((acc + lane * P2) & M, 31) * P1 & M


def xxh64(data):
    """From the specification of xxHash, section XXH64, with seed 0."""
    at, acc = 0, P5
    if len(data) >= 32:
        lanes = [(P1 + P2) & M, P2, 0, -P1 & M]
        while at + 32 <= len(data):
            lanes = [rnd(a, v) for a, v in zip(lanes, struct.unpack_from("<4Q", data, at))]
            at += 32
        acc = sum(rotl(a, n) for a, n in zip(lanes, (1, 7, 12, 18))) & M
        for a in lanes:
            acc = ((acc ^ rnd(0, a)) * P1 + P4) & M
    acc = (acc + len(data)) & M
    while at + 8 <= len(data):
        acc = (rotl(acc ^ rnd(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & M
        at += 8
    if at + 4 <= len(data):
        acc = (rotl(acc ^ (struct.unpack_from("<I", data, at)[0] * P1 & M), 23) * P2 + P3) & M
        at += 4
    for byte in data[at:]:
        acc = rotl(acc ^ (byte * P5 & M), 11) * P1 & M
    acc = ((acc ^ acc >> 33) * P2) & M
    acc = ((acc ^ acc >> 29) * P3) & M
    return acc ^ acc >> 32


def read(path):
    with open(path, "rb") as f:
        return f.read()


def check_one(folder, step):
    text = read(os.path.join(folder, "manifest.json"))
    manifest = json.loads(text)
    assert manifest["frugal_checkpoint"] == 1
    assert manifest["step"] == step
    assert manifest["state"] == {"threads": 2}
    body, line = text[:text.rindex(b'"seal"')], text[text.rindex(b'"seal"'):]
    assert re.fullmatch(rb'"seal":"[0-9a-f]{16}"}\n', line), line
    assert manifest["seal"] == f"{xxh64(body):016x}"
    assert sorted(os.listdir(folder)) == sorted(["manifest.json"] + [s["name"] for s in manifest["shards"]])
    for shard in manifest["shards"]:
        data = read(os.path.join(folder, shard["name"]))
        assert len(data) == shard["bytes"]
        assert f"{xxh64(data):016x}" == shard["xxh64"]
    w = load_file(os.path.join(folder, "weights.safetensors"))["w"]
    assert w.shape == (10, 100) and w.dtype == np.float32
    assert (w.ravel() == step / 10 + 0.5 * np.arange(1000, dtype=np.float32)).all()
    assert load_file(os.path.join(folder, "state.safetensors"))["step"] == [step / 10]


assert xxh64(b"") == 0xEF46DB3751D8E999  # published
with tempfile.TemporaryDirectory() as top:
    subprocess.run([SAVE, os.path.join(top, "c"), "5", "2"], check=True)
    names = sorted(n for n in os.listdir(os.path.join(top, "c")) if n != "lock")
    assert names == ["step-000000020.1.2", "step-000000040.1.4", "step-000000050.1.5"], names
    for name in names:
        check_one(os.path.join(top, "c", name), int(name[5:14]))
print("3 checkpoints, as their page says")
