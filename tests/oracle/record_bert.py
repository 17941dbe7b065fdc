#!/usr/bin/env python3
"""Writes src/data/bert.def: what BERT's normalizer and pre-tokenizer do with each character, asked of Hugging Face's
tokenizers one code point at a time.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install tokenizers && /tmp/v/bin/python tests/oracle/record_bert.py
"""
import os
import tokenizers
from tokenizers import normalizers, pre_tokenizers

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def runs(codes):
    found = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return [f"{{ 0x{a:x}, 0x{b:x} }}" for a, b in found]


def lower_runs():
    """first, last, step, delta: every step-th from first to last becomes itself plus delta."""
    lower, found, odd = normalizers.Lowercase(), [], []
    for c in CODES:
        to = lower.normalize_str(chr(c))
        if len(to) != 1:
            odd.append((c, to))
            continue
        delta = ord(to) - c
        if not delta:
            continue
        last = found[-1] if found else None
        if last and last[3] == delta and last[0] == last[1] and c - last[0] in (1, 2):
            last[1], last[2] = c, c - last[0]
        elif last and last[3] == delta and c - last[1] == last[2] and last[0] != last[1]:
            last[1] = c
        else:
            found.append([c, c, 1, delta])
    assert odd == [(0x130, "i\u0307")], odd  # the one character that becomes two
    return [f"{{ 0x{a:x}, 0x{b:x}, {s}, {d} }}" for a, b, s, d in found]


def main():
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    wide = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False)
    strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    split = pre_tokenizers.BertPreTokenizer()
    dropped, blanks, spaced, signs, marks = [], [], [], [], []
    for c in CODES:
        text = "a" + chr(c) + "a"
        cleaned = clean.normalize_str(text)
        if cleaned == "aa":
            dropped.append(c)
        elif cleaned == "a a":
            blanks.append(c)
        if wide.normalize_str(text) != text:
            spaced.append(c)
        words = [w for w, _ in split.pre_tokenize_str(text)]
        if words == ["a", chr(c), "a"]:
            signs.append(c)
        if strip.normalize_str(text) == "aa":
            marks.append(c)
    rows = [("DROPPED", runs(dropped)), ("BLANKS", runs(blanks)), ("SPACED", runs(spaced)), ("SIGNS", runs(signs)),
            ("MARKS", runs(marks)), ("LOWER", lower_runs())]
    with open(os.path.join(TOP, "src", "data", "bert.def"), "w") as f:
        f.write("/* bert.def - characters as BERT's normalizer and pre-tokenizer treat them in Hugging Face's tokenizers "
                f"{tokenizers.__version__}:\n * first and last of every run that is dropped, becomes a blank, gets blanks "
                "around it, is a word of its own, is a mark over\n * a letter; of capitals first, last, step and how far "
                "their small letters lie. Written by tests/oracle/record_bert.py. */\n")
        for name, items in rows:
            line = f"{name}("
            for text in items:
                if len(line) + len(text) > 96:
                    f.write(line.rstrip() + "\n")
                    line = " " * 4
                line += text + ", "
            f.write(line.rstrip(", ") + ")\n")


main()
