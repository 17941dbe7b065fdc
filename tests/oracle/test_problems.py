#!/usr/bin/env python3
"""Twelve problems, each seeded into the program itself: build/frugal_seeded is frugal with delays at its seam to the outside world and with
/proc as a script says (tests/fake/seeded.c); data, threads, network and arithmetic are real. Each must be named, alone, with its fix; its
near miss must not be; a healthy run gets no alarm. And replayed batches must confirm a slow disk, and refute one that was slow at first only; and
a GPU that starves under somebody else's program is seen.

The clock runs twelve times as fast, so that the ten seconds after which a run is judged are one. Seeds outweigh the rest of a step, near misses
are far below the limits; but beside other programs steps take several times as long, and delays do not. So a wrong verdict counts only if others
had little of the machine meanwhile; where they always have much, the row is left out by name and the test is skipped (77)."""
# check: alone, a busy machine is not judged
import http.server, json, math, os, random, struct, subprocess, sys, tempfile, threading, zlib

from busy import Others

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEEDED = os.path.join(TOP, "build", "frugal_seeded")
if not os.path.exists(SEEDED):
    print("no build/frugal_seeded yet")
    sys.exit(77)

TURNS, TRIES = 3, 8  # wrong verdicts that count until the test fails; those and others, until the machine is too busy
OTHERS_MOST = 0.1    # of the processor time of the machine; above it a verdict does not count
left_out = []
RUN = """
data: {kind: images, path: small, image_size: 32, image_colour: false, augment: [flip], held_out: 0}
model: {layers: [{conv: 128}, relu, {conv: 128}, relu, flatten, {dense: 2}]}
train: {batch: 8, epochs: 0, steps: 1000000, lr: 0.001, max_seconds: 15, threads: 2}
loader: {workers: 1, prefetch: 8, keep: off}
"""
WIDE = "model.layers=[flatten, {dense: 8000}, relu, {dense: 2}]"  # many weights, little work
TINY = ["train.batch=1", WIDE]
PRODUCTS = ["train.threads=1", "train.batch=64", "model.layers=[flatten, {dense: 1024}, relu, {dense: 1024}, relu, {dense: 1024}, relu, {dense: 2}]"]
SAVES = ["checkpoint.dir=kept", "checkpoint.every=10", "--fresh"]
EVALUATES = ["data.held_out=0.5", "train.eval_batch=1"]
REMOTE = ["data.path=URL/small-000000.tar", "data.cache=remote"]
CROWDED = ["loader.workers=16"]

# problem, fix, (seeds, settings), (seeds, settings) of its near miss
ROWS = [
    ("slow_disk", "loader.workers=auto", ("read_ms=150", []), ("read_ms=20", ["loader.workers=4"])),  # enough of them
    ("slow_network", "loader.workers=auto", ("remote_ms=150", REMOTE + ["data.cache_bytes=0"]), ("remote_ms=150", REMOTE)),  # kept on the disk
    ("slow_augmentation", "loader.workers=auto", ("", ["data.path=large", "train.max_seconds=24"]), ("", ["data.path=medium"])),
    ("tiny_batch", "train.batch=2 train.lr_batch=1", ("", TINY), ("", TINY + ["train.memory_gib=0.18"])),  # no room for two
    ("fp32_where_bf16", "train.precision=bf16", ("isa=all clock=6", PRODUCTS), ("isa=all", ["train.precision=bf16"])),
    ("checkpoint_too_often", "checkpoint.every=auto", ("copy_ms=2000", SAVES), ("copy_ms=2000", SAVES + ["checkpoint.mtti_hours=0.0005"])),
    ("evaluation_too_often", None, ("", EVALUATES + ["train.eval_every=1"]), ("", EVALUATES + ["train.eval_every=1000000"])),
    ("logging_every_step", "train.log_every=0", ("tell_ms=500", ["train.log_every=1"]), ("tell_ms=10", ["train.log_every=20"])),
    ("one_slow_core", "train.threads=1", ("mhz=900", []), ("mhz=2000", [])),  # worth its seat
    ("swapping", "train.micro_batch=4", ("swap_mib_s=20 stalled=0.3", []), ("swap_mib_s=0.5 stalled=0.3", [])),
    ("too_many_workers", "loader.workers=9", ("free_gib=1 own_gib=10 stalled=0.2", CROWDED), ("free_gib=3 own_gib=10 stalled=0.2", CROWDED)),
    ("oscillation", "loader.prefetch=4", ("wave_s=8 wave_low=0.05", ["loader.prefetch=2", "train.max_seconds=30"]),
     ("wave_s=8 wave_low=0.4", ["loader.prefetch=2", "train.max_seconds=30"])),
]


def write_png(path, side, rng):
    """Grey, of four values: so that it takes some work to inflate."""
    rows = b"".join(b"\0" + bytes(rng.choices(b"\0\x50\xa0\xf0", k=side)) for _ in range(min(side, 64))) * (side // min(side, 64))
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def write_pictures(name, side, count):
    rng = random.Random(side)
    for i in range(count):
        os.makedirs(f"{name}/{'ab'[i % 2]}", exist_ok=True)
        write_png(f"{name}/{'ab'[i % 2]}/{i}.png", side, rng)


class Ranges(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", 1 << 20  # else the second packet of an answer waits for an ACK of the first

    def log_message(self, *args):
        pass

    def do_GET(self):
        name = os.path.basename(self.path)
        whole = open(name, "rb").read() if os.path.exists(name) else b""
        first, last = (int(x) for x in self.headers["Range"].removeprefix("bytes=").split("-"))
        body = whole[first:last + 1]
        self.send_response(206 if body else 404)
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(whole)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def frugal(command, seeds, settings):
    """What the program says, event by event."""
    env = {**os.environ, "FRUGAL_RUN_LEDGER": "none", "FRUGAL_TRAIN_PRECISION": "fp32", "FRUGAL_VECTORS": "avx2", "SEEDED": "clock=12 " + seeds.replace("isa=all", "")}
    if "isa=all" in seeds:
        del env["FRUGAL_VECTORS"]
    done = subprocess.run([SEEDED, *command, "--json", *[s.replace("URL", URL) for s in settings]], env=env, capture_output=True, timeout=300)
    assert done.returncode == 0, (command, settings, done.stderr.decode())
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def verdict(command, seeds, settings):
    events = frugal(command, seeds, settings)
    at = [i for i, e in enumerate(events) if e["event"] == "verdict"][-1:]  # the last: those before it are of the run so far
    return events[at[0]] if at else None, [e for e in events[at[0]:] if e["event"] == "problem"] if at else [], events[-1]


def shares(done):
    split = done.get("split_ns", {})
    return {k: round(v / sum(split.values()), 3) for k, v in split.items() if v}


class Busy(Exception):
    pass


def undisturbed(wanted, attempt):
    """What `attempt` finds, or, if that is None and its text, what it finds next. What disturbs the machine for a second or two may spoil
    a turn or two, which is told."""
    wrong = 0
    for turn in range(TRIES):
        with Others() as others:
            found, text = attempt()
        if found is not None:
            return found
        print(f"not {wanted}, turn {turn + 1}, others had {100 * others.part:.0f} % of the machine: {text}", flush=True)
        wrong += others.part <= OTHERS_MOST
        assert wrong < TURNS, f"not {wanted} in {TURNS} turns that nobody disturbed"
    raise Busy(wanted)


def judged(wanted, seeds, settings):
    """A run that ends in these problems, each of them worth a tenth of it."""
    def attempt():
        found, ailing, done = verdict(["train", "run.yaml"], seeds, settings)
        right = found and [a["problem"] for a in ailing] == wanted and all(a["gain"] >= 0.1 for a in ailing)
        return (found, ailing) if right else None, f"{seeds} {settings}: {found} {ailing} {shares(done)}"
    return undisturbed(wanted or "healthy", attempt)


def check_row(name, fix, seeded, near):
    found, problems = judged([name], *seeded)
    if name == "evaluation_too_often":  # so that it takes a twentieth
        fix = f"train.eval_every={math.ceil(found['part'] / (1 - found['part']) * 0.95 / 0.05)}"
    assert problems[0]["fix"] == fix, (name, problems[0], fix)
    judged([], *near)
    print(f"{name}: {fix}", flush=True)


def check_healthy():
    found, _ = judged([], "", [])
    assert found["bound"] in ("compute", "memory bandwidth") and found["usage"] == "steady-high", found


def replayed(seeds, wanted, right):
    """The disk as `frugal profile` judges it, once it was tried out with batches from memory."""
    def attempt():
        found, ailing, _ = verdict(["profile", "run.yaml", "--seconds", "6"], seeds, [])
        good = found and found["bound"] == "data" and [a["problem"] for a in ailing] == ["slow_disk"] and right(ailing[0])
        return ailing[0] if good else None, f"{found} {ailing}"
    slow = undisturbed(wanted, attempt)
    print(f"{wanted} by {seeds}: with batches from memory a sample takes {100 * slow['measured']:.0f} % less", flush=True)


def check_replay():
    """Slow all the time: confirmed. Slow at first only: the run did wait, and the experiment refutes it."""
    replayed("read_ms=150", "slow_disk confirmed", lambda a: a["confirmed"] and a["measured"] > 0.3)
    replayed("clock=6 read_ms=400 reads=16", "slow_disk refuted", lambda a: not a["confirmed"])


def gpu_run(low):
    """What `frugal run` says of a driver's library that tells of a GPU that starves every other half second."""
    env = {**os.environ, "FRUGAL_RUN_LEDGER": "none", "SEEDED": "clock=12", "FAKE_NVML_WAVE": f"250:{low}",
           "FRUGAL_NVML": os.path.join(TOP, "build", "libfake_nvml.so")}
    done = subprocess.run([SEEDED, "run", "--", "sleep", "2"], env=env, capture_output=True, timeout=300)
    assert done.returncode == 0, done
    return [line for line in done.stderr.decode().splitlines() if line.startswith("frugal: GPUs: oscillating")]


def check_gpu():
    """Somebody else's program under `frugal run`."""
    for low, named in ((5, True), (40, False)):  # percent
        def attempt():
            said = gpu_run(low)
            return said if bool(said) == named else None, said
        print(undisturbed(f"a GPU at {low} %", attempt) or "no GPU starves", flush=True)


def unless_busy(check, *arguments):
    try:
        check(*arguments)
    except Busy as what:
        left_out.append(str(what))


def main():
    write_pictures("small", 32, 64)
    write_pictures("medium", 128, 16)
    write_pictures("large", 2048, 8)
    with open("run.yaml", "w") as f:
        f.write(RUN)
    subprocess.run([os.path.join(TOP, "build", "frugal"), "pack", "small", "--to", "small"], check=True, capture_output=True)
    unless_busy(check_healthy)
    for row in ROWS:
        if row[0] == "fp32_where_bf16" and "avx512_bf16" not in open("/proc/cpuinfo").read():
            print("fp32_where_bf16 was left out: this processor has no products in bf16")
        else:
            unless_busy(check_row, *row)
    unless_busy(check_replay)
    unless_busy(check_gpu)


with tempfile.TemporaryDirectory() as folder, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges) as server:
    os.chdir(folder)
    URL = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    main()
    server.shutdown()
    os.chdir(TOP)
if left_out:
    print(f"the machine is too busy with other work to judge: {', '.join(left_out)}")
    sys.exit(77)
