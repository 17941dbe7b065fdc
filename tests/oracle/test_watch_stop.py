#!/usr/bin/env python3
"""The only request to `frugal watch` that changes something: POST /api/stop asks a run in another process to stop after its
step. It needs the token, and is refused for other sites, other names and other methods, for runs that have ended, and for
nobody's; an order that came too late does not stop the next start. A supervised program stops likewise, and so does a loop of
another library that reports to `frugal follow`: it saves first, and its next start resumes there."""
import glob, json, os, re, subprocess, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from watch_page import FRUGAL, Place, TOP, WAIT_S, port_of, talk, token_of, wait_until

INTERRUPTED = 4  # the exit code of a run that was asked to stop


def request(port, path, method="GET", *headers, host=None):
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: " + (host or "127.0.0.1:%d" % port), "Connection: close", *headers, "", ""]
    answer = talk(port, "\r\n".join(lines).encode())
    assert answer.startswith(b"HTTP/1.1 "), answer[:200]
    return int(answer.split(b" ", 2)[1]), answer.split(b"\r\n\r\n", 1)[1].decode()


def running(port, name):
    """The run of that name, once it runs and its event log is there."""
    def found():
        for r in json.loads(request(port, "/api/runs")[1])["runs"]:
            if r["name"] == name and r["state"] == "runs" and r["steps"] > 0:
                return r["id"]
    return wait_until(found, "the run %s is listed" % name)


def check_refused(place, port, token, run):
    ours = "Origin: http://127.0.0.1:%d" % port
    path, with_token = "/api/stop?run=" + run, "/api/stop?run=%s&token=%s" % (run, token)
    for what, expected, answer in (
            ("no token", 401, request(port, path, "POST", ours)),
            ("a wrong token", 401, request(port, path + "&token=" + "0" * len(token), "POST", ours)),
            ("a wrong cookie", 401, request(port, path, "POST", ours, "Cookie: frugal_%d=%s" % (port, "0" * len(token)))),
            ("another site", 403, request(port, with_token, "POST", "Origin: http://evil.example")),
            ("no site", 403, request(port, with_token, "POST", "Origin: null")),
            ("a site on another port", 403, request(port, with_token, "POST", "Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site")),
            ("another site's form", 403, request(port, with_token, "POST", "Sec-Fetch-Site: cross-site")),
            ("the same site's other port", 403, request(port, with_token, "POST", "Sec-Fetch-Site: same-site")),
            ("another name", 403, request(port, with_token, "POST", host="evil.example:%d" % port)),
            ("GET", 405, request(port, with_token)),
            ("PUT", 405, request(port, with_token, "PUT", ours)),
            ("another path", 405, request(port, "/api/run?run=%s&token=%s" % (run, token), "POST", ours)),
            ("nobody's run", 404, request(port, "/api/stop?run=ffffffffffff&token=" + token, "POST", ours)),
            ("a path as a run", 404, request(port, "/api/stop?run=../../x&token=" + token, "POST", ours))):
        assert answer[0] == expected, (what, answer)
    assert not glob.glob(os.path.join(place.folder.name, "**", "*.stop"), recursive=True)


def check_train(place, port, token):
    child = place.train("checkpoint.dir=kept", "checkpoint.every=1s", "run.name=live")
    run = running(port, "live")
    check_refused(place, port, token, run)
    assert json.loads(request(port, "/api/run?run=" + run)[1])["stop"] == "token"
    assert json.loads(request(port, "/api/run?run=%s&token=%s" % (run, token))[1])["stop"] == "yes"
    assert child.poll() is None
    code, text = request(port, "/api/stop?run=%s&token=%s" % (run, token), "POST", "Origin: http://127.0.0.1:%d" % port)
    assert code == 200, (code, text)
    assert child.wait(timeout=WAIT_S) == INTERRUPTED, child.returncode
    with open(os.path.join(place.folder.name, "train.log")) as f:
        log = f.read()
    assert "stopped by frugal watch after step" in log, log
    assert glob.glob(os.path.join(place.folder.name, "kept", "*")), "a checkpoint is kept"
    left = glob.glob(os.path.join(place.folder.name, "**", "*.stop"), recursive=True)
    assert not left, left
    code, text = request(port, "/api/stop?run=%s&token=%s" % (run, token), "POST")
    assert code == 409 and "ended" in text, (code, text)
    print("a run in another process stopped after its step; all else was refused")
    return run


def check_late(place, port, run):
    """An order for a start that is gone: the next start is another, and does not hear it."""
    [log] = glob.glob(os.path.join(place.folder.name, "state", "events", run, "*.jsonl"))
    with open(log[:-len("jsonl")] + "stop", "w"):
        pass
    child = place.train("checkpoint.dir=kept", "checkpoint.every=1s", "run.name=live")
    assert running(port, "live") == run
    before = json.loads(request(port, "/api/run?run=" + run)[1])["steps"]
    wait_until(lambda: json.loads(request(port, "/api/run?run=" + run)[1])["steps"] > before, "two heartbeats of the next start")
    assert child.poll() is None, "the next start was stopped by an order for the one before"
    place.end(child)
    print("an order that came too late stops nothing")


def check_supervised(place, port, token):
    child = place.start("run", "run.name=other", "--", sys.executable, "-c", "import time\nwhile True: time.sleep(0.1)")
    def listed():
        return [r["id"] for r in json.loads(request(port, "/api/runs")[1])["runs"] if r["name"] == "other" and r["state"] == "runs"]
    [run] = wait_until(listed, "the supervised program is listed")
    def asked():
        return request(port, "/api/stop?run=%s&token=%s" % (run, token), "POST")[0] == 200
    wait_until(asked, "its event log is there")
    _, err = child.communicate(timeout=WAIT_S)
    assert "stopped by frugal watch" in err, err
    print("a supervised program stopped")


def follow_loop(place, steps, step_s):
    """A loop of nobody's library with frugal.Follow: it prints its steps, and why it ended."""
    env = dict(place.env, FRUGAL=FRUGAL, PYTHONPATH=os.path.join(TOP, "python"), PYTHONDONTWRITEBYTECODE="1")
    words = [os.path.join(place.folder.name, "followed"), str(steps), str(step_s)]
    child = subprocess.Popen([sys.executable, os.path.join(TOP, "tests", "callbacks", "plain.py"), *words], env=env,
                             cwd=place.folder.name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    place.children.append(child)
    return child


def steps_in(text):
    return [int(step) for step in re.findall(r"^step (\d+)$", text, re.M)]


def check_followed(place, port, token):
    child = follow_loop(place, 100000, 0.05)
    run = running(port, "plain")
    path = "/api/stop?run=%s&token=%s" % (run, token)
    code, text = request(port, path.split("&")[0], "POST")
    assert code == 401 and child.poll() is None, (code, text)
    wait_until(lambda: request(port, path, "POST")[0] == 200, "its event log is there")
    said, _ = child.communicate(timeout=WAIT_S)
    assert child.returncode == INTERRUPTED and "reason signal" in said, (child.returncode, said[-600:])
    stopped = steps_in(said)[-1]
    with open(os.path.join(place.folder.name, "followed", "state.json")) as f:
        assert json.load(f)["step"] == stopped, "it saved after its last step"
    row = lambda: json.loads(request(port, "/api/run?run=" + run)[1])
    wait_until(lambda: row()["state"] != "runs", "the page reads the run's end")  # it reads the ledger every 0.4 s
    assert row()["state"] == "signal" and row()["steps"] == stopped, row()
    code, text = request(port, path, "POST")
    assert code == 409 and "ended" in text, (code, text)
    again = follow_loop(place, stopped + 3, 0)
    said, _ = again.communicate(timeout=WAIT_S)
    assert again.returncode == 0 and steps_in(said)[0] == stopped + 1, (again.returncode, said[-600:])
    print("a loop that reports to frugal follow saved, stopped after step %d and resumed there" % stopped)


def main():
    with Place() as place:
        child, address = place.watch()
        port, token = port_of(address), token_of(address)
        run = check_train(place, port, token)
        check_late(place, port, run)
        check_supervised(place, port, token)
        check_followed(place, port, token)
        place.end(child)


main()
print("ok")
