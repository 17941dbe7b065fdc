#!/usr/bin/env python3
"""test_module.py FRUGAL MODULE ARCHS: is frugal_cuda.so one that a machine with a GPU could use, as far as that can be said without?

Its kernels are there for every architecture that was asked for ("80;90a"). The program opens it, finds its entry point and asks the CUDA
runtime for a GPU: that trains, or ends with exit code 3 and the module's own sentence, not the loader's."""
import os
import re
import struct
import subprocess
import sys

FATBIN = struct.pack("<I", 0xBA55ED50)  # what nvcc embeds, one a source file: a header, then an entry per architecture
MACHINE_CODE = 2  # kind of an entry; 1 is PTX


def architectures(data):
    """Of each source file with kernels, the set of its compute capabilities: 90 for sm_90a."""
    found, at = [], data.find(FATBIN)
    while at >= 0:
        version, head, size = struct.unpack_from("<HHQ", data, at + 4)
        entry, end = at + head, at + head + size
        if version == 1 and head == 16 and end <= len(data):
            found.append(set())
            while entry < end:
                kind, _, head, size = struct.unpack_from("<HHIQ", data, entry)
                if kind == MACHINE_CODE:
                    found[-1].add(struct.unpack_from("<I", data, entry + 28)[0])
                entry += head + size
        at = data.find(FATBIN, at + 4)
    return found


def main(frugal, module, archs):
    with open(module, "rb") as f:
        found = architectures(f.read())
    wanted = {int(re.match(r"\d+", arch)[0]) for arch in archs.split(";")}
    assert found and all(one == wanted for one in found), f"built for {found}, not for {wanted}"
    env = {**os.environ, "FRUGAL_CUDA": module, "FRUGAL_RUN_LEDGER": "none"}
    done = subprocess.run([frugal, "train", "examples/ranker.yaml", "train.device=cuda", "train.steps=1"], env=env, capture_output=True, text=True)
    refused = done.returncode == 3 and "no GPU can be used: " in done.stderr
    assert "insufficient" not in done.stderr, done.stderr  # the runtime's word for a machine without a driver
    assert done.returncode == 0 or refused, (done.returncode, done.stderr)
    print(f"{len(found)} files of kernels for {sorted(wanted)}; {'trains' if done.returncode == 0 else done.stderr.strip()}")


main(*sys.argv[1:])
