"""nanoGPT's own train.py as a side of `bench/run race`, as it is published, from a copy that the user has (--nanogpt=DIR).

The commands are those of its README, eager and compiled. Its evaluations, every 250 steps, are means of random windows of the
last tenth (200 batches of 64, for the laptop 20 of 12), not the whole of it as everywhere else here; the first at or below the target ends the
run, at the latest the last one. Its evaluations and its saves are part of its time, as for everyone who types these commands."""
import os
import re
import shutil
import subprocess
import time

from common import DATA, Failed, environment

COMMAND = ["train.py", "config/train_shakespeare_char.py"]
SHAPE = {  # its README's words, the steps until its last evaluation
    "gpu": ([], 5000),
    "cpu": (["--device=cpu", "--eval_iters=20", "--log_interval=1", "--block_size=64", "--batch_size=12", "--n_layer=4", "--n_head=4",
             "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0"], 2000),
}
EVALUATED = re.compile(r"step (\d+): train loss [\d.]+, val loss ([\d.]+)")


def prepared(source, text, python):
    """A copy of it, with the text as characters."""
    folder = os.path.join(DATA, "nanogpt")
    if not os.path.isfile(os.path.join(source, COMMAND[0])):
        raise Failed(f"{source} is no copy of nanoGPT: it has no {COMMAND[0]}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(".git", "out*"))
    shutil.copy(text, os.path.join(folder, "data/shakespeare_char/input.txt"))
    done = subprocess.run([python, "data/shakespeare_char/prepare.py"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"nanoGPT's prepare.py ended with {done.returncode}: {done.stderr[-300:]}")
    return folder


def nanogpt(source, python, text, target, kind, mode):
    """What its command reached: reached, steps, loss, seconds, and the way there."""
    more, last = SHAPE[kind]
    folder, curve, begin = prepared(source, text, python), [], time.perf_counter()
    with open(os.path.join(DATA, "log"), "a") as log:
        command = [python, "-u", *COMMAND, *more, f"--compile={mode == 'compiled'}"]
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True)
    for line in process.stdout:
        found = EVALUATED.match(line)
        if not found:
            continue
        step, loss = int(found[1]), float(found[2])
        curve.append((time.perf_counter() - begin, loss))
        if loss <= target or step >= last:
            process.kill()
            process.wait()
            return {"mode": f"nanoGPT's train.py, {mode}", "reached": loss <= target, "steps": step, "loss": loss,
                    "seconds": curve[-1][0], "curve": curve}
    raise Failed(f"nanoGPT's train.py, {mode}, ended with {process.wait()}: {DATA}/log has its words")
