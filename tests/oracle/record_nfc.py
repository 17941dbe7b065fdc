#!/usr/bin/env python3
"""Writes src/data/nfc.def: what Hugging Face's normalizer NFC knows of combining classes and decompositions.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install unicodedata2==16.0.0 tokenizers && /tmp/v/bin/python tests/oracle/record_nfc.py

Its tables are older than those of its regular expressions (about Unicode 9), and a text must come out as it does there: each
row of Unicode 16 is kept if the installed tokenizers behave so. test_tokenize.py compares.
"""
import os
import unicodedata2 as unicode
from tokenizers import normalizers

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NFC, NFD = normalizers.NFC(), normalizers.NFD()
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def combining(code):
    """The class, if a neighbour of a lower or higher class is moved past it."""
    c = chr(code)
    low, high = "a" + c + "\u0334", "a\u0345" + c
    known = NFD.normalize_str(low) != low or NFD.normalize_str(high) != high
    return unicode.combining(c) if known else 0


def write(f, name, rows):
    line = f"{name}("
    for row in rows:
        text = "{ " + ", ".join(f"0x{v:x}" if v > 9 else str(v) for v in row) + " }, "
        if len(line) + len(text) > 100:
            f.write(line.rstrip() + "\n")
            line = " " * 4
        line += text
    f.write(line.rstrip(", ") + ")\n")


def main():
    runs = []
    for code in (c for c in CODES if unicode.combining(chr(c))):
        value = combining(code)
        if value and runs and runs[-1][1] == code - 1 and runs[-1][2] == value:
            runs[-1][1] = code
        elif value:
            runs.append([code, code, value])
    pairs = []
    for code in CODES:
        parts = unicode.decomposition(chr(code)).split()
        if not parts or parts[0][0] == "<" or NFD.normalize_str(chr(code)) == chr(code):
            continue
        first, second = int(parts[0], 16), int(parts[1], 16) if len(parts) > 1 else 0
        pairs.append((code, first, second, int(NFC.normalize_str(chr(code)) == chr(code))))
    with open(os.path.join(TOP, "src", "data", "nfc.def"), "w") as f:
        f.write("/* nfc.def - what tokenizers' NFC knows: runs of code points and their combining class; code points, the one or two\n"
                " * they are made of, and whether these become it again. Written by tests/oracle/record_nfc.py. */\n")
        write(f, "COMBINING", runs)
        write(f, "COMPOSED", pairs)


main()
