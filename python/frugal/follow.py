"""A training loop of your own, with frugal's bill, caps, notices and report: a plain loop here, and below the callbacks for
Hugging Face's Trainer (huggingface.py) and Lightning (lightning.py).

The loop reports to a process `frugal follow` through a pipe and hears orders from it. Clock, bill, caps, notices and forecast are
that program's, the same as of `frugal train`. Training never depends on it: where it cannot be started or dies, that is said
once on stderr, and the loop goes on."""
import glob
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

from .program import program, text

INTERRUPTED = 4  # exit code of frugal, and of a script, that was asked to end and saved
LOSS_EVERY_S = 0.5  # reading a loss waits for the GPU, so it is read now and then


def process_age_s():
    """Since this process began: what it did before it reports is on the bill too."""
    try:
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rsplit(")", 1)[1].split()[19])
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 0.0)
    except (OSError, ValueError, IndexError):
        return 0.0


def newest(folder, pattern="checkpoint-*/trainer_state.json"):
    """The newest complete checkpoint that Hugging Face's Trainer left in the folder, or None: for resume_from_checkpoint."""
    found = [path for path in glob.glob(os.path.join(glob.escape(folder), pattern)) if os.path.getsize(path)]
    return os.path.dirname(max(found, key=os.path.getmtime)) if found else None


def finite(fields):
    """JSON has no NaN: what is not a number is not known."""
    if isinstance(fields, dict):
        return {key: finite(value) for key, value in fields.items()}
    return None if isinstance(fields, float) and not math.isfinite(fields) else fields


def is_first():
    """Of several processes of a run, one reports."""
    return os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0"


class Follow:
    """with frugal.Follow("out", steps=1000, batch=32, save=save, usd_hour=0.5) as run:
           for batch in run(loader):
               run.step(train_step(batch))

    folder       where what the run has spent is kept, so that all its starts are one bill; None: nowhere
    save         save(step) writes a checkpoint; called when an order or `save_every` asks for it
    settings     more settings of frugal, as {"run.tags": ["mine"]}
    usd_hour, max_dollars, max_hours, target, metric, forecast, patience, name
                 the most usual of them by a shorter name"""

    def __init__(self, folder=None, *, steps=0, batch=0, accumulate=1, sample_tokens=0, from_step=0, save=None, save_every=0,
                 settings=None, usd_hour=None, max_dollars=None, max_hours=None, target=None, metric=None, forecast=None,
                 patience=None, name=None, **start):
        given = {"train.usd_hour": usd_hour, "train.max_dollars": max_dollars, "train.target": target, "train.target_metric": metric,
                 "train.max_seconds": None if max_hours is None else 3600 * max_hours, "train.forecast": forecast,
                 "train.patience": patience, "run.name": name or os.path.basename(sys.argv[0] or "python"),
                 "checkpoint.dir": os.path.join(folder, "frugal") if folder else None, **(settings or {})}
        self.settings = {key: value for key, value in given.items() if value is not None}
        self.facts = dict(start, steps=steps, batch=batch, accumulate=accumulate, sample_tokens=sample_tokens)
        self.step_samples = batch * accumulate
        self.done_steps, self.from_step = from_step, from_step
        self.save, self.save_every, self.saved_step = save, save_every, -1
        self.process, self.events, self.before = None, [], {}
        self.order_save = threading.Event()
        self.order_stop = threading.Event()
        self.reason = self.why = self.result = self.run_id = None
        self.seconds = self.dollars = None
        self.signalled = False
        self.loss_at, self.loss, self.lost, self.doing = 0.0, None, 0, None

    # --- the process ---

    def open(self, **facts):
        self.facts.update({k: v for k, v in facts.items() if v is not None})
        if self.process or not is_first():
            self.catch()
            return self
        line = [program(), "follow", *(f"{key}={text(value)}" for key, value in self.settings.items())]
        try:
            self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        except OSError as why:
            self.complain(f"this run is not recorded: {why}")
            return self
        os.set_blocking(self.process.stdin.fileno(), False)  # a training step waits for nobody
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.part("start", process_age_s())
        self.send("start", from_step=self.from_step, **self.facts)
        self.catch()
        return self

    def catch(self):
        """SIGTERM asks to save and end. Only the main thread may say so."""
        if threading.current_thread() is threading.main_thread() and not self.before:
            self.before = {number: signal.signal(number, self.on_signal) for number in (signal.SIGTERM,)}

    def on_signal(self, number, frame):
        self.signalled = True
        self.reason, self.why = "signal", "stopped by " + signal.Signals(number).name
        self.order_stop.set()

    def complain(self, what):
        print("frugal: " + what, file=sys.stderr)

    def send(self, event, then=None, **fields):
        """Steps that find the pipe full are left out; all else waits a while. `then`: the part that follows, in the same write,
        for each of them wakes the process that reads."""
        if not self.process:
            return
        line = (json.dumps(dict(event=event, **finite(fields))) + "\n").encode()
        if then:
            line += b'{"event":"part","part":"%s"}\n' % then.encode()
        until = time.monotonic() + (0 if event in ("step", "part") else 5)
        while True:
            try:
                os.write(self.process.stdin.fileno(), line)
                return
            except BlockingIOError:
                if time.monotonic() > until:
                    self.lost += 1
                    return
                time.sleep(0.01)
            except OSError:
                self.complain("`frugal follow` has ended; the run continues without it")
                self.process = None
                return

    def read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            kind = event.get("event")
            if kind == "open":
                self.run_id = event["run"]
            if kind in ("step", "eval", "done"):
                self.dollars = event["dollars"]
            if kind == "note":
                self.complain(event["text"])
            if kind == "done":
                self.result = event
            if kind == "order":
                self.obey(event)

    def obey(self, event):
        if event["what"] == "save":
            self.order_save.set()
        elif not self.order_stop.is_set():
            self.reason, self.why, self.seconds = event["reason"], event["why"], event["seconds"]
            self.complain(f"{event['why']}: saving and ending")
            self.order_stop.set()

    # --- what the loop says ---

    def part(self, name, seconds=None):
        """What the loop does from now on: input, compute, evaluation, checkpoint."""
        if self.process and name != self.doing:
            self.send("part", part=name, **({"seconds": seconds} if seconds else {}))
        self.doing = name

    def step(self, loss=None, lr=None, steps=1, samples=None):
        """A step is done. A loss on a GPU is read twice a second, for to read it is to wait for it."""
        self.done_steps += steps
        now = time.monotonic()
        if loss is not None and now >= self.loss_at:
            self.loss, self.loss_at = float(loss), now + LOSS_EVERY_S
        samples = self.step_samples * (self.done_steps - self.from_step) if samples is None else samples
        fields = {"step": self.done_steps, "samples": int(samples)}
        if self.loss is not None:
            fields["loss"] = self.loss
        if lr is not None:
            fields["lr"] = lr
        self.send("step", then="input", **fields)
        self.doing = "input"

    def evaluated(self, loss=None, **metrics):
        """Of an evaluation: its loss and at most four metrics; `metric` of them is judged."""
        wanted = self.settings.get("train.target_metric")
        names = sorted(metrics, key=lambda name: name != wanted)[:4]
        fields = {"step": self.done_steps, "metrics": {name: float(metrics[name]) for name in names}}
        if loss is not None:
            fields["loss"] = float(loss)
        self.send("eval", **fields)
        self.doing = None

    def saved(self, step=None, bytes=None):
        """A checkpoint is complete."""
        self.saved_step = self.done_steps if step is None else step
        self.order_save.clear()
        self.send("checkpoint", what="saved", step=self.saved_step, **({"bytes": bytes} if bytes is not None else {}))
        self.doing = None

    @property
    def stopping(self):
        return self.order_stop.is_set()

    @property
    def interrupted(self):
        """Ended by a signal or a notice: the same command resumes it."""
        return self.stopping and self.reason == "signal"

    def close(self, diverged=False, wait_s=20):
        """The last word; waits until the bill is written."""
        for number, was in self.before.items():
            if threading.current_thread() is threading.main_thread():
                signal.signal(number, was)
        self.before = {}
        if not self.process:
            return self.result
        if self.signalled:
            self.send("interruption", kind="signal", step=self.done_steps, saved_step=max(self.saved_step, 0))
        self.send("done", steps=self.done_steps, stopped="diverged" if diverged else "end")
        process, self.process = self.process, None
        if process:
            process.stdin.close()
            self.reader.join(wait_s)
            try:
                process.wait(wait_s)
            except subprocess.TimeoutExpired:
                self.complain("`frugal follow` is still writing the bill")
        return self.result

    # --- a plain loop ---

    def __enter__(self):
        return self.open()

    def __exit__(self, kind, value, trace):
        if kind is KeyboardInterrupt:
            self.signalled = True
        if kind is None or kind is KeyboardInterrupt:
            self.close()
        elif self.process:  # it died of that: the pipe closes without a last word
            process, self.process = self.process, None
            process.stdin.close()
            process.wait()

    def save_now(self):
        if not self.save or self.saved_step == self.done_steps:
            return
        self.part("checkpoint")
        self.save(self.done_steps)
        self.saved()

    def __call__(self, batches):
        """The batches, until there are no more or an order ends the loop; saves when asked to."""
        self.part("input")
        for batch in batches:
            if self.stopping:
                break
            self.part("compute")
            yield batch
            if self.order_save.is_set() or self.stopping or (self.save_every and self.done_steps % self.save_every == 0):
                self.save_now()
            if self.stopping:
                break
            self.part("input")
