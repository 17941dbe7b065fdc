"""The driver of `bench/run gpu`: one NVIDIA GPU, ours timed, PyTorch in the same run.

Correctness on a GPU is checked by tests/gpu/run.

    gpu.py [--json] [--torch=PYTHON] [--modes=MODE,...] [--tokens=DIR] [--models=DIR] [--warm] [--resume] [ROW...]

Rows
    models   all of gpt2 gpt2-xl fp8 resnet50 resnet20 bert bert-large llama ranker sm80: every kind of model beside PyTorch
    gpt2     GPT-2 124M, bf16, 64 sequences of 1,024 random tokens: tokens/s, memory, seconds to the fifth step
    recompute  the same with every block recomputed
    gpt2-xl  GPT-2 1558M, batch 16
    order    both, with the same bits each time and with attention's gradient added up as it comes (train.deterministic)
    wide     both, with train.wide_sums
    fp8      the large one with hidden layers' products on 8-bit operands where it pays, beside PyTorch's in bf16
    resnet   ResNet-20, batch 128, in fp32 and bf16: images/s
    resnet50 ResNet-50, 224 x 224, batch 256, bf16: images/s with and without train.deterministic, seconds to the fifth step, cold and warm
    resnet20 ResNet-20, 32 x 32, batch 512, likewise
    bert     BERT-base on sequences of 20 to 127 tokens, batch 128, bf16: sequences/s, beside PyTorch's padded and packed
    bert-large  the same of 24 blocks of 1,024 on sequences of 64 to 384 tokens, batch 32
    llama    a decoder of Llama's kind, 0.9 G parameters: tokens/s at T 2,048, 8,192 and, every block recomputed, 32,768; llama-2048, llama-8192 and
             llama-32768 are one each
    sm80     the module as built for compute capability 8.0, compiled by the driver for this card: every op against the naive kernels, speed of
             GPT-2 124M and ResNet-50
    lora     fine-tuning shapes of real models with random weights, 2,048 tokens: adapters of rank 16 on all seven matrices of Llama-3.1-8B in
             45 GiB (lora-8b), in the least memory (lora-least), and beside 4 bits (lora-4bit); all weights of Qwen2.5-1.5B (lora-qwen)
    generate  using a model, random weights, bf16, one prompt, greedy: GPT-2 124M beside transformers' generate, static cache, compiled
             (generate-124m); Llama-3.1-8B by the share of the GPU's bandwidth that reading its weights once a token takes, and loading its folder
             from the page cache (generate-8b)
    ranker   26 tables of 1 million x 64, 13 numbers, batch 8,192, Adam on the rows that a step reads: samples/s, and how near to a copy's
             bandwidth the ops on the tables come; tables of bf16 too, with Adam and Adagrad
    mlp      the classifier 784-128-10, 10,000 samples, 5 epochs, batch 32: seconds
    curve    GPT-2 124M on DIR/train.bin, its windows mixed, 1,000 steps: each hundredth loss against PyTorch's, with train.wide_sums as
             its autocast has them and without, and PyTorch's with flash attention against its own with cuDNN's; all four at once, 115 GiB
    text     seconds from process start to a loss of 1.65 on DIR/val.bin, trained on DIR/train.bin
    stall    what a checkpoint of the 1558M takes from its steps (17.4 GiB; needs twice that of disk)
    kernels  where the time goes: each kernel's share, and of its own roofline

A figure of ours is the median over the last two thirds of its steps; PyTorch's likewise, compiled, in the faster of the modes default and
reduce-overhead (--modes: only these, which saves minutes of compiling), with the faster of cuDNN's and flash attention. PYTHON is one that has torch (TORCH_PYTHON; else its columns stay
empty); DIR of --tokens holds tokens as u16, train.bin and val.bin. The folders of lora and generate, 16 GB, are made in memory and deleted at the end, or
made and kept in DIR of --models, for another call; the rows' PyTorch needs transformers, accelerate, PEFT and bitsandbytes, warms up side by side
and is timed alone (gpu_models.py). `text` starts with an empty tuning cache.

Each figure is in the day's files as soon as it is there (BENCH_RESULTS names another folder for them), and what PyTorch measured on this card within
two hours is not measured again, so that a call that was cut off loses one row at most; --resume leaves out rows that this commit finished on this
card. --warm has PyTorch compile the models of all rows before the first one is measured, several side by side: its compiler works on one core of
the processor most of the time. Its seconds to the fifth step are those with compiled code in its cache then.
The exit code is 1 if a must was missed, 3 if a row failed.
"""
import functools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import stall
from gpu_models import Models
from common import DATA, FRUGAL, TOP, Failed, Record, first_line, last_words, machine, note, put, spawn, train

BUILD = os.path.join(TOP, "build")
WINDOW = 2 * 1024  # bytes
CURVE_LR = 1e-4  # at GPT-2's own 6e-4 PyTorch's two kinds of attention part by up to 1.5 %, and two runs of one of them by 0.8
XL = ["model.depth=48", "model.width=1600", "model.heads=25", "train.batch=16"]


def tool(name):
    path = os.path.join(BUILD, name)
    if not os.path.exists(path):
        raise Failed(f"build/{name} is not there: cmake --build build --target {name}")
    return path


def torch_begins(options, *arguments, **more):
    """The peer at work, or None without one."""
    return options["torch"] and spawn([options["torch"], os.path.join(TOP, "bench", "gpu_peer.py"), *map(str, arguments)], **more)


def torch_ends(process):
    """What it printed last, or {} where there is none."""
    if not process:
        return {}
    words = process.communicate()[0]
    if process.returncode:
        raise Failed(f"PyTorch: {last_words()}")
    return json.loads(words.splitlines()[-1])


# ---- what PyTorch measured, kept in build/bench ----

FRESH_S = 2 * 3600  # it drifts with the card's temperature, and a card is lent for an hour


@functools.cache
def card():
    return first_line(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"])


def kept_file(name):
    path = os.path.join(DATA, name)
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


def keep(name, key, value):
    put(name, json.dumps({**kept_file(name), key: value}).encode())


def jobs_of(choices):
    """Arguments of one call that does them all."""
    return [word for choice in choices for word in ("--", *choice)][1:]


def torch_all(options, *choices):
    """What the peer says of each of these lists of arguments, {} where it failed: in one process, those that are not known yet."""
    if not options["torch"]:
        return [{} for _ in choices]
    keys = [f"{card()} {options['torch']} {' '.join(map(str, choice))}" for choice in choices]
    known = kept_file("peers.json")
    open_jobs = [i for i, key in enumerate(keys) if time.time() - known.get(key, {}).get("at", 0) > FRESH_S]
    if open_jobs:
        lines = torch_begins(options, *jobs_of([choices[i] for i in open_jobs]))
        for i, line in zip(open_jobs, lines.stdout):
            keep("peers.json", keys[i], {**json.loads(line), "at": time.time()})
        lines.wait()
    known = kept_file("peers.json")
    for key in keys:
        if "ms" not in known.get(key, {}) and "seconds" not in known.get(key, {}):
            print(f"PyTorch: {key}: {known.get(key, {}).get('failed') or last_words()}", file=sys.stderr)
    return [known[key] if key in known and "failed" not in known[key] else {} for key in keys]


def torch_says(options, *arguments):
    return torch_all(options, arguments)[0]


MODES = ("default", "reduce-overhead")  # of torch.compile


def modes_of(options):
    return options["modes"].split(",") if options.get("modes") else MODES


def best_of(options, key, *choices):
    """What the peer says with the best of these arguments; one that fails, as CUDA graphs of a large model may, is left out."""
    best = {}
    for arguments, said in zip(choices, torch_all(options, *choices)):
        best = max(best, {**said, "of": arguments}, key=lambda p: p.get(key, 0))
    return best


SMALL, LARGE = (12, 768, 12, 64), (48, 1600, 25, 16)  # GPT-2: blocks, width, heads, batch
ENCODER, LARGE_ENCODER = (12, 768, 12, 128, 128, 20, 127, 60), (24, 1024, 16, 384, 32, 64, 384, 60)
LLAMA = (("2,048", 2048, 8, "none", 1.12), ("8,192", 8192, 2, "none", 1.1), ("32,768, recomputed", 32768, 1, "all", 1.1))


def gpt_jobs(options, shape):
    kinds = ("cudnn", "flash") if shape == SMALL else ("cudnn",)  # compiling the large one takes minutes; cuDNN's won there too
    return [("speed", *shape, 20, kind, modes_of(options)[0]) for kind in kinds]


def image_jobs(options, depth, batch, steps):
    return [("images", depth, batch, steps, mode) for mode in modes_of(options)]


def encoder_jobs(options, shape):
    return [("encoder", *shape, mode) for mode in (*modes_of(options), "packed")]


def decoder_jobs(options, context, batch, recompute):
    return [("decoder", context, batch, 8, int(recompute != "none"), mode) for mode in modes_of(options)]


def click_jobs(options):
    return [("clicks", 1000000, 64, 8192, 40, mode) for mode in ("eager", *modes_of(options))]


# By row: GiB that PyTorch takes for it, and its jobs; those that take longest to compile first.
WARMED = {
    "gpt2-xl": lambda o: [(68, gpt_jobs(o, LARGE))],
    **{f"llama-{sizes[0]}": lambda o, sizes=sizes: [(34, decoder_jobs(o, *sizes))] for _, *sizes, _ in LLAMA},
    "resnet50": lambda o: [(14, image_jobs(o, 50, 256, 40))],
    "bert-large": lambda o: [(18, encoder_jobs(o, LARGE_ENCODER))],
    "bert": lambda o: [(12, encoder_jobs(o, ENCODER))],
    "gpt2": lambda o: [(30, gpt_jobs(o, SMALL))],
    "resnet20": lambda o: [(4, image_jobs(o, 20, 512, 200))],
    "ranker": lambda o: [(24, click_jobs(o))],
}
SAME_PEERS = {"fp8": ["gpt2-xl"], "sm80": ["gpt2", "resnet50"], "llama": [f"llama-{context}" for _, context, *_ in LLAMA]}  # which rows PyTorch does them for


def warm(options, rows):
    """As many side by side as the card has memory for."""
    needed = {peer for row in rows for peer in SAME_PEERS.get(row, [row])}
    waiting = [one for row in WARMED if row in needed for one in WARMED[row](options)]
    free, running = 134, []
    while waiting or running:
        for gib, process in [one for one in running if one[1].poll() is not None]:
            running.remove((gib, process))
            process.communicate()
            free += gib
        for gib, jobs in [one for one in waiting]:
            if gib <= free:
                waiting.remove((gib, jobs))
                running.append((gib, torch_begins(options, *jobs_of(jobs))))
                free -= gib
        time.sleep(0.2)


def torch_gpt(options, shape):
    """The faster of both kinds of attention, and with that one the faster mode."""
    others = modes_of(options)[1:]
    best = best_of(options, "tokens_s", *gpt_jobs(options, shape))
    again = best_of(options, "tokens_s", *[(*best["of"][:-1], mode) for mode in others]) if best.get("tokens_s") else {}
    return max(best, again, key=lambda p: p.get("tokens_s", 0))


def random_tokens():
    if not os.path.exists(os.path.join(DATA, "tokens.bin")):
        random.seed(1)
        put("tokens.bin", b"".join(random.randrange(50257).to_bytes(2, "little") for _ in range(1 << 21)))


def no_cache():
    shutil.rmtree(os.path.join(DATA, "cache"), ignore_errors=True)
    os.environ["XDG_CACHE_HOME"] = os.path.join(DATA, "cache")


def run(file, *settings, program=FRUGAL):
    """One run of ours: its figures."""
    events, seconds, _ = train(file, "train.device=cuda", "train.out=none", *settings, program=program)
    told, done = [e for e in events if e["event"] == "step"], events[-1]
    times = [b["elapsed_s"] - a["elapsed_s"] for a, b in zip(told, told[1:])]
    five = done["first_step_ms"] / 1e3 + (told[4]["elapsed_s"] - told[0]["elapsed_s"] if len(told) > 4 else 0)
    return {"ms": 1e3 * statistics.median(times[len(times) // 3:]) if times else None, "five_steps_s": five, "seconds": seconds, "done": done,
            "peak_gib": done["arena_bytes_used"] / 2**30, "driver_gib": done["device_bytes"] / 2**30, "planned": done["arena_bytes_planned"] == done["arena_bytes_used"],
            "losses": {e["step"]: e["loss"] for e in told}, "evals": [e for e in events if e["event"] == "eval"]}


def figure(name, what, value, unit, peer=None, must=None, aim=None, more=True, size=False):
    """A row of the table. `must` and `aim` are ours, of the value's size where only that counts; a ratio above 1 says that ours is better."""
    ratio = None if not peer else value / peer if more else peer / value
    judged = abs(value) if size else value
    met = must is None or (judged >= must if more else judged <= must)
    return {"row": name, "what": what, "value": value, "unit": unit, "torch": peer, "ratio": ratio,
            "must": must, "aim": aim, "met": met}


def gpt(name, options, settings, shape, steps, musts, aim, five, memory):
    """musts: times PyTorch's speed, and tokens/s where that is not measured."""
    best = torch_gpt(options, shape)
    must = musts[0] * best["tokens_s"] if best.get("tokens_s") else musts[1]
    ours = run("bench/gpu/gpt.yaml", f"train.steps={steps}", *settings)
    rate = shape[3] * 1024 / ours["ms"] * 1e3
    yield figure(name, "speed", rate, "tokens/s", best.get("tokens_s"), must, aim)
    yield figure(name, "fifth step done after", ours["five_steps_s"], "s", best.get("five_steps_s"), *five, more=False)
    yield figure(name, "memory" + ("" if ours["planned"] else ", NOT as planned") + f"; {ours['driver_gib']:.1f} GiB by the driver", ours["peak_gib"], "GiB",
                 best.get("peak_gib"), *memory, more=False)


def row_gpt2(options):
    yield from gpt("gpt2", options, [], SMALL, 60, (1.17, 570e3), 660e3, (5, 2), (26, 20))


def row_recompute(options):
    ours = run("bench/gpu/gpt.yaml", "train.steps=20", "train.recompute=all")
    yield figure("recompute", "speed", 65536 / ours["ms"] * 1e3, "tokens/s")
    yield figure("recompute", "memory", ours["peak_gib"], "GiB", must=10, aim=8, more=False)


def row_gpt2_xl(options):
    yield from gpt("gpt2-xl", options, XL, LARGE, 16, (1.14, 51500), 57e3, (10, 5), (None, None))


def both_sizes(row, *settings):
    for name, size, steps, tokens in (("124M", [], 60, 65536), ("1558M", XL, 16, 16384)):
        ours = run("bench/gpu/gpt.yaml", *size, f"train.steps={steps}", *settings)
        yield figure(row, f"{name}, {' '.join(settings)}, memory {ours['peak_gib']:.1f} GiB, loss {ours['losses'][steps]:.4f}",
                     tokens / ours["ms"] * 1e3, "tokens/s")


def row_order(options):
    yield from both_sizes("order", "train.deterministic=true")
    yield from both_sizes("order", "train.deterministic=false")


def row_wide(options):
    yield from both_sizes("wide", "train.wide_sums=true")


def row_fp8(options):
    theirs = torch_gpt(options, LARGE).get("tokens_s")
    ours = run("bench/gpu/gpt.yaml", *XL, "train.steps=16", "train.fp8=auto")
    yield figure("fp8", f"1558M, train.fp8=auto, loss {ours['losses'][16]:.4f}; torch bf16", 16384 / ours["ms"] * 1e3, "tokens/s", theirs, theirs and 1.28 * theirs, 66e3)


def row_resnet(options):
    make_images()
    for precision in ("fp32", "bf16"):
        done = run("bench/cpu/resnet.yaml", "train.steps=200", "train.log_every=0", f"train.precision={precision}")["done"]
        yield figure("resnet", f"ResNet-20, batch 128, {precision}", done["samples_per_s"], "images/s")


def make_pictures(size, count, classes):
    """Random ones, once."""
    random.seed(size)
    for name, shape, top in ((f"images-{size}", (count, size, size, 3), 256), (f"labels-{size}", (count,), classes)):
        if not os.path.exists(os.path.join(DATA, name)):
            pieces = [random.randbytes(math.prod(shape[1:])) for _ in range(shape[0])] # a whole is too long for randbytes
            body = b"".join(pieces)
            put(name, bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape) + (body if top == 256 else bytes(b % top for b in body)))


def images(depth, options, size, batch, steps, must, five):
    name = f"resnet{depth}"
    make_pictures(size, 8 * batch, 10 if depth == 20 else 250)
    best = best_of(options, "images_s", *image_jobs(options, depth, batch, steps))
    peer, once = best.get("images_s"), f"train.steps={steps}"
    no_cache()
    ours = {what: run(f"bench/gpu/{name}.yaml", once, *more) for what, more in (
        ("as it comes, cold", ["train.deterministic=false"]), ("as it comes, warm", ["train.deterministic=false"]), ("deterministic", []))}
    fast = batch / ours["as it comes, warm"]["ms"] * 1e3
    yield figure(name, "speed, train.deterministic=false", fast, "images/s", peer, peer and must * peer)
    yield figure(name, "speed", batch / ours["deterministic"]["ms"] * 1e3, "images/s", peer, 0.9 * fast)
    for what, limit in zip(("as it comes, cold", "as it comes, warm"), five):
        yield figure(name, f"fifth step done, {what}; first after {ours[what]['done']['first_step_ms'] / 1e3:.2f} s", ours[what]["five_steps_s"], "s",
                     best.get("five_steps_s"), limit, more=False)
    yield figure(name, "memory", ours["deterministic"]["peak_gib"], "GiB", best.get("peak_gib"), more=False)


def row_resnet50(options):
    yield from images(50, options, 224, 256, 40, 1.0, (6, 2.5))


def row_resnet20(options):
    yield from images(20, options, 32, 512, 200, 1.0, (None, None))


def make_lines(least, most):
    random.seed(3)
    for name in ("lines-0", "lines-1"):
        put(name, b"".join(bytes(97 + b % 26 for b in random.randbytes(random.randint(least, most))) + b"\n" for _ in range(8192)))


def encoder(name, options, shape, settings, musts, aims):
    """Median step of ours over batches of different lengths; torch's batch is always the same one."""
    batch, least, most = shape[4:7]
    make_lines(least, most)
    *both, packed = torch_all(options, *encoder_jobs(options, shape))  # {}: a torch without attention for packed sequences
    padded = max(both, key=lambda p: p.get("sequences_s", 0))
    no_cache()
    ours = run("bench/gpu/bert.yaml", *settings)
    rate = batch / ours["ms"] * 1e3
    for what, peer, must, aim in zip(("padded", "packed"), (padded, packed), musts, aims):
        theirs = peer.get("sequences_s")
        yield figure(name, f"speed; torch {what}", rate, "seq/s", theirs, theirs and must and must * theirs, theirs and aim and aim * theirs)
    yield figure(name, "fifth step done after", ours["five_steps_s"], "s", padded.get("five_steps_s"), more=False)
    yield figure(name, "memory", ours["peak_gib"], "GiB", padded.get("peak_gib"), more=False)


def row_bert(options):
    yield from encoder("bert", options, ENCODER, [], (1.6, 1.1), (2.0, 1.25))


def row_bert_large(options):
    large = ["model.depth=24", "model.width=1024", "model.heads=16", "data.context=384", "train.batch=32"]
    yield from encoder("bert-large", options, LARGE_ENCODER, large, (1.4, None), (1.8, None))


PEAK_GIB = 19.5  # of PyTorch's at T 32,768, where it is not measured in the same run


def decoder_run(context, batch, recompute, *more):
    return run("bench/gpu/llama.yaml", f"data.context={context}", f"train.batch={batch}", f"train.recompute={recompute}", *more)


def row_llama(options, lengths=LLAMA):
    """Where every block of PyTorch's is recomputed, ours is timed so too, and with `auto` in the memory that PyTorch took."""
    random_tokens()
    no_cache()
    for name, context, batch, recompute, must in lengths:
        peer = best_of(options, "tokens_s", *decoder_jobs(options, context, batch, recompute))
        theirs, gib = peer.get("tokens_s"), peer.get("peak_gib") or PEAK_GIB
        if recompute != "none":
            ours = decoder_run(context, batch, recompute)
            yield figure("llama", f"T {name}, batch {batch}, train.recompute=all", batch * context / ours["ms"] * 1e3, "tokens/s", theirs)
            name += f", auto in {gib:.1f} GiB"
        ours = decoder_run(context, batch, *(("auto", f"train.memory_gib={gib:.2f}") if recompute != "none" else (recompute,)))
        yield figure("llama", f"T {name}, batch {batch}", batch * context / ours["ms"] * 1e3, "tokens/s", theirs, theirs and must * theirs, theirs and 1.25 * theirs)
        yield figure("llama", f"T {name}, memory", ours["peak_gib"], "GiB", peer.get("peak_gib"), more=False)
        yield figure("llama", f"T {name}, fifth step done after", ours["five_steps_s"], "s", peer.get("five_steps_s"), more=False)


def row_sm80(options):
    """The module built as for an A100 and compiled by the driver for the card at hand: right, and GPT-2 124M and ResNet-50 not much slower."""
    folder = os.path.join("build", "sm80")
    for target in ("frugal_program", "frugal_cuda", "check_ops"):
        done = subprocess.run(["scripts/build", folder, "-DFRUGAL_CUDA=ON", "-DFRUGAL_CUDA_ARCHS=80-virtual"], cwd=TOP, env={**os.environ, "TARGET": target})
        if done.returncode:
            raise Failed(f"{target} for compute capability 8.0 was not built")
    program = os.path.join(TOP, folder, "frugal")
    no_cache()
    done = subprocess.run([os.path.join(TOP, folder, "check_ops"), "2"], cwd=DATA, capture_output=True, text=True)
    if done.returncode:  # which, and the seed that repeats it
        note(done.stdout + done.stderr)
    yield {"row": "sm80", "text": f"check_ops: {(done.stdout.splitlines() or ['no output'])[-1]}", "met": done.returncode == 0}
    theirs = torch_gpt(options, SMALL).get("tokens_s")
    ours = run("bench/gpu/gpt.yaml", "train.steps=40", program=program)
    yield figure("sm80", "GPT-2 124M, code of compute capability 8.0", 65536 / ours["ms"] * 1e3, "tokens/s", theirs, theirs and 0.8 * theirs)
    make_pictures(224, 8 * 256, 250)
    theirs = best_of(options, "images_s", *image_jobs(options, 50, 256, 40)).get("images_s")
    ours = run("bench/gpu/resnet50.yaml", "train.steps=40", "train.deterministic=false", program=program)
    yield figure("sm80", "ResNet-50, train.deterministic=false", 256 / ours["ms"] * 1e3, "images/s", theirs, theirs and 0.8 * theirs)


def times(factor, peer):
    return factor * peer["tokens_s"] if peer else None


def lora(options, *how):
    """One run of ours beside the frozen 8B."""
    return run("bench/gpu/lora.yaml", f"model.path={options['models'].folder('llama')}", *how)


def tokens_s(r, batch):
    return batch * 2048 / r["ms"] * 1e3


def memory(r):
    return "memory" + ("" if r["planned"] else ", NOT as planned") + f" ({r['driver_gib']:.1f} by the driver)"


def row_lora_8b(options):
    theirs = options["models"].peer("lora-8b")
    options["models"].folder("llama")
    no_cache()
    r = lora(options, "train.memory_gib=44.5")
    yield figure("lora-8b", "Llama-3.1-8B, rank 16, batch 4", tokens_s(r, 4), "tokens/s", theirs.get("tokens_s"), times(1.15, theirs), times(1.35, theirs))
    yield figure("lora-8b", memory(r), r["peak_gib"], "GiB", theirs.get("peak_gib"), 45, 40, more=False)
    yield figure("lora-8b", "fifth step done after (PyTorch: beside others that compile)", r["five_steps_s"], "s", theirs.get("five_steps_s"), 20, 8, more=False)
    r = lora(options, "train.memory_gib=39.5")
    yield figure("lora-8b", f"the same in {r['peak_gib']:.1f} GiB", tokens_s(r, 4), "tokens/s", theirs.get("tokens_s"))


@functools.cache
def recomputed(folder):
    """Measured once, for two rows."""
    return run("bench/gpu/lora.yaml", f"model.path={folder}", "train.recompute=all")


def row_lora_least(options):
    theirs = options["models"].peer("lora-least")
    r = recomputed(options["models"].folder("llama"))
    yield figure("lora-least", "the same, every block recomputed", tokens_s(r, 4), "tokens/s", theirs.get("tokens_s"), times(1.4, theirs), times(1.6, theirs))
    yield figure("lora-least", memory(r), r["peak_gib"], "GiB", theirs.get("peak_gib"), 24, 20, more=False)


def row_lora_4bit(options):
    theirs = options["models"].peer("lora-4bit")
    wide = recomputed(options["models"].folder("llama"))
    r = lora(options, "train.recompute=all", "train.lora.weights=nf4")
    yield figure("lora-4bit", "the same beside nf4 (PyTorch: bitsandbytes)", tokens_s(r, 4), "tokens/s", theirs.get("tokens_s"))
    yield figure("lora-4bit", "of the speed beside bf16", wide["ms"] / r["ms"], "", None, 0.9, 0.97)
    r = lora(options, "train.recompute=all", "train.lora.weights=nf4", "train.batch=1", "train.micro_batch=1")
    yield figure("lora-4bit", "batch 1, " + memory(r), r["peak_gib"], "GiB", theirs.get("peak_gib_of_one"), 8, 7, more=False)
    if "nf4_unlike" in theirs:
        yield figure("lora-4bit", "codes, sizes and scales unlike bitsandbytes' on this GPU", theirs["nf4_unlike"], "of 16,899", None, 0, more=False)


def row_lora_qwen(options):
    theirs = options["models"].peer("lora-qwen")
    how = f"model.path={options['models'].folder('qwen')}", "train.lora.rank=0", "train.lora.alpha=default", "train.batch=8", "train.micro_batch=8"
    r = run("bench/gpu/lora.yaml", *how)
    yield figure("lora-qwen", "Qwen2.5-1.5B, all weights, batch 8", tokens_s(r, 8), "tokens/s", theirs.get("tokens_s"), times(1.2, theirs), times(1.4, theirs))
    yield figure("lora-qwen", memory(r), r["peak_gib"], "GiB", theirs.get("peak_gib"), more=False)
    r = run("bench/gpu/lora.yaml", *how, "train.fp8=auto")
    yield figure("lora-qwen", "the same, train.fp8=auto", tokens_s(r, 8), "tokens/s", theirs.get("tokens_s"))


def generated(folder, count):
    """Greedy: new tokens/s behind the first, and bytes/s of loading."""
    words = os.path.join(DATA, "generate_words")
    if not os.path.exists(words):
        put("generate.txt", b"The quick brown fox jumps over the lazy dog\n")
        subprocess.run([FRUGAL, "tokenize", "--train", "260", "--tokenizer", words, os.path.join(DATA, "generate.txt")], check=True, stdout=subprocess.DEVNULL)
    process = spawn([FRUGAL, "generate", folder, "The quick ", f"--count={count}", "--temperature=0", f"--tokenizer={words}", "train.device=cuda", "--json"])
    events = {e["event"]: e for e in map(json.loads, process.communicate()[0].splitlines())}
    if process.returncode:
        raise Failed(f"frugal generate ended with {process.returncode}: {last_words()}")
    done, loaded = events["generated"], events["loaded"]
    return {"tokens_s": (done["tokens"] - 1) / (done["seconds"] - done["first_s"]), "all_tokens_s": done["tokens"] / done["seconds"],
            "load_bytes_s": loaded["bytes"] / loaded["seconds"], "bytes": loaded["bytes"]}


def copy_bytes_s(options):
    peer = options["torch"] and spawn([options["torch"], os.path.join(TOP, "bench", "gpu_generate.py"), "copy"])
    return torch_ends(peer).get("bytes_s")


H200_BYTES_S = 4.8e12  # its data sheet's; the musts are of this


def generated_thrice(folder):
    """Three texts, and the median of a figure of theirs."""
    runs = [generated(folder, 256) for _ in range(3)]
    return runs, lambda key: statistics.median(r[key] for r in runs)


def row_generate_124m(options):
    theirs = options["models"].peer("generate-124m")
    _, middle = generated_thrice(options["models"].folder("gpt2"))
    yield figure("generate-124m", "GPT-2 124M, with the prompt", middle("all_tokens_s"), "tokens/s", theirs.get("tokens_s"), times(3, theirs), times(8, theirs))


def row_generate_8b(options):
    """Loading is the best of three, once the page cache is warm."""
    theirs = options["models"].peer("generate-8b")
    runs, middle = generated_thrice(options["models"].folder("llama"))
    read = runs[0]["bytes"] - 2 * 128256 * 4096  # of the table of words a token reads one row
    rate, copied = middle("tokens_s"), copy_bytes_s(options)
    yield figure("generate-8b", "Llama-3.1-8B (PyTorch: with the prompt)", rate, "tokens/s", theirs.get("tokens_s"))
    yield figure("generate-8b", "of the data sheet's bandwidth", rate * read / H200_BYTES_S, "", None, 0.6, 0.8)
    if copied:
        yield figure("generate-8b", "of a copy's bandwidth", rate * read / copied, "")
    yield figure("generate-8b", "loading 16 GB from the page cache", max(r["load_bytes_s"] for r in runs) / 1e9, "GB/s", None, 10, 25)


def make_clicks(count):
    if os.path.exists(os.path.join(DATA, "clicks.csv")):
        return
    draw = random.Random(4)
    head = ",".join([f"c{i}" for i in range(26)] + [f"n{i}" for i in range(13)] + ["clicked"])
    rows = (",".join([str(draw.getrandbits(30)) for _ in range(26)] + [f"{draw.random():.4f}" for _ in range(13)] + [str(draw.getrandbits(1))]) for _ in range(count))
    put("clicks.csv", "\n".join([head, *rows, ""]).encode())


TABLE_OPS = ("embedding", "embedding_rows", "rows_adam")


def table_bandwidth(*command):
    """GB/s of the ops on tables, all together, and of a copy; from bench_profile's table."""
    done = subprocess.run(command, cwd=DATA, capture_output=True, text=True)
    copy, ms, moved = None, 0.0, 0.0
    for line in done.stdout.splitlines():
        words = line.split()
        if line.startswith("a copy"):
            copy = float(words[6])
        elif words and words[0] in TABLE_OPS:
            ms += float(words[3])
            moved += float(words[3]) * float(words[6])
    if not copy or not ms:
        raise Failed(f"bench_profile: {(done.stderr or done.stdout)[-300:]}")
    return moved / ms, copy


def row_ranker(options):
    make_clicks(16 * 8192)
    best = best_of(options, "samples_s", *click_jobs(options))
    no_cache()
    ours = run("bench/gpu/ranker.yaml")
    theirs = best.get("samples_s")
    yield figure("ranker", "26 tables of 1,000,000 x 64, rows_adam", 8192 / ours["ms"] * 1e3, "samples/s", theirs, theirs and 5 * theirs, theirs and 15 * theirs)
    yield figure("ranker", "memory" + ("" if ours["planned"] else ", NOT as planned"), ours["peak_gib"], "GiB", best.get("peak_gib"), more=False)
    yield figure("ranker", "fifth step done after", ours["five_steps_s"], "s", best.get("five_steps_s"), more=False)
    rate, copy = table_bandwidth(tool("bench_profile"), os.path.join(TOP, "bench/gpu/ranker.yaml"), "train.device=cuda")
    low = run("bench/gpu/ranker.yaml", "model.table_dtype=bf16")
    yield figure("ranker", "the same, model.table_dtype=bf16", 8192 / low["ms"] * 1e3, "samples/s", theirs, theirs and 5 * theirs, theirs and 15 * theirs)
    yield figure("ranker", "its memory" + ("" if low["planned"] else ", NOT as planned"), low["peak_gib"], "GiB", best.get("peak_gib"), more=False)
    least = run("bench/gpu/ranker.yaml", "model.table_dtype=bf16", "train.tables=adagrad")
    yield figure("ranker", "train.tables=adagrad, model.table_dtype=bf16", 8192 / least["ms"] * 1e3, "samples/s", theirs)
    yield figure("ranker", "its memory" + ("" if least["planned"] else ", NOT as planned"), least["peak_gib"], "GiB", best.get("peak_gib"), more=False)
    yield figure("ranker", f"{', '.join(TABLE_OPS)}: share of a copy's {copy:,.0f} GB/s", rate / copy, "of copy", must=0.4)


def make_images():
    random.seed(2)
    for name, shape, top in (("mlp-images-idx3-ubyte", (10000, 28, 28), 256), ("mlp-labels-idx1-ubyte", (10000,), 10),
                             ("resnet-images-idx4-ubyte", (1280, 32, 32, 3), 256), ("resnet-labels-idx1-ubyte", (1280,), 10)):
        body = bytes(random.choices(range(top), k=math.prod(shape)))
        put(name, bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape) + body)


def row_mlp(options):
    make_images()
    peer = torch_says(options, "mlp").get("seconds")
    done = run("bench/cpu/mlp.yaml", "train.log_every=0")["done"]
    seconds = 50000 / done["samples_per_s"]
    yield figure("mlp", "5 epochs", seconds, "s", peer, peer / 5 if peer else 1.54 / 5, more=False)


def tokens_of(options):
    if not options["tokens"]:
        raise Failed("needs --tokens=DIR with train.bin and val.bin")
    return [f"data.path={options['tokens']}/train.bin"]


def mixed_windows(path):
    """Windows of the text in random order: in the corpus' own a batch is a few neighbouring files, and its loss is theirs."""
    with open(path, "rb") as f:
        text = f.read()
    order = list(range(len(text) // WINDOW))
    random.Random(1).shuffle(order)
    put("curve.bin", b"".join(text[WINDOW * i:WINDOW * i + WINDOW] for i in order) + text[:2])
    return os.path.join(DATA, "curve.bin")


def row_curve(options):
    """The four share the GPU: only losses count."""
    init, tokens = os.path.join(DATA, "init.safetensors"), mixed_windows(tokens_of(options)[0].split("=")[1])
    shared = [f"data.path={tokens}", "train.shuffle=false", "train.schedule=cosine", "train.lr_end=0.1", "train.warmup=100", f"train.lr={CURVE_LR}"]
    run("bench/gpu/gpt.yaml", *shared, "train.steps=2", "train.lr=1e-30", "train.decay=0", f"train.out={init}")
    peers = {kind: torch_begins(options, "curve", init, tokens, 1000, 64, CURVE_LR, kind) for kind in ("flash", "cudnn")}
    with ThreadPoolExecutor() as both:
        ours = dict(zip(("true", "false"), both.map(lambda wide: run("bench/gpu/gpt.yaml", *shared, "train.steps=1000", f"train.wide_sums={wide}")["losses"],
                                                    ("true", "false"))))
    yield from curve_table(ours, {kind: torch_ends(peer).get("losses", {}) for kind, peer in peers.items()})
    os.remove(init)


def curve_table(ours, peers):
    for wide, losses in ours.items():
        yield {"row": "curve", "text": f"ours, train.wide_sums={wide}: " + ", ".join(f"{losses[n]:.4f} at {n}" for n in range(100, 1001, 100))}
    for kind, theirs in peers.items():
        for step, loss in theirs.items():
            for wide, losses in ours.items():
                yield figure("curve", f"loss {loss:.4f} of PyTorch's with {kind} at {step}, ours, wide_sums={wide}", losses[int(step)] / loss - 1, "relative",
                             must=0.005 if wide == "true" else None, more=False, size=True)
    for step, loss in peers["flash"].items():
        yield figure("curve", f"PyTorch's two at {step}, apart", peers["cudnn"][step] / loss - 1, "relative", more=False)


def row_text(options):
    no_cache()
    done = run("bench/gpu/text.yaml", *tokens_of(options), f"data.eval_path={options['tokens']}/val.bin")
    last = done["evals"][-1]
    reached = last["loss"] <= 1.65
    yield figure("text", f"loss {last['loss']:.4f} after {last['step']} steps", done["seconds"] if reached else float("inf"), "s",
                 must=120, aim=75, more=False)


def row_stall(options):
    """torch.save of the same state blocks for 25.8 s there, dcp.async_save for 12.4; the link takes 0.34."""
    blocked, total, size, free = stall.ours("bench/gpu/gpt.yaml", 240, 60, *XL, "train.device=cuda", "checkpoint.keep=1")
    yield figure("stall", f"1558M, {size / 2**30:.1f} GiB: blocked, the worst of {len(blocked)}", max(blocked), "s", must=0.4, more=False)
    yield figure("stall", "total: steps from snapshot to disk, less as many without", statistics.median(total), "s", more=False)
    yield figure("stall", "a step beside no save", 1e3 * free, "ms", more=False)


def row_kernels(options):
    make_pictures(224, 2048, 250)
    make_pictures(32, 4096, 10)
    for name, file, settings in (("gpt2", "gpt", []), ("gpt2-xl", "gpt", XL), ("text", "gpt", ["train.recipe=modern", "train.optimiser=muon"]),
                                 ("resnet50", "resnet50", []), ("resnet20", "resnet20", [])):
        done = subprocess.run([tool("bench_profile"), os.path.join(TOP, f"bench/gpu/{file}.yaml"), "train.device=cuda", *settings],
                              cwd=DATA, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            yield {"row": "kernels", "text": f"{name}: {line}"}


ROWS = {"gpt2": row_gpt2, "recompute": row_recompute,
        "gpt2-xl": row_gpt2_xl, "order": row_order, "wide": row_wide, "fp8": row_fp8, "resnet": row_resnet, "resnet50": row_resnet50,
        "resnet20": row_resnet20, "bert": row_bert, "bert-large": row_bert_large, "llama": row_llama, "sm80": row_sm80, "lora-8b": row_lora_8b, "lora-qwen": row_lora_qwen,
        "generate-124m": row_generate_124m, "lora-least": row_lora_least, "lora-4bit": row_lora_4bit, "generate-8b": row_generate_8b, "ranker": row_ranker, "mlp": row_mlp, "curve": row_curve,
        "text": row_text, "stall": row_stall, "kernels": row_kernels}
GROUPS = {"lora": ("lora-8b", "lora-qwen", "lora-least", "lora-4bit"), "generate": ("generate-124m", "generate-8b")}
PARTS = {f"llama-{length[1]}": functools.partial(row_llama, lengths=[length]) for length in LLAMA}  # of rows, by themselves
MODELS = ["gpt2", "gpt2-xl", "fp8", "resnet50", "resnet20", "bert", "bert-large", "llama", "ranker", "sm80"]

HEAD = f"{'row':<13} {'what':<64} {'ours':>10} {'unit':<9} {'torch':>9} {'ratio':>6} {'must':>8} {'aim':>8}"


def number(value):
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table_line(r):
    if "text" in r:
        return f"{r['row']:<13} {r['text']}"
    return f"{r['row']:<13} {r['what']:<64} {number(r['value']):>10} {r['unit']:<9} {number(r['torch']):>9} {number(r['ratio']):>6} " \
           f"{number(r['must']):>8} {number(r['aim']):>8}{'' if r['met'] else '  MISSED'}"


def choose(arguments):
    """Options and rows."""
    options = {"torch": os.environ.get("TORCH_PYTHON"), "tokens": None, "modes": None, "models": None}
    rows = []
    for a in arguments:
        key, _, value = a.lstrip("-").partition("=")
        if a.startswith("--") and key in options:
            options[key] = value
        elif a == "models":
            rows += MODELS
        elif a in ROWS or a in PARTS or a in GROUPS:
            rows += GROUPS.get(a, [a])
        elif a not in ("--json", "--warm", "--resume"):
            sys.exit(f"gpu does not know {a}; it knows --json, --warm, --resume, --torch=PYTHON, --modes=MODE,..., --tokens=DIR, --models=DIR, models and {', '.join([*ROWS, *PARTS, *GROUPS])}")
    grouped = [name for name in ROWS if name in rows and any(name in group for group in GROUPS.values())]  # as Models warms them up
    rows = [name for name in rows if name not in grouped] + grouped or list(ROWS)
    options["models"] = Models(options["torch"], rows, options["models"])
    return options, rows


def main(*arguments):
    options, rows = choose(arguments)
    os.makedirs(DATA, exist_ok=True)
    random_tokens()
    about = machine(GPU=first_line(["nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader"]))
    here = f"{card()} {about['commit']}"
    if "--resume" in arguments:
        rows = [name for name in rows if name not in kept_file("rows.json").get(here, [])]
    if "--warm" in arguments and options["torch"]:
        os.environ["WARM"] = "1"
        warm(options, rows)
        del os.environ["WARM"]
    record, failed, missed = Record("gpu", HEAD, table_line, about, "--json" in arguments), False, False
    try:
        for name in rows:
            try:
                for result in {**ROWS, **PARTS}[name](options):
                    record.add(result)
                    missed |= not result.get("met", True)
                keep("rows.json", here, kept_file("rows.json").get(here, []) + [name])
            except Failed as e:
                print(f"{name}: {e}", file=sys.stderr)
                failed = True
    finally:
        options["models"].close()
    sys.exit(3 if failed else 1 if missed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
