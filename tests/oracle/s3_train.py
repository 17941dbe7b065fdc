"""A small run of frugal train on a machine of its own, whose checkpoints go to a server of s3_server.py."""
import json, os, random, struct, subprocess, sys, tempfile, time

from s3_server import KEY_ID, SECRET, REGION

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FRUGAL = os.environ.get("FRUGAL") or os.path.join(TOP, "build", "frugal")
if not os.path.exists(FRUGAL):
    print("no build/frugal yet")
    sys.exit(77)
SEED = int(os.environ.get("CHECK_SEED") or random.SystemRandom().getrandbits(64))
print(f"CHECK_SEED={SEED}")
RNG = random.Random(SEED)
RUN = """
data: {kind: idx, path: IMAGES, labels: LABELS, eval_path: IMAGES, eval_labels: LABELS}
model: {kind: layers, layers: [flatten, {dense: 64}, relu, {dropout: 0.2}, {dense: 4}]}
train: {epochs: 1000000, steps: 200, batch: 16, lr: 0.01, eval_every: 50}
checkpoint: {every: 20}
"""
said, started = [], []
PATIENCE_S = 120  # what takes a second on a quiet machine may take so long on a busy one; how fast it is, is tested elsewhere


def data(folder):
    images, labels = os.path.join(folder, "images"), os.path.join(folder, "labels")
    with open(images, "wb") as f:
        f.write(struct.pack(">IIII", 0x803, 400, 8, 8) + RNG.randbytes(400 * 64))
    with open(labels, "wb") as f:
        f.write(struct.pack(">II", 0x801, 400) + bytes(RNG.randrange(4) for _ in range(400)))
    path = os.path.join(folder, "run.yaml")
    with open(path, "w") as f:
        f.write(RUN.replace("IMAGES", images).replace("LABELS", labels))
    return path


class Machine:
    """A folder of its own, and an environment with keys."""

    def __init__(self, server, run, *more, **env):
        self.folder = tempfile.TemporaryDirectory()
        self.env = {"PATH": os.environ["PATH"], "HOME": self.folder.name, "AWS_ACCESS_KEY_ID": KEY_ID,
                    "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION, "AWS_ENDPOINT_URL_S3": server.url,
                    "no_proxy": "*", "FRUGAL_RUN_LEDGER": "", **env}
        self.args = [FRUGAL, "train", run, "--json", "checkpoint.to=s3://bucket/runs/one", "spot.cloud=none", *more]

    def start(self, *more):
        """What it prints goes to files: a pipe that nobody reads would hold the run up as soon as it is full."""
        out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        process = self.process = self.popen(more, out, err)

        def communicate(timeout=None):
            process.wait(timeout)
            out.seek(0), err.seek(0)
            return out.read(), err.read()
        process.communicate = communicate
        started.append(process)
        return self

    def start_heard(self, *more):
        """The caller reads process.stdout all the time."""
        self.process = self.popen(more, subprocess.PIPE, subprocess.PIPE)
        return self

    def popen(self, more, out, err):
        return subprocess.Popen(self.args + list(more), env=self.env, cwd=self.folder.name, stdout=out, stderr=err, text=True)

    def end(self, rc):
        out, err = self.process.communicate(timeout=PATIENCE_S)
        said.append(out + err)
        assert self.process.returncode == rc, (self.process.returncode, out[-800:], err)
        self.events = [json.loads(l) for l in out.splitlines()]
        return err

    def told(self, what):
        return [e for e in self.events if e["event"] == "checkpoint" and e["what"] == what]

    def weights(self):
        with open(os.path.join(self.folder.name, "w.safetensors"), "rb") as f:
            return f.read()


def steps_there(server):
    names = {k.split("/")[2] for k in server.objects if k.endswith("/manifest.json")}
    for n in names:  # every one of them whole
        manifest = json.loads(server.objects[f"runs/one/{n}/manifest.json"])
        for shard in manifest["shards"]:
            assert len(server.objects[f"runs/one/{n}/{shard['name']}"]) == shard["bytes"]
    return sorted(int(n.split("-")[1].split(".")[0]) for n in names)


def last_words():
    """Of the process that was started last: what it had printed when it ended, or by now."""
    ended = started[-1].poll()
    if ended is None:
        started[-1].kill()
    out, err = started[-1].communicate()
    return ended, out[-2000:], err[-2000:]


def wait_until(ready):
    end = time.monotonic() + PATIENCE_S
    while not ready():
        assert time.monotonic() < end, ("it does not come", last_words())
        time.sleep(0.02)
