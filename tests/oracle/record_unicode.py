#!/usr/bin/env python3
"""Writes src/data/unicode.def: the letters, numbers and blanks that vocabularies split text by.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install unicodedata2==16.0.0 && /tmp/v/bin/python tests/oracle/record_unicode.py

Version 16.0 is what Oniguruma 6.9.10 knows, the regular expressions inside Hugging Face's tokenizers (0.21
to 0.23 at least): test_tokenize.py compares every code point with the installed one.
"""
import os
import unicodedata2 as unicode

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# White_Space of PropList.txt: unchanged since Unicode 6.3, and not among the properties Python tells.
SPACES = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]


def runs(codes):
    found = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def main():
    kinds = {"L": [], "N": []}
    for code in range(0x110000):
        kinds.get(unicode.category(chr(code))[0], []).append(code)
    rows = [("LETTERS", kinds["L"]), ("NUMBERS", kinds["N"]), ("SPACES", SPACES)]
    with open(os.path.join(TOP, "src", "data", "unicode.def"), "w") as f:
        f.write("/* unicode.def - general categories L* and N* and the property White_Space of Unicode "
                f"{unicode.unidata_version}:\n * the first and last of every run of code points. Written by "
                "tests/oracle/record_unicode.py. */\n")
        for name, codes in rows:
            line = f"{name}("
            for i, (first, last) in enumerate(runs(codes)):
                text = f"{{ 0x{first:x}, 0x{last:x} }}"
                if len(line) + len(text) > 96:
                    f.write(line.rstrip() + "\n")
                    line = " " * 4
                line += text + ", "
            f.write(line.rstrip(", ") + ")\n")


main()
