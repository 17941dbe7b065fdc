#!/usr/bin/env python3
"""`frugal watch s3://…`: a run on another machine is shown from the rows and event logs in its object store, its curve
grows while it trains, and what it becomes is shown; an address that cannot be read is an error."""
import json, os, re, signal, subprocess, sys, tempfile, urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_server import KEY_ID, REGION, SECRET, Server
from s3_train import FRUGAL, Machine, data
from watch_page import skip, wait_until


def watch(server, folder, address):
    env = dict(PATH=os.environ["PATH"], HOME=folder, AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION=REGION,
               AWS_ENDPOINT_URL_S3=server.url, AWS_EC2_METADATA_DISABLED="true", no_proxy="*")
    return subprocess.Popen([FRUGAL, "watch", "--no-open", address], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main():
    with Server() as server, tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as disks:
        machine = Machine(server, data(disks), "train.usd_hour=36", "run.name=far", "checkpoint.every=1s").start("train.steps=100000000")
        wait_until(lambda: any("/events/" in key for key in server.objects), "an event log in the store")
        child = watch(server, folder, "s3://bucket/runs")
        address = child.stdout.readline().strip()
        if not address:
            why = child.stderr.read()
            machine.process.kill()
            if "without" in why:
                skip(why.strip())
            raise AssertionError(why)

        def get(path):
            with urllib.request.urlopen(re.match(r"http://[^/]+", address).group(0) + path) as answer:
                return json.load(answer)

        try:
            row = wait_until(lambda: get("/api/runs")["runs"], "the run is listed")[0]
            assert row["name"] == "far", row

            def points():
                return get("/api/curve?run=" + row["id"])["points_all"]

            wait_until(lambda: points() > 0, "its curve is there")
            before = points()
            wait_until(lambda: points() > before, "its curve grows")
            machine.process.send_signal(signal.SIGTERM)
            machine.end(4)
            wait_until(lambda: get("/api/runs")["runs"][0]["state"] == "signal", "its end is shown")
        finally:
            machine.process.kill()
            child.send_signal(signal.SIGTERM)
            assert child.wait(60) == 0, child.stderr.read()
        child = watch(server, folder, "s3://nowhere/runs")
        out, err = child.communicate(timeout=120)
        assert child.returncode != 0 and not out and "nowhere" in err, (out, err)


main()
print("ok")
