"""A child on a terminal of a given size; a machine without pseudo-terminals (a chroot without devpts) skips the test."""
import fcntl, os, pty, struct, sys, termios


def fork_on_terminal(rows, columns):
    """(0, ...) in the child, whose terminal it is; in the parent its process id and the other end."""
    try:
        pid, fd = pty.fork()
    except OSError as e:
        print(f"no terminal can be opened here ({e}); it needs devpts at /dev/pts")
        sys.exit(77)
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return pid, fd
