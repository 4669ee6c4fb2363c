#!/usr/bin/env python3
"""Benchmarks of the script VM against CPython. Appends JSON lines to bench/out/vm.jsonl and prints them.

    vm_bench.py --build DIR [--quick]

vm.two_threads  throughput of two VM threads over one, same script; peer: CPython threads. CPU time beside wall.
vm.start_us     a VM made (its memory, heap, interpreter, modules), an empty script run in it, the VM freed; nothing is copied
                from a template. Peer: CPython subinterpreter, made, run and destroyed. `detail` has the first of the process
                of both. And vm.start_kept_us: the run alone, in a VM that is kept, which begins with its warm image; peer: CPython
                exec of the empty script in fresh globals.
vm.task_us      the same of bench/vm_task.py in a VM made for it; peer: CPython exec of compiled code in fresh globals, which
                isolates nothing: the interpreter and its modules are shared. And vm.task_kept_us: in a VM that is kept.
vm.data_us      a run of bench/vm_data.py over 512 events: Filter, KeyBy, TimeWindow and five aggregates of walle.data; peer:
                bench/vm_data_plain.py, the same by hand in the same VM, runs in turns, results compared. And vm.data_64_us.
vm.nn_call_us   a call of DIN (bench/models) through walle.nn; peer: the same session called from C, in turns. And vm.nn_run_us:
                a whole run of one such call, in a fresh interpreter, with load and tensors.
vm.apart_start_us, vm.apart_task_us, vm.apart_nn_us  the runs of vm.start_us, vm.task_us and vm.nn_run_us in a task process of
                its own (walle-task-runner, behind its wall); peer: the same on the thread. `detail` has the processor time
                of a process and the most memory one held.
vm.proven_start_us  a run of a task of a 100 KB script and an 8 MiB model in a task process, from the tick to the result, with its
                content hashed as devices do; peer: the same without, in turns. `detail` has the first run, which hashes the model.
`ratio` is ours / theirs.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import _xxsubinterpreters as interpreters  # CPython to 3.12 has no other way to them

HERE = os.path.dirname(os.path.abspath(__file__))


def ours(build, *arguments):
    program = os.path.join(build, "bin", "vm_bench")
    out = subprocess.run([program, *map(str, arguments)], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)


def load(name):
    path = os.path.join(HERE, name)
    with open(path, encoding="utf-8") as file:
        return compile(file.read(), path, "exec")


def median_us(action, runs):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def subinterpreter():
    one = interpreters.create()
    interpreters.run_string(one, "pass")
    interpreters.destroy(one)


def python_turn(code, threads, seconds):
    stop = threading.Event()
    counts = [0] * threads

    def work(which):
        while not stop.is_set():
            exec(code, {})
            counts[which] += 1

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    start = time.perf_counter()
    cpu = time.process_time()
    for worker in workers:
        worker.start()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts), time.perf_counter() - start, time.process_time() - cpu


def python_threads(code, seconds, rounds):
    ratios = []
    totals = {"one": [0, 0.0, 0.0], "two": [0, 0.0, 0.0]}
    for _ in range(rounds):
        rates = []
        for name, threads in (("one", 1), ("two", 2)):
            turn = python_turn(code, threads, seconds)
            rates.append(turn[0] / turn[1])
            totals[name] = [total + part for total, part in zip(totals[name], turn)]
        ratios.append(rates[1] / rates[0])
    result = {"ratio": statistics.median(ratios)}
    for name, (runs, wall, cpu) in totals.items():
        result.update({name + "_runs": runs, name + "_wall_s": round(wall, 4), name + "_cpu_s": round(cpu, 4)})
    return result


def large_model(path):
    """8 MiB of weights, one of which is looked up."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy.arange(2 << 20, dtype=numpy.float32)
    graph = helper.make_graph([helper.make_node("Gather", ["w", "x"], ["y"])], "large",
                              [helper.make_tensor_value_info("x", TensorProto.INT64, [1])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    with open(path, "wb") as file:
        file.write(model.SerializeToString())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, help="build folder, as build/release")
    parser.add_argument("--quick", action="store_true", help="a few rounds only")
    args = parser.parse_args()
    rounds, turn_ms, runs = (3, 200, 500) if args.quick else (9, 500, 5000)
    python = "CPython " + platform.python_version()
    out = []

    def add(bench, mine, peer, theirs, unit, better, detail):
        out.append({"bench": bench, "ours": round(mine, 3), "peer": peer, "theirs": round(theirs, 3), "unit": unit,
                    "ratio": round(mine / theirs, 5), "better": better, "detail": detail})

    mine = ours(args.build, "threads", turn_ms, rounds, os.path.join(HERE, "vm_work.py"))
    theirs = python_threads(load("vm_work.py"), turn_ms / 1000, rounds)
    # On a busy machine the wall clock says who else ran. These say what the threads cost each other: work per second of
    # CPU time, and the median time of one run, which a pause of the thread does not move.
    per_cpu = [mine[name + "_runs"] / mine[name + "_cpu_s"] for name in ("one", "two")]
    mine["ratio_by_cpu_time"] = round(2 * per_cpu[1] / per_cpu[0], 4)
    mine["ratio_by_median_run"] = round(2 * mine["one_run_us"] / mine["two_run_us"], 4)
    add("vm.two_threads", mine["ratio"], python + ", two threads", theirs["ratio"], "times the runs of one thread",
        "higher", {"ours": mine, "theirs": theirs})

    start = time.perf_counter()
    subinterpreter()
    first = (time.perf_counter() - start) * 1e6
    runner = os.path.join(args.build, "bin", "walle-task-runner")
    for name, code, file in (("start", compile("pass\n", "bench.py", "exec"), []),
                             ("task", load("vm_task.py"), [os.path.join(HERE, "vm_task.py")])):
        mine = ours(args.build, name, runs, *file)
        shared = median_us(lambda: exec(code, {}), runs)
        theirs, peer, detail = shared, ", exec in fresh globals", {"ours": mine}
        if name == "start":
            theirs, peer = median_us(subinterpreter, max(20, runs // 100)), ", subinterpreter"
            detail["theirs_first_us"] = round(first, 1)
        add(f"vm.{name}_us", mine["median_us"], python + peer, theirs, "us", "lower", detail)
        add(f"vm.{name}_kept_us", mine["kept_median_us"], python + ", exec in fresh globals", shared, "us", "lower", {"ours": mine})
        apart = ours(args.build, "apart", max(200, runs // 5), runner, *file)
        add(f"vm.apart_{name}_us", apart["median_us"], "on the thread", mine["median_us"], "us", "lower", {"ours": apart})

    for name, events in (("vm.data_us", 512), ("vm.data_64_us", 64)):
        mine = ours(args.build, "data", max(100, runs // 5), events, os.path.join(HERE, "vm_data.py"),
                    os.path.join(HERE, "vm_data_plain.py"))
        add(name, mine["median_us"], "plain Python in the same VM", mine["plain_median_us"], "us", "lower", {"ours": mine})

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(HERE, "models", "make_models.py"), folder, "din"], check=True,
                       stdout=subprocess.DEVNULL)
        program = os.path.join(args.build, "bin", "vm_nn_bench")
        text = subprocess.run([program, str(max(50, runs // 10)), "50", os.path.join(folder, "din.onnx"), runner], check=True,
                              stdout=subprocess.PIPE).stdout
    mine = json.loads(text)
    for name, key in (("vm.nn_call_us", "call_us"), ("vm.nn_run_us", "run_us")):
        add(name, mine[key], "the same session from C", mine["c_us"], "us", "lower", {"ours": mine})
    add("vm.apart_nn_us", mine["apart_us"], "on the thread", mine["run_us"], "us", "lower", {"ours": mine})

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "large.onnx")
        large_model(path)
        program = os.path.join(args.build, "bin", "proven_start")
        text = subprocess.run([program, str(max(100, runs // 10)), path, runner], check=True, stdout=subprocess.PIPE).stdout
    mine = json.loads(text)
    add("vm.proven_start_us", mine["after_us"], "the same without proof", mine["before_us"], "us", "lower", {"ours": mine})

    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    with open(os.path.join(HERE, "out", "vm.jsonl"), "a", encoding="utf-8") as file:
        for line in out:
            text = json.dumps(line)
            print(text)
            file.write(text + "\n")


if __name__ == "__main__":
    main()
