#!/usr/bin/env python3
"""The walks of docs/ARCHITECTURE.md are those that the programs go: what gdb finds on their stacks is what the page has.

A value goes on from a thread's stack in legs: a function takes it up (from memory, a socket, a caller outside the product), calls
others with it, and the last of them puts it down: into a struct of another kind, a queue, another process. A leg is all functions
from the one to the other, so none can be left out. Functions that only look at the value and return are on no leg.
A leg has to take up what the one before it put down, by its address or number: so the legs are one way, not pieces of several.

With -v it prints the walks. WALK_PLAN=FILE takes the legs from a file, for a tree of before, and prints without comparing."""
import json
import os
import re
import shutil
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

SOURCE = os.environ.get("WALLE_SOURCE", ".")
DEVICE = "00000000000004d2"
FULL = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
FRAMES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "walk_frames.py")

# Walk, as its title on the page begins: legs of (program, from, file of `to`, to, taken, put, what may not lie between). `taken` and
# `put` are `function: expression`: what the leg took up, and what it puts down, by its address or number. The next leg has to
# take up what was put down: a walk is a chain of legs of which each does.
PLAN = {
    "A device's id": [
        ("gateway", "read_frames", "stream_headers.c", "keep", "gw_stream_header: stream", "keep: work", "pseudo_header"),
        ("gateway", "on_frame_recv", "checkin_answer.c", "gw_checkin_read", "gw_stream_hand_over: stream->work", "gw_checkin_read: out"),
        ("gateway", "gw_checkin_handle", "touches.c", "gw_worker_touch", "gw_checkin_handle: &checkin", "gw_worker_touch: checkin->device_id"),
        ("gateway", "gw_worker_flush_touches", "device_table.c", "touch_entry", "gw_worker_flush_touches: worker->touches->rows[0].device_id",
         "touch_entry: touch->device_id"),
        ("gateway", "gw_checkin_decide", "device_table.c", "gw_device_table_offered", "gw_checkin_decide: checkin->device_id",
         "gw_device_table_offered: device_id"),
    ],
    "An event": [
        ("device", "dev_record", "recorder_ring.c", "dev_ring_put", "dev_record: recording", "dev_ring_put: recording->wall_ms"),
        ("device", "dev_recorder_drain", "sequence.c", "dev_sequence_on_event", "dev_recorder_drain: record.event.wall_ms",
         "dev_sequence_on_event: event->seq"),
        ("device", "on_event", "pipeline_starts.c", "dev_pipeline_fired", "on_event: event->seq", "dev_pipeline_fired: event->seq"),
        ("device", "walk", "event.c", "dev_event_wire", "walk: self->start->seq", "dev_event_wire: out"),
        ("device", "block_end", "event_block.c", "wire_event_block_encode", "block_end: &pipeline->events[0]", "wire_event_block_encode: out"),
        ("device", "start_hand_over", "posix_pipeline.c", "start_task", "start_hand_over: out.events + 3", "start_task: start->token"),
        ("device", "dev_pipeline_on_end", "tunnel_queue.c", "tunnel_append", "dev_pipeline_on_end: run.token", "tunnel_append: &class->open"),
        ("device", "tunnel_close", "batch.c", "wire_batch_encode", "tunnel_close: &class->open", "wire_batch_encode: out"),
        ("device", "tunnel_close", "tunnel_entry.c", "tunnel_put_entry", "tunnel_close: raw", "tunnel_put_entry: placing->slot"),
        ("device", "send_batch", "tunnel_pack.c", "tunnel_pack", "send_batch: class->send_next", "tunnel_pack: tunnel->buffers.raw_slot"),
        ("device", "send_batch", "posix_tunnel.c", "send_bytes", "send_batch: class->send_next", "send_batch: batch.hash"),
        ("gateway", "on_data_chunk", "session_batch.c", "copy_batch", "gw_session_on_batch: sent.hash", "copy_batch: from->hash"),
        ("gateway", "gw_session_on_batch", "segment_log.c", "submit", "gw_session_on_batch: sent.hash", "submit: batch"),
        ("gateway", "commit_group", "segment_log.c", "write_parts", "commit_group: group->batches[0]", "write_parts: parts"),
    ],
    "A tensor": [
        ("run", "model_call", "vm_tensor.c", "dev_vm_tensor_of", "model_call: args[0]", "model_call: &call.inputs.tensors[0]"),
        ("run", "model_call", "session_io.c", "eng_session_set_input", "model_call: &call.inputs.tensors[0]", "eng_session_set_input: session"),
        ("run", "dev_model_run", "vec_expr.c", "run_tiles", "dev_model_run: session", "run_tiles: begin"),
    ],
}

# An optimising compiler does not keep all that the plan asks for: what is not there joins with anything.
with open(os.path.join(os.path.dirname(program("walle")), "..", "CMakeCache.txt"), encoding="utf-8") as cache:
    ALL_KEPT = re.search(r"^CMAKE_BUILD_TYPE:\w+=Debug$(?s:.*)^CMAKE_C_FLAGS_DEBUG:\w+=(?!.*-O)", cache.read(), re.M) is not None

SCRIPT = """import walle
from walle import data
events = data.events()
if len(events) > 0:
    walle.result({"item": events[0].item, "text": "as long as a record that is worth to be compressed, and then more", "events": len(events)})
"""
TASK = {"name": "shop/walk", "version": "1.0.0", "entry": "walk", "files": ["walk.py"],
        "triggers": ["enter(item) * exit(item) page"], "events": {"take": "visit"},
        "uploads": [{"name": "walk", "class": "realtime", "schema": {"type": "object"}}], "result": "walk"}
EVENTS = [{"kind": kind, "page": "item", "item": "i-1", "t": 1800000000000 + i} for i, kind in enumerate(("enter", "click", "exit"))]


def page_walks():
    """{title: [(function, file)]} of the page's tables."""
    walks, title = {}, None
    with open(os.path.join(SOURCE, "docs", "ARCHITECTURE.md"), encoding="utf-8") as page:
        for line in page:
            heading = re.match(r"\*\*(.*?),.*: \d+ steps\.\*\*", line)
            step = re.match(r"\| \d+ \| `(\w+)` \| `([\w.]+)` \|", line)
            if heading:
                title = heading.group(1)
                walks[title] = []
            elif step and title:
                walks[title].append((step.group(1), step.group(2)))
    return walks


def cannot_trace():
    """Why gdb cannot look at a program that runs here; None: it can."""
    scope = "0"
    if os.path.exists("/proc/sys/kernel/yama/ptrace_scope"):
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            scope = file.read().strip()
    if not shutil.which("gdb"):
        return "gdb is not installed"
    return "this machine lets only root attach to a program" if scope != "0" and os.geteuid() != 0 else None


@unittest.skipIf(cannot_trace(), cannot_trace())
class Walks(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.plan = PLAN
        if os.environ.get("WALK_PLAN"):
            with open(os.environ["WALK_PLAN"], encoding="utf-8") as file:
                self.plan = json.load(file)

    def debugger(self, where, walks):
        """gdb, which looks for the legs that the program `where` goes; the rest of its command line is the caller's."""
        legs = [[[walk, number], *leg[1:]] for walk in walks for number, leg in enumerate(self.plan[walk]) if leg[0] == where]
        environment = {**os.environ, "WALLE_SOURCE": SOURCE, "WALK_LEGS": json.dumps(legs), "WALK_OUT": self.stack.path("frames")}
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # who is traced cannot look for leaks
        return ["gdb", "-batch", "-nx", "-ex", "set confirm off", "-ex", "set debuginfod enabled off", "-ex", "set print thread-events off",
                "-ex", "handle SIGPIPE SIGTERM nostop noprint pass"], environment

    def under(self, where, walks, command):
        front, environment = self.debugger(where, walks)
        run = subprocess.run([*front, "-x", FRAMES, "-ex", "run", "-ex", "quit $_exitcode", "--args", *command], env=environment,
                             capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run

    def attach(self, where, walks, pid):
        front, environment = self.debugger(where, walks)
        log = open(self.stack.path("gdb.log"), "w+", encoding="utf-8")
        self.addCleanup(log.close)
        child = subprocess.Popen([*front, "-p", str(pid), "-x", FRAMES, "-ex", "echo ready\\n", "-ex", "continue"], env=environment,
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.stack.children.insert(0, child)  # ends before what it looks at

        def is_ready():
            self.assertIsNone(child.poll(), "gdb ended")
            with open(log.name, encoding="utf-8") as file:
                return "ready" in file.read()
        wait_until(is_ready, what="gdb to be there")

    def found(self, walk):
        """The walk's functions in order, each once, of legs of which each takes up what the one before put down."""
        with open(self.stack.path("frames"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        ways = None  # what was put down: the functions up to there
        for number, leg in enumerate(self.plan[walk]):
            legs = [(steps, taken, put) for (of, at), steps, taken, put in lines if of == walk and at == number]
            self.assertTrue(legs, f"{walk}: nobody went the leg {leg}")
            before, ways = ways, {}
            for steps, taken, put in legs:
                self.assertFalse(ALL_KEPT and None in (taken, put), f"{walk}: {leg}: there is no {leg[4]} or {leg[5]}")
                came = [way for value, way in (before or {None: []}).items() if taken == value or None in (taken, value)]
                if came:
                    ways.setdefault(put, [*came[0], *steps])
            self.assertTrue(ways, f"{walk}: what was put down before the leg {leg} nobody took up there: {list(before or [])}, "
                            f"taken were {[taken for _, taken, _ in legs]}")
        return list(dict.fromkeys(tuple(step) for step in next(iter(ways.values()))))

    def compare(self, *walks):
        for walk in walks:
            steps = self.found(walk)
            print(f"{walk}: {len(steps)} functions", *(f"  {name} ({file})" for name, file in steps), sep="\n", flush=True)
            if not os.environ.get("WALK_PLAN"):
                self.assertEqual(steps, page_walks()[walk], f"{walk}: docs/ARCHITECTURE.md has another walk")

    def source(self, files):
        folder = self.stack.path("source")
        os.makedirs(folder)
        for name, content in files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        self.stack.walle("task", "build", folder, "--out", self.stack.path("build"))

    def test_an_id_and_an_event(self):
        walks = ("A device's id", "An event")
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]
        self.source({"task.json": json.dumps(TASK), "walk.py": SCRIPT})
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(FULL, file)
        self.stack.walle("task", "push", self.stack.path("build"))
        self.stack.walle("rollout", "start", TASK["name"], "--build", self.stack.path("build"), "--key", self.stack.path("key"),
                         "--stages", self.stack.path("stages.json"))
        with open(self.stack.path("events"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in EVENTS)
        self.attach("gateway", walks, self.stack.gateway.pid)
        self.under("device", walks,
                   [program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token,
                    "--dir", self.stack.path("device"), "--id", DEVICE, "--trust", key, "--once", "--events", self.stack.path("events")])
        self.compare(*walks)

    def test_a_tensor(self):
        try:
            from onnx import TensorProto, helper
        except ImportError:
            self.skipTest("onnx is not installed")
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4096]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "walk", value[:1], value[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        script = ("import walle\nfrom walle import nn\nmodel = nn.load(\"walk.onnx\")\n"
                  "y = model([float(i) for i in range(4096)])\nwalle.result({\"last\": y.tolist()[-1]})\n")
        self.source({"task.json": json.dumps({"name": "shop/tensor", "version": "1.0.0", "entry": "walk",
                                              "files": ["walk.py", "walk.onnx"]}),
                     "walk.py": script, "walk.onnx": model.SerializeToString()})
        run = self.under("run", ("A tensor",), [program("walle"), "task", "run", self.stack.path("build")])
        self.assertIn("8190", run.stdout)
        self.compare("A tensor")


if __name__ == "__main__":
    unittest.main()
