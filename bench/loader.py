"""loader.py PYTHON [--quick] [--json] [--rounds=N]: pictures a second and core, beside torch's DataLoader.

500 JPEGs of 500x375 with a photograph's spectrum (bench/photos.c), the same files for both sides: random-resized
crop to 224, flip, normalise, f32 batches of 64, in epochs without end. Ours is the loader (bench/loader.c) with as
many threads a stage as cores, theirs torch's DataLoader with torchvision's transforms on Pillow and as many workers
as cores, whose main process only takes batches. Both are held on the same cores, first one, then all (CORES in
the environment: so many), and take turns, each for SECONDS after a warm-up. Ours must be 3 times theirs.
"""
import os
import statistics
import subprocess
import sys

import common

ROUNDS, SECONDS, MUST, PHOTOS = 5, 5, 3, 500
HEAD = f"{'cores':>5}{'ours':>12}{'torch':>12}  img/s a core  {'ratio':>7}{'spread':>8}{'must':>6}"
FOLDER = os.path.join(common.DATA, "photos")


def line(r):
    return (f"{r['cores']:>5}{r['ours']:>12.0f}{r['torch']:>12.0f}{'':>16}{r['ratio']:>7.2f}{r['spread']:>8.2f}{MUST:>5}x  "
            + ("yes" if r["ratio"] >= MUST else "NO") + ("  DISTURBED" if r["busy"] > common.BUSY_MAX else ""))


def tool(name, *arguments):
    done = subprocess.run([os.path.join(common.TOP, "build", f"bench_{name}"), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise common.Failed(f"bench_{name} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def make_photos():
    if not os.path.exists(os.path.join(FOLDER, "made")):
        common.note(f"making {PHOTOS} pictures in {FOLDER}")
        common.note(tool("photos", FOLDER, str(PHOTOS)).strip())
        open(os.path.join(FOLDER, "made"), "w").close()


def ours(cores, seconds):
    """The last line of the table: cores, img/s, ..."""
    return float(tool("loader", FOLDER, str(seconds), str(cores)).splitlines()[-1].split()[1])


def peer_start(python, cores):
    process = common.spawn([python, os.path.join(common.TOP, "bench", "loader_peer.py"), FOLDER, str(cores)], stdin=subprocess.PIPE)
    versions = process.stdout.readline().strip()
    if not versions:
        raise common.Failed(f"torch, torchvision and Pillow do not start: {common.last_words()}")
    return process, versions


def theirs(process, seconds):
    process.stdin.write(f"{seconds}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def measure(python, cores, rounds, seconds):
    """A row, and what the other side is."""
    common.use_cores(cores)
    busy = common.busy_share()
    peer, versions = peer_start(python, cores)
    rates = [(ours(cores, seconds), theirs(peer, seconds)) for _ in range(rounds)]
    peer.stdin.close()
    peer.wait()
    ratios = [a / b for a, b in rates]
    return {"cores": cores, "ours": statistics.median(a for a, _ in rates) / cores,
            "torch": statistics.median(b for _, b in rates) / cores, "ratio": statistics.median(ratios),
            "spread": common.spread(ratios), "busy": busy, "rates": rates}, versions


def main(python, *arguments):
    rounds, seconds = ROUNDS, SECONDS
    for a in arguments:
        if a == "--quick":
            rounds, seconds = 1, 2
        elif a.startswith("--rounds="):
            rounds = int(a[len("--rounds="):])
        elif a != "--json":
            sys.exit(__doc__)
    os.makedirs(common.DATA, exist_ok=True)
    make_photos()
    everything = sorted(os.sched_getaffinity(0))
    most, record, failed = int(os.environ.get("CORES", len(everything))), None, False
    for cores in sorted({1, most}):
        os.sched_setaffinity(0, everything)
        row, versions = measure(python, cores, rounds, seconds)
        about = common.machine(command=f"bench/run loader --rounds={rounds}", peer=versions)
        record = record or common.Record("loader", HEAD, line, about, "--json" in arguments, "--quick" not in arguments)
        record.add(row)
        failed |= row["ratio"] < MUST
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(os.path.abspath(sys.argv[1]), *sys.argv[2:]))
    except common.Failed as why:
        sys.exit(f"loader: {why}")
