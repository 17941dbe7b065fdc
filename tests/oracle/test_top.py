#!/usr/bin/env python3
"""`frugal top` in terminals of several sizes, through a real pty: no line is wider than the terminal and no screen higher, a
live run's curve is drawn again as it grows, and Ctrl-C ends it with 0; into a pipe it prints one screen."""
import os, re, select, signal, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from terminal import fork_on_terminal
from watch_page import FRUGAL, Place, WAIT_S, skip


def screens(place, columns, rows, enough):
    """What the terminal gets until `enough` says so; each screen begins at the top left."""
    pid, fd = fork_on_terminal(rows, columns)
    if pid == 0:
        os.chdir(place.folder.name)
        os.execve(FRUGAL, [FRUGAL, "top"], dict(place.env, TERM="xterm"))
    out, end = b"", time.time() + WAIT_S
    while time.time() < end:
        if select.select([fd], [], [], 0.2)[0]:
            out += os.read(fd, 65536)
        got = [re.sub("\033\\[[0-9;?]*[A-Za-z]", "", s) for s in out.decode(errors="ignore").split("\033[H")[1:-1]]
        if enough(got):
            break
    os.kill(pid, signal.SIGINT)
    while True:
        try:
            if not os.read(fd, 65536):
                break
        except OSError:  # the other end is closed
            break
    os.close(fd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, code
    return got


def check_fits(screen, columns, rows):
    lines = screen.replace("\r", "").split("\n")
    assert len(lines) <= rows, (len(lines), rows)
    for line in lines:
        assert len(line) <= columns, (columns, line)


def main():
    with Place() as place:
        done = place.run("top")
        if "built without SQLite" in done.stderr:
            skip(done.stderr.strip())
        assert done.returncode == 0 and "0 runs" in done.stdout, done
        done = place.run("top", "nosuch")
        assert done.returncode == 2 and "no run is called nosuch" in done.stderr, done
        name = "run.name=a\u00e4\033[31mname"
        child = place.train(name)
        for columns, rows in ((80, 24), (40, 10), (132, 50), (250, 70)):
            def grown(got):
                curves = {"".join(c for c in s if "\u2800" < c <= "\u28ff") for s in got}
                return len(curves - {""}) > 1 and "1 active" in got[-1]
            got = screens(place, columns, rows, grown)
            assert grown(got), (columns, got[-1:])
            for s in got:
                check_fits(s, columns, rows)
            assert "\\x1b[31m" in got[-1] or columns < 60, got[-1]  # what a terminal would obey is written out
        place.end(child)
        done = place.run("top")
        check_fits(done.stdout.rstrip("\n"), 80, 24)
        assert re.search(r"^run +name +state +steps +loss +dollars +at the end +left$", done.stdout, re.M), done.stdout
        assert "signal" in done.stdout and "samples/s" in done.stdout, done.stdout


main()
print("ok")
