#!/usr/bin/env python3
"""Our safetensors files against Python's: each reads what the other wrote, byte for byte the same
where the metadata is, and both refuse what breaks the format."""
import json, os, random, struct, subprocess, sys, tempfile

try:
    import numpy as np
    import safetensors
    from safetensors.numpy import load_file, save_file
except ImportError as e:
    print(f"needs {e.name}: pip install numpy safetensors")
    sys.exit(77)

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ST_COPY = os.path.join(TOP, "build", "st_copy")
DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
SEED = int(os.environ.get("CHECK_SEED") or random.SystemRandom().getrandbits(64))


def copy(source, target):
    return subprocess.run([ST_COPY, source, target], capture_output=True, text=True)


def random_tensors(rng):
    alphabet = "abcXYZ019._-/ \"\\é日"
    tensors = {}
    for _ in range(rng.randrange(0, 9)):
        name = "".join(rng.choice(alphabet) for _ in range(rng.randrange(0, 12)))
        shape = [rng.choice([0, 1, 2, 3, 7]) for _ in range(rng.randrange(0, 7))]
        dtype = np.dtype(rng.choice(DTYPES))
        count = int(np.prod(shape, dtype=np.int64))
        raw = rng.randbytes(count * dtype.itemsize)
        if dtype == np.bool_:
            raw = bytes(b & 1 for b in raw)
        tensors[name] = np.frombuffer(raw, dtype).reshape(shape)
    return tensors


def same(a, b):
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and a[k].tobytes() == b[k].tobytes()
        for k in a)


def check_both_ways(rng, folder):
    theirs, ours = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
    tensors = random_tensors(rng)
    save_file(tensors, theirs, metadata={"format": "pt"})
    done = copy(theirs, ours)
    assert done.returncode == 0, done.stderr
    assert same(load_file(ours), tensors), sorted(tensors)
    with open(theirs, "rb") as a, open(ours, "rb") as b:
        assert a.read() == b.read(), f"not the same bytes: {sorted(tensors)}"


def tensor(begin, end, dtype="F32", shape=(1,)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


BROKEN = [  # header, bytes behind it
    ({"a": tensor(0, 4), "b": tensor(8, 12)}, 12),      # a hole
    ({"a": tensor(0, 4)}, 8),                           # a tail
    ({"a": tensor(0, 4), "b": tensor(2, 6)}, 6),        # an overlap
    ({"a": tensor(0, 8)}, 8),                           # more bytes than the shape
    ({"a": tensor(0, 4)}, 3),                           # cut off
    ({"a": tensor(0, 4, dtype="F33")}, 4),              # an unknown type
    ({"a": tensor(0, 4, shape=[2**62, 4])}, 4),         # a product that overflows
    ({"a": tensor(0, 4, shape=[-1])}, 4),
    ({"__metadata__": {"k": 1}}, 0),
]


def check_broken(folder):
    path = os.path.join(folder, "broken")
    for header, data_bytes in BROKEN:
        text = json.dumps(header).encode()
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + bytes(data_bytes))
        try:
            load_file(path)
            raise AssertionError(f"Python accepts {header}")
        except safetensors.SafetensorError:
            pass
        done = copy(path, path + ".copy")
        assert done.returncode == 2 and path in done.stderr, (header, done)


def main():
    print(f"CHECK_SEED={SEED}, safetensors {safetensors.__version__}")
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(100):
            check_both_ways(rng, folder)
        check_broken(folder)
    print("100 files both ways, %d broken ones refused by both" % len(BROKEN))


main()
