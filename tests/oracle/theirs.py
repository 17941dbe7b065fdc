"""theirs.py - what the tests against transformers share. Import it first: it starts the test again in the Python that has
transformers, which wants packages of its own (scripts/setup), or skips it."""
import importlib.util
import os
import subprocess
import sys

THEIRS = os.path.join(sys.prefix, "hf", "bin", "python")
if os.path.exists(THEIRS):
    os.execv(THEIRS, [THEIRS, *sys.argv])


def need(*packages):
    for package in packages:
        if not importlib.util.find_spec(package):
            print(f"skipped: {package} is not installed (scripts/setup check)")
            sys.exit(77)


need("torch", "transformers")

import torch

from oracle import FRUGAL

STEPS, FIRST, LATER = 20, 1e-5, 1e-4  # of AdamW; the loss before anything feeds back, and all of them, relative


def command(*arguments, code=0, rows=None):
    """Runs frugal, with rows on standard input; what it writes, or after a failure says."""
    given = {"stdin": subprocess.DEVNULL} if rows is None else {"input": rows.encode()}
    done = subprocess.run([FRUGAL, *map(str, arguments)], capture_output=True, timeout=600, **given)
    out, err = [text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr)]
    assert done.returncode == code, f"frugal {arguments}: exit {done.returncode}: {err.strip()}"
    return err if code else out


def compare(ours, theirs):
    far = [abs(a - b) / abs(b) for a, b in zip(ours, theirs)]
    print(f"  first loss {theirs[0]:.5f} within {far[0]:.1e} (allowed {FIRST:.0e}), {STEPS} within {max(far):.1e} (allowed {LATER:.0e})", flush=True)
    assert len(ours) == STEPS and far[0] <= FIRST and max(far) <= LATER, "losses differ"


def run_cases(cases):
    """All of them, or those that the command line names."""
    torch.set_num_threads(1)
    failed = 0
    for name, case in cases.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        try:
            case()
        except AssertionError as e:
            print(f"  FAILED {name}: {str(e)[:600]}", flush=True)
            failed += 1
    sys.exit(1 if failed else 0)
