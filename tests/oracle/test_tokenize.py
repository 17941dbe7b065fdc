#!/usr/bin/env python3
"""frugal tokenize against Hugging Face's tokenizers: what is a letter, where words end, which tokens a text becomes, which
vocabulary is learned from it. Texts, vocabularies and settings are drawn; CHECK_SECONDS says how long."""
import array, json, os, random, subprocess, sys, tempfile, time

try:
    import tokenizers
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError as e:
    print(f"needs {e.name}: pip install tokenizers")
    sys.exit(77)

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FRUGAL, SPLIT_WORDS = os.path.join(TOP, "build", "frugal"), os.path.join(TOP, "build", "split_words")
SEED = int(os.environ.get("CHECK_SEED") or random.SystemRandom().getrandbits(64))
SECONDS = float(os.environ.get("CHECK_SECONDS") or 5)
RNG = random.Random(SEED)
END = "<|endoftext|>"

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
REGEXES = [r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
           CL100K % r"\p{N}{1,3}", CL100K % r"\p{N}",
           r"'s|'t|'re|'ve|'m|'ll|'d|\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+"]  # in the order of enum presplit
DIGITS = pre_tokenizers.Digits(individual_digits=True)


def newer_digits():
    """Digits asks Rust what a number is, a Split by an expression Oniguruma: the two may know different years of Unicode."""
    numbers, found = pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"), set()
    for i in range(0x80, 0x110000, 4096):
        text = " ".join(chr(c) for c in range(i, min(i + 4096, 0x110000)) if not 0xD800 <= c < 0xE000)
        a, b = [{w for w, _ in how.pre_tokenize_str(text) if len(w) == 1} for how in (DIGITS, numbers)]
        found |= a ^ b
    return found - {" "}


UNSURE = newer_digits()


def frugal(*arguments, code=0):
    done = subprocess.run([FRUGAL, "tokenize", *arguments], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done.stderr


def put(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


# ---- texts ----

BITS = ["'", "'s", "'S", "'ll", "'\u017f", "'re", "'VE", " ", "  ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\u3000", "\u2028", "\x85",
        "\x1c", "a", "Z", "the", " of", "\u00e9", "e\u0301", "o\u0301\u0328", "\u0344", "\u1112\u1161\u11ab", "\uac00\u11a8", "\u0958", "\u212b", "\u0625\u0651\u064e", "\u65e5\u672c", "\u0e44\u0e17\u0e22", "\U0001f642\u200d\U0001f642", "1", "23", "4567",
        "\u2163", "\u00bd", "\u0664", ".", "...", "!?", "()", "_", "\ufeff", "\u200b", "\ufffd", END, "<|", "|>", "<a b>", "<ab", "\nq"]


def draw_text(length):
    parts = []
    while length > 0:
        kind = RNG.random()
        if kind < 0.85:
            parts.append(RNG.choice(BITS))
        elif kind < 0.93:
            parts.append(chr(RNG.choice([RNG.randrange(0xD800), RNG.randrange(0xE000, 0x110000), RNG.randrange(0x3000)])))
        else:
            parts.append(RNG.choice("ab ") * RNG.randrange(1, 120))
        length -= len(parts[-1])
    return "".join("?" if p in UNSURE else p for p in parts)


def spoil(data):
    """Some bytes that make it no UTF-8."""
    data = bytearray(data)
    for _ in range(len(data) // 200):
        data.insert(RNG.randrange(len(data)), RNG.randrange(0x80, 0x100))
    return bytes(data)


# ---- what is compared ----

def check_classes():
    ours = subprocess.run([SPLIT_WORDS, "classes"], capture_output=True, text=True, check=True).stdout
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for digit, pattern in (("1", r"\p{L}"), ("2", r"\p{N}"), ("3", r"\s")):
        split = pre_tokenizers.Split(Regex(pattern), "removed")
        for i in range(0, len(codes), 8192):
            text = "".join(map(chr, codes[i:i + 8192]))
            others = {c for word, _ in split.pre_tokenize_str(text) for c in word}
            for c in text:
                assert (ours[ord(c)] == digit) == (c not in others), f"U+{ord(c):04X} and {pattern}"


def check_words(folder):
    for kind, regex in enumerate(REGEXES):
        text = draw_text(20000)
        path = put(folder, "words", text.encode())
        ours = subprocess.run([SPLIT_WORDS, str(kind), path], capture_output=True, text=True, check=True).stdout
        ends, at = [], 0
        for word, _ in pre_tokenizers.Split(Regex(regex), "isolated").pre_tokenize_str(text):
            at += len(word.encode())
            ends.append(at)
        ours = [int(line) for line in ours.split()]
        wrong = next((i for i, (a, b) in enumerate(zip(ours, ends)) if a != b), None)
        assert ours == ends, f"expression {kind}: {text.encode()[ends[wrong - 1] if wrong else 0:][:40]!r}"


def draw_tokenizer(text):
    """Some tokenizer of those we read, trained from the text. The vocabulary knows tokens that cross words of other
    expressions, so that a wrong cut shows."""
    t = Tokenizer(models.BPE(ignore_merges=RNG.random() < 0.3))
    kind = RNG.randrange(5)
    if kind < 2:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=kind == 1)
    elif kind == 4:  # SmolLM
        t.pre_tokenizer = pre_tokenizers.Sequence([DIGITS, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    else:
        t.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(REGEXES[kind - 1]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if RNG.random() < 0.4:
        t.normalizer = normalizers.NFC()
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=RNG.choice([257, 300, 600, 3000]), show_progress=False,
                                  special_tokens=[END] if RNG.random() < 0.7 else [],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator([text], trainer)
    if RNG.random() < 0.5:
        t.add_tokens([AddedToken(a, normalized=RNG.random() < 0.5, special=RNG.random() < 0.5)
                      for a in RNG.sample(["<a b>", "<a", "the", "\nq", "<|", "<|endof", "q\n", "  ", "\U0001f642"], 4)])
    return t


def check_tokens(folder):
    text = draw_text(RNG.choice([300, 6000, 60000]))
    t = draw_tokenizer(text)
    vocabulary, data = os.path.join(folder, "tokenizer.json"), [draw_text(RNG.choice([1, 500, 30000])).encode() for _ in range(3)]
    t.save(vocabulary)
    data[0] += text.encode()
    data[1] = spoil(data[1])
    paths = [put(folder, f"text{i}", d) for i, d in enumerate(data)]
    out, expected = os.path.join(folder, "out.bin"), []
    separator = t.token_to_id(END)
    for d in data:
        expected += t.encode(d.decode("utf-8", "replace"), add_special_tokens=False).ids
        expected += [separator] if separator is not None else []
    compare(vocabulary, paths, out, expected)


def draw_sentencepiece(text):
    """Llama 2's and Mistral's kind: blanks are U+2581, characters that are no token become bytes, or unknown."""
    blank, trained = "\u2581", Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement=blank, prepend_scheme="always", split=RNG.random() < 0.7)
    trained.train_from_iterator([text], trainers.BpeTrainer(vocab_size=RNG.choice([40, 300, 1000]), show_progress=False,
                                                            limit_alphabet=RNG.choice([20, 1000]), initial_alphabet=[blank] if RNG.random() < 0.9 else []))
    made = json.loads(trained.to_str())["model"]
    fallback = RNG.random() < 0.8
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256) if fallback] + sorted(made["vocab"], key=made["vocab"].get)
    vocab = {}
    for name in names:
        vocab.setdefault(name, len(vocab))
    t = Tokenizer(models.BPE(vocab, [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in made["merges"]], byte_fallback=fallback, fuse_unk=RNG.random() < 0.5,
                             unk_token="<unk>" if RNG.random() < 0.8 else None))
    kind = RNG.randrange(3)
    if kind == 0:
        t.normalizer = normalizers.Sequence([normalizers.Prepend(blank), normalizers.Replace(" ", blank)])
    elif kind == 1:
        t.normalizer = normalizers.Replace(" ", blank)
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace(replacement=blank, prepend_scheme=RNG.choice(["first", "always", "never"]),
                                                   split=RNG.random() < 0.5)
    t.add_special_tokens([AddedToken(a, normalized=False) for a in ("<unk>", "<s>", "</s>")])
    t.add_tokens([AddedToken("<ab", normalized=False, lstrip=RNG.random() < 0.5, rstrip=RNG.random() < 0.5)])
    return t


def draw_wordpiece(text):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=RNG.choice([5, 100])))
    if RNG.random() < 0.9:
        t.normalizer = normalizers.BertNormalizer(clean_text=RNG.random() < 0.7, handle_chinese_chars=RNG.random() < 0.7,
                                                  strip_accents=RNG.choice([None, True, False]), lowercase=RNG.random() < 0.6)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator([text], trainers.WordPieceTrainer(vocab_size=RNG.choice([60, 300, 2000]), show_progress=False,
                                                            special_tokens=["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]))
    model = json.loads(t.to_str())["model"]
    t.model = models.WordPiece(model["vocab"], unk_token="[UNK]", max_input_chars_per_word=RNG.choice([5, 100]))
    t.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True, normalized=False)])
    return t


def check_kinds(folder):
    """The other kinds of vocabularies, on texts of every kind of character."""
    for draw in (draw_sentencepiece, draw_wordpiece):
        text = draw_text(RNG.choice([300, 4000]))
        t = draw(text)
        vocabulary = os.path.join(folder, "tokenizer.json")
        t.save(vocabulary)
        lines = "\n".join(draw_text(300).strip() for _ in range(30))
        data = [lines.encode() * 80 if RNG.random() < 0.2 else b"", spoil(draw_text(500).encode()), (text + "<s>" + text[:50] + " [MASK]x</s>").encode(), draw_text(9000).encode()]
        expected = [i for d in data for i in t.encode(d.decode("utf-8", "replace"), add_special_tokens=False).ids]
        compare(vocabulary, [put(folder, f"kind{i}", d) for i, d in enumerate(data)], os.path.join(folder, "out.bin"), expected)


def compare(vocabulary, paths, out, expected, kind="H"):
    frugal("--tokenizer", vocabulary, "--out", out, *paths)
    ours = array.array(kind)
    with open(out, "rb") as f:
        ours.frombytes(f.read())
    os.remove(out)
    os.remove(out + ".json")
    wrong = next((i for i, (a, b) in enumerate(zip(ours, expected)) if a != b), min(len(ours), len(expected)))
    assert list(ours) == expected, f"token {wrong} of {len(expected)}: {list(ours[wrong:wrong + 5])}, not {expected[wrong:wrong + 5]}"


def check_two_files(folder):
    """vocab.json and merges.txt; numbers above 65,535 make the tokens wider."""
    text = draw_text(5000)
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator([text], trainers.BpeTrainer(vocab_size=500, show_progress=False, special_tokens=[END],
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.model.save(folder)
    path, expected = put(folder, "text", text.encode()), t.encode(text).ids + [t.token_to_id(END)]
    compare(os.path.join(folder, "vocab.json"), [path], os.path.join(folder, "out.bin"), expected)
    with open(os.path.join(folder, "vocab.json")) as f:
        wide = {token: number + 70000 for token, number in json.load(f).items()}
    put(folder, "vocab.json", json.dumps(wide).encode())
    compare(os.path.join(folder, "merges.txt"), [path], os.path.join(folder, "out.bin"), [n + 70000 for n in expected], "I")


def check_training(folder):
    alphabet = RNG.choice(["ab", "abc", "a b", "abcdefgh ", "a\u00e9\u65e5 \n", "ab<|endoftx>", None])
    texts = []
    for _ in range(2):
        words = ["".join(RNG.choice(alphabet or BITS) for _ in range(RNG.choice([1, 3, 8, 40]))) for _ in range(RNG.choice([3, 30]))]
        texts.append("".join(RNG.choice(words) + RNG.choice(["", "", " ", "\n"]) for _ in range(RNG.choice([5, 50, 2000]))))
    size = RNG.choice([257, 258, 270, 300, 500, 2000])
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=[END],
                                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made = os.path.join(folder, "made")
    frugal("--train", str(size), "--tokenizer", made, *[put(folder, f"t{i}", t.encode()) for i, t in enumerate(texts)])
    ours = Tokenizer.from_file(os.path.join(made, "tokenizer.json"))
    a, b = json.loads(theirs.to_str())["model"], json.loads(ours.to_str())["model"]
    assert a["vocab"] == b["vocab"] and a["merges"] == b["merges"], (alphabet, size, texts[0][:80])
    assert ours.encode(texts[0] + END).ids == theirs.encode(texts[0] + END).ids
    two = models.BPE.from_file(os.path.join(made, "vocab.json"), os.path.join(made, "merges.txt"))
    assert json.loads(Tokenizer(two).to_str())["model"]["merges"] == a["merges"]
    for name in os.listdir(made):
        os.remove(os.path.join(made, name))


def check_refused(folder):
    """What we do not do, we do not do silently."""
    path, out = put(folder, "text", b"some text"), os.path.join(folder, "out.bin")

    def refused(change, words):
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        t.train_from_iterator(["some text"], trainers.BpeTrainer(
            vocab_size=260, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        change(t)
        t.save(os.path.join(folder, "tokenizer.json"))
        said = frugal("--tokenizer", folder, "--out", out, path, code=2)
        assert words in said and not os.path.exists(out) and not os.path.exists(out + ".parts"), said
    refused(lambda t: setattr(t, "normalizer", normalizers.NFKC()), "NFKC")
    refused(lambda t: setattr(t, "normalizer", normalizers.Lowercase()), "Lowercase")
    refused(lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Metaspace(replacement="_")), "Metaspace")
    refused(lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Whitespace()), "Whitespace")
    refused(lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Split(Regex(REGEXES[0]), "removed")), "Split")
    refused(lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(False), pre_tokenizers.ByteLevel(add_prefix_space=False)])), "individual_digits")
    refused(lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Sequence([DIGITS, pre_tokenizers.ByteLevel(add_prefix_space=True)])), "add_prefix_space")
    refused(lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\p{Lu}+"), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])), r"\p{Lu}+")
    refused(lambda t: t.add_tokens([AddedToken("<m>", single_word=True)]), "single_word")
    refused(lambda t: setattr(t, "model", models.WordPiece({"a": 0}, unk_token="a")), "WordPiece")
    refused(lambda t: setattr(t, "model", models.Unigram([("a", 0.0)])), "Unigram")
    refused(lambda t: setattr(t, "model", models.BPE({"a": 0}, [])), "lacks the token")


def main():
    print(f"CHECK_SEED={SEED}, tokenizers {tokenizers.__version__}")
    check_classes()
    begin, rounds = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        check_refused(folder)
        while rounds < 1 or time.monotonic() < begin + SECONDS:
            check_words(folder)
            check_training(folder)
            for _ in range(3):
                check_tokens(folder)
            check_kinds(folder)
            check_two_files(folder)
            for name in os.listdir(folder):
                if name != "made":
                    os.remove(os.path.join(folder, name))
            rounds += 1
    print(f"every code point and {rounds} rounds of drawn texts and vocabularies are the same")


main()
