#!/usr/bin/env python3
"""Attacks on the server of `frugal watch`: other names, other sites, other methods, paths out of its folder, oversized and
broken requests, a thousand slow connections. All are refused, and the page answers afterwards. With --listen nothing is
answered without the token."""
import json, os, random, socket, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from watch_page import Place, port_of, talk, token_of, wait_until


def code_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def get(port, path="/api/runs", method="GET", host=None, *headers):
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: " + (host or "127.0.0.1:%d" % port), *headers, "", ""]
    return talk(port, "\r\n".join(lines).encode())


def alive(port):
    answer = get(port)
    assert code_of(answer) == 200, answer[:200]
    assert "runs" in json.loads(answer.split(b"\r\n\r\n", 1)[1])


def check_names(port):
    for host in ("evil.example", "evil.example:%d" % port, "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:%d" % port, "127.0.0.1:%d.evil" % port,
                 "127.0.0.1:%dx" % port, "", "[::1]", "10.0.0.1:%d" % port):
        assert code_of(get(port, "/", "GET", host or " ")) in (400, 403), host
    for host in ("localhost:%d" % port, "LocalHost:%d" % port, "[::1]:%d" % port):
        assert code_of(get(port, "/", "GET", host)) == 200, host
    for origin in ("http://evil.example", "null", "https://127.0.0.1:%d" % port, "http://127.0.0.1:%d.evil.example" % port, "http://127.0.0.1:1", "http://localhost:%d" % port):
        assert code_of(get(port, "/api/runs", "GET", None, "Origin: " + origin)) == 403, origin
    assert code_of(get(port, "/api/runs", "GET", None, "Origin: http://127.0.0.1:%d" % port)) == 200
    assert code_of(get(port, "/api/runs", "GET", None, "Sec-Fetch-Site: cross-site")) == 403
    print("other names and other sites are refused")


def check_paths(place, port):
    with open(os.path.join(place.folder.name, "state", "secret.jsonl"), "w") as f:
        f.write('{"event":"note","text":"secret","wall_ns":1}\n')
    for path in ("/../state/ledger.db", "/%2e%2e/state/ledger.db", "/api/curve?run=../../state", "/api/curve?run=..%2f..%2fstate", "/api/curve?run=..", "/api/curve?run=.",
                 "/api/curve?run=", "/api/curve?run=%00", "/api/curve?run=" + "a" * 5000, "/api/run?run=..", "/etc/passwd", "//etc/passwd", "/app.js/../../x", "/api/live/x", "/api"):
        answer = get(port, path)
        assert code_of(answer) in (400, 404, 414), (path, answer[:80])
        assert b"secret" not in answer, path
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "X" * 300):
        assert code_of(get(port, "/api/runs", method)) in (400, 405, 501, 0), method
    assert code_of(get(port, "/api/live?follow=" + "%2c".join(["a:9.9.9"] * 100) + ",b:-1.x.99999999999999999999,:::,...", "HEAD")) in (200, 414)
    print("paths and methods are refused")


def check_oversized(port, seed):
    rng = random.Random(seed)
    assert code_of(get(port, "/" + "a" * 100000)) in (413, 414, 431, 0)
    assert code_of(get(port, "/", "GET", None, *("X-%d: %s" % (i, "y" * 200) for i in range(2000)))) in (413, 431, 0)
    assert code_of(talk(port, b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 99999999999\r\n\r\n" % port + b"x" * 1000000, 2)) in (0, 400, 405, 413)
    for _ in range(200):
        talk(port, bytes(rng.randrange(256) for _ in range(rng.randrange(1, 400))) + b"\r\n\r\n", 0.02)
    alive(port)
    print("oversized and broken requests are refused")


def check_slow(port):
    """A thousand that send a byte now and then: each is dropped, and a reader who asks is answered meanwhile."""
    slow = []
    for _ in range(1000):
        s = socket.socket()
        s.setblocking(False)
        try:
            s.connect(("127.0.0.1", port))
        except BlockingIOError:
            pass
        slow.append(s)
    for s in slow:
        try:
            s.send(b"GET / HT")
        except OSError:
            pass

    def answered():
        for s in slow:
            try:
                s.send(b"T")
            except OSError:
                pass
        try:
            return code_of(get(port)) == 200
        except OSError:
            return False

    longest = 0
    for _ in range(6):  # while they are let in and dropped
        begin = time.time()
        wait_until(answered, "an answer beside a thousand slow connections")
        longest = max(longest, time.time() - begin)
        time.sleep(0.4)
    for s in slow:
        s.close()
    alive(port)
    print("a thousand slow connections: answered within %.1f s" % longest)


def check_token(place):
    child, address = place.watch("--listen", "127.0.0.1")
    port, token = port_of(address), token_of(address)
    assert len(token) >= 32, address
    assert code_of(get(port)) == 401
    assert code_of(get(port, "/")) == 401
    assert code_of(get(port, "/api/runs?token=" + "0" * len(token))) == 401
    welcome = get(port, "/?token=" + token)
    assert code_of(welcome) == 303, welcome
    cookie = [line for line in welcome.decode().split("\r\n") if line.startswith("Set-Cookie: ")][0]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie, cookie
    assert code_of(get(port, "/api/runs", "GET", None, "Cookie: a=b; " + cookie[12:].split(";")[0])) == 200
    assert code_of(get(port, "/api/runs", "GET", "evil.example", "Cookie: " + cookie[12:].split(";")[0])) == 403
    place.end(child)
    print("without the token nothing is answered")


def main():
    seed = int(os.environ.get("CHECK_SEED", random.randrange(1 << 30)))
    print("CHECK_SEED=%d" % seed)
    with Place() as place:
        done = place.run("train", "run.yaml", "train.steps=200", "train.eval_every=100")
        assert done.returncode == 0, done.stderr
        child, address = place.watch()
        port = port_of(address)
        alive(port)
        check_names(port)
        check_paths(place, port)
        check_oversized(port, seed)
        check_slow(port)
        policy = get(port, "/")
        for word in (b"Content-Security-Policy: default-src 'none'", b"X-Content-Type-Options: nosniff", b"frame-ancestors 'none'"):
            assert word in policy, policy
        place.end(child)
        assert child.returncode == 0, (child.returncode, child.stderr.read())
        check_token(place)


main()
print("ok")
