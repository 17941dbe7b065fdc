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

LOGITS = 1e-4  # the largest difference of a logit in f32; they are of the size of 1 to 10 here
STEPS, FIRST, LATER = 20, 1e-5, 1e-4  # of AdamW; the loss before anything feeds back, and all of them, relative


def command(*arguments, code=0, rows=None):
    """Runs frugal, with rows on standard input; what it writes, or after a failure says."""
    given = {"stdin": subprocess.DEVNULL} if rows is None else {"input": rows.encode()}
    done = subprocess.run([FRUGAL, *map(str, arguments)], capture_output=True, timeout=600, **given)
    out, err = [text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr)]
    assert done.returncode == code, f"frugal {arguments}: exit {done.returncode}: {err.strip()}"
    return err if code else out


def compare(ours, theirs, exact=None):
    """Losses of the same steps. `exact`: PyTorch's in f64. Where a gradient is as small as the rounding of its sum, AdamW moves a weight by the rate
    in a direction of chance, and f32 leaves f64 by that much: twice as far, from both sides, is allowed then."""
    apart = lambda a, b: [abs(x - y) / abs(y) for x, y in zip(a, b)]
    far, allowed = apart(ours, theirs), max(LATER, 4 * max(apart(theirs, exact)) if exact else 0)
    print(f"  first loss {theirs[0]:.5f} within {far[0]:.1e} (allowed {FIRST:.0e}), {STEPS} within {max(far):.1e} (allowed {allowed:.0e})", flush=True)
    assert len(ours) == STEPS and far[0] <= FIRST and max(far) <= allowed, "losses differ"


def logits_of(how, *settings, tokens=()):
    """What show_logits prints: `how` next or cached, of each token of each line of `tokens`; classes, of each held-out sample."""
    lines = "".join(" ".join(map(str, line)) + "\n" for line in tokens)
    done = subprocess.run([os.path.join(os.path.dirname(FRUGAL), "show_logits"), how, "train.precision=fp32", *map(str, settings)], input=lines, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"show_logits {how} {settings}: {done.stderr.strip()}"
    return torch.tensor([[float(x) for x in line.split()] for line in done.stdout.splitlines()])


def same_logits(name, ours, theirs, allowed=LOGITS):
    """Every number of both, one by one."""
    assert ours.shape == theirs.shape, f"{name}: {tuple(ours.shape)} logits, not {tuple(theirs.shape)}"
    far = (ours - theirs).abs().max().item()
    print(f"  {name}: {ours.numel()} logits of up to {theirs.abs().max():.1f} within {far:.1e} (allowed {allowed:.0e})", flush=True)
    assert far <= allowed, f"{name}: logits differ"


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
