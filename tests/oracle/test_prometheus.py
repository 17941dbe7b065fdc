#!/usr/bin/env python3
"""A run's figures over HTTP, read by prometheus_client's parser while it trains."""
import os
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import small

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as e:
    print(f"needs {e.name}: pip install prometheus_client")
    sys.exit(77)

LIMIT_S = 120  # of waiting for the run on a busy machine


def scrape(port):
    """Families by name; None while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", answer.headers
            text = answer.read().decode()
    except (ConnectionError, urllib.error.URLError):
        return None
    assert text.endswith("\n") and "\r" not in text
    return {family.name: family for family in text_string_to_metric_families(text)}


def wait_for(process, port, enough):
    begin = time.monotonic()
    while True:
        found = scrape(port)
        if found and enough(found):
            return found
        assert process.poll() is None and time.monotonic() - begin < LIMIT_S, (process.poll(), found)
        time.sleep(0.05)


def value(found, name):
    samples = found[name].samples
    assert len(samples) == 1 and samples[0].labels["run"] == "a run", samples
    return samples[0].value


def main():
    with tempfile.TemporaryDirectory() as folder:
        small.write(folder)
        port = small.free_port()
        process = small.start(folder, "train", "run.yaml", "train.epochs=0", "train.steps=100000000", "run.name=a run",
                              "train.usd_hour=1", f"log.prometheus={port}")
        first = wait_for(process, port, lambda found: "frugal_eval_loss" in found)
        step = value(first, "frugal_step")
        later = wait_for(process, port, lambda found: value(found, "frugal_step") > step)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 4
    for name in ("loss", "learning_rate", "samples_per_second", "steps_per_second", "step_p50_seconds",
                 "step_p99_seconds", "input_wait_ratio", "elapsed_seconds", "dollars"):
        assert later["frugal_" + name].type == "gauge" and value(later, "frugal_" + name) >= 0, name
    assert later["frugal_step_p50_seconds"].samples[0].value <= later["frugal_step_p99_seconds"].samples[0].value
    split = later["frugal_split_seconds"]  # the parser takes _total off a counter's family
    parts = {s.labels["part"]: s.value for s in split.samples}
    assert split.type == "counter" and parts["compute"] > 0 and parts["evaluation"] > 0, parts
    # The parts are of this process from its first step on, the elapsed time of all of it.
    assert sum(parts.values()) < value(later, "frugal_elapsed_seconds"), parts
    assert later["frugal_eval_value"].samples[0].labels["metric"] == "accuracy"
    print(f"{len(later)} families, {len(parts)} parts")


if __name__ == "__main__":
    main()
