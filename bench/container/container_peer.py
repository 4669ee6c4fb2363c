"""The same scripts as tasks of CPython, N at a time: on threads of one process, or in N processes. Started by
bench/container/container_tasks.py, one process for one measurement, with the interpreter that is the peer.

    container_peer.py threads|handed|processes SCRIPT COUNT MS

Compiled once; each run has a dictionary of names of its own (with `np`, where the script's name ends so), and gives its result as JSON. `threads` and `processes` go on by
themselves, each with its own task: nothing that hands runs out takes part in the time. `handed`: one thread asks for runs and gets
the results, as the loop of a device does, by the fastest queues there are. Processes are forked after the script ran there (the
collector's generations frozen, so that pages stay shared), and have run it before the clock starts. Prints one line of JSON.
"""
import array
import gc
import json
import multiprocessing
import os
import queue
import sys
import threading
import time

WARM_RUNS = 3
WARM_SHARE = 0.1
NAMES = {}  # of each run


def loop(code, until, begun):
    """Microseconds of the runs that began after `begun`, the last result, and processor time of the thread for a run."""
    took, result, runs, spent = array.array("f"), None, 0, time.thread_time()
    clock = time.perf_counter
    while True:
        start = clock()
        if start >= until:
            return took, result, (time.thread_time() - spent) * 1e6, runs
        names = NAMES.copy()
        exec(code, names)  # noqa: S102
        result = json.dumps(names["out"])
        runs += 1
        if start >= begun:
            took.append((clock() - start) * 1e6)


def pss_kib(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total


def cpu_us(told):
    return sum(spent for _, _, spent, _ in told) / max(1, sum(runs for _, _, _, runs in told))


def on_threads(code, count, seconds):
    start = time.perf_counter()
    until, begun, told = start + seconds, start + seconds * WARM_SHARE, []

    def work():
        told.append(loop(code, until, begun))
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [one for took, _, _, _ in told for one in took], time.perf_counter() - begun, {one[1] for one in told}, pss_kib([os.getpid()]), cpu_us(told)


def handed(code, count, seconds):
    """As many threads, tasks and runs under way: each is asked for again when its result is here."""
    asked, answered, took = queue.SimpleQueue(), queue.SimpleQueue(), array.array("f")
    results, runs, used = set(), 0, time.process_time()

    def work():
        while (start := asked.get()) is not None:
            names = NAMES.copy()
            exec(code, names)  # noqa: S102
            answered.put((start, json.dumps(names["out"])))
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    clock = time.perf_counter
    start = clock()
    until, begun = start + seconds, start + seconds * WARM_SHARE
    for _ in threads:
        asked.put(clock())
    while (now := clock()) < until:
        since, result = answered.get()
        now = clock()
        asked.put(now)
        results.add(result)
        runs += 1
        if since >= begun:
            took.append((now - since) * 1e6)
    spent, used = clock() - begun, (time.process_time() - used) * 1e6 / max(1, runs)
    for _ in threads:
        asked.put(None)
    for thread in threads:
        thread.join()
    return took, spent, results, pss_kib([os.getpid()]), used


HOW = {"threads": on_threads, "handed": handed}


def worker(code, seconds, gate, answers, leave):
    for _ in range(WARM_RUNS):
        exec(code, NAMES.copy())  # noqa: S102
    gate.wait()
    start = time.perf_counter()
    told = loop(code, start + seconds, start + seconds * WARM_SHARE)
    answers.put((told, time.perf_counter() - start - seconds * WARM_SHARE))
    leave.wait()


def in_processes(code, count, seconds):
    for _ in range(WARM_RUNS):
        exec(code, NAMES.copy())  # noqa: S102
    gc.freeze()
    fork = multiprocessing.get_context("fork")
    gate, leave, answers = fork.Barrier(count + 1), fork.Barrier(count + 1), fork.SimpleQueue()
    children = [fork.Process(target=worker, args=(code, seconds, gate, answers, leave)) for _ in range(count)]
    for child in children:
        child.start()
    gate.wait()
    ended = [answers.get() for _ in children]
    kib = pss_kib([os.getpid()] + [child.pid for child in children])
    leave.wait()
    for child in children:
        child.join()
    told = [one for one, _ in ended]
    return [one for took, _, _, _ in told for one in took], max(spent for _, spent in ended), {one[1] for one in told}, kib, cpu_us(told)


HOW["processes"] = in_processes


def main():
    how, path, count, ms = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    if path.endswith("_np.py"):
        import numpy  # what does without it does not have it in its memory
        NAMES["np"] = numpy
    took, seconds, results, kib, used = HOW[how](code, int(count), int(ms) / 1000)
    results.discard(None)
    took = sorted(took)
    if len(results) != 1 or not took:
        sys.exit("container_peer: no run, or results that differ")
    print(json.dumps({"runs": len(took), "seconds": seconds, "cpu_us": used, "p50_us": took[len(took) // 2], "p99_us": took[len(took) * 99 // 100],
                      "pss_kib": kib, "result": json.loads(results.pop())}))


if __name__ == "__main__":
    main()
