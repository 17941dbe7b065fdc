#!/usr/bin/env python3
"""On a terminal, through a real pty: the line of a run fits 80 and 60 columns behind a bar, no item of it is cut, it moves during
an evaluation; tables leave columns out instead of wrapping; help is filled to the terminal; frugal alone prints help."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from terminal import fork_on_terminal  # noqa: E402

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FRUGAL = os.environ.get("FRUGAL", os.path.join(TOP, "build", "frugal"))
if not os.access(FRUGAL, os.X_OK):
    print("no build/frugal yet")
    sys.exit(77)

ITEM = r"(loss \d+\.\d+|acc [\d.]+ %|ETA [\d:]+|[\d,.e+]+ samples/s|[\d,.e+]+ steps/s|p50/95/99 \S+ ms|wait \d+ %|MFU \d+ %)"
STEP = re.compile(rf"\[[#-]+\] step \d+/\d+(  {ITEM})*")
EVALUATING = re.compile(r"\[([#-]+)\] evaluating  step \d+  ([\d,]+) of ([\d,]+) samples")

PLANS = (("run.yaml",), ("llama-3.1-405b", "--tokens", "15e12"), ("gpt2", "--tokens", "1e9", "--deadline", "24"))


def on_terminal(columns, *arguments):
    """What the terminal gets, and the exit code."""
    pid, fd = fork_on_terminal(24, columns)
    if pid == 0:
        os.environ.update(TERM="xterm", FRUGAL_RUN_LEDGER=os.path.abspath("ledger.db"))
        os.execv(FRUGAL, [FRUGAL, *arguments])
    out = b""
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        out += part
    os.close(fd)
    return out.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def data():
    """200,000 images of 2x2 pixels in four classes; nearly all of them are held out, and evaluated one by one."""
    count = 200000
    with open("images", "wb") as f:
        f.write(struct.pack(">IIII", 0x803, count, 2, 2) + bytes.fromhex("ff00000000ff00000000ff00000000ff") * (count // 4))
    with open("labels", "wb") as f:
        f.write(struct.pack(">II", 0x801, count) + bytes([0, 1, 2, 3]) * (count // 4))
    with open("run.yaml", "w") as f:
        f.write("data: {kind: idx, path: images, labels: labels, held_out: 0.95}\n"
                "model: {layers: [flatten, {dense: 64}, relu, {dense: 4}]}\n"
                "train: {steps: 4000, batch: 4, eval_every: 4000, eval_batch: 1, log_every: 50, lr: 0.001}\n")


def check_run(columns):
    out, code = on_terminal(columns, "train", "run.yaml")
    assert code == 0, out
    drawn = [re.sub("\033\\[K.*", "", part, flags=re.S) for part in out.split("\r") if "\033[K" in part]
    steps = [line for line in drawn if " step " in line and "evaluating" not in line and line.startswith("[")]
    assert steps, f"no bar at {columns} columns: {drawn[:3]}"
    for line in drawn:
        assert len(line) < columns, f"{len(line)} characters in {columns} columns: {line}"
        assert not line or STEP.fullmatch(line) or EVALUATING.fullmatch(line), f"cut, or unknown: {line}"
    assert "loss" in steps[-1] and "acc" in steps[-1], steps[-1]
    assert steps[0].count("#") < steps[-1].count("#"), "the bar does not move"
    seen = [int(m.group(2).replace(",", "")) for m in map(EVALUATING.fullmatch, drawn) if m]
    assert len(seen) >= 2 and seen == sorted(set(seen)), f"an evaluation does not move: {seen}"


def check_tables(columns):
    for arguments, first in ((("prices",), "machine"), (("show", "run.yaml"), "  op "), (("runs",), "run "), (("profile", "run.yaml", "--seconds", "0"), "  op "),
                             *((("plan", *asked), head) for asked in PLANS for head in ("machine", "step ms"))):
        out, code = on_terminal(columns, *arguments)
        lines = re.sub("\033\\[[0-9]*[mK]", "", out).replace("\r", "").split("\n")
        if "without SQLite" in out:
            continue
        heads = [i for i, line in enumerate(lines) if line.startswith(first) or (first in ("machine", "step ms") and first in line)]
        assert code == 0 and heads, (arguments, out[:500])
        for line in lines[heads[0]:]:
            if not line.strip() or line.startswith("  dollars ="):
                break
            assert len(line) <= columns, f"frugal {arguments[0]}: {len(line)} characters in {columns} columns: {line}"


def check_prices(columns):
    """However narrow: the cloud stays, so that no two rows are the same, and so do the marks of old prices."""
    os.environ["FRUGAL_TODAY"] = "2030-01-01"
    out, code = on_terminal(columns, "prices")
    del os.environ["FRUGAL_TODAY"]
    head, *rows = re.sub("\033\\[[0-9]*[mK]", "", out).replace("\r", "").split("\n\n")[0].split("\n")
    assert head.startswith("cloud"), head
    assert code == 0 and rows and len(set(rows)) == len(rows), out
    for row in rows:
        assert re.search(r"\d\.\d\d\*", row), f"in {columns} columns an old price has no mark: {row}"
    assert "* is older than" in out, out


def reports():
    """frugal report of a run, and of two of them; nothing where there is no ledger."""
    listed = subprocess.run([FRUGAL, "runs", "--json"], capture_output=True, text=True, env={**os.environ, "FRUGAL_RUN_LEDGER": os.path.abspath("ledger.db")})
    runs = [event["run"] for event in map(json.loads, listed.stdout.splitlines()) if event["event"] == "run"]
    assert "without SQLite" in listed.stderr or len(runs) > 1, listed
    return [("report", runs[0]), ("report", runs[0], runs[1])] if runs else []


def check_fits(columns, *arguments):
    """No line is wider than the terminal; what is copied, or redrawn, may be."""
    out, _ = on_terminal(columns, *arguments)
    lines = re.sub("\033\\[[0-9]*[mK]", "", out).replace("\r\n", "\n").split("\n")
    for line in lines:
        assert len(line) <= columns or "\r" in line or is_example(line), f"frugal {arguments}: {len(line)} characters in {columns} columns: {line}"
    return lines


def check_sentences(columns):
    """Sentences and titles are broken between words, and say what they say to a pipe; a command to be copied stays one line."""
    for arguments in (("plan", "nosuch"), ("plan", "gpt2", "--tokens", "1e9"), ("plan", "mixtral-8x7b"), ("plan", "gpt2", "--runs", "8"), ("scale", "5000"), ("doctor",),
                      ("train", "run.yaml", "train.lr=1e9", "train.steps=1", "train.out=none"), *reports()):
        check_fits(columns, *arguments)
    piped = subprocess.run([FRUGAL, "plan", "nosuch"], capture_output=True, text=True)
    out, _ = on_terminal(columns, "plan", "nosuch")
    assert out.split() == (piped.stdout + piped.stderr).split() and "\n" in out.strip(), out


def check_progress():
    """Commands that redraw a line while they work end as they do in a pipe."""
    os.makedirs("photos/ant")
    for i in range(40):
        with open(f"photos/ant/{i}.jpg", "wb") as f:
            f.write(os.urandom(2000 + i))
    with open("words.txt", "w") as f:
        f.write("the quick brown fox jumps over the lazy dog " * 5000)
    for arguments, last in ((("pack", "photos", "--to", "shards/photos"), "40 samples in 1 shard"), (("tokenize", "words.txt", "--train", "300", "--tokenizer", "learned"), "tokens in")):
        out, code = on_terminal(80, *arguments)
        assert code == 0 and last.lower() in out.lower(), (arguments, code, out[-800:])


def is_example(line):
    """A command, a line of a run file with a remark, an address: copied, so it stays one line."""
    return re.match(" *((best|next) +)?frugal ", line) or "  # " in line or re.fullmatch(r" *\S+/\S+", line)


def check_help(columns):
    """Help says the same as to a pipe, in lines that fit the terminal."""
    piped = subprocess.run([FRUGAL, "help"], capture_output=True, text=True, check=True).stdout
    words = [line.split()[0] for line in piped.split("\n") if re.match("  [a-z]", line)]
    listed = subprocess.run([FRUGAL, "help", "options"], capture_output=True, text=True, check=True).stdout
    settings = re.findall(r"^  ([a-z_]+\.[a-z_0-9.]+)", listed, re.M)
    assert {"train", "claims", "options"} <= set(words) and "train.lr" in settings, (words, settings)
    assert "`frugal help plan` says more." in on_terminal(columns, "plan", "--help")[0] and "says more" not in on_terminal(columns, "help", "plan")[0]
    for arguments in ((), ("plan", "--help"), *(("help", word) for word in words + settings[::4])):
        piped = subprocess.run([FRUGAL, *(arguments or ("help",))], capture_output=True, text=True, check=True).stdout
        out, code = on_terminal(columns, *arguments)
        out = out.replace("\r\n", "\n")
        assert code == 0 and out.replace("|", "| ").split() == piped.replace("|", "| ").split(), (arguments, out)
        fits = max(map(len, piped.split("\n"))) <= columns
        assert not fits or out == piped, (arguments, out)
        for line in out.split("\n"):
            assert len(line) <= columns or is_example(line), f"frugal {arguments}: {len(line)} characters in {columns} columns: {line}"


def check_wide_tables(columns):
    """Tables with long texts: columns that do not fit are left out, or a row becomes a record."""
    with open("sweep.yaml", "w") as f:
        f.write("data: {kind: idx, path: images, labels: labels, held_out: 0.999}\n"
                "model: {layers: [flatten, {dense: 4}]}\n"
                "train: {steps: 2, batch: 4, usd_hour: 3600}\n"
                "sweep: {over: [{train.lr: [0.001, 0.002]}, {train.optimiser: [adam]}]}\n")
    for arguments, words in ((("prices", "gpus"), ("H100", "source")), (("prices", "cpus"), ("source",)), (("prices", "storage"), ("egress_internet_gb_usd",)),
                             (("prices", "billing"), ("source",)), (("sweep", "sweep.yaml"), ("trial", "settings", "train.lr=0.002", "best")),
                             (("tune", "sweep.yaml", "--seconds", "0.5"), ("lever", "speed", "1.00x"))):
        text = "\n".join(check_fits(columns, *arguments))
        for word in words:
            assert word in text, (arguments, word, text)


def figure(cell):
    """$1.234M, 5.6011, - as a number."""
    scale = {"M": 1e6, "B": 1e9}.get(cell[-1], 1)
    return 0 if cell == "-" else scale * float(re.sub("[$,MB<]", "", cell))


def check_products(lines):
    """Dollars follow from what is beside them; each factor has four digits or more, so it is off by at most 0.05 %."""
    rows = [re.match(r" *\d+[! ] +(\S+) +(\S+) +(\S+) +(\S+) ", line) for line in lines]
    rows = [[figure(cell) for cell in row.groups()] for row in rows if row and row.group(1).startswith("$")]
    assert len(rows) >= 5, lines
    for dollars, hour, billed, storage in rows:
        assert abs(dollars - hour * billed - storage) <= 0.001 * dollars + 0.5 + 0.005 * storage, (dollars, hour, billed, storage)


def check_formula():
    """How the dollars come about is said where its columns are; 80 columns have room for them."""
    for columns, asked in ((80, ("llama-3.1-405b", "--tokens", "1e13")), (80, ("mixtral-8x7b",)), (80, ("gpt2-xl", "--tokens", "3.36e10")), (60, ("gpt2", "--tokens", "1e9")), (60, ("llama-3.1-405b", "--tokens", "1e13"))):
        lines = check_fits(columns, "plan", *asked)
        head = next(line for line in lines if line.endswith(" machine"))
        whole = all(name in head for name in ("$/hour", "billed h", "storage"))
        assert whole == any(line.startswith("  dollars = $/hour") for line in lines), (asked, lines)
        assert whole or columns < 80, (asked, lines)
        if whole:
            check_products(lines)
        assert "$/hour" in head or asked[0] != "gpt2", (asked, lines)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        data()
        for columns in (80, 60):
            check_run(columns)
            check_tables(columns)
            check_prices(columns)
            check_help(columns)
        for columns in (80, 60):
            check_sentences(columns)
            check_wide_tables(columns)
        check_formula()
        check_progress()
        out, code = on_terminal(80)
        assert code == 0 and "usage: frugal COMMAND" in out, out
        os.chdir(TOP)


main()
