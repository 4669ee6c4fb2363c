"""The data folder of a stopped gateway with a rollout under way, as runs in virtual time go on from."""
import json
import os
import re

STAGES = [{"name": "gray", "kind": "gray", "percent": 30, "min_sample": 8, "min_dwell_s": 60, "max_failure": 0.2},
          {"name": "full", "kind": "full", "percent": 100, "min_sample": 10, "min_dwell_s": 5, "max_failure": 0.2}]
TASK = "shop/score"


class FleetFolder:
    """In `stack`, which has no gateway running."""

    def __init__(self, stack):
        self.stack = stack
        self.gateway = stack.start_gateway()
        for name in ("a", "b", "ci", "lead"):
            stack.walle("key", "new", "--out", stack.path(name + ".key"))
        stack.walle("root", "init", "--out", stack.path("root.1"), "--key", stack.path("a.key"), "--key", stack.path("b.key"),
                    "--release", stack.path("ci.key.pub"), "--release", stack.path("lead.key.pub"))
        stack.walle("root", "push", stack.path("root.1"))
        os.mkdir(stack.path("source"))

    def release(self, version, stages=None, result="{'version': '%s'}"):
        """Starts a rollout of a new version, which tells `result`; its id."""
        stack = self.stack
        with open(stack.path("source", "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": TASK, "version": version, "entry": "task", "files": ["task.py"]}, file)
        with open(stack.path("source", "task.py"), "w", encoding="utf-8") as file:
            file.write(f"import walle\nwalle.result({result.replace('%s', version)})\n")
        with open(stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(stages or STAGES, file)
        build = stack.path("build-" + version)
        stack.walle("task", "build", stack.path("source"), "--out", build)
        stack.walle("task", "push", build)
        run = stack.walle("rollout", "start", TASK, "--build", build, "--stages", stack.path("stages.json"), "--key",
                          stack.path("ci.key"), "--key", stack.path("lead.key"), "--trust-unproven", "--accept-empty", "--accept-power")
        return re.match(r"[0-9a-f]{16}", run.stdout).group(0)

    def stop(self):
        assert self.gateway.stop() == 0

    def words(self):
        """Of every run on it."""
        return ["--virtual", self.stack.path("gateway"), "--root", self.stack.path("root.1")]
