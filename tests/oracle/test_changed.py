#!/usr/bin/env python3
"""Settings and data that change between a checkpoint and its resumption: each is refused, reported or free, as the
column `resume` of src/train/options.def has it. The checkpoint of step 40 of 60 is left; a copy of its folder is resumed
with one change. What the column calls free must give the weights of a run that was never interrupted, to the bit."""
import gzip
import http.server
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FRUGAL = os.environ.get("FRUGAL", os.path.join(TOP, "build", "frugal"))

LAYERS = "model: {layers: [flatten, {dense: 8}, relu, {dropout: 0.1}, {dense: 4}]}\n"
TRAIN = "train: {steps: 60, batch: 32, eval_every: 20, threads: 2%s}\n"
BASES = {
    "idx": "data: {kind: idx, path: images, labels: labels}\n" + LAYERS + TRAIN % ", schedule: cosine",
    "idx constant": "data: {kind: idx, path: images, labels: labels}\n" + LAYERS + TRAIN % "",
    "idx eval": "data: {kind: idx, path: images, labels: labels, eval_path: images2, eval_labels: labels2}\n" + LAYERS + TRAIN % "",
    "idx gz": "data: {kind: idx, path: images.gz, labels: labels}\n" + LAYERS + TRAIN % "",
    "sgd": "data: {kind: idx, path: images, labels: labels}\n" + LAYERS + TRAIN % ", optimiser: sgd",
    "wsd": "data: {kind: idx, path: images, labels: labels}\n" + LAYERS + TRAIN % ", schedule: wsd",
    "bf16": "data: {path: text, context: 8}\nmodel: {kind: gpt, depth: 1, width: 16, heads: 2}\n" + TRAIN % ", precision: bf16",
    "muon": "data: {path: text, context: 8}\nmodel: {kind: gpt, depth: 1, width: 16, heads: 2}\n" + TRAIN % ", optimiser: muon",
    "lora": "data: {path: text, context: 8}\nmodel: {kind: gpt, depth: 1, width: 16, heads: 2}\n" + TRAIN % ", lora: {rank: 2}, init: weights",
    "adapters": "data: {path: text, context: 8}\nmodel: {kind: hf, path: exported}\n" + TRAIN % ", lora: {rank: 2}",
    "tokens": "data: {kind: tokens, path: tokens.bin, context: 8}\nmodel: {kind: gpt, depth: 1, width: 16, heads: 2}\n" + TRAIN % "",
    "pieces": "data: {kind: tokens, path: tokens.bin, context: 8, pieces: 4}\nmodel: {kind: gpt, depth: 1, width: 16, heads: 2}\n" + TRAIN % "",
    "documents": "data: {kind: tokens, path: tokens.bin, context: 8, documents: 5}\nmodel: {kind: gpt, depth: 1, width: 16, heads: 2, window: 3}\n" + TRAIN % "",
    "lines": "data: {files: [text, more], context: 8}\nmodel: {kind: encoder, depth: 1, width: 16, heads: 2}\n" + TRAIN % "",
    "texts": "data: {path: texts.csv, text: t, label: y, tokenizer: made, context: 8}\nmodel: {kind: encoder, depth: 1, width: 16, heads: 2}\n" + TRAIN % "",
    "chat": "data: {kind: chat, path: talks.jsonl, tokenizer: made, template: [chatml], context: 60}\nmodel: {kind: gpt, depth: 1, width: 16, heads: 2}\n" + TRAIN % "",
    "csv": "data: {path: table.csv, label: y, numeric: [a], categorical: [b]}\nmodel: {kind: ranker}\n" + TRAIN % "",
    "csv rows": "data: {path: table.csv, label: y, numeric: [a], categorical: [b]}\nmodel: {kind: ranker}\n" + TRAIN % ", tables: adam",
    "idx best": "data: {kind: idx, path: images, labels: labels}\n" + LAYERS + TRAIN % ", keep_best: true",
    "idx patient": "data: {kind: idx, path: images, labels: labels}\n" + LAYERS + TRAIN % ", patience: 50",
    "shards": "data: {path: packed-000000.tar, image_size: 8}\n" + LAYERS + TRAIN % "",
    "images": "data: {path: pictures, image_size: 8}\n" + LAYERS + TRAIN % "",
}

# The same on every processor; the environment would win over the file of "bf16".
BASES = {name: text if "precision:" in text else text.replace("threads: 2", "threads: 2, precision: fp32") for name, text in BASES.items()}

# What is compared is the course of the steps: train.keep_best=auto changes none, but may choose other weights where evaluations changed.
BASES = {name: text if "keep_best:" in text else text.replace("threads: 2", "threads: 2, keep_best: false") for name, text in BASES.items()}

# base, change: a setting (more of them come along), or what happens to a file. Files are refused whatever the table says.
CASES = [
    ("idx", "data.samples=300"), ("idx", "data.held_out=0.2"), ("idx", "data.eval_samples=10"),
    ("tokens", "data.context=4"), ("tokens", "data.vocabulary=300"), ("tokens", "data.documents=5"), ("tokens", "data.windows=fixed"), ("tokens", "data.pieces=2"),
    ("documents", "data.documents=6"), ("texts", "data.text=u"), ("texts", "data.tokenizer=made2"), ("chat", 'data.template=["{role} {content}"]'),
    ("documents", "model.window=4"), ("documents", "train.eval_batch=7"), ("csv", "data.buckets=500"),
    ("csv", "train.tables=adagrad"), ("csv rows", "model.table_dtype=bf16"), ("csv", "data.numeric=[]"), ("csv", "data.label=a data.numeric=[y]"), ("lines", "train.shuffle=by_length"),
    ("images", "data.augment=crop"), ("images", "data.augment=none"), ("images", "data.image_size=6"),
    ("images", "data.image_colour=false"), ("images", "data.image_normalise=half"), ("images", "data.shuffle_block=3"),
    ("images", "data.on_error=skip"), ("images", "loader.workers=1"), ("idx gz", "data.cache=elsewhere"),
    ("idx", "model.layers=[flatten, {dense: 8}, relu, {dropout: 0.2}, {dense: 4}]"), ("muon", "model.dropout=0.2"), ("muon", "model.attention_dropout=0.2"),
    ("muon", "model.activation=relu2"),
    ("idx", "train.batch=16"), ("idx", "train.micro_batch=8"), ("idx", "train.drop_last=true"), ("idx", "train.shuffle=false"),
    ("idx", "train.seed=9"), ("idx", "train.optimiser=sgd"), ("idx", "train.precision=bf16"), ("idx", "train.freeze=*.bias"),
    ("bf16", "train.fp8=on"), ("lora", "train.lora.rank=3"), ("lora", "train.lora.alpha=3"), ("lora", "train.lora.on=[c_fc]"),
    ("lora", "train.lora.dropout=0.1"), ("adapters", "train.lora.weights=nf4"),
    ("idx", "train.lr=0.01"), ("idx", "train.beta1=0.8"), ("idx", "train.beta2=0.9"), ("idx", "train.eps=1e-6"),
    ("idx", "train.decay=0.1"), ("idx", "train.clip=0.5"), ("sgd", "train.momentum=0.5"), ("sgd", "train.nesterov=true"),
    ("muon", "train.muon_lr=0.01"), ("idx", "train.schedule=linear"), ("idx", "train.lr_end=0.2"), ("idx", "train.warmup=3"),
    ("idx", "train.lr_batch=64"), ("wsd", "train.decay_part=0.5"), ("idx", "train.keep_best=true"),
    ("idx", "train.rollbacks=2"), ("idx", "train.noise_scale=true"), ("bf16", "train.wide_sums=true"),
    ("bf16", "train.stochastic_rounding=true"), ("idx", "train.fuse=none"), ("idx", "train.deterministic=false"),
    ("idx", "train.target=1"), ("idx", "train.target_metric=loss"), ("idx", "train.min_improvement=0.1 train.patience=50"),
    ("idx", "train.forecast=0.9 train.target=1"), ("csv", "data.categorical=[]"), ("tokens", "data.token_type=u32"),
    ("tokens", "data.kind=text data.path=text"), ("idx", "train.patience=50"), ("idx", "train.max_seconds=1000"),
    ("idx", "train.max_dollars=1000 train.usd_hour=1"), ("idx", "train.epochs=4"), ("idx constant", "train.epochs=4"),
    ("idx constant", "train.steps=50"), ("idx", "train.steps=50"), ("pieces", "train.steps=100"),
    ("idx", "train.eval_every=7"), ("idx", "train.eval_batch=7"), ("idx", "train.threads=1"), ("idx", "train.join_s=5"), ("idx", "train.shard=state"), ("idx", "train.shard_over=machine train.shard=state"), ("idx", "train.recompute=all"),
    ("idx", "train.memory_gib=4"), ("idx", "train.log_every=1"), ("idx", "checkpoint.every=3"), ("idx", "checkpoint.keep=1"),
    ("idx", "run.name=other"), ("idx", "train.compile=max-autotune"), ("idx", "train.device=cpu"), ("idx", "train.gradients=g.safetensors"),
    ("idx", "train.allow=[lr_unusual]"), ("shards", "data.cache_bytes=1e9"), ("images", "loader.prefetch=3"),
    ("idx", "other content: images"), ("idx", "other content: labels"), ("idx eval", "other content: images2"),
    ("idx eval", "other content: labels2"), ("muon", "other content: text"), ("muon", "longer: text"),
    ("tokens", "other content: tokens.bin"), ("csv", "other content: table.csv"), ("lines", "data.files=[more,text]"),
    ("lines", "other content: more"), ("images", "renamed: pictures/0/0.png"), ("images", "longer: pictures/1/3.png"),
    ("images", "other content: pictures/2/7.png"), ("shards", "other content: packed-000000.tar"), ("shards", "data.path=./packed-000000.tar"),
    ("idx best", "train.eval_every=7"), ("idx patient", "train.eval_every=7"),
    ("idx", "moved: images"), ("images", "moved: pictures"),
]

# Free ones that a case cannot compare with a run that had them from the beginning.
FREE_WITHOUT = {
    "data.labels": "a name: the content counts", "data.eval_path": "likewise", "data.eval_labels": "likewise",
    "train.init": "of the beginning alone", "train.rename": "likewise", "train.init_strict": "likewise", "train.loss_scale": "likewise",
    "train.out": "every case has another", "train.recipe": "fills in settings, which are compared",
}


def column():
    """{key: word} of the table."""
    with open(os.path.join(TOP, "src", "train", "options.def")) as f:
        text = f.read()
    rows = re.findall(r"^(?:SCALAR|LIST)\([A-Z]+, ([a-z_.0-9]+),.*?\n? +(EQUAL|COURSE|FREE|END|LENGTH|EVALS), \"", text, re.M | re.S)
    assert len(rows) > 100, "the table is not read as we think"
    return dict(rows)


def png(path, value, more=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes((value * 7 + x * 3 + y) % 256 for x in range(30)) for y in range(10))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 10, 10, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"") + bytes(more))


def make_data():
    for name, count in (("images", 400), ("images2", 100)):
        with open(name, "wb") as f:
            f.write(struct.pack(">IIII", 0x803, count, 4, 4) + bytes((i * i // 7) % 251 for i in range(16 * count)))
    for name, count in (("labels", 400), ("labels2", 100)):
        with open(name, "wb") as f:
            f.write(struct.pack(">II", 0x801, count) + bytes(i % 4 for i in range(count)))
    with open("images.gz", "wb") as f:
        f.write(gzip.compress(read("images")))
    with open("text", "w") as f:
        f.write("".join(f"line {i * i} of the text\n" for i in range(400)))
    with open("more", "w") as f:
        f.write("".join(f"something else, {i * 3}\n" for i in range(400)))
    with open("tokens.bin", "wb") as f:
        f.write(struct.pack("<4000H", *((i * i) % 97 for i in range(4000))))
    with open("table.csv", "w") as f:
        f.write("y,a,b\n" + "".join(f"{i % 2},{i % 7},{i % 5}\n" for i in range(500)))
    with open("texts.csv", "w") as f:
        f.write("t,u,y\n" + "".join(f"text {i % 11},other {i % 13},{'ab'[i % 2]}\n" for i in range(500)))
    with open("talks.jsonl", "w") as f:
        f.writelines(f'{{"messages": [{{"role": "user", "content": "{i}"}}, {{"role": "assistant", "content": "so {i * i}"}}]}}\n' for i in range(500))
    for name, size in (("made", "270"), ("made2", "280")):
        assert frugal("tokenize", "--train", size, "--tokenizer", name, "text")[0] == 0
    for label in range(4):
        os.makedirs(f"pictures/{label}")
        for i in range(40):
            png(f"pictures/{label}/{i}.png", label * 40 + i)
    with open("first.yaml", "w") as f:
        f.write(BASES["muon"])
    code, _, err = frugal("train", "first.yaml", "train.steps=1", "train.out=weights")
    assert code == 0, err
    code, _, err = frugal("export", "weights", "exported")
    assert code == 0, err
    code, _, err = frugal("pack", "pictures", "--to", "packed")
    assert code == 0 or "built without" in err, err


def frugal(*arguments):
    done = subprocess.run([FRUGAL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**os.environ, "FRUGAL_RUN_LEDGER": "none", "FRUGAL_SPOT_CLOUD": "none", "XDG_CACHE_HOME": os.path.abspath("cache")})
    return done.returncode, done.stdout, done.stderr


def read(path):
    with open(path, "rb") as f:
        return f.read()


def settings_of(change):
    """'a=1 b=[c, d]' as arguments; a blank inside brackets or braces ends none."""
    out, depth = [""], 0
    for c in change:
        depth += (c in "[{") - (c in "]}")
        if c == " " and not depth:
            out.append("")
        else:
            out[-1] += c
    return out


class Touched:
    """A file that is changed for a while."""

    def __init__(self, how, path):
        self.how, self.path, self.arguments = how, path, []

    def __enter__(self):
        if self.how == "moved":
            shutil.copytree(self.path, "moved") if os.path.isdir(self.path) else shutil.copy(self.path, "moved")
            self.arguments = ["data.path=moved"]
            return self
        self.before = read(self.path)
        if self.how == "renamed":
            os.rename(self.path, self.path + ".new.png")
        else:
            where = len(self.before) // 2
            while self.path.endswith(".csv") and not self.before[where:where + 1].isdigit():
                where += 1  # a digit becomes another
            other = self.before[:where] + bytes([self.before[where] ^ 1]) + self.before[where + 1:]
            with open(self.path, "wb") as f:
                f.write(self.before + b"\n" if self.how == "longer" else other)
        return self

    def __exit__(self, *_):
        if self.how == "moved":
            shutil.rmtree("moved") if os.path.isdir("moved") else os.unlink("moved")
            return
        if self.how == "renamed":
            os.rename(self.path + ".new.png", self.path)
        with open(self.path, "wb") as f:
            f.write(self.before)


def check_refused(words, code, err):
    assert code == 2 and "holds the checkpoints of another run: " in err and "--fresh" in err, (code, err)
    assert words in err, (words, err)


def check_resumed(code, err, exact, codes=(0,)):
    assert code in codes, (code, err)
    assert ("resumed at step 40, bit-exact" in err) == exact, err
    assert exact or "resumed at step 40, not bit-exact: " in err, err


def same_weights(base, arguments, codes):
    shutil.rmtree("kept", ignore_errors=True)
    code, _, err = frugal("train", f"{base}.yaml", "checkpoint.dir=", "train.out=whole", *arguments)
    assert code in codes, err
    assert read("whole") == read("out"), "bit-exact, it said, and the weights are others"


def check_setting(base, change, table):
    arguments = settings_of(change)
    key = arguments[0].split("=")[0]
    code, _, err = frugal("train", f"{base}.yaml", "checkpoint.dir=kept", "train.out=out", *arguments)
    word = table[key]
    if key == "data.files":  # free as a setting: the data is what counts
        return check_refused("the data of data.files has changed since the run began", code, err)
    if word == "LENGTH":
        word = "END" if "constant" in base else "COURSE"
    if word == "EVALS":
        word = "COURSE" if base in ("idx best", "idx patient") else "FREE"
    if word == "EQUAL":
        return check_refused("its model has other operations" if key == "model.layers" else f"{key} was ", code, err)
    if word == "COURSE":
        check_resumed(code, err, False)
        assert f"warning: {key} was " in err or key == "train.micro_batch", err
        return None
    codes = (0, 1) if "train.target" in change else (0,)  # missed
    check_resumed(code, err, True, codes)
    assert f"{key} was" not in err, err
    same_weights(base, arguments, codes)
    return None


def check_file(base, how, path):
    with Touched(how, path) as touched:
        code, _, err = frugal("train", f"{base}.yaml", "checkpoint.dir=kept", "train.out=out", *touched.arguments)
        if how == "moved":
            check_resumed(code, err, True)
        else:
            check_refused("has changed since the run began", code, err)


def step_of(name):
    return int(re.match(r"step-(\d+)", name).group(1))


def begin(base):
    """A run of 60 steps of which the checkpoint of step 40 is left, as if it had been killed then; its manifest says
    the settings of the whole run. False: this build cannot read the data."""
    folder = f"saved {base}"
    with open(f"{base}.yaml", "w") as f:
        f.write(BASES[base])
    for _ in range(20):  # a save that is due while memory for the first is being taken waits for it
        shutil.rmtree(folder, ignore_errors=True)
        code, _, err = frugal("train", f"{base}.yaml", f"checkpoint.dir={folder}", "checkpoint.every=40", "checkpoint.keep=9")
        if code and "built without" in err:
            return False
        assert code == 0, (base, err)
        steps = [n for n in os.listdir(folder) if n.startswith("step-")]
        for name in steps:
            if step_of(name) != 40:
                shutil.rmtree(os.path.join(folder, name))
        if 40 in map(step_of, steps):
            return True
    raise AssertionError(f"{base}: step 40 is never saved: {steps}")


class Files(http.server.BaseHTTPRequestHandler):
    """The folder, by ranges, with a version of its own choosing."""
    version = ""

    def do_GET(self):
        body = read(self.path.lstrip("/"))
        first, last = map(int, re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", f"bytes=0-{len(body)}")).groups())
        part = body[first:last + 1]
        self.send_response_only(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(body)}")
        if self.version:
            self.send_header("ETag", self.version)
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_):
        pass


def check_remote():
    """Remote data is known by the server's version; without one it is said that the content was not compared."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    where = f"http://127.0.0.1:{server.server_port}/text"
    BASES["remote"] = f"data: {{path: {where}, kind: text, context: 8}}\nmodel: {{kind: gpt, depth: 1, width: 16, heads: 2}}\n" + TRAIN % ""
    for before, after, expected in (('"a"', '"a"', "exact"), ('"a"', '"b"', "refused"), ("", "", "unknown"), ('"a"', "", "unknown")):
        Files.version = before
        if not begin("remote"):
            print("not here    remote files")
            return
        Files.version = after
        shutil.rmtree("kept", ignore_errors=True)
        shutil.copytree("saved remote", "kept")
        code, _, err = frugal("train", "remote.yaml", "checkpoint.dir=kept", "train.out=out")
        if expected == "refused":
            check_refused("the data of data.path has changed since the run began", code, err)
        else:
            check_resumed(code, err, expected == "exact")
            assert ("only names and sizes could be compared" in err) == (expected == "unknown"), err
        print(f"ok          remote: version {before or 'none'}, then {after or 'none'}")
    server.shutdown()


def main():
    table, failed, ran = column(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_data()
        ready = {base: begin(base) for base in BASES}
        for base, change in CASES:
            if not ready[base]:
                print(f"not here    {base}: {change}")
                continue
            shutil.rmtree("kept", ignore_errors=True)
            shutil.copytree(f"saved {base}", "kept")
            ran += 1
            try:
                if ": " in change and "=" not in change.split(": ")[0]:
                    check_file(base, *change.split(": "))
                else:
                    check_setting(base, change, table)
                print(f"ok          {base}: {change}")
            except AssertionError as e:
                failed.append(change)
                print(f"FAILED      {base}: {change}: {e}")
        try:
            check_remote()
        except AssertionError as e:
            failed.append("remote")
            print(f"FAILED      remote: {e}")
        os.chdir(TOP)
    keys = {settings_of(c)[0].split("=")[0] for _, c in CASES}
    along = {a.split("=")[0] for _, c in CASES for a in settings_of(c)}
    for word in ("EQUAL", "COURSE", "END", "LENGTH", "EVALS", "FREE"):
        left = [k for k in table if table[k] == word and k not in (along if word == "FREE" else keys) and k not in FREE_WITHOUT and k.startswith(("data.", "train."))]
        if left:
            failed += left
            print(f"FAILED      {word}: no case for {', '.join(left)}")
    print(f"{ran} cases, {len(failed)} failed")
    return 1 if failed or ran < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
