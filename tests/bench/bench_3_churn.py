"""Measures how many cells per second can be started and ended, on two cores."""
import os

from bench import Samples, Unmeasured, group, in_parallel
from bench_1_start import BWRAP


def two_cores():
    cores = sorted(os.sched_getaffinity(0))[:2]
    return ["taskset", "-c", ",".join(map(str, cores))]


@group("churn")
def churn(lab, report):
    slices, ms = report.pick((5, 2000), (2, 500))
    run = [lab.cloister, "run", "-q", "--", "true"]
    for who in lab.users:
        for workers in (2, 4):
            rates = {"us": Samples(), "bwrap": Samples()}
            for _ in range(slices):
                for name, argv in (("us", run), ("bwrap", BWRAP)):
                    try:
                        done, seconds = in_parallel(lab, who, argv, workers, ms=ms,
                                                    prefix=two_cores())
                    except Unmeasured:
                        if name == "us":
                            raise
                        continue
                    rates[name].append(done / seconds)
            bar = "value >= 200" if who is lab.user and workers == 4 else None
            report.row(f"churn: starts and ends, {workers} at a time ({who.name})",
                       rates["us"].median, "/s", rates["us"].spread,
                       "bwrap", rates["bwrap"].median if rates["bwrap"] else None, bar)
