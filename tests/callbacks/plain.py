"""plain.py FOLDER STEPS STEP_S [KEY=VALUE...]: a training loop of nobody's library, with frugal.Follow; resumes by itself. KEY is a
setting (train.usd_hour) or, without a dot, a keyword of Follow.
Evaluates every 10 steps: an accuracy that rises towards 0.8 and never gets beyond."""
import json
import os
import sys
import time

import frugal

folder, steps, step_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
given = dict(word.split("=", 1) for word in sys.argv[4:])
settings = {key: value for key, value in given.items() if "." in key}
keywords = {"name": "plain", "usd_hour": 3.6, **{key: value if key == "metric" else float(value) for key, value in given.items() if "." not in key}}
state = os.path.join(folder, "state.json")
os.makedirs(folder, exist_ok=True)
first = json.load(open(state))["step"] if os.path.exists(state) else 0


def save(step):
    with open(state + ".part", "w") as file:
        json.dump({"step": step}, file)
    os.replace(state + ".part", state)


with frugal.Follow(folder, steps=steps, batch=4, from_step=first, save=save, settings=settings, **keywords) as run:
    for batch in run(range(first, steps)):
        time.sleep(step_s)
        run.step(loss=1 / (batch + 1))
        print("step", run.done_steps, flush=True)
        if run.done_steps % 10 == 0:
            run.part("evaluation")
            run.evaluated(1 / run.done_steps, accuracy=0.8 - 0.5 * run.done_steps**-0.5)
    print("reason", run.reason, flush=True)
sys.exit(4 if run.interrupted else 0)
