#!/usr/bin/env python3
"""Fine-tuning by scripts beside PyTorch: models that PyTorch exported, trained for 50 steps by nn.Trainer in a run, come to PyTorch's
losses and weights; a run that goes on from what an earlier one kept in walle.store comes to the same."""
import json
import os
import unittest

import numpy as np

try:
    import torch
except ImportError:
    torch = None
from walle_stack import Stack

STEPS, TOLERANCE = 50, 1e-3
SCRIPT = """import walle
from walle import nn

config = walle.config
def tensor(name):
    return nn.tensor(walle.file(name), config[name + "_shape"], config[name + "_dtype"])
x, y = tensor("x"), tensor("y")
rows = config["rows"]
trainer = nn.Trainer(nn.load("net.onnx"), **config["trainer"])
kept = trainer.load("state")
losses = []
while trainer.steps < config["steps"]:
    at = trainer.steps * rows % len(x)
    losses.append(trainer.step(x[at:at + rows], y[at:at + rows]))
if config["keeps"]:
    trainer.save("state")
walle.result({"kept": kept, "losses": losses, "predicted": trainer.predict(x[:rows]).tolist(), "parameters": len(trainer.parameters)})
"""


def dense():
    return torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.BatchNorm1d(10), torch.nn.ReLU(), torch.nn.Linear(10, 3))


def convolution():
    return torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                               torch.nn.Flatten(), torch.nn.Linear(4 * 4 * 4, 3))


def small():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TrainedAsByTorch(unittest.TestCase):
    ROWS, BATCH = 96, 16

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        torch.manual_seed(5)
        torch.set_num_threads(1)
        self.random = np.random.default_rng(5)

    def export(self, net, x, folder):
        """As PyTorch writes it: normalization stays a node of its own."""
        net.eval()
        torch.onnx.export(net, torch.from_numpy(x[:self.BATCH]), os.path.join(folder, "net.onnx"), opset_version=13, input_names=["x"],
                          output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.PRESERVE)

    def fit(self, net, x, y, loss, optimizer, by_batch):
        """PyTorch's losses, and what the net gives afterwards."""
        losses = []
        for step in range(STEPS):
            at = step * self.BATCH % len(x)
            net.train(by_batch)
            optimizer.zero_grad()
            value = loss(net(torch.from_numpy(x[at:at + self.BATCH])), torch.from_numpy(y[at:at + self.BATCH]))
            value.backward()
            optimizer.step()
            losses.append(value.item())
        net.eval()
        with torch.no_grad():
            return losses, net(torch.from_numpy(x[:self.BATCH])).numpy()

    def run_task(self, folder, x, y, trainer, steps=STEPS, keeps=False, store=None):
        config = {"rows": self.BATCH, "trainer": trainer, "steps": steps, "keeps": keeps}
        for name, values in {"x": x, "y": y}.items():
            config.update({name + "_shape": values.shape, name + "_dtype": str(values.dtype)})
            values.tofile(os.path.join(folder, name))
        task = {"name": "shop/torch", "version": "1.0.0", "entry": "task", "files": ["task.py", "net.onnx", "x", "y"], "config": config,
                "time_ms": 10000, "heap_kib": 1024, "store": {"quota_kib": 64, "keep": "versions"}}
        for name, text in {"task.json": json.dumps(task), "task.py": SCRIPT}.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        run = json.loads(self.stack.walle("task", "run", folder, "-o", "json", *(["--store", store] if store else [])).stdout)
        self.assertEqual(run["end"], "finished", run)
        return run["result"]

    def compare(self, name, net, targets, loss, optimizer, trainer, by_batch=False, frozen=()):
        with self.subTest(name):
            folder = self.stack.path("task-" + name)
            os.makedirs(folder)
            shape = (2, 8, 8) if isinstance(net[0], torch.nn.Conv2d) else (6,)
            x = self.random.standard_normal((self.ROWS, *shape)).astype(np.float32)
            y = targets(x)
            if any(isinstance(layer, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)) for layer in net):  # statistics of something
                net[1].running_mean.copy_(torch.from_numpy(self.random.standard_normal(net[1].num_features).astype(np.float32) / 4))
                net[1].running_var.copy_(torch.from_numpy((1 + self.random.random(net[1].num_features)).astype(np.float32)))
            self.export(net, x, folder)
            for parameter, value in net.named_parameters():
                value.requires_grad_(not any(parameter.startswith(prefix) for prefix in frozen))
            expected, gives = self.fit(net, x, y, loss, optimizer([p for p in net.parameters() if p.requires_grad]), by_batch)
            result = self.run_task(folder, x, y, trainer)
            self.assertEqual(len(result["losses"]), STEPS)
            worst = np.abs(np.array(result["losses"]) - expected).max()
            print(f"{name}: loss {expected[0]:.3f} to {expected[-1]:.3f}, at most {worst:.1e} from PyTorch's", flush=True)
            self.assertLess(worst, TOLERANCE)
            self.assertLess(np.mean(expected[-5:]), np.mean(expected[:5]) - 0.01)
            if not by_batch:  # the variance that is kept is ONNX's there, of the batch; PyTorch's is larger by n / (n - 1)
                np.testing.assert_allclose(result["predicted"], gives, atol=2e-3)
            # In two runs, the second from what the first one kept: the same, to the bit.
            store = self.stack.path("store-" + name)
            halves = [self.run_task(folder, x, y, trainer, steps, True, store) for steps in (STEPS // 2, STEPS)]
            self.assertEqual([half["kept"] for half in halves], [False, True])
            self.assertEqual(halves[0]["losses"] + halves[1]["losses"], result["losses"])

    def classes(self, x):
        flat = x.reshape(len(x), -1)
        return (flat @ self.random.standard_normal((flat.shape[1], 3))).argmax(1).astype(np.int64)

    def numbers(self, x):
        return np.tanh(x @ self.random.standard_normal((6, 2)) / 2).astype(np.float32)

    def chances(self, x):
        return (x @ self.random.standard_normal((6, 2)) > 0).astype(np.float32)

    def test_losses_are_torchs(self):
        def sgd(**words):
            return lambda weights: torch.optim.SGD(weights, **words)

        def adam(**words):
            return lambda weights: torch.optim.Adam(weights, **words)

        entropy, squares, binary = torch.nn.CrossEntropyLoss(), torch.nn.MSELoss(), torch.nn.BCEWithLogitsLoss()
        self.compare("sgd", dense(), self.classes, entropy, sgd(lr=0.1), {"lr": 0.1})
        self.compare("momentum", dense(), self.classes, entropy, sgd(lr=0.05, momentum=0.9), {"lr": 0.05, "momentum": 0.9})
        self.compare("adam", dense(), self.classes, entropy, adam(lr=0.02), {"optimizer": "adam", "lr": 0.02})
        self.compare("by-batch", dense(), self.classes, entropy, sgd(lr=0.1), {"lr": 0.1, "batch_norm": "train"}, by_batch=True)
        self.compare("last-layer", dense(), self.classes, entropy, adam(lr=0.05), {"optimizer": "adam", "lr": 0.05, "train": ["3.*"]},
                     frozen=("0", "1"))
        self.compare("convolution", convolution(), self.classes, entropy, sgd(lr=0.05, momentum=0.9), {"lr": 0.05, "momentum": 0.9})
        self.compare("convolution-by-batch", convolution(), self.classes, entropy, adam(lr=0.01),
                     {"optimizer": "adam", "lr": 0.01, "batch_norm": "train"}, by_batch=True)
        self.compare("numbers", small(), self.numbers, squares, sgd(lr=0.2), {"loss": "mse", "lr": 0.2})
        self.compare("chances", small(), self.chances, binary, adam(lr=0.05), {"loss": "bce", "optimizer": "adam", "lr": 0.05})


if __name__ == "__main__":
    unittest.main()
