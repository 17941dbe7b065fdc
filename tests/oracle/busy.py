"""What the machine's other work does to a process: how long it waited, and how much of the machine others had."""
import os, resource, threading, time


class Delays(threading.Thread):
    """How long a process was kept waiting for a core or a disk, and how late we were woken: on a machine that does other
    work a deadline is judged with that; on a quiet one it is a few hundredths of a second. /proc/PID/task/*/schedstat has
    ns on a core, ns waiting for one, turns; /proc/pressure/io the microseconds for which anybody waited for a disk."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.path, self.seen, self.overslept_s, self.stop = f"/proc/{pid}/task", [], 0, False

    def look(self):
        """Seconds waited so far, by thread; "disk" is one of them."""
        waited = {}
        try:
            with open("/proc/pressure/io") as f:
                waited["disk"] = int(f.readline().rsplit("total=", 1)[1]) / 1e6
        except (OSError, IndexError):
            pass  # a kernel without it
        try:
            for thread in os.listdir(self.path):
                with open(f"{self.path}/{thread}/schedstat") as f:
                    waited[thread] = int(f.read().split()[1]) / 1e9
        except (OSError, IndexError):
            pass  # it, or one of its threads, has ended
        return waited

    def run(self):
        while not self.stop:
            begin = time.time()
            self.seen.append((begin, self.look()))
            time.sleep(0.02)
            self.overslept_s = max(self.overslept_s, time.time() - begin - 0.02)
        self.seen.append((time.time(), self.look()))

    def since(self, when):
        """Of the disk, and of the thread that waited most, from then on."""
        self.stop = True
        self.join()
        first, last = {"disk": self.seen[0][1].get("disk", 0)}, {"disk": 0}
        for at, waited in self.seen:
            for thread, s in waited.items():
                if at <= when or thread not in first:
                    first[thread] = s if at <= when else 0
                last[thread] = s
        disk_s = max(last.pop("disk") - first["disk"], 0)
        return self.overslept_s + disk_s + max([last[t] - first[t] for t in last], default=0)


class Others:
    """Which part of the machine's processor time other programs used while this block ran; our children count once they were
    waited for."""

    def __enter__(self):
        self.begin = self.look()
        return self

    def __exit__(self, *_):
        total, work, own = (now - then for now, then in zip(self.look(), self.begin))
        self.part = max(work - own, 0) / max(total, 0.01)

    @staticmethod
    def look():
        """Seconds of all cores, those that were used, and those of ours."""
        with open("/proc/stat") as f:
            times = [int(n) / os.sysconf("SC_CLK_TCK") for n in f.readline().split()[1:9]]  # guests are in the first two
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(times), sum(times) - times[3] - times[4], sum(u.ru_utime + u.ru_stime for u in usage)
