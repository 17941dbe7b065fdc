"""Attacks on runs of frugal train, each with its expected outcome: real processes, a real folder of checkpoints and the
object store of s3_server.py, which checks every signature and body.

    with Lab() as lab:
        result = lab.attack("store 403", random.Random(7))   # lost, late, over_cap, wrong_exit, kills, said

What must hold whatever is done to a run: it ends with the bits of one that was left alone, or with exit code 3, a
sentence and nothing removed; it resumes from the newest whole checkpoint there is, and such a one goes only when a newer
one is whole; what a grace or a cap allows is not exceeded. `kill` and `notice` are rows too: bench/kills.py and
bench/notices.py give them by the thousand.
"""
import collections, glob, json, os, re, shutil, signal, struct, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import notices, s3_train
from busy import Delays
from s3_server import SECRET, Server
from s3_train import FRUGAL, Machine, data

STEPS, EVERY = 20000, 200   # some half a second, alone
END_S = 120                 # whatever is done to it, a run that is left alone ends within that
NOBODY = 65534
ROWS_S = 2                  # a run that ends waits for the ledger's rows at least that long (src/job/record.c)
KNOWN_TO_S = 1              # of each start that is killed, what spent.json does not know at most (src/run/tally.h)

# Name of the row: what the server does once (s3_server.Server.misbehave), and what a start from the store does when
# that is its answer for every read of the newest checkpoint (None: that takes minutes of retries; what is asked
# instead is a store that takes no upload before the run ends).
STORE_FAULTS = {
    "307": ("307 TemporaryRedirect", 3), "400": ("400 Odd", 3), "403": ("403 AccessDenied", 3), "404": ("404 NoSuchKey", 3),
    "500": ("500 InternalError", None), "503": ("503 SlowDown", None),
    "wrong bytes": ("wrong_bytes", 0),          # damaged: the one before it is taken
    "truncated": ("torn_body", None),
    "reset": ("torn", None),
    "hang": ("hang", None),
    "lost answer": ("torn_after", None),        # after its effect
    "error in 200": ("error_in_200", None),
    "stale list": ("stale_list", None),
    "clock": (None, None),                      # the store's is wrong by hours
}
REQUESTS = ["PUT attempts", "PUT manifest.json", "PUT weights.safetensors", "GET list-type", "GET manifest.json",
            "GET weights.safetensors", "DELETE step-"]
WIPES = ["machine", "store", "file"]
COLUMNS = ["lost", "late", "over_cap", "wrong_exit"]


class Skipped(Exception):
    pass


# ---- checkpoints, as anybody can look at them ----

def order(name):
    step, attempt, save = name.split("-")[1].split(".")
    return int(attempt), int(save), int(step)


def step_of(names):
    """The step of the newest; 0: there is none."""
    return max(map(order, names))[2] if names else 0


def whole_here(folder):
    """Names of those whose manifest and all that it names are there."""
    names = set()
    for path in glob.glob(os.path.join(folder, "step-*", "manifest.json")):
        with open(path) as f:
            manifest = json.load(f)
        here = os.path.dirname(path)
        if all(os.path.exists(p := os.path.join(here, s["name"])) and os.path.getsize(p) == s["bytes"] for s in manifest["shards"]):
            names.add(os.path.basename(here))
    return names


def whole_there(server):
    """The same for the store."""
    names = set()
    for key in [k for k in server.objects if k.endswith("/manifest.json")]:
        base = key[:-len("manifest.json")]
        if all(len(server.objects.get(base + s["name"], b"")) == s["bytes"] for s in json.loads(server.objects[key])["shards"]):
            names.add(key.split("/")[-2])
    return names


def tree(folder):
    """Every file and link below it, with its contents."""
    found = {}
    for base, _, names in os.walk(folder):
        for path in [os.path.join(base, n) for n in names]:
            with open(path, "rb") as f:
                found[os.path.relpath(path, folder)] = f.read()
    return found


# ---- machines ----

class Host(Machine):
    """A machine that may start the same run several times."""

    def __init__(self, server, run, *more, user=None):
        super().__init__(server, run, "train.out=w.safetensors", "checkpoint.dir=kept", *more)
        self.user, self.kept = user, os.path.join(self.folder.name, "kept")
        if user:
            os.chown(self.folder.name, user, user)

    def start(self):
        who = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        self.begun = time.time()
        self.process = subprocess.Popen(self.args, env=self.env, cwd=self.folder.name, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **who)
        return self

    def live(self, kill_s, number):
        """Until it ends or gets the signal, and then to its end; sets rc, events, err, killed and lived_s."""
        self.start()
        self.killed, self.delays = False, Delays(self.process.pid)
        self.delays.start()
        try:
            out, self.err = self.process.communicate(timeout=kill_s or END_S)
        except subprocess.TimeoutExpired:
            self.killed = True
            self.signalled = time.time()
            self.process.send_signal(number if kill_s else signal.SIGKILL)
            out, self.err = self.process.communicate()
        self.ended = time.time()
        self.delays.stop = True
        self.rc, self.lived_s = self.process.returncode, self.ended - self.begun
        self.events = []
        for line in out.splitlines():
            try:
                self.events.append(json.loads(line))
            except ValueError:
                pass  # the kill cut it
        return self

    def newest(self):
        return step_of(whole_here(self.kept))


# ---- a round ----

class Round:
    def __init__(self, lab, rng):
        self.lab, self.rng, self.server = lab, rng, lab.server
        self.counts, self.said = collections.Counter(), []
        self.server.objects.clear()
        self.heal()

    def heal(self):
        self.server.faults.clear()
        self.server.clock_ahead_s = 0

    def need(self, good, column, text):
        if not good:
            self.counts[column] += 1
            self.said.append(f"{column}: {text}")

    def host(self, *more, **options):
        return Host(self.server, self.lab.run, f"train.steps={STEPS}", f"checkpoint.every={EVERY}", *more, **options)

    def local(self, *more, **options):
        return self.host("checkpoint.to=", *more, **options)

    def moment(self):
        return self.rng.uniform(0.02, 0.8)

    def life(self, m, kill_s=None, codes=(0,), number=signal.SIGKILL, least=None):
        """One start of m, which must resume from step `least` or later, unless it ends with 3 and a sentence."""
        m.live(kill_s, number)
        self.counts["kills"] += m.killed and number == signal.SIGKILL
        codes = set(codes)
        if m.killed and kill_s and number == signal.SIGKILL:
            codes.add(-number)
        elif m.killed and kill_s:
            codes |= {4} if m.events else {4, -number}  # before it has said anything there may be no handler yet
        self.need(m.rc in codes, "wrong_exit", f"exit {m.rc}, not {sorted(codes)}, after {m.lived_s:.1f} s: {m.err[-600:]}")
        self.need(m.rc != 3 or re.search(r"\w+ \w+ \w+", m.err), "wrong_exit", f"exit 3 without a sentence: {m.err}")
        self.need(SECRET not in m.err, "lost", "the secret is shown")
        begun = [e for e in m.events if e["event"] in ("start", "step")]
        if begun and least is not None:
            step = m.told("resumed")[0]["step"] if m.told("resumed") else 0
            self.need(step >= least, "lost", f"resumed at step {step}, and there was one of step {least}: {m.err[-600:]}")
        return m

    def nothing_goes(self, m, act):
        """`act` leaves the newest whole checkpoints where they are, or newer ones."""
        here, there = m.newest(), step_of(whole_there(self.server))
        act()
        self.need(m.newest() >= here, "lost", f"the local checkpoint of step {here} is gone: {m.err[-600:]}")
        self.need(step_of(whole_there(self.server)) >= there, "lost", f"the store's checkpoint of step {there} is gone: {m.err[-600:]}")

    def refused(self, m, folder=None):
        """A start that finds its newest checkpoint unreadable."""
        before = dict(self.server.objects) if folder is None else tree(folder)
        self.life(m, codes=(3,))
        after = dict(self.server.objects) if folder is None else tree(folder)
        ours = lambda o: {k: v for k, v in o.items() if "step-" in k}
        self.need(ours(before) == ours(after), "lost", f"a start that ended with {m.rc} changed checkpoints: {m.err[-600:]}")
        self.need("--fresh" in m.err, "wrong_exit", f"no way on is named: {m.err[-600:]}")
        self.need(not [e for e in m.events if e["event"] == "step"], "lost", f"it trained: {m.err[-600:]}")

    def finish(self, m, least=None):
        """Left alone and healed it ends with the bits of the run that nobody disturbed."""
        self.heal()
        self.life(m, least=least)
        if m.rc == 0:
            self.need(m.weights() == self.lab.whole, "lost", "the weights differ from those of the run that was left alone")


# ---- the attacks ----

def on_store(r, name):
    how, lasting = STORE_FAULTS[name]
    m = r.host("checkpoint.upload_wait_s=30")
    for _ in range(r.rng.randrange(1, 4)):
        bad_answers(r, name, how)
        least = max(step_of(whole_there(r.server)), m.newest()) if name != "stale list" else m.newest()
        r.nothing_goes(m, lambda: r.life(m, r.moment(), codes=(0, 3), least=least))
        r.heal()
        if r.rng.random() < 0.5:  # that machine is gone
            m = r.host("checkpoint.upload_wait_s=30")
    if lasting is not None and whole_there(r.server):
        m = r.host()
        newest = max(whole_there(r.server), key=order)
        r.server.misbehave(f"GET {newest} {r.rng.choice(['weights', 'optimiser', 'run'])}.safetensors", how, 100)
        if lasting:
            r.refused(m)
        elif len(whole_there(r.server)) > 1:
            r.life(m)
            r.need(m.told("damaged"), "lost", "a damaged checkpoint was passed over in silence")
    elif how and how != "stale_list":
        r.server.misbehave(r.rng.choice(["PUT weights.safetensors", "PUT manifest.json", "PUT step-", "PUT ledger"]), how, 10000)
        m.args.append("checkpoint.upload_wait_s=0.5")
        r.life(m, codes=(0, 3))  # 0: its last checkpoint was there before
        r.need(m.lived_s < r.lab.patience_s + 0.5 + ROWS_S, "late", f"a store that takes nothing kept the run for {m.lived_s:.1f} s: {m.err[-600:]}")
        r.need(m.rc == 0 or "frugal checkpoints copy" in m.err, "wrong_exit", f"no way on is named: {m.err[-600:]}")
        r.need(m.rc != 0 or step_of(whole_there(r.server)) == STEPS, "lost", "exit 0, and the last checkpoint is not in the store")
        m.args.pop()
    r.finish(m)
    r.need(step_of(whole_there(r.server)) == STEPS, "lost", "the last checkpoint is not in the store")


def bad_answers(r, name, how):
    """One bad answer to each of a few requests."""
    if name == "clock":
        r.server.clock_ahead_s = r.rng.choice([-1, 1]) * r.rng.uniform(1000, 1e6)
        return
    which = {"stale_list": ["GET list-type"], "wrong_bytes": REQUESTS[4:6]}.get(how, REQUESTS)
    for match in r.rng.sample(which, r.rng.randrange(1, min(3, len(which)) + 1)):
        r.server.misbehave(match, how)


def by_kill(r, name):
    m = r.local()
    for _ in range(r.rng.randrange(1, 8)):
        r.nothing_goes(m, lambda: r.life(m, r.moment(), least=m.newest()))
    r.finish(m, m.newest())


def by_notice(r, name):
    cloud = r.rng.choice(["gcp", "azure", "sigterm"])
    notice = notices.Notice(r.lab.run, cloud, r.rng.choice(notices.PHASES), r.rng.choice([None, 400_000, 60_000]), notices.CLOUDS[cloud], r.rng)
    try:
        verdict = notice.give()
    except AssertionError as why:
        return r.need(False, "lost", str(why))
    r.need(verdict["left"] >= 0, "late", str(verdict))
    r.need(verdict["kind"] == "complete" or (verdict["kind"], verdict["phase"]) == ("nothing", "start"), "lost", str(verdict))


def by_wipe(r, name):
    m = r.host()
    r.life(m, r.moment())
    what = r.rng.choice(WIPES)
    if what == "machine":
        m = r.host()
    elif what == "store":
        r.server.objects.clear()
    else:
        files = sorted(glob.glob(os.path.join(m.kept, "*", "*")))
        if files:
            os.remove(r.rng.choice(files))
        if not whole_here(m.kept) and not whole_there(r.server) and glob.glob(os.path.join(m.kept, "step-*", "manifest.json")):
            r.refused(m, m.kept)  # none is whole: nobody begins anew in silence
            m.args.append("--fresh")
    r.finish(m, max(m.newest(), step_of(whole_there(r.server))))


def by_permission(r, name):
    m = r.local(user=r.lab.somebody())
    m.args[0] = r.lab.program()
    while not whole_here(m.kept):
        r.life(m, r.rng.uniform(0.3, 1.2), number=signal.SIGTERM, least=m.newest())
    newest = os.path.join(m.kept, max(whole_here(m.kept), key=order))
    closed = r.rng.choice([newest, m.kept, *[os.path.join(newest, f) for f in sorted(os.listdir(newest))]])
    mode = os.stat(closed).st_mode
    before, least = tree(m.kept), m.newest()
    os.chmod(closed, 0)
    r.life(m, codes=(3,))
    os.chmod(closed, mode)
    r.need({k for k in before if "step-" in k} <= set(tree(m.kept)), "lost", f"{closed} could not be read, and files went: {m.err[-600:]}")
    r.need("Permission denied" in m.err, "wrong_exit", f"the reason is not named: {m.err[-600:]}")
    r.finish(m, least)


def by_full_disk(r, name):
    m = r.local("checkpoint.keep=3", "train.log_every=1000")
    os.mkdir(m.kept)
    room = r.rng.choice([100, 180, 260])  # KiB: one checkpoint, two or three
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}k,mode=700", "none", m.kept], capture_output=True).returncode:
        raise Skipped("a small file system cannot be mounted here (that needs root)")
    try:
        for _ in range(r.rng.randrange(1, 4)):
            r.nothing_goes(m, lambda: r.life(m, r.moment(), codes=(0, 3), least=m.newest()))
        r.finish(m, m.newest())
    finally:
        subprocess.run(["umount", m.kept], check=True)


def by_long_step(r, name):
    """A step takes as long as the grace: it is left unfinished and the state before it saved, in time."""
    run, step_s, whole = r.lab.long_steps()
    grace_s = max(step_s, 1)
    m = Host(r.server, run, "checkpoint.to=", "checkpoint.every=1", f"spot.grace_s={grace_s}", "run.ledger=none")
    r.life(m, r.lab.long_start_s + r.rng.uniform(0, 3) * step_s, number=signal.SIGTERM)
    if m.killed:
        took, waited = m.ended - m.signalled, m.delays.since(m.signalled)
        r.need(took <= grace_s + waited, "late", f"{took:.2f} s of {grace_s:.2f} ({waited:.2f} without a core): {m.err[-600:]}")
    done = max([e["step"] for e in m.events if e["event"] == "step"], default=0)
    r.life(m, least=done)
    r.need(m.rc or m.weights() == whole, "lost", "the weights differ from those of the run that was left alone")


def by_cap(r, name):
    """Of $1 a second: what is printed is what the ledger has, and not above the cap by more than a step and a save."""
    cap, kind = r.rng.uniform(1.5, 3), r.rng.choice(["dollars", "seconds"])
    m = r.local("train.out=", "train.steps=100000000", "train.usd_hour=3600", f"train.max_{kind}={cap:.3f}", f"checkpoint.every={10 * EVERY}")
    wall_s, unseen_s, kills = 0, 0, r.rng.randrange(4)
    for i in range(kills + 1):
        r.nothing_goes(m, lambda: r.life(m, r.rng.uniform(0.1, 1) if i < kills else None, least=m.newest()))
        wall_s += m.lived_s
        unseen_s += r.lab.start_s + m.delays.since(m.begun)  # by frugal's own clock, before it begins and after the last line
    done = [e for e in m.events if e["event"] == "done"]
    if m.rc or not done:
        return r.need(False, "over_cap", f"no end by the cap: exit {m.rc}, {m.err[-600:]}")
    save_s = max([e.get("persist_s") or 0 for e in m.told("saved")], default=0)
    allowed = cap + (done[0].get("step_p95_s") or 0) + save_s + unseen_s + kills * KNOWN_TO_S
    r.need(wall_s <= allowed, "over_cap", f"{wall_s:.2f} s with a cap of {cap:.2f}, {kills} kills, {done[0]['dollars']:.2f} printed and {allowed:.2f} allowed")
    runs = subprocess.run([FRUGAL, "runs", "--json"], env=m.env, cwd=m.folder.name, capture_output=True, text=True)
    paid = re.findall(r'"dollars":([0-9.e-]+)', runs.stdout)
    if "without SQLite" not in runs.stderr:  # the end of the process comes after the last line is printed
        r.need(len(paid) == 1 and abs(float(paid[0]) - done[0]["dollars"]) <= unseen_s, "over_cap",
               f"printed ${done[0]['dollars']}, the ledger has {paid}")


def by_symlink(r, name):
    """Whatever a link in checkpoint.dir points at stays as it is."""
    m = r.local()
    theirs = os.path.join(m.folder.name, "theirs")
    os.mkdir(theirs)
    for file in ("weights.safetensors", "manifest.json", "thesis.txt"):
        with open(os.path.join(theirs, file), "w") as f:
            f.write(file)
    before = tree(theirs)
    while not whole_here(m.kept):
        r.life(m, r.rng.uniform(0.3, 1.2), number=signal.SIGTERM, least=m.newest())
    least, names = m.newest(), whole_here(m.kept)
    attempt = max(map(order, names))[0]
    link = r.rng.choice([f"step-{r.rng.randrange(STEPS):09}.{r.rng.choice([1, attempt, attempt + 1, 99])}.{r.rng.randrange(1, 99)}",
                         "lock", "spent.json", os.path.join(max(names, key=order), "notes.safetensors")])
    path = os.path.join(m.kept, link)
    if os.path.exists(path):
        os.remove(path)
    os.symlink(theirs if link.startswith("step-") and "/" not in link else os.path.join(theirs, "thesis.txt"), path)
    for more in ("checkpoint.keep=1", "checkpoint.keep=3"):
        m.args.append(more)
        r.life(m, r.moment(), codes=(0, 3))
        m.args.pop()
    subprocess.run([FRUGAL, "checkpoints", "prune", m.kept, "--keep", "1"], env=m.env, capture_output=True, timeout=END_S)
    r.need(tree(theirs) == before, "lost", f"through the link {link} files were changed: {sorted(tree(theirs))}")
    if os.path.islink(path):
        os.remove(path)
    r.finish(m, least)


ATTACKS = {**{f"store {name}": on_store for name in STORE_FAULTS}, "kill": by_kill, "notice": by_notice, "wipe": by_wipe,
           "permission": by_permission, "full disk": by_full_disk, "long step": by_long_step, "cap": by_cap, "symlink": by_symlink}


# ---- what the rounds share ----

class Lab:
    """The store, the data, and the undisturbed runs that others are compared with."""

    def __enter__(self):
        self.temp = tempfile.TemporaryDirectory()
        self.folder = self.temp.name
        os.chmod(self.folder, 0o755)
        self.server = Server().__enter__()
        self.run, self.long = data(self.folder), None
        begin = time.time()
        m = Host(self.server, self.run, f"train.steps={STEPS}", "checkpoint.dir=", "checkpoint.to=", "run.ledger=none").live(None, None)
        assert m.rc == 0, m.err
        self.whole = m.weights()
        self.patience_s = 10 * (time.time() - begin)  # ten times what a run takes alone: this machine may do other work
        begin = time.time()
        subprocess.run([FRUGAL, "version"], check=True, capture_output=True)
        self.start_s = time.time() - begin
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.temp.cleanup()

    def attack(self, name, rng):
        begin, r = time.time(), Round(self, rng)
        result = {"attack": name, "skipped": ""}
        try:
            ATTACKS[name](r, name.removeprefix("store "))
        except Skipped as why:
            result["skipped"] = str(why)
        return {**result, "seconds": time.time() - begin, "kills": r.counts["kills"], **{c: r.counts[c] for c in COLUMNS}, "said": r.said}

    def somebody(self):
        """Whom permissions bind: another user where we are root."""
        if os.geteuid():
            return None
        if subprocess.run(["true"], user=NOBODY, group=NOBODY, extra_groups=[]).returncode:
            raise Skipped("nobody else can be made here")
        return NOBODY

    def program(self):
        """frugal where that other user can read it."""
        copy = os.path.join(self.folder, "frugal")
        if not os.path.exists(copy):
            shutil.copy(FRUGAL, copy)
            os.chmod(copy, 0o755)
        return copy

    def long_steps(self):
        """A run of three steps that take some seconds, what one takes, and its weights."""
        if not self.long:
            folder = os.path.join(self.folder, "long")
            os.mkdir(folder)
            images, labels, run = (os.path.join(folder, n) for n in ("images", "labels", "run.yaml"))
            count = 60000
            with open(images, "wb") as f:
                f.write(struct.pack(">IIII", 0x803, count, 2, 2) + os.urandom(4 * count))
            with open(labels, "wb") as f:
                f.write(struct.pack(">II", 0x801, count) + bytes([0, 1, 2, 3]) * (count // 4))
            with open(run, "w") as f:
                f.write(f"data: {{kind: idx, path: {images}, labels: {labels}, held_out: 0}}\n"
                        "model: {layers: [flatten, {dense: 256}, batchnorm, relu, {dropout: 0.1}, {dense: 256}, relu, {dense: 4}]}\n"
                        f"train: {{steps: 3, batch: {count}, optimiser: sgd, lr: 0.01, log_every: 1, device: cpu}}\n")
            m = Host(self.server, run, "checkpoint.dir=", "checkpoint.to=", "run.ledger=none").live(None, None)
            assert m.rc == 0, m.err
            step_s = [e for e in m.events if e["event"] == "done"][0]["step_p95_s"]
            self.long_start_s = max(m.lived_s - 3 * step_s, 0.1)
            self.long = run, step_s, m.weights()
        return self.long
