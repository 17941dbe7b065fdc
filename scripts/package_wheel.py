#!/usr/bin/env python3
"""package_wheel.py --version V --stage FOLDER --out FOLDER [--tag TAG]: a wheel from what `cmake --install` put into FOLDER.
package_wheel.py --cuda: what its extra [cuda] asks of PyPI.

The program is in the wheel's scripts, so that `frugal` on PATH is the program itself and no Python starts with it. The
CUDA module lies in the package, beside which PyPI's NVIDIA libraries are installed: its RUNPATH names them. Without --tag
the tag is what the newest symbol of glibc in any of its files asks for; auditwheel, where it is installed, must agree. Same
input, same bits: names are sorted, and times are SOURCE_DATE_EPOCH's."""
import argparse
import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

CUDA = ["nvidia-cublas>=13.0,<14", "nvidia-cudnn-cu13>=9.10,<10"]
SUMMARY = "A training engine that counts the dollars"
OLDEST = (2, 31)  # the oldest glibc that is tested; a program that needs less is not called older


def glibc_of(data):
    found = [tuple(map(int, m.split(b"."))) for m in re.findall(rb"GLIBC_(\d+\.\d+)", data)]
    return max(found, default=OLDEST)


def metadata(version, readme):
    lines = ["Metadata-Version: 2.1", "Name: frugal", f"Version: {version}", f"Summary: {SUMMARY}", "License: Apache-2.0",
             "Requires-Python: >=3.8", "Provides-Extra: cuda"]
    lines += [f"Requires-Dist: {one}; extra == 'cuda'" for one in CUDA]
    return "\n".join(lines + ["Description-Content-Type: text/markdown", "", readme])


def files_of(stage, version, tag):
    """(name in the wheel, bytes, mode), but for WHEEL and RECORD."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    data, info = f"frugal-{version}.data", f"frugal-{version}.dist-info"
    yield f"{data}/scripts/frugal", read(os.path.join(stage, "bin", "frugal")), 0o755
    yield f"{data}/data/share/man/man1/frugal.1", read(os.path.join(stage, "share", "man", "man1", "frugal.1")), 0o644
    for path in sorted(glob.glob(os.path.join(here, "python", "frugal", "*.py"))):
        yield "frugal/" + os.path.basename(path), read(path), 0o644
    for path in glob.glob(os.path.join(stage, "lib*", "**", "frugal_cuda.so"), recursive=True):
        yield "frugal/frugal_cuda.so", read(path), 0o755
    yield f"{info}/METADATA", metadata(version, read(os.path.join(here, "docs", "python.md")).decode()).encode(), 0o644
    yield f"{info}/licenses/LICENSE", read(os.path.join(here, "LICENSE")), 0o644


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, files, info, tag):
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
    record = []
    files = sorted(files) + [(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: frugal\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode(), 0o644)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for name, data, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data, mode)
        add(f"{info}/RECORD", ("".join(record) + f"{info}/RECORD,,\n").encode(), 0o644)


def audited(path, tag):
    """auditwheel's own opinion of the tag; NVIDIA's libraries are others' to bring."""
    tool = shutil.which("auditwheel") or os.path.join(os.path.dirname(sys.executable), "auditwheel")
    if not os.path.exists(tool):
        print(f"package: {os.path.basename(path)}: auditwheel is not installed; the tag is from the symbols' versions", file=sys.stderr)
        return True
    with tempfile.TemporaryDirectory() as folder:  # what it would make of the wheel is not kept: nothing is to be repaired
        said = subprocess.run([tool, "repair", "--plat", tag, "--exclude", "libcublasLt.so.13", "-w", folder, path], capture_output=True, text=True)
    text = " ".join((said.stdout + said.stderr).split())
    good = said.returncode == 0
    print(f"package: {os.path.basename(path)}: auditwheel {'agrees' if good else 'does not agree: ' + text}", file=sys.stderr)
    return good


def main():
    if sys.argv[1:] == ["--cuda"]:
        print(*CUDA)
        return 0
    parser = argparse.ArgumentParser()
    for name in ("version", "stage", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--tag")
    a = parser.parse_args()
    info = f"frugal-{a.version}.dist-info"
    files = list(files_of(a.stage, a.version, a.tag))
    needs = max([glibc_of(data) for name, data, mode in files if data.startswith(b"\x7fELF")] + [OLDEST])
    tag = a.tag or "manylinux_%d_%d_x86_64" % needs
    path = os.path.join(a.out, f"frugal-{a.version}-py3-none-{tag}.whl")
    write(path, files, info, tag)
    print(f"package: {path}, {os.path.getsize(path) / 1e6:.1f} MB, glibc {needs[0]}.{needs[1]}", file=sys.stderr)
    return 0 if a.tag or audited(path, tag) else 1


if __name__ == "__main__":
    sys.exit(main())
