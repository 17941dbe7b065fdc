"""What the drivers of bench/run share: running frugal, other work on the machine, what is kept.

A driver NAME.py prints a table (with --json an object a row) and appends it to
bench/results/NAME-DATE.txt and .json through `Record`, a row at a time, under a head that says
machine, date and commit. A figure is the median of its rounds, its spread (max - min) / median.
"""
import datetime
import glob
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import time
import zlib

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FRUGAL = os.path.join(TOP, "build", "frugal")
DATA = os.path.join(TOP, "build", "bench")
RESULTS = os.path.join(TOP, "bench", "results")
threads = 2
BUSY_MAX = 0.10  # above it a row was measured beside other work and is worth little


class Failed(Exception):
    pass


def note(text):
    print(text, file=sys.stderr, flush=True)


def flags(arguments, usage, quick, rows=False, **given):
    """The values of --NAME=VALUE, each of its default's type; with --quick, `quick` in the first one's place. A fresh
    --seed, and what is no flag, where a driver takes rows."""
    given, words, first = {**given, "seed": random.SystemRandom().randrange(1 << 32)}, [], next(iter(given))
    for a in arguments:
        name, equals, value = a.removeprefix("--").partition("=")
        if a == "--quick":
            given[first] = quick
        elif a.startswith("--") and equals and name in given:
            given[name] = type(given[name])(value)
        elif rows and not a.startswith("-"):
            words.append(a)
        elif a != "--json":
            sys.exit(usage)
    return (*given.values(), words) if rows else tuple(given.values())


def two_cores():
    """This process and all it starts stay on the same two cores, or as many as CORES says."""
    use_cores(int(os.environ.get("CORES", 2)))


def use_cores(count):
    """The same for any number of cores, as many threads on each side."""
    global threads
    threads = count
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


# ---- data in build/bench ----

def put(name, data):
    """Writes build/bench/NAME, whole or not at all."""
    os.makedirs(DATA, exist_ok=True)
    with open(os.path.join(DATA, name + ".part"), "wb") as f:
        f.write(data)
    os.rename(os.path.join(DATA, name + ".part"), os.path.join(DATA, name))


TEXT_BYTES = 4 << 20
TEXT_FILES = ("/usr/share/common-licenses/*", "/usr/lib/*/perl-base/**/*.pm", "/usr/include/linux/**/*.h")


def make_text():
    """build/bench/text.txt: English, Perl and C from base-files, perl-base and linux-libc-dev, which
    every Debian with a compiler has. The files come in the order of their names' checksums, so that
    the end, which is held out, is of the same kind as the rest."""
    path = os.path.join(DATA, "text.txt")
    if os.path.exists(path):
        return path
    files = [f for pattern in TEXT_FILES for f in glob.glob(pattern, recursive=True)
             if os.path.isfile(f) and not os.path.islink(f)]
    text = bytearray()
    for file in sorted(files, key=lambda f: zlib.crc32(f.encode())):
        with open(file, "rb") as f:
            text += f.read()
    if len(text) < TEXT_BYTES:
        raise Failed(f"{' '.join(TEXT_FILES)} hold only {len(text)} bytes, not {TEXT_BYTES}")
    put("text.txt", text[:TEXT_BYTES])
    return path


# ---- processes ----

def environment():
    return dict(os.environ, FRUGAL_RUN_LEDGER="none", OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                TORCHINDUCTOR_CACHE_DIR=os.path.join(DATA, "inductor"))


def spawn(command, **more):
    with open(os.path.join(DATA, "log"), "a") as log:
        return subprocess.Popen(command, cwd=DATA, env=environment(), stdout=subprocess.PIPE,
                                text=True, stderr=log, **more)


def last_words():
    with open(os.path.join(DATA, "log")) as f:
        return "".join(f.readlines()[-5:]).strip()


def reap(process):
    """Waits; returns the process's peak resident bytes as the kernel counted them."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss * 1024


def train(file, *settings, fine=(0,), program=FRUGAL):
    """`frugal train FILE SETTINGS`: its events, seconds from spawn to the done event, and the peak
    resident bytes. A setting or value that frugal does not know is a failure, as is an exit code that is not `fine`."""
    begin, events, seconds = time.perf_counter(), [], None
    process = spawn([program, "train", os.path.join(TOP, file), "--json", *settings])
    for line in process.stdout:
        events.append(json.loads(line))
        if events[-1]["event"] == "done":
            seconds = time.perf_counter() - begin
    peak = reap(process)
    if process.returncode not in fine or seconds is None:
        why = (events and events[-1].get("text")) or last_words()
        raise Failed(f"frugal train {file} {' '.join(settings)} ended with {process.returncode}: {why}")
    return events, seconds, peak


# ---- the protocol ----

def busy_share():
    """How busy our cores are while we wait: others' work, which disturbs the figures."""
    ours = {f"cpu{n}" for n in os.sched_getaffinity(0)}

    def ticks():
        with open("/proc/stat") as f:
            lines = [line.split() for line in f]
        times = [[int(n) for n in line[1:]] for line in lines if line[0] in ours]
        return sum(map(sum, times)), sum(t[3] + t[4] for t in times)
    total, idle = ticks()
    time.sleep(0.3)
    total_after, idle_after = ticks()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def spread(values):
    return (max(values) - min(values)) / statistics.median(values)


# ---- what is printed and kept ----

def first_line(command):
    try:
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
        return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else "unknown"
    except OSError:
        return "unknown"


def machine(**more):
    """The head of a table; `more` are its last lines."""
    fields = {}
    with open("/proc/cpuinfo") as f:
        for line in f:
            if ":" in line:
                key, value = line.split(":", 1)
                fields.setdefault(key.strip(), value.strip())
    flags = fields.get("flags", "").split()
    wide = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_tile") if f in flags]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    changed = first_line(["git", "status", "--porcelain", "-uno"]) != "unknown"
    return {
        "machine": f"{fields.get('model name', platform.machine())} (family "
                   f"{fields.get('cpu family', '?')}, model {fields.get('model', '?')}), "
                   f"{' '.join(wide)}; {os.cpu_count()} cores, {memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, {first_line(['cc', '--version'])}",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "frugal": first_line([FRUGAL, "version"]),
        "commit": first_line(["git", "rev-parse", "--short", "HEAD"]) + (" and changes" if changed else ""),
        **more,
        "threads": threads,
    }


# ---- what was kept before ----

def kept(name):
    """The rows of bench/results/NAME-DATE.json, the oldest first; `file` is where each stands."""
    rows = []
    for path in sorted(glob.glob(os.path.join(RESULTS, name + "-*.json"))):
        file = os.path.basename(path)
        if re.fullmatch(re.escape(name) + r"-\d{4}-\d\d-\d\d\.json", file):
            with open(path) as f:
                rows += [{**json.loads(line), "file": file} for line in f]
    return sorted(rows, key=lambda r: r["date"])


def is_quiet(row):
    """Whether nothing else ran on the cores while the row was measured, as far as that was kept."""
    busy = row.get("busy", 0)
    return not isinstance(busy, (int, float)) or busy <= BUSY_MAX


def newest(name, /, **wanted):
    """The newest row whose fields match the regular expressions `wanted`; a disturbed one, or one without the peer that others
    have, only where there is no other."""
    rows = [r for r in kept(name) if all(re.fullmatch(w, str(r.get(key))) for key, w in wanted.items())]
    if not rows:
        raise Failed(f"bench/results has no row of {name} with {wanted}")
    rows = [r for r in rows if r.get("torch", "") is not None] or rows
    return ([r for r in rows if is_quiet(r)] or rows)[-1]


def newest_set(name, whole):
    """The rows of the newest call of bench/run NAME of which whole(rows) is true."""
    rows = kept(name)
    for date in sorted({r["date"] for r in rows}, reverse=True):
        one = [r for r in rows if r["date"] == date]
        if whole(one):
            return one
    raise Failed(f"bench/results has no whole run of {name}")


def between(text, begin, end, body):
    """The text with what stands between its one line that begins with `begin` and the next line `end` replaced; `begin`
    itself is part of `body`. Where the marks are not there once, it fails."""
    found = re.findall(rf"^{re.escape(begin)}[^\n]*\n.*?^{re.escape(end)}$", text, re.M | re.S)
    if len(found) != 1:
        raise Failed(f"'{begin}' stands {len(found)} times, not once, before '{end}'")
    return text.replace(found[0], f"{body}{end}")


def replace(path, text):
    """The file is the old or the whole new one."""
    with open(path + ".part", "w") as f:
        f.write(text)
    os.rename(path + ".part", path)


def figure(value):
    return "-" if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


class Record:
    """A table as it grows: on the screen and in the day's files, the one for people and the one with
    an object a line for programs. `line` makes a row's text of its object; a trial is not kept. BENCH_RESULTS names another folder for both."""

    def __init__(self, name, head, line, about, as_json, kept=True):
        folder = os.environ.get("BENCH_RESULTS") or RESULTS
        os.makedirs(folder, exist_ok=True)
        self.head, self.line, self.about = head, line, about
        self.as_json, self.kept = as_json, kept
        self.path = os.path.join(folder, f"{name}-{about['date'][:10]}")
        self.begun = False
        if not as_json:
            print(head, flush=True)

    def add(self, result):
        print(json.dumps(result) if self.as_json else self.line(result), flush=True)
        if not self.kept:
            return
        with open(self.path + ".txt", "a") as f:
            if not self.begun:
                f.write("\n" if f.tell() else "")
                f.write("".join(f"{key + ':':<9}{value}\n" for key, value in self.about.items()))
                f.write("\n" + self.head + "\n")
            f.write(self.line(result) + "\n")
        with open(self.path + ".json", "a") as f:
            f.write(json.dumps({**self.about, **result}) + "\n")
        self.begun = True
