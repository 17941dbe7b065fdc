"""supervised.py PYTHON [--json] [--quick]: a PyTorch script that rewrites one file name for ever, under `frugal
run`, killed in the middle of its writes and resumed five times, against the same script left alone.

The script (supervised_peer.py) knows nothing of frugal: torch.save over the same name, no temporary file, no
rename. A kill comes when the file is shorter than a whole one and something new was carried since the last
kill. What is counted: kills, checkpoints carried, files put aside as possibly half, seconds of both, seconds
redone. Weights and optimiser state at the end must be those of the run alone, to the bit.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import common

KILLS = 5
HEAD = f"{'kills':>6}{'carried':>9}{'aside':>7}{'alone s':>9}{'run s':>8}{'redone s':>10}  weights"
FOLDER = os.path.join(common.DATA, "supervised")
PEER = os.path.join(common.TOP, "bench", "supervised_peer.py")


def line(r):
    return (f"{r['kills']:>6}{r['carried']:>9}{r['aside']:>7}{r['alone_s']:>9.1f}{r['run_s']:>8.1f}"
            f"{r['redone_s']:>10.1f}  {'the same bits' if r['same'] else 'DIFFERENT'}")


def read(name):
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as f:
        return f.read()


def children(pid):
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(p) for p in done.stdout.split()]


def kill_often(process, whole_bytes):
    """While it runs: how many kills."""
    kills, carried_before, model = 0, 0, os.path.join(FOLDER, "save", "model.pt")
    while process.poll() is None:
        time.sleep(0.001)
        bytes_now = os.path.getsize(model) if os.path.exists(model) else 0
        if kills == KILLS or not 0 < bytes_now < whole_bytes:
            continue
        carried = read("err").count(b" carried: ")
        if carried <= carried_before:
            continue
        for pid in children(process.pid):
            os.kill(pid, signal.SIGKILL)
        kills, carried_before = kills + 1, carried
        time.sleep(0.2)
    return kills


def main(arguments):
    python, arguments = arguments[0], arguments[1:]
    steps = "1000" if "--quick" in arguments else "2000"
    common.two_cores()
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(os.path.join(FOLDER, "alone"))
    about = common.machine(command="bench/run supervised")
    record = common.Record("supervised", HEAD, line, about, "--json" in arguments, "--quick" not in arguments)
    begin = time.perf_counter()
    if subprocess.run([python, PEER, "alone/model.pt", steps], cwd=FOLDER, stdout=subprocess.DEVNULL).returncode:
        raise common.Failed(f"{python} {PEER} failed: does it have torch?")
    middle = time.perf_counter()
    with open(os.path.join(FOLDER, "err"), "w") as err:
        process = subprocess.Popen(
            [common.FRUGAL, "run", "program.folder=save", "checkpoint.dir=kept", "program.complete=0.2",
             "program.read=json", "program.step=step", "program.loss=loss", "program.resume=[--resume]",
             "run.ledger=none", "spot.cloud=none",
             "--", python, "-u", PEER, "save/model.pt", steps],
            cwd=FOLDER, stdout=subprocess.DEVNULL, stderr=err)
        kills = kill_often(process, len(read("alone/model.pt")))
    said = read("err").decode()
    if process.returncode:
        raise common.Failed(f"frugal run ended with {process.returncode}: {said[-500:]}")
    same = subprocess.run([python, PEER, "--same", "save/model.pt", "alone/model.pt"], cwd=FOLDER).returncode == 0
    counts = re.search(r"(\d+) checkpoints? copied, ([0-9.]+) s repeated", said)
    result = {"kills": kills, "carried": int(counts[1]), "aside": said.count("no checkpoint holds"),
              "alone_s": middle - begin, "run_s": time.perf_counter() - middle, "redone_s": float(counts[2]),
              "same": same}
    record.add(result)
    return 0 if result["same"] and kills == KILLS else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except common.Failed as why:
        sys.exit(f"supervised: {why}")
