"""bench/run tokenize: text to tokens, frugal beside Hugging Face's tokenizers on the same cores.

The text is what UTF-8 files this machine has below /usr/share, /usr/include and /usr/lib, in the order of their names'
checksums, 100 MB of them, put together into at most 200 documents; --text=FILE takes another. The vocabulary has 50,257 tokens and is
trained by frugal from the first fifth of it (--tokenizer=PATH takes another, GPT-2's for instance). Both sides read the same
tokenizer.json and have the same two cores (CORES=N), turn by turn.

Ours is the time of the whole process: start, reading, encoding, writing and syncing the file. Theirs is only the calls that
encode texts that lie in memory (encode_batch_fast, no offsets; 8 MB a call), the faster of two ways to hand them over: whole documents, and
pieces of 16 kB cut where words end. All tokens are compared; the ratio must be 5 or more. Training is measured beside it.
"""
import array
import json
import os
import shutil
import subprocess
import sys
import time
import zlib

import common

ROUNDS, TEXT_BYTES, DOCUMENTS, LIMIT = 5, 100_000_000, 200, 5.0
TOPS = ("/usr/share", "/usr/include", "/usr/lib")
FOLDER = os.path.join(common.DATA, "tokenize")
HEAD = f"{'':<26}{'seconds':>9}{'spread':>8}{'MB/s':>8}{'ratio':>8}"
PEER = r'''
import array, json, re, sys, time
from tokenizers import Tokenizer
t = Tokenizer.from_file(sys.argv[1])
documents = [open(p, newline="", encoding="utf-8").read() for p in sys.argv[3:]]

def cut(text):
    """Pieces of about 16 kB, cut behind a line end between two characters that are no blanks."""
    pieces, at, place = [], 0, re.compile(r"(?<=[!-~])\n(?=[!-~])")
    while found := place.search(text, at + 16384):
        pieces.append(text[at:found.end()])
        at = found.end()
    return pieces + [text[at:]]

def batches(texts):
    """About 8 MB a call: what it returns takes a hundred times the room of the tokens."""
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size > 8_000_000:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


ways = {"documents": documents, "pieces": [p for d in documents for p in cut(d)]}
print("ready", flush=True)
for line in sys.stdin:
    way = line.strip()
    seconds = 0
    with open(sys.argv[2], "wb") as f:
        for texts in batches(ways[way]):
            begin = time.perf_counter()
            made = t.encode_batch_fast(texts, add_special_tokens=False)
            seconds += time.perf_counter() - begin
            for e in made:
                array.array("I", e.ids).tofile(f)
            del made
    print(seconds, flush=True)
'''
TRAIN = r'''
import sys, time
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
t = Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
texts = [open(p, newline="", encoding="utf-8").read() for p in sys.argv[3:]]
begin = time.perf_counter()
t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=int(sys.argv[1]), special_tokens=["<|endoftext|>"],
                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
print(time.perf_counter() - begin)
t.save(sys.argv[2])
'''


def line(r):
    return (f"{r['name']:<26}{r['seconds']:>9.3f}{r['spread']:>8.2f}{r['mb_s']:>8.1f}"
            + (f"{r['ratio']:>7.2f}x" if r["ratio"] else ""))


def gather(limit):
    """Files of text as the machine has them."""
    found = []
    for top in TOPS:
        for folder, _, names in os.walk(top):
            found += [os.path.join(folder, n) for n in names]
    total = 0
    for path in sorted(found, key=lambda p: zlib.crc32(p.encode())):
        try:
            if os.path.islink(path) or not 200 < os.path.getsize(path) < 4 << 20:
                continue
            with open(path, "rb") as f:
                data = f.read()
            data.decode()
        except (OSError, UnicodeDecodeError):
            continue
        if b"\0" in data:
            continue
        yield data
        total += len(data)
        if total >= limit:
            return


def make_documents(text, limit):
    """build/bench/tokenize/NNN.txt; their paths and bytes."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    if text:
        return [text], os.path.getsize(text)
    paths, total, parts, size = [], 0, [], 0
    for data in gather(limit):
        parts.append(data)
        size += len(data)
        if size >= limit // DOCUMENTS:
            paths.append(os.path.join(FOLDER, f"{len(paths):03d}.txt"))
            with open(paths[-1], "wb") as f:
                f.write(b"".join(parts))
            total, parts, size = total + size, [], 0
    return paths, total


def frugal(*arguments):
    begin = time.perf_counter()
    done = subprocess.run([common.FRUGAL, "tokenize", *arguments, "--threads", str(common.threads)], capture_output=True, text=True)
    if done.returncode:
        raise common.Failed(done.stderr.strip())
    return time.perf_counter() - begin


def peer_environment():
    return dict(common.environment(), RAYON_NUM_THREADS=str(common.threads), TOKENIZERS_PARALLELISM="true")


def train(python, paths, size):
    """Both sides learn from the same files; the tokenizer that frugal made."""
    mine, theirs = os.path.join(FOLDER, "mine"), os.path.join(FOLDER, "theirs.json")
    ours_s = frugal("--train", str(size), "--tokenizer", mine, *paths)
    done = subprocess.run([python, "-c", TRAIN, str(size), theirs, *paths], capture_output=True, text=True, env=peer_environment())
    if done.returncode:
        raise common.Failed(done.stderr.strip()[-300:])
    with open(os.path.join(mine, "tokenizer.json")) as a, open(theirs) as b:
        a, b = json.load(a)["model"], json.load(b)["model"]
    same = a["vocab"] == b["vocab"] and [m.split(" ") for m in a["merges"]] == b["merges"]
    return os.path.join(mine, "tokenizer.json"), ours_s, float(done.stdout), same


def ours(tokenizer, paths, out):
    for name in (out, out + ".json"):
        if os.path.exists(name):
            os.remove(name)
    return frugal("--tokenizer", tokenizer, "--out", out, "--separator", "none", *paths)


def theirs(peer, way):
    peer.stdin.write(way + "\n")
    peer.stdin.flush()
    answer = peer.stdout.readline()
    if not answer:
        raise common.Failed(f"tokenizers ended: {common.last_words()}")
    return float(answer)


def same_tokens(out, peer_out):
    with open(out + ".json") as f:
        wide = json.load(f)["token_type"] == "u32"
    a, b = array.array("I" if wide else "H"), array.array("I")
    with open(out, "rb") as f:
        a.frombytes(f.read())
    with open(peer_out, "rb") as f:
        b.frombytes(f.read())
    return len(a) == len(b) and all(a[i:i + 65536].tolist() == b[i:i + 65536].tolist() for i in range(0, len(a), 65536)), len(a)


def main(python, *arguments):
    rounds, text, tokenizer, limit, size = ROUNDS, None, None, TEXT_BYTES, 50257
    for a in arguments:
        if a == "--quick":
            rounds, limit, size = 1, 4_000_000, 8192
        elif a.startswith("--rounds="):
            rounds = int(a[len("--rounds="):])
        elif a.startswith("--text="):
            text = a[len("--text="):]
        elif a.startswith("--tokenizer="):
            tokenizer = a[len("--tokenizer="):]
        elif a != "--json":
            sys.exit(__doc__)
    common.two_cores()
    os.makedirs(common.DATA, exist_ok=True)
    paths, total = make_documents(text, limit)
    busy = common.busy_share()
    sample = paths[:max(1, len(paths) // 5)]
    sample_bytes = sum(map(os.path.getsize, sample))
    learned = None if tokenizer else train(python, sample, size)
    tokenizer = tokenizer or learned[0]
    out, peer_out = os.path.join(FOLDER, "ours.bin"), os.path.join(FOLDER, "theirs.bin")
    peer = subprocess.Popen([python, "-c", PEER, tokenizer, peer_out, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, env=peer_environment())
    if peer.stdout.readline() != "ready\n":
        raise common.Failed("tokenizers does not start")
    times = {"frugal": [], "documents": [], "pieces": []}
    for _ in range(rounds):
        times["frugal"].append(ours(tokenizer, paths, out))
        for way in ("documents", "pieces"):
            times[way].append(theirs(peer, way))
    peer.stdin.close()
    peer.wait()
    same, count = same_tokens(out, peer_out)
    best = min(("documents", "pieces"), key=lambda w: sorted(times[w])[rounds // 2])
    about = common.machine(command=f"bench/run tokenize --rounds={rounds}", text=f"{total} bytes in {len(paths)} documents, {count} tokens",
                           peer=common.first_line([python, "-c", "import tokenizers; print('tokenizers', tokenizers.__version__)"]),
                           busy=f"{100 * busy:.0f} % of the cores before it began")
    record = common.Record("tokenize", HEAD, line, about, "--json" in arguments, "--quick" not in arguments)

    def add(name, values, size_bytes, ratio=None):
        middle = sorted(values)[len(values) // 2]
        record.add({"name": name, "seconds": middle, "spread": common.spread(values), "mb_s": size_bytes / middle / 1e6,
                    "values": values, "ratio": ratio(middle) if ratio else None})
        return middle
    base = {way: add(f"tokenizers, {way}", times[way], total) for way in ("documents", "pieces")}
    add("frugal, same tokens" if same else "frugal, OTHER TOKENS", times["frugal"], total, lambda s: base[best] / s)
    if learned:
        add("tokenizers, training", [learned[2]], sample_bytes)
        add("frugal, same vocabulary" if learned[3] else "frugal, OTHER VOCABULARY", [learned[1]], sample_bytes, lambda s: learned[2] / s)
    ratio = base[best] / sorted(times["frugal"])[rounds // 2]
    met = same and ratio >= LIMIT and (not learned or learned[3])
    print(f"{ratio:.1f} times, must be {LIMIT:.0f}: {'met' if met else 'MISSED'}", file=sys.stderr)
    return 0 if met else 1


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except common.Failed as why:
        sys.exit(f"tokenize: {why}")
