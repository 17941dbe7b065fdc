"""The driver of `bench/run figures`: writes every figure of README.md and docs/ that stands between marks anew, from the
newest rows in bench/results. It measures nothing.

    figures.py [--check]     --check changes nothing, and exits with 1 where a page differs from the results

A block begins with <!-- figures NAME: COMMANDS; FILES --> and ends with <!-- end of figures -->. COMMANDS are those that
measured it, FILES where their rows are kept; both are written by this file, as is all between the marks. A new block
is a function below, its name in BLOCKS, and the two marks on its page. The pictures of curves.py are renewed with them. Every other bench/run ends with this, so that a
page never lags behind a result; tests/oracle/test_figures.py fails where one does.
"""
import glob
import os
import re
import statistics
import sys

import bars
import bill
import common
import curves
from common import Failed, note

END = "<!-- end of figures -->"
PLANNED = "frugal plan gpt2-xl --tokens 3.36e10 --on aws"


class Sources:
    """What a block is made of: it hands out rows, and remembers where they came from."""

    def __init__(self):
        self.commands, self.files = [], []

    def used(self, command, file):
        for text, where in ((command, self.commands), (file, self.files)):
            if text not in where:
                where.append(text)

    def row(self, name, command=None, /, **wanted):
        row = common.newest(name, **wanted)
        self.used(f"bench/run {command or name}", row["file"])
        return row

    def rows(self, name, whole=lambda rows: True):
        rows = common.newest_set(name, whole)
        self.used(f"bench/run {name}", rows[0]["file"])
        return rows


def times(ratio):
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x" if ratio >= 2 else f"{ratio:.2f}x"


def table(head, rows):
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines) + "\n"


def measured_on(row):
    return f"{row['machine'].split(';')[0]}, {row['threads']} threads, {row['date'][:10]}"


def link(row):
    """To the text beside a row's JSON, from a page of docs/."""
    return f"[{row['file'].split('-2')[0]}](../bench/results/{row['file'].replace('.json', '.txt')})"


# ---- the blocks ----

def first(s):
    """The four figures of README.md."""
    gpt, start, bills, runs = s.row("gpu", row="gpt2", what="speed"), s.row("cpu", row="start"), s.rows("bill", bill.is_sound), others(s)
    spent, least = 1000 * bills[0]["dollars"], 1000 * bills[-1]["dollars"]
    near = sum(abs(r["error"]) <= 0.15 for r in runs)
    return table(("", "frugal", "compared with", ""), [
        ("a small GPT trained to the same held-out loss, a thousand times", f"${least:.2f}",
         f"${spent:.2f} with default settings, on demand", f"{100 * least / spent:.0f} % of the cost"),
        ("GPT-2 124M on one H200, bf16", f"{gpt['value']:,.0f} tokens/s", f"{gpt['torch']:,.0f} tokens/s, PyTorch compiled", times(gpt["ratio"])),
        ("process start to the end of the first step, two CPU cores", f"{1000 * start['ours']:.0f} ms", f"{start['peer']:.2f} s, PyTorch",
         times(start["ratio"])),
        (f"the planner's prediction of {len(runs)} training speeds", f"{near} within 15 %", "speeds that others published", "")])


def cpu(s):
    def row(name):
        r = s.row("cpu", row=name)
        return r["ours"], r["peer"], times(r["ratio"]), "" if common.is_quiet(r) else " (measured beside other work)"
    about, loader = s.row("cpu", row="gpt"), s.row("loader", cores="2")
    tokens, peer = s.row("tokenize", name="frugal, same tokens"), s.row("tokenize", name="tokenizers, pieces")
    mlp, gpt, resnet, ranker, start, memory = map(row, ("mlp", "gpt", "resnet", "ranker", "start", "memory"))
    return table(("workload", "frugal", "PyTorch", "ratio"), [
        ("784-128-10 classifier, 10,000 samples, 5 epochs, batch 32, Adam" + mlp[3], f"{mlp[0]:.3f} s", f"{mlp[1]:.3f} s", mlp[2]),
        ("GPT, 6 layers, width 384, 8 x 256 bytes per step, AdamW, fp32" + gpt[3], f"{gpt[0]:,.0f} tokens/s", f"{gpt[1]:,.0f} tokens/s", gpt[2]),
        ("ResNet-20, 32x32, batch 128, SGD" + resnet[3], f"{resnet[0]:.0f} ms per step", f"{resnet[1]:.0f} ms", resnet[2]),
        ("click ranker, 26 tables of 10,000 x 16, batch 2,048, dense Adam" + ranker[3], f"{ranker[0]:.1f} ms per step", f"{ranker[1]:.1f} ms", ranker[2]),
        ("process start to the end of the first step, classifier" + start[3], f"{1000 * start[0]:.0f} ms", f"{start[1]:.2f} s", start[2]),
        ("peak memory of the process, GPT" + memory[3], f"{memory[0]:.0f} MiB", f"{memory[1]:,.0f} MiB", memory[2] + " less"),
        (f"500x375 JPEGs to 224x224 crops, images/s per core, two cores ({link(loader)})", f"{loader['ours']:,.0f}", f"{loader['torch']:,.0f}",
         times(loader["ratio"])),
        (f"text to GPT-2 tokens, compared with Hugging Face tokenizers ({link(tokens)})", f"{tokens['mb_s']:.0f} MB/s", f"{peer['mb_s']:.1f} MB/s",
         times(tokens["ratio"]))]) + f"\n{measured_on(about)}, PyTorch {about['torch'].split('+')[0]} ({link(about)}, with spreads).\n"


def amx(s):
    two, many = (s.row("cpu-amx", "cpu gpt-bf16", row="gpt-bf16", threads=n) for n in ("2", "16"))
    return f"bf16 on the AMX units of a Sapphire Rapids processor, the GPT of the table above compared with PyTorch's bf16 autocast in the same run: " \
           f"{two['ratio']:.2f}x on two\ncores, {many['ratio']:.2f}x with 16 threads ({link(two)}).\n"


def gpu(s):
    def row(name, what):
        r = s.row("gpu", row=name, what=what)
        return r["value"], r["torch"], r["ratio"] and times(r["ratio"])
    gpt, gpt_5, gpt_gib, less = row("gpt2", "speed"), row("gpt2", "fifth.*"), row("gpt2", "memory.*"), row("recompute", "memory")
    xl, xl_5, fp8 = row("gpt2-xl", "speed"), row("gpt2-xl", "fifth.*"), row("fp8", "1558M, train.fp8=auto.*")
    res, cold, warm = row("resnet50", "speed"), row("resnet50", "fifth.*cold.*"), row("resnet50", "fifth.*warm.*")
    bert = max((row("bert", f"speed; torch {way}") for way in ("padded", "packed")), key=lambda r: r[1])
    large, llama = row("bert-large", "speed; torch padded"), {T: row("llama", rf"T {T},.* batch .(, train.deterministic=false)?") for T in ("2,048", "8,192", "32,768")}
    mlp, text, about = row("mlp", "5 epochs"), row("text", "loss .*"), s.row("gpu", row="gpt2", what="speed")
    return table(("workload", "frugal", "PyTorch", "ratio"), [
        ("GPT-2 124M, batch 64", f"{gpt[0]:,.0f} tokens/s", f"{gpt[1]:,.0f} tokens/s", gpt[2]),
        ("its memory; with `train.recompute=all`", f"{gpt_gib[0]:.1f} GiB; {less[0]:.1f} GiB", f"{gpt_gib[1]:.1f} GiB", gpt_gib[2] + " less"),
        ("process start to its fifth step", f"{gpt_5[0]:.1f} s", f"{gpt_5[1]:.1f} s", gpt_5[2]),
        ("GPT-2 1558M, batch 16", f"{xl[0]:,.0f} tokens/s", f"{xl[1]:,.0f} tokens/s", xl[2]),
        ("the same with `train.fp8=auto`, compared with PyTorch in bf16", f"{fp8[0]:,.0f} tokens/s", fp8[1] and f"{fp8[1]:,.0f} tokens/s" or "", fp8[2] or ""),
        ("process start to its fifth step", f"{xl_5[0]:.1f} s", f"{xl_5[1]:.1f} s", xl_5[2]),
        ("ResNet-50, 224x224, batch 256, SGD", f"{res[0]:,.0f} images/s", f"{res[1]:,.0f} images/s", res[2]),
        ("process start to its fifth step; with the kernel choices of an earlier run", f"{cold[0]:.1f} s; {warm[0]:.1f} s", f"{cold[1]:.1f} s",
         f"{cold[2]}; {warm[2]}"),
        ("BERT-base, sequences of 20 to 127 tokens, batch 128 (PyTorch: the faster of padded and packed)", f"{bert[0]:,.0f} sequences/s",
         f"{bert[1]:,.0f} sequences/s", bert[2]),
        ("BERT-large, sequences of 64 to 384 tokens, batch 32 (PyTorch: padded)", f"{large[0]:,.0f} sequences/s", f"{large[1]:,.0f} sequences/s", large[2]),
        *((f"a decoder of Llama's kind, 0.9 G parameters, T {T}" + how, f"{llama[T][0]:,.0f} tokens/s", f"{llama[T][1]:,.0f} tokens/s", llama[T][2])
          for T, how in (("2,048", ""), ("8,192", ""), ("32,768", "; PyTorch recomputes every block, frugal what does not fit in as much memory"))),
        ("784-128-10 classifier, 10,000 samples, 5 epochs", f"{mlp[0]:.3f} s", f"{mlp[1]:.2f} s (eager)", mlp[2]),
        ("a validation loss of 1.65 on real text, from process start, with `train.recipe: modern` ([text.yaml](../bench/gpu/text.yaml))",
         f"{text[0]:.1f} s", "", "")]) + f"\n{about['GPU'].split(',')[0]}, {about['date'][:10]} ({link(about)}, all rows and kernels).\n"


def saved(s):
    return bill.page_table(s.rows("bill", bill.is_sound))


LEVERS = (  # what it is called, settings, what it trades, its row of bench/levers.py; whether its loss is shown
    ("precision", "on where bf16 is faster (`auto`); off with `train.precision=fp32`", "digits for memory and, where the processor has bf16 instructions, for time; the bench demands "
     "fp32's loss within 1 % at each of 200 steps ([why](decisions/precision.md))", "precision bf16", False),
    ("fusion", "on; off with `train.fuse=none`", "nothing: it saves time, and the result is bit-exact", "fuse all", False),
    ("micro-batches", "`train.batch=16 train.micro_batch=4`; automatic where a batch does not fit", "a little time for memory; the result of the large batch "
     "up to rounding (not with batch norm)", "4 micro-batches", False),
    ("recomputation", "`train.recompute=all` or `2` (every second block); `auto` with `train.memory_gib=1.5`", "time for memory; the result is bit-exact",
     "recompute all", False),
    ("Muon", "`train.optimiser=muon`", "time per step for a lower loss: hidden matrices take orthogonal steps", "muon", True),
    ("recipes", "`train.recipe=modern`", "fills in every setting that you left open, the way current public records train", "recipe modern", True),
    ("schedules", "`train.schedule=cosine`, `wsd`, …, `train.warmup=50`", "how the learning rate falls; costs nothing", "schedule wsd", True),
    ("all for speed", "bf16, fusion, Muon", "", "all for speed", True),
    ("all for memory", "the same, four micro-batches, everything recomputed", "", "all for memory", True))


def levers(s):
    rows = {r.get("lever"): r for r in s.rows("levers", lambda rows: {name for *_, name, _ in LEVERS} <= {
        r.get("lever") for r in rows if r["example"] == "gpt" and common.is_quiet(r)}) if r["example"] == "gpt"}
    tiles = s.row("levers", example="gpt", lever="precision bf16", machine=".*amx_tile.*")
    lines = [(name, settings, trades, f"{rows[lever]['time_ratio']:.2f}x", f"{rows[lever]['memory_ratio']:.2f}x",
              f"{rows[lever]['loss']:.2f}" if shown else "") for name, settings, trades, lever, shown in LEVERS]
    plain = rows["plain"]
    return table(("lever", "settings", "what it trades", "speed", "memory", f"loss after {plain['steps']} steps ({plain['loss']:.2f} without)"), lines) + \
        f"\n{measured_on(plain)} ({link(plain)}, with the ResNet's rows). On two Sapphire Rapids cores, with AMX, bf16 is {tiles['time_ratio']:.2f}x as fast.\n"


def recipes(s):
    muon, modern = (s.row("recipes", comparison=f"modern, muon / {base}", side="modern, muon") for base in ("modern, adamw", "plain"))
    return table(("to the same held-out loss", "steps", "dollars"), [
        ("Muon, compared with AdamW", f"{muon['steps_ratio']:.2f}x", f"{muon['dollars_ratio']:.2f}x"),
        ("`train.recipe=modern`, compared with `plain`", f"{modern['steps_ratio']:.2f}x", f"{modern['dollars_ratio']:.2f}x")]) + \
        f"\n{measured_on(muon)} ({link(muon)}); each side uses the best of its learning rates.\n"


def plan(s):
    """From the text of the plan: it is what the command prints, kept by hand."""
    path = sorted(glob.glob(os.path.join(common.RESULTS, "plan-2*.txt")))[-1]
    file = os.path.basename(path)
    s.used(PLANNED, file)
    with open(path) as f:
        rows = re.findall(r"^ +\d+[! ] +(\$[\d.,]+) +(\$[\d.,]+) +([\d.,]+) +\S+ +[\d.,]+ \w+ +(spot|on-demand)\*? +(.*)$",
                          f.read().split(f"    {PLANNED}\n")[1].split("\n    frugal plan")[0], re.M)
    return table(("machine", "expected cost", "$/hour", "billed hours"), [
        (f"{machine}, {market}", dollars, usd_h, hours) for dollars, usd_h, hours, market, machine in rows[:3]]) + \
        f"\n`{PLANNED}`, {file[5:15]} ([the whole output, and other plans](../bench/results/{file})).\n"


def others(s):
    """Runs of other people's programs."""
    return [r for r in s.rows("published") if not r["run"].startswith("frugal")]


def trust(s):
    here, spot, runs = s.rows("estimate"), s.rows("spot"), others(s)
    h200 = [r for r in s.rows("h200") if r["rates_from"] != "both"]

    def worst(rows):
        return f"{100 * max(abs(r['error']) for r in rows):.1f} %"
    exact = all(r["told_bytes"] == r["used_bytes"] for r in here)
    near = sum(abs(r["error"]) <= 0.15 for r in runs)
    return table(("prediction", "compared with", "error"), [
        ("step time on a CPU", f"{len(here)} measured runs ({link(here[0])})", f"at most {worst(here)}"),
        ("memory of a run", "the same runs", "none: equal to the byte" if exact else "NOT EQUAL"),
        ("throughput on one H200", f"{len(h200)} GPT-2 sizes, each predicted from a profile of the other ({link(h200[0])})", f"at most {worst(h200)}"),
        ("throughput of other people's runs", f"{len(runs)} published runs ({link(runs[0])}, which names the misses)",
         f"{near} of {len(runs)} within 15 %"),
        ("cost of spot interruptions", f"{len(spot)} real spot traces ({link(spot[0])})", f"at most {worst(spot)}")])


def records(s):
    what = {"shakespeare": "Tiny Shakespeare by characters, nanoGPT's 6 blocks of 384, one H200",
            "shakespeare-any": "the same text, any model with a context of at most 256, one H200",
            "shakespeare-cpu": "the same text, nanoGPT's 4 blocks of 128, two cores",
            "text-1.65": "kernel sources (70 M tokens), GPT, one H200", "text-1.45": "the same, to a lower loss",
            "fashion": "Fashion-MNIST, accuracy on its test images, one H200", "fashion-cpu": "the same, two cores",
            "ranker": "[examples/ranker.yaml](../examples/ranker.yaml)'s model to within 0.002 of the AUC that the example ends with, two cores",
            "encoder": "[examples/encoder.yaml](../examples/encoder.yaml)'s model to an accuracy of 0.90, two cores"}
    raced = {r["task"] for r in common.kept("race")}
    rows = [s.row("race", task=task) for task in what if task in raced]

    def peer(r):
        if not r["peer"]:
            return "-"
        took = f"{r['peer']['seconds']:.1f} s ({r['peer']['steps']:,} steps)"
        return f"{took}, {times(r['ratio'])}" if r["ratio"] else f"not reached: {r['peer']['loss']:.4f} after {took}"
    return table(("task", "target", "reached (mean of seeds ± their standard deviation)", "p", "cold", "warm", "dollars", "PyTorch", "commit"), [
        (what[r["task"]], f"{r['target']:.4f}", f"{r['loss']:.4f} ± {statistics.stdev(r['losses']):.4f} ({r['seeds']} seeds, {r['steps']:,} steps)",
         f"{r['p']:.1g}", f"{r['cold_s']:.2f} s", f"{r['seconds']:.2f} s", "-" if r["dollars"] is None else f"${r['dollars']:.4f}", peer(r), r["commit"].split()[0])
        for r in rows]) + "".join(f"\n![{task}: the way to the target against dollars](records/{task}.svg)\n" for task in curves.rows())


def several(s):
    rows = bars.rows()
    if not rows:
        return "`bench/run ranks` measures it; nothing is kept yet.\n"
    whole = [r for r in common.kept("ranks") if r["date"] == rows[0]["date"]]
    s.used("bench/run ranks", rows[0]["file"])

    def share(r, part):
        return f"{100 * r['parts'].get(part, 0):.1f} %" if "parts" in r else "-"
    cells = [(r["row"], f"{r['tokens_per_s']:,}", f"{r['of_one']:.2f}x", f"{r['of_peer']:.2f}x" if "of_peer" in r else "-", share(r, "exchange"),
              share(r, "slowest"), f"{r['arena_mb']:.0f} MB" if "arena_mb" in r else "-") for r in whole]
    disturbed = "" if common.is_quiet(rows[0]) else " Measured beside other work: the figures are worth little."
    return (table(("", "tokens/s", "of one process", "of torch DDP", "communication not hidden", "waiting for the slowest", "memory of a rank"), cells) +
            f"\nThe small GPT of `bench/run cpu`, a batch of 8 for all ranks; {measured_on(rows[0])}.{disturbed}\n"
            "\n![where a step's time goes on 1, 2 and 4 ranks](several.svg)\n")


BLOCKS = {  # name: page, function
    "first": ("README.md", first), "cpu": ("docs/measured.md", cpu), "amx": ("docs/measured.md", amx), "gpu": ("docs/measured.md", gpu),
    "bill": ("docs/measured.md", saved), "levers": ("docs/levers.md", levers), "recipes": ("docs/levers.md", recipes),
    "plan": ("docs/planning.md", plan), "trust": ("docs/planning.md", trust), "records": ("docs/records.md", records),
    "several": ("docs/several.md", several)}


# ---- pages ----

def block(name):
    """A block as the results have it, from its first mark to before its last."""
    sources = Sources()
    text = BLOCKS[name][1](sources)
    return f"<!-- figures {name}: {', '.join(sources.commands)}; bench/results: {', '.join(sources.files)} -->\n{text}"


def renewed(page, text):
    """The page's text with every block as the results have it. A block that nobody here writes is a failure."""
    strangers = set(re.findall(r"<!-- figures (\S+):", text)) - {name for name, (where, _) in BLOCKS.items() if where == page}
    if strangers:
        raise Failed(f"{page}: nobody writes the figures {sorted(strangers)[0]}")
    for name, (where, _) in BLOCKS.items():
        if where == page:
            text = common.between(text, f"<!-- figures {name}:", END, block(name))
    return text


def pages():
    return sorted({page for page, _ in BLOCKS.values()})


def main(*arguments):
    if set(arguments) - {"--check"}:
        sys.exit("figures knows --check alone")
    stale = 0
    for page in pages():
        path = os.path.join(common.TOP, page)
        with open(path) as f:
            before = f.read()
        after = renewed(page, before)
        if after == before:
            continue
        stale += 1
        note(f"{page}: figures {'differ from the newest results in bench/results; bench/run figures writes them' if arguments else 'are new'}")
        if not arguments:
            common.replace(path, after)
    stale += curves.draw(bool(arguments))
    return int(bool(stale and arguments))


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except Failed as failure:
        note(failure)
        sys.exit(3)
