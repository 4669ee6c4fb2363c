"""The lines container.start_* and container.verify_us_per_kb of bench/container_bench.py.

container.start_us   from the call that runs a task in a VM that is kept to the script's first line of its own (first_line.py):
                     the warm image copied. Bar: 5 µs. Peer: a thread of CPython, from start to its first line, which shares
                     everything; `detail` has the 99th percentile.
container.start_cold_us  the same in a VM made for the run, with its memory, the check and the load; peer: a subinterpreter of
                     CPython, made and run. `detail` has the making and freeing of a VM alone.
container.verify_us_per_kb  the verifier over the bytecode of real scripts, for one KB; peer: marshal.loads of CPython's code of
                     the same scripts, for one KB of it, which checks nothing. `detail` has each script.
Wall time, medians; one after the other.
"""
import json
import marshal
import os
import platform
import statistics
import subprocess
import threading
import time

import _xxsubinterpreters as interpreters  # CPython to 3.12 has no other way to them

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
SCRIPTS = ("bench/vm_task.py", "bench/vm_data.py", "bench/container/first_line.py", "conf/tasks/highlights/highlights.py",
           "conf/tasks/ipv/features.py", "conf/tasks/ipv_events/encoding.py")
START_BAR_US = 5


def thread_us(turns):
    """From a thread's start to its first line."""
    times, seen = [], []
    for _ in range(turns):
        seen.clear()
        thread = threading.Thread(target=lambda: seen.append(time.perf_counter()))
        start = time.perf_counter()
        thread.start()
        thread.join()
        times.append((seen[0] - start) * 1e6)
    return statistics.median(times)


def subinterpreter_us(turns):
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        one = interpreters.create()
        interpreters.run_string(one, "pass")
        times.append((time.perf_counter() - start) * 1e6)
        interpreters.destroy(one)
    return statistics.median(times)


def marshal_us_per_kb(paths, turns):
    kilobytes = spent = 0.0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            code = marshal.dumps(compile(file.read(), path, "exec"))
        times = []
        for _ in range(turns):
            start = time.perf_counter()
            marshal.loads(code)
            times.append((time.perf_counter() - start) * 1e6)
        kilobytes += len(code) / 1000
        spent += statistics.median(times)
    return spent / kilobytes


def line(bench, ours, peer, theirs, unit, detail):
    return {"bench": bench, "ours": round(ours, 3), "peer": peer, "theirs": round(theirs, 3), "unit": unit,
            "ratio": round(ours / theirs, 4), "spread": [round(ours / theirs, 4)] * 2, "better": "lower", "detail": detail}


def start_lines(build, quick):
    runs, turns = (500, 10) if quick else (5000, 100)
    paths = [os.path.join(TREE, name) for name in SCRIPTS]
    program = os.path.join(build, "bin", "container_start")
    out = subprocess.run([program, str(runs), os.path.join(HERE, "first_line.py"), *paths], check=True, stdout=subprocess.PIPE).stdout
    mine = json.loads(out)
    python = "CPython " + platform.python_version()
    checks = mine["checks"]
    spent, size = sum(one["us"] for one in checks), sum(one["bytes"] for one in checks) / 1000
    warm = line("container.start_us", mine["warm_us"], python + " thread", thread_us(turns * 10), "us",
                {"p99_us": mine["warm_p99_us"], "bar_us": START_BAR_US})
    warm["verdict"] = "met" if mine["warm_us"] <= START_BAR_US else "missed"
    return [warm,
            line("container.start_cold_us", mine["cold_us"], python + " subinterpreter", subinterpreter_us(turns), "us",
                 {"made_and_freed_us": mine["made_us"]}),
            line("container.verify_us_per_kb", spent / size, python + " marshal.loads", marshal_us_per_kb(paths, turns * 10),
                 "us a KB of bytecode", dict(zip(SCRIPTS, checks)))]
