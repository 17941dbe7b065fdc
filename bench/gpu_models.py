"""What the rows lora-* and generate-* of `bench/run gpu` share: folders of models with random weights, and PyTorch's side.

Compiling takes PyTorch minutes, on the processor. So the peers of several rows warm up side by side, while the folders are
drawn, and are timed one after another, when all are warm: nothing else runs on the GPU then."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from common import DATA, TOP, Failed, last_words, note, spawn

BYTES = {"llama": 16.1e9, "qwen": 3.1e9, "gpt2": 0.3e9}
SHAPES = {"lora-qwen": "qwen", "generate-124m": "gpt2"}  # of a row; others: llama

# The arguments of each row's peers; of several the fastest counts. What is in one line is warm at the same time: the first
# needs 120 of 140 GiB (60.6 and 56.3 for the large ones), the second 75.
PEERS = ({"lora-8b": [("gpu_lora.py", "compile", 4, 2048)], "lora-qwen": [("gpu_lora.py", "full", 8, 2048)],
          "generate-124m": [("gpu_generate.py", "gpt2", 256, "its own"), ("gpu_generate.py", "gpt2", 256, "compiled")]},
         {"lora-least": [("gpu_lora.py", "ckpt", 4, 2048)], "lora-4bit": [("gpu_lora.py", "4bit", 4, 2048)],
          "generate-8b": [("gpu_generate.py", "llama", 128, "its own")]})


class Models:
    """Of one call: `rows` are all that it measures, `kept` the folder where models stay, or None."""

    def __init__(self, torch, rows, kept):
        self.torch, self.rows, self.kept = torch, rows, kept
        self.folders, self.said = {}, {}

    def begin(self, shape):
        """Begins to write a folder, in memory where there is room for it."""
        if shape in self.folders:
            return
        places = [self.kept] if self.kept else ["/dev/shm", tempfile.gettempdir(), DATA]
        place = next((p for p in places if os.path.isdir(p) and shutil.disk_usage(p).free > 1.1 * BYTES[shape]), None)
        if not place:
            raise Failed(f"{' and '.join(places)} have no room for a model of {BYTES[shape] / 1e9:.1f} GB")
        folder = os.path.join(place, f"frugal_bench_{shape}")
        whole = os.path.exists(os.path.join(folder, "config.json"))  # written last
        self.folders[shape] = folder, None if whole else spawn([self.torch or sys.executable, os.path.join(TOP, "bench", "gpu_lora.py"), "make", shape, folder])

    def folder(self, shape):
        """Whole."""
        self.begin(shape)
        folder, process = self.folders[shape]
        if process and process.wait():
            raise Failed(f"a model with random weights needs torch (--torch=PYTHON): {last_words()}")
        return folder

    def spawn(self, script, *arguments):
        folder = [self.folder("llama")] if arguments[0] == "4bit" else []
        return spawn([self.torch, os.path.join(TOP, "bench", script), "peer", *map(str, arguments), *folder], stdin=subprocess.PIPE)

    def measure(self, line):
        """All of a line that belong to this call."""
        rows, begin = [row for row in line if row in self.rows], time.perf_counter()
        if not self.torch:
            return self.said.update({row: {} for row in rows})
        for row in rows:
            self.begin(SHAPES.get(row, "llama"))
        peers = [(row, self.spawn(*how)) for row in rows for how in line[row]]
        warm = [process.stdout.readline() == "warm\n" for _, process in peers]
        note(f"PyTorch is warm for {', '.join(rows)} after {time.perf_counter() - begin:.0f} s")
        for (row, process), ready in zip(peers, warm):
            said = timed(process) if ready else {}
            if process.wait() or not said:
                note(f"{row}: PyTorch: {last_words()}")
            self.said[row] = max(self.said.get(row, {}), said, key=lambda s: s.get("tokens_s", 0))

    def peer(self, row):
        """What PyTorch's figures are; {} without it, or where it failed."""
        if row not in self.said:
            self.measure(next(line for line in PEERS if row in line))
        return self.said[row]

    def close(self):
        for shape, (folder, process) in self.folders.items():
            if process:
                process.kill()
                process.wait()
            if not self.kept:
                shutil.rmtree(folder, ignore_errors=True)


def timed(process):
    """Lets a warm peer go on, and takes its last line."""
    process.stdin.write("go\n")
    process.stdin.close()
    lines = process.stdout.read().splitlines()
    return json.loads(lines[-1]) if lines else {}
