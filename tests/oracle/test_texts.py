#!/usr/bin/env python3
"""Texts and conversations for other people's models, against transformers: the tokens of a column of texts with the special
tokens around them, BERT, RoBERTa and DistilBERT trained on them step by step, exported and opened again; chat templates token
by token, which tokens are learned, and how samples are packed.

Tolerances as in test_hf.py: 1e-5 of the first loss, 1e-4 over 20 steps of AdamW."""
import csv
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import time

from theirs import FIRST, STEPS, command, compare, logits_of, need, run_cases, same_logits  # before torch

need("tokenizers")

import torch
import torch.nn.functional as F

from oracle import FRUGAL, load, save, seed_of

import transformers as T
from transformers.convert_slow_tokenizer import bytes_to_unicode
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

SHOW = os.path.join(os.path.dirname(FRUGAL), "show_feeds")
BATCH, CONTEXT, LR, DECAY = 3, 12, 3e-3, 0.1
WORDS = ["red", "green", "blue", "Caf\u00e9", "na\u00efve", "\u65e5\u672c", "don't", "x-ray", "3.14", "\u0130stanbul", "Stra\u00dfe", "\U0001f642", "hm,", "(so)"]


def draw_rows(rng, labels, count=STEPS * BATCH):
    return [(" ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 12))), rng.choice(labels)) for _ in range(count)]


# ---- tokenizers ----

def wordpiece(folder, rows):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator([r[0] for r in rows], trainers.WordPieceTrainer(vocab_size=90, show_progress=False, special_tokens=names))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                     special_tokens=[(n, t.token_to_id(n)) for n in ("[CLS]", "[SEP]")])
    f = T.PreTrainedTokenizerFast(tokenizer_object=t, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")
    f.save_pretrained(folder)
    return f


def bytelevel(folder, texts, names, size=400, **how):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=names,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if "<mask>" in names:
        t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
        t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    f = T.PreTrainedTokenizerFast(tokenizer_object=t, **how)
    f.save_pretrained(folder)
    return f


def roberta_tokens(folder, rows):
    return bytelevel(folder, [r[0] for r in rows], ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], 300, pad_token="<pad>", bos_token="<s>",
                     eos_token="</s>", cls_token="<s>", sep_token="</s>")


def sentencepiece(folder, texts, **how):
    blank, learned = "\u2581", Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.Metaspace(replacement=blank)
    learned.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=200, show_progress=False))
    made, vocab = json.loads(learned.to_str())["model"], {}
    for name in ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + sorted(made["vocab"], key=made["vocab"].get):
        vocab.setdefault(name, len(vocab))
    t = Tokenizer(models.BPE(vocab, [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in made["merges"]], byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend(blank), normalizers.Replace(" ", blank)])
    t.add_special_tokens([AddedToken(a, normalized=False) for a in ("<unk>", "<s>", "</s>")])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    f = T.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", unk_token="<unk>", **how)
    f.save_pretrained(folder)
    return f


# ---- classification ----

SMALL = dict(hidden_size=24, intermediate_size=44, num_hidden_layers=2, num_attention_heads=3, initializer_range=0.2)
FAMILIES = {
    "bert": (T.BertForSequenceClassification, lambda v, k: T.BertConfig(vocab_size=v, max_position_embeddings=15, num_labels=k, **SMALL), wordpiece),
    "bert relu": (T.BertForSequenceClassification, lambda v, k: T.BertConfig(vocab_size=v + 3, max_position_embeddings=CONTEXT, hidden_act="relu",
                  type_vocab_size=3, layer_norm_eps=1e-5, num_labels=k, **SMALL), wordpiece),
    "roberta": (T.RobertaForSequenceClassification, lambda v, k: T.RobertaConfig(vocab_size=v, max_position_embeddings=17, type_vocab_size=1, num_labels=k, **SMALL), roberta_tokens),
    "distilbert": (T.DistilBertForSequenceClassification, lambda v, k: T.DistilBertConfig(vocab_size=v, dim=24, hidden_dim=44, n_layers=2, n_heads=4,
                   max_position_embeddings=13, initializer_range=0.2, num_labels=k), wordpiece),
}


def write_rows(folder, rows, kind):
    path = f"{folder}/rows.{kind}"
    with open(path, "w", newline="") as f:
        if kind == "csv":
            csv.writer(f).writerows([("id", "label", "text")] + [(i, y, x) for i, (x, y) in enumerate(rows)])
        else:
            f.writelines(json.dumps({"text": x, "label": y, "extra": [1]}) + "\n" for x, y in rows)
    return path


def settings(folder, kind, **train):
    return {"data": {"path": f"{folder}/rows.{kind}", "text": "text", "label": "label", "context": CONTEXT, "held_out": 0},
            "model": {"kind": "hf", "path": f"{folder}/model"},
            "train": dict(steps=STEPS, batch=BATCH, shuffle=False, log_every=1, threads=1, optimiser="adamw", lr=LR, decay=DECAY, **train)}


def train(folder, settings, code=0):
    with open(f"{folder}/run.yaml", "w") as f:
        json.dump(settings, f)
    out = command("train", f"{folder}/run.yaml", "--json", code=code)
    return out if code else [e["loss"] for e in map(json.loads, out.splitlines()) if e["event"] == "step"]


def make(name, folder, rows, classes, head=True):
    model_class, config, tokenizer = FAMILIES[name]
    f = tokenizer(f"{folder}/model", rows)
    model = model_class(config(len(f), classes)).float()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape) * 0.2)
    (model if head else model.base_model).save_pretrained(f"{folder}/model", safe_serialization=True)
    return f, model.train(False)


def batches(f, rows, labels):
    for i in range(0, STEPS * BATCH, BATCH):
        some = rows[i:i + BATCH]
        x = f([t for t, _ in some], truncation=True, max_length=CONTEXT, padding=True, return_tensors="pt")
        yield x["input_ids"], x["attention_mask"], torch.tensor([labels.index(y) for _, y in some])


def torch_losses(model, f, rows, labels):
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0}]
    opt, losses = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.999), eps=1e-8), []
    for x, mask, y in batches(f, rows, labels):
        loss = F.cross_entropy(model(input_ids=x, attention_mask=mask).logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def show(kind, path, context, tokenizer, *patterns):
    done = subprocess.run([SHOW, kind, path, str(context), tokenizer, "text" if kind != "chat" else "", "label", *patterns],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_family(name):
    seed = seed_of(name)
    rng = random.Random(seed)
    torch.manual_seed(seed)
    labels = rng.choice([[0, 1, 2], ["bad", "fine", "good"]])
    kind = rng.choice(["csv", "jsonl"])
    with tempfile.TemporaryDirectory() as folder:
        rows = draw_rows(rng, labels)
        f, model = make(name, folder, rows, 3)
        write_rows(folder, rows, kind)
        for got, (text, label) in zip(show(kind, f"{folder}/rows.{kind}", CONTEXT, f"{folder}/model"), rows, strict=True):
            ids = f(text, truncation=True, max_length=CONTEXT).input_ids
            assert got["x"][:got["lens"][0]] == ids and got["lens"] == [len(ids)] and got["y"] == [labels.index(label)], (text, got, ids)
        same = settings(folder, kind, out=f"{folder}/same.safetensors")
        same["train"].update(steps=1, lr=1e-30, decay=0)
        train(folder, same)
        command("export", f"{folder}/same.safetensors", f"{folder}/same")
        before, after = load(f"{folder}/model/model.safetensors"), load(f"{folder}/same/model.safetensors")
        assert set(before) == set(after) and all(torch.equal(before[k], after[k]) for k in before), "import and export change bits"
        check_logits("imported", f"{folder}/model", model, folder, f, rows, labels, kind)
        compare(train(folder, settings(folder, kind, out=f"{folder}/out.safetensors")), torch_losses(model, f, rows, labels))
        check_export(folder, f, rows, labels, kind)


def check_logits(name, path, model, folder, f, rows, labels, kind):
    with torch.no_grad():
        theirs = torch.cat([model(input_ids=x, attention_mask=m).logits for x, m, _ in batches(f, rows, labels)])
    data = [f"data.{key}={folder}/rows.{kind}" for key in ("path", "eval_path")]
    same_logits(name, logits_of("classes", "model.kind=hf", f"model.path={path}", *data, "data.text=text", "data.label=label", f"data.context={CONTEXT}"), theirs)


def check_export(folder, f, rows, labels, kind):
    command("export", f"{folder}/out.safetensors", f"{folder}/exported")
    theirs = T.AutoModelForSequenceClassification.from_pretrained(f"{folder}/exported").float().eval()
    data = (f"data.path={folder}/rows.{kind}", f"data.eval_path={folder}/rows.{kind}", "data.text=text", "data.label=label", f"data.context={CONTEXT}", "--json")
    ours = json.loads(command("evaluate", f"{folder}/exported", *data))
    with torch.no_grad():
        logits = [(theirs(input_ids=x, attention_mask=m).logits, y) for x, m, y in batches(f, rows, labels)]
    loss = F.cross_entropy(torch.cat([a for a, _ in logits]), torch.cat([b for _, b in logits])).item()
    far = abs(ours["loss"] - loss) / loss
    found = [json.loads(line) for line in command("predict", f"{folder}/exported", *data).splitlines()]
    likely = torch.cat([a for a, _ in logits]).softmax(-1).max(-1)
    assert all(abs(p["probability"] - q.item()) <= FIRST for p, q in zip(found, likely.values, strict=True)), "other probabilities"
    texts = "".join(f"{text}\n" for text, _ in rows)  # without data: the folder knows its classes
    again = [json.loads(line) for line in command("predict", f"{folder}/exported", f"data.context={CONTEXT}", "--json", rows=texts).splitlines()]
    assert all(p["sample"] == i and abs(p["probability"] - q.item()) <= FIRST
               for i, (p, q) in enumerate(zip(again, likely.values, strict=True))), "other probabilities of lines"
    print(f"  exported: loss {loss:.5f} within {far:.1e} (allowed {FIRST:.0e})", flush=True)
    assert far <= FIRST, "the exported model has another loss in transformers"
    check_logits("exported", f"{folder}/exported", theirs, folder, f, rows, labels, kind)


def check_new_head():
    """A model that was only pre-trained, with the names of the first BERTs: its body is read, its head begins at random."""
    seed = seed_of("new head")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    for name in ("bert", "roberta", "distilbert"):
        with tempfile.TemporaryDirectory() as folder:
            rows = draw_rows(rng, ["a", "b", "c", "d"])
            f, model = make(name, folder, rows, 2, head=False)
            path = f"{folder}/model/model.safetensors"
            tensors = load(path)
            if name == "bert":
                save(path, {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in tensors.items()})
            write_rows(folder, rows, "csv")
            one = settings(folder, "csv", out=f"{folder}/out.safetensors")
            one["train"].update(steps=1, lr=1e-30, decay=0)
            train(folder, one)
            command("export", f"{folder}/out.safetensors", f"{folder}/exported")
            theirs = T.AutoModelForSequenceClassification.from_pretrained(f"{folder}/exported")
            assert theirs.config.id2label == dict(enumerate("abcd")), theirs.config.id2label
            after = theirs.base_model.state_dict()
            assert all(torch.equal(after[k], v) for k, v in tensors.items() if k in after), "the body has other bits"
            os.remove(f"{folder}/rows.csv")  # the weights know the names of their classes
            texts = "".join(f"{text}\n" for text, _ in rows)
            said = [json.loads(line) for line in command("predict", f"{folder}/out.safetensors", "--json", rows=texts).splitlines()]
            assert len(said) == len(rows) and all(p["name"] == "abcd"[p["class"]] for p in said), said
            print(f"  {name}: a new head of 4 classes on {sum(k in after for k in tensors)} tensors", flush=True)


def check_init():
    """train.init: a folder gives the weights that model.path would."""
    seed = seed_of("train.init")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        rows = draw_rows(rng, [0, 1])
        make("bert", folder, rows, 2)
        write_rows(folder, rows, "csv")
        first = train(folder, settings(folder, "csv", out="none"))
        shutil.copytree(f"{folder}/model", f"{folder}/other")
        save(f"{folder}/model/model.safetensors", {k: v * 0 + 0.01 for k, v in load(f"{folder}/model/model.safetensors").items()})
        assert train(folder, settings(folder, "csv", out="none", init=f"{folder}/other")) == first, "train.init gives other losses"
        assert train(folder, settings(folder, "csv", out="none")) != first


def check_mistakes():
    seed = seed_of("mistakes")
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        rows = draw_rows(rng, [0, 1, 2])
        make("bert", folder, rows, 2)
        write_rows(folder, rows, "csv")

        def refused(change, *words):
            s = settings(folder, "csv", out="none")
            change(s)
            said = train(folder, s, code=2)
            assert all(w in said for w in words) and len(said.strip().splitlines()) == 1, said
        refused(lambda s: None, "the data has 3 classes", "was trained for 2")
        refused(lambda s: s["data"].update(text="txt"), 'the header has no column "txt"')
        refused(lambda s: s["data"].pop("label"), "data.text needs data.label")
        refused(lambda s: s["data"].update(context=2), "data.context=2 leaves no room beside 2 special tokens")
        refused(lambda s: s["data"].update(context=16), "data.context=16 is more than the 15 positions")
        write_rows(folder, [(x, min(y, 1)) for x, y in rows], "csv")
        refused(lambda s: s["train"].update(lora={"rank": 2}), "train.lora is not supported with a classifier")
        assert "predicts classes, not tokens" in command("generate", f"{folder}/model", "hello", code=2)
        print("  each mistake one sentence", flush=True)


# ---- chat ----

CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
QWEN = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}"
        "{% endif %}" + CHATML.removeprefix("{% for message in messages %}"))
LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ "
          "message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""
LLAMA32 = LLAMA31.replace('    {%- set date_string = "26 Jul 2024" %}', """    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}""")
MISTRAL = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
           "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% endif %}{% endfor %}")
ZEPHYR = "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>"]
CHATS = {  # template, end of an answer, system messages, tokenizer, data.template
    "chatml": (CHATML, "<|im_end|>", True, "bytes", []),
    "qwen": (QWEN, "<|im_end|>", True, "bytes", []),
    "llama3": (LLAMA3, "<|eot_id|>", True, "bytes", []),
    "llama3.1": (LLAMA31, "<|eot_id|>", True, "bytes", []),
    "mistral": (MISTRAL, "</s>", False, "sentencepiece", []),
    "declared": (ZEPHYR, "<|endoftext|>", True, "bytes", ["<|{role}|>\n{content}{eos}{end}\n"]),
}

DATED = (LLAMA32, "<|eot_id|>", True, "bytes", [])  # not to be learned from: its text is another tomorrow


def draw_chat(rng, system):
    say = lambda: " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 8)))
    talk = [{"role": "system", "content": say()}] if system and rng.random() < 0.3 else []
    for _ in range(rng.randrange(1, 4)):
        talk += [{"role": "user", "content": say()}, {"role": "assistant", "content": say()}]
    return talk


def expected_of(f, talk, end_mark):
    """Tokens and which of them are learned, from the offsets of the text that transformers writes."""
    text = f.apply_chat_template(talk, tokenize=False)
    ids = f.apply_chat_template(talk, tokenize=True, return_dict=False)
    coded = f(text, add_special_tokens=False, return_offsets_mapping=True)
    assert coded.input_ids == ids
    spans, at = [], 0
    for i, m in enumerate(talk):
        if m["role"] == "assistant":
            begin = len(f.apply_chat_template(talk[:i], tokenize=False, add_generation_prompt=True))
            end = text.index(end_mark, begin) + len(end_mark)
            spans.append((begin, end))
    learned = [any(b < e2 <= e for b, e in spans) for _, e2 in coded.offset_mapping]
    return ids, learned


def samples_of(sequences):
    """What show_feeds printed, one sample after the other; padding predicts nothing."""
    out = []
    for s in sequences:
        starts = [i for i, p in enumerate(s["position"]) if p == 0] + [len(s["x"])]
        for a, b in zip(starts, starts[1:]):
            assert s["position"][a:b] == list(range(b - a))
            if any(y >= 0 for y in s["y"][a:b]):
                out.append((s["x"][a:b], s["y"][a:b]))
    return out


def best_fit(lengths, context):
    free = []
    for n in sorted(lengths, reverse=True):
        fits = [i for i, r in enumerate(free) if r >= n]
        if fits:
            free[min(fits, key=lambda i: free[i])] -= n
        else:
            free.append(context - n)
    return len(free)


def chat_tokenizer(folder, kind, texts, template):
    if kind == "sentencepiece":
        return sentencepiece(folder, texts, chat_template=template)
    return bytelevel(folder, texts, MARKS, bos_token="<|begin_of_text|>", eos_token="<|endoftext|>", chat_template=template)


def check_chat(name):
    if not T.utils.is_jinja_available():
        print(f"chat {name}: skipped, jinja2 is not installed (scripts/setup check)")
        return
    rng = random.Random(seed_of(f"chat {name}"))
    template, end_mark, system, kind, declared = CHATS[name]
    with tempfile.TemporaryDirectory() as folder:
        talks = [draw_chat(rng, system) for _ in range(40)]
        f = chat_tokenizer(f"{folder}/t", kind, [m["content"] for t in talks for m in t], template)
        context, path = rng.choice([64, 150]) + 100 * (name == "llama3.1"), f"{folder}/talks.jsonl"  # whose first message is long
        with open(path, "w") as out:
            out.writelines(json.dumps({"messages": t}) + "\n" for t in talks)
        theirs = []
        for talk in talks:
            ids, learned = expected_of(f, talk, end_mark)
            ids, learned = ids[:context + 1], learned[:context + 1]
            if any(learned[1:]):
                theirs.append((ids[:-1], [t if l else -1 for t, l in zip(ids[1:], learned[1:])]))
        sequences = show("chat", path, context, f"{folder}/t", *declared)
        ours = samples_of(sequences)
        assert sorted(ours) == sorted(theirs), next((a, b) for a, b in zip(sorted(ours), sorted(theirs)) if a != b)
        assert len(sequences) == best_fit([len(x) for x, _ in theirs], context), len(sequences)
        print(f"  {len(theirs)} conversations, token by token, in {len(sequences)} sequences of {context}", flush=True)


def bytes_of(f, kind, ids):
    """What tokens stand for, as both kinds of vocabulary write it; special ones for nothing."""
    letters, out = {c: b for b, c in bytes_to_unicode().items()}, b""
    for token in ids:
        text = f.convert_ids_to_tokens(token)
        if token in f.all_special_ids or text in MARKS:
            continue
        if kind == "bytes":
            out += bytes(letters[c] for c in text)
        else:
            out += bytes([int(text[3:5], 16)]) if re.fullmatch("<0x..>", text) else text.replace("\u2581", " ").encode()
    return out


def check_ask(name):
    """frugal generate with "messages" and with --chat: the answer that transformers' greedy search gives behind apply_chat_template's
    prompt. A token that is a part of a character is shown otherwise there: those are left out."""
    if not T.utils.is_jinja_available():
        print(f"ask {name}: skipped, jinja2 is not installed (scripts/setup check)")
        return
    seed = seed_of(f"ask {name}")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    template, end_mark, system, kind, declared = DATED if name == "llama3.2" else CHATS[name]
    dated = {"date_string": time.strftime("%d %b %Y", time.gmtime())} if name == "llama3.2" else {}
    with tempfile.TemporaryDirectory() as folder:
        talks = [draw_chat(rng, system)[:-1] for _ in range(6)]
        f = chat_tokenizer(f"{folder}/model", kind, [m["content"] for t in talks for m in t] * 9, template)
        config = T.LlamaConfig(vocab_size=len(f), hidden_size=24, intermediate_size=44, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                               max_position_embeddings=400, initializer_range=0.2)
        model = T.LlamaForCausalLM(config).eval()
        model.save_pretrained(f"{folder}/model", safe_serialization=True)
        usual = ("<|endoftext|>", "</s>", "<|im_end|>", "<|eot_id|>")  # these end a text wherever they are tokens
        ends = {f.convert_tokens_to_ids(end_mark), f.eos_token_id} | {f.get_vocab()[n] for n in usual if n in f.get_vocab()}

        def tokens(talk):
            ids, wrote = f.apply_chat_template(talk, add_generation_prompt=True, return_dict=False, **dated), []
            while len(wrote) < 12:
                token = int(model(torch.tensor([ids + wrote])).logits[0, -1].argmax())
                if token in ends:
                    break
                wrote.append(token)
            return wrote
        ends.add((tokens(talks[0]) + [0])[-1])  # the first answer ends earlier, with a token that only this file names
        with open(f"{folder}/model/generation_config.json", "w") as out:
            json.dump({"eos_token_id": sorted(ends), "temperature": 0.5}, out)
        answer = lambda talk: bytes_of(f, kind, tokens(talk)).decode(errors="replace")
        plain = lambda text: text.replace("\ufffd", "").lstrip(" ")
        with open(f"{folder}/q.jsonl", "w") as out:
            out.writelines(json.dumps({"messages": t}) + "\n" for t in talks)
        how = ("--temperature", 0, "--count", 12, "--json", *(f"data.template={json.dumps([d])}" for d in declared))
        written = lambda *asked: [e for e in map(json.loads, command("generate", f"{folder}/model", *asked, *how).splitlines()) if e["event"] == "generated"]
        ours = written(f"@{folder}/q.jsonl")
        for talk, said in zip(talks, ours):
            assert plain(said["text"]) == plain(answer(talk)), (said, answer(talk))
            assert said["prompt"] == talk[-1]["content"]
        (said,) = written("red and blue", "--chat")
        assert plain(said["text"]) == plain(answer([{"role": "user", "content": "red and blue"}])), said
        print(f"  {len(ours) + 1} answers", flush=True)


def check_prompts():
    """prompt and completion, and the loss of a Llama on packed samples: that of each alone."""
    seed = seed_of("prompts")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(" ".join(rng.choices(WORDS, k=rng.randrange(1, 6))) + "\n", "=> " + " ".join(rng.choices(WORDS, k=rng.randrange(1, 6)))) for _ in range(30)]
        f = sentencepiece(f"{folder}/model", [a + b for a, b in pairs])
        config = T.LlamaConfig(vocab_size=len(f), hidden_size=24, intermediate_size=44, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                               max_position_embeddings=80, initializer_range=0.2)
        model = T.LlamaForCausalLM(config).eval()
        model.save_pretrained(f"{folder}/model", safe_serialization=True)
        with open(f"{folder}/p.jsonl", "w") as out:
            out.writelines(json.dumps({"prompt": a, "completion": b}) + "\n" for a, b in pairs)
        total, count = 0.0, 0
        for a, b in pairs:
            coded = f(a + b, return_offsets_mapping=True)
            ids = (coded.input_ids + [f.eos_token_id])[:81]
            learned = ([e > len(a) for _, e in coded.offset_mapping] + [True])[:81]
            with torch.no_grad():
                losses = F.cross_entropy(model(torch.tensor([ids[:-1]])).logits[0], torch.tensor(ids[1:]), reduction="none")
            total += sum(l.item() for l, m in zip(losses, learned[1:]) if m)
            count += sum(learned[1:])
        ours = json.loads(command("evaluate", f"{folder}/model", "data.kind=chat", f"data.path={folder}/p.jsonl", f"data.eval_path={folder}/p.jsonl", "data.context=80", "--json"))
        far = abs(ours["loss"] - total / count) / (total / count)
        print(f"  loss {total / count:.5f} within {far:.1e} (allowed {FIRST:.0e})", flush=True)
        assert far <= FIRST, ours


def check_names():
    """Classes are numbered by the names in the folder, or in the weights, whichever of them a file of rows has; an export keeps them."""
    seed = seed_of("names")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    names = ["so \"so\"", "bad", "good"]  # not in the order of their bytes

    def loss_of(model, f, rows):
        x = f([t for t, _ in rows], truncation=True, max_length=CONTEXT, padding=True, return_tensors="pt")
        with torch.no_grad():
            return F.cross_entropy(model(x["input_ids"], x["attention_mask"]).logits, torch.tensor([names.index(y) for _, y in rows])).item()

    def evaluated(which, path, *more):
        return json.loads(command("evaluate", which, f"data.path={path}", f"data.eval_path={path}", *more, "--json"))["loss"]

    with tempfile.TemporaryDirectory() as folder:
        rows = draw_rows(rng, names)
        f, model = make("bert", folder, rows, 3)
        model.config.id2label, model.config.label2id = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
        model.save_pretrained(f"{folder}/model", safe_serialization=True)
        path = write_rows(folder, rows, "csv")
        columns = ("data.text=text", "data.label=label", f"data.context={CONTEXT}")
        assert abs(evaluated(f"{folder}/model", path, *columns) / loss_of(model, f, rows) - 1) <= FIRST, "the folder's names are not those of its classes"
        train(folder, settings(folder, "csv", out=f"{folder}/out.safetensors"))
        said = command("export", f"{folder}/out.safetensors", f"{folder}/exported")
        assert "AutoModelForSequenceClassification.from_pretrained" in said, said
        theirs = T.AutoModelForSequenceClassification.from_pretrained(f"{folder}/exported").eval()
        assert theirs.config.id2label == dict(enumerate(names)), theirs.config.id2label
        fewer = [r for r in rows if r[1] != names[1]]
        path = write_rows(folder, fewer, "jsonl")
        for which in ("out.safetensors", "exported"):
            more = columns if which == "exported" else ()
            assert abs(evaluated(f"{folder}/{which}", path, *more) / loss_of(theirs, f, fewer) - 1) <= FIRST, f"{which}: another loss without one of the classes"
        found = [json.loads(line) for line in command("predict", f"{folder}/exported", f"data.context={CONTEXT}", "--json", rows="red\ngreen\n").splitlines()]
        assert [p["name"] for p in found] == [names[p["class"]] for p in found], found
        path = write_rows(folder, rows + [("blue", "ugly")], "jsonl")
        assert "the data has the label ugly, which is none of the model's 3 classes" in command("evaluate", f"{folder}/out.safetensors", f"data.path={path}", code=2)
        assert "is the folder that the model began with" in command("export", f"{folder}/out.safetensors", f"{folder}/model/", code=2)
        train(folder, settings(folder, "csv", out="none"))  # the folder's weights are not those of the run
        assert "no weights were written" in command("evaluate", f"{folder}/run.yaml", code=2)
        print("  classes by their names", flush=True)


def check_generate():
    """A folder and a text, and nothing else: its own tokenizer decides what the tokens are, and raw text is not taken for them."""
    seed = seed_of("generate")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    letters = {c: b for b, c in bytes_to_unicode().items()}
    with tempfile.TemporaryDirectory() as folder:
        texts = [" ".join(rng.choices(WORDS, k=30)) for _ in range(40)]
        f = bytelevel(f"{folder}/model", texts, ["<|endoftext|>"], eos_token="<|endoftext|>")
        config = T.GPT2Config(vocab_size=len(f), n_positions=40, n_embd=24, n_layer=2, n_head=3, initializer_range=0.2, eos_token_id=0)
        model = T.GPT2LMHeadModel(config).eval()
        model.save_pretrained(f"{folder}/model", safe_serialization=True)
        for prompt in rng.sample(texts, 5):
            ids = f(prompt[:50]).input_ids
            begin = len(ids)
            assert begin < len(prompt[:50]), "bytes would do as well"
            while len(ids) < begin + 5 and (ids[-1] != f.eos_token_id):
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
            said = command("generate", f"{folder}/model", prompt[:50], "--temperature", 0, "--count", 5)
            wrote = bytes(letters[c] for t in ids[begin:] if t != f.eos_token_id for c in f.convert_ids_to_tokens(t))
            assert said.encode(errors="surrogateescape") == prompt[:50].encode() + wrote + b"\n", (said, wrote)
        assert f"has {len(f(texts[0] * 3).input_ids)} tokens, and the model reads at most 40" in command("generate", f"{folder}/model", texts[0] * 3, code=2)
        with open(f"{folder}/plain.txt", "w") as out:
            out.write("\n".join(texts))
        raw = (f"data.path={folder}/plain.txt", "data.context=12")
        assert f"{folder}/model has a tokenizer: `frugal tokenize --tokenizer" in command("evaluate", f"{folder}/model", *raw, code=2)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            os.remove(f"{folder}/model/{name}")
        assert "which tokenizer?" in command("generate", f"{folder}/model", "red", code=2)
        print("  the tokens of its own tokenizer", flush=True)


def main():
    cases = {name: lambda name=name: check_family(name) for name in FAMILIES}
    cases |= {"new head": check_new_head, "train.init": check_init, "mistakes": check_mistakes, "prompts": check_prompts, "generate": check_generate, "names": check_names}
    cases |= {f"chat {name}": lambda name=name: check_chat(name) for name in CHATS}
    cases |= {f"ask {name}": lambda name=name: check_ask(name) for name in [*CHATS, "llama3.2"]}
    run_cases(cases)


main()
