#!/usr/bin/env python3
"""`walle-engine train`: what it writes is what numpy comes to with the same steps; it learns; and what is wrong is said."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from walle_stack import SOURCE, program

ROWS, WIDTH, CLASSES = 90, 4, 3


class EngineTrain(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="walle-train-")
        self.addCleanup(shutil.rmtree, self.folder)
        random = np.random.default_rng(5)
        self.w = random.standard_normal((WIDTH, CLASSES)).astype(np.float32)
        self.b = random.standard_normal(CLASSES).astype(np.float32)
        self.x = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
        self.y = (self.x @ random.standard_normal((WIDTH, CLASSES))).argmax(1)
        self.model = self.path("net.onnx")
        graph = helper.make_graph([helper.make_node("Gemm", ["x", "w", "b"], ["scores"])], "net",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
                                  [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", CLASSES])],
                                  [numpy_helper.from_array(self.w, "w"), numpy_helper.from_array(self.b, "b")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        save(model, self.model)
        np.save(self.path("x.npy"), self.x)
        np.save(self.path("y.npy"), self.y)

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, *arguments, code=0):
        run = subprocess.run([program("walle-engine"), "train", self.model, *arguments], capture_output=True, text=True, timeout=120,
                             stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout if code == 0 else run.stderr

    def fit(self, *arguments):
        """Loss of each epoch, and the weights."""
        said = self.train("--input", "x=" + self.path("x.npy"), "--target", self.path("y.npy"), "--output", self.path("out.npz"), *arguments)
        with np.load(self.path("out.npz")) as out:
            return [float(loss) for loss in re.findall(r"loss ([\d.]+)", said)], {name: out[name] for name in out}

    def loss(self, w, b, rows=slice(None)):
        scores = self.x[rows].astype(np.float64) @ w + b
        scores -= scores.max(1, keepdims=True)
        chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        return -np.log(chances[np.arange(len(chances)), self.y[rows]]).mean(), chances

    def adam(self, steps, rates):
        """The same with all rows in each step, in numpy."""
        w, b = self.w.astype(np.float64), self.b.astype(np.float64)
        losses, moments = [], [np.zeros((2, *w.shape)), np.zeros((2, *b.shape))]
        for step in range(1, steps + 1):
            loss, chances = self.loss(w, b)
            losses.append(loss)
            chances[np.arange(ROWS), self.y] -= 1
            for values, (m, v), gradient in ((w, moments[0], self.x.T @ chances / ROWS), (b, moments[1], chances.mean(0))):
                m += 0.1 * (gradient - m)
                v += 0.001 * (gradient ** 2 - v)
                values -= rates[step - 1] * (m / (1 - 0.9 ** step)) / (np.sqrt(v / (1 - 0.999 ** step)) + 1e-8)
        return losses, w, b

    def test_it_comes_to_what_numpy_does(self):
        for words, rates in (((), [0.05] * 8), (("--decay",), [0.05 * (1 - i / 8) for i in range(8)])):
            losses, weights = self.fit("--epochs", "8", "--batch", "90", "--rate", "0.05", *words)
            expected, w, b = self.adam(8, rates)
            np.testing.assert_allclose(losses, expected, atol=1e-5)
            np.testing.assert_allclose(weights["w"], w, atol=1e-4)
            np.testing.assert_allclose(weights["b"], b, atol=1e-4)

    def test_every_example_is_seen_and_the_order_is_the_seeds(self):
        # Of a rate of nearly nothing the loss of an epoch is that of all its examples, whatever the order.
        losses, _ = self.fit("--epochs", "2", "--batch", "9", "--rate", "1e-9")
        np.testing.assert_allclose(losses, [self.loss(self.w, self.b)[0]] * 2, atol=1e-5)
        runs = [self.fit("--epochs", "2", "--batch", "8", "--rate", "0.05", "--seed", seed)[1]["w"] for seed in ("1", "1", "2")]
        self.assertTrue((runs[0] == runs[1]).all())
        self.assertFalse((runs[0] == runs[2]).all())

    def test_it_learns_and_goes_on(self):
        losses, weights = self.fit("--epochs", "60", "--batch", "16", "--rate", "0.05")
        self.assertEqual(len(losses), 60)
        self.assertLess(losses[-1], losses[0] / 3)
        self.assertGreater((self.loss(weights["w"], weights["b"])[1].argmax(1) == self.y).mean(), 0.9)
        os.rename(self.path("out.npz"), self.path("before.npz"))
        again, _ = self.fit("--epochs", "1", "--batch", "90", "--weights", self.path("before.npz"))
        self.assertAlmostEqual(again[0], self.loss(weights["w"], weights["b"])[0], places=4)

    def test_mean_squares_and_examples_by_name(self):
        np.savez(self.path("all.npz"), x=self.x, other=self.y)
        np.save(self.path("t.npy"), np.zeros((ROWS, CLASSES), np.float32))
        said = self.train("--input", self.path("all.npz"), "--target", self.path("t.npy"), "--loss", "mse", "--epochs", "1", "--batch", "90")
        self.assertAlmostEqual(float(re.search(r"loss ([\d.]+)", said)[1]), ((self.x @ self.w + self.b) ** 2).mean(), places=4)

    def test_a_loss_that_is_no_number_ends_it(self):
        ones = np.ones((ROWS, CLASSES), np.float32)
        steep = np.full((ROWS, WIDTH), 1e38, np.float32)  # by weights of 0 it comes to a loss, and to steps beyond all numbers
        np.savez(self.path("zero.npz"), w=np.zeros_like(self.w))
        for name, x, target, said in (("inf", self.x, ones * np.inf, "epoch 1, step 1: the loss is inf"),
                                      ("nan", self.x, ones * np.nan, "epoch 1, step 1: the loss is nan"),
                                      ("one", self.x, np.where(np.arange(ROWS)[:, None] == 7, np.nan, ones), "the loss is nan"),
                                      ("last", steep, ones * np.float32(1e10), "weight 'w' is no number after the last step")):
            with self.subTest(name):
                np.save(self.path("bad_x.npy"), x.astype(np.float32))
                np.save(self.path("bad_t.npy"), target.astype(np.float32))
                text = self.train("--input", "x=" + self.path("bad_x.npy"), "--target", self.path("bad_t.npy"), "--loss", "mse", "--epochs", "1",
                                  "--batch", "90" if name == "last" else "9", "--output", self.path("bad.npz"),
                                  *(("--weights", self.path("zero.npz")) if name == "last" else ()), code=1)
                self.assertIn(said, text)
                self.assertFalse(os.path.exists(self.path("bad.npz")))

    def test_a_model_of_the_weights(self):
        """As ENGINE.md makes one of them."""
        _, weights = self.fit("--epochs", "3", "--rate", "0.05")
        os.rename(self.path("out.npz"), self.path("weights.npz"))
        with open(os.path.join(SOURCE, "docs", "ENGINE.md"), encoding="utf-8") as page:
            recipe = next(code for code in re.findall(r"```python\n(.*?)```", page.read(), re.S) if "weights.npz" in code)
        subprocess.run(["/usr/bin/python3", "-c", recipe], cwd=self.folder, check=True, timeout=120)
        subprocess.run([program("walle-engine"), "run", "trained.onnx", "--input", "x=x.npy", "--output", "scores.npy"], cwd=self.folder,
                       check=True, capture_output=True, timeout=120)
        np.testing.assert_allclose(np.load(self.path("scores.npy")), self.x @ weights["w"] + weights["b"], atol=1e-4)

    def test_where_the_weights_go_is_looked_at_first(self):
        words = ("--input", "x=" + self.path("x.npy"), "--target", self.path("y.npy"), "--epochs", "1")
        for name, text in (("none/w.npz", "none/w.npz: No such file"), ("w.npy", "a file that ends in .npz"), ("folder.npz", "folder.npz"),
                           ("blocked/w.npz", "blocked/w.npz")):
            os.makedirs(self.path("folder.npz"), exist_ok=True)
            with open(self.path("blocked"), "w", encoding="ascii"):
                pass
            run = subprocess.run([program("walle-engine"), "train", self.model, *words, "--output", self.path(name)], capture_output=True,
                                 text=True, timeout=120, check=False)
            self.assertEqual((run.returncode, run.stdout), (1, ""), name)  # no epoch was run
            self.assertIn(text, run.stderr)
        with open(self.path("w.npz"), "wb") as file:
            file.write(b"before")
        self.train(*words, "--rate", "0.1", "--output", self.path("w.npz"), "--target", self.path("none.npy"), code=1)
        with open(self.path("w.npz"), "rb") as file:
            self.assertEqual(file.read(), b"before")
        self.assertEqual([name for name in os.listdir(self.folder) if "tmp" in name], [])
        run = subprocess.run([program("walle-engine"), "train", self.model, *words], capture_output=True, text=True, timeout=120, check=True)
        self.assertEqual(run.stderr, "walle-engine: no --output: the weights will not be kept\n")

    def test_what_is_wrong_is_said(self):
        x, y = "x=" + self.path("x.npy"), self.path("y.npy")
        np.save(self.path("few.npy"), self.y[:7])
        np.save(self.path("large.npy"), self.y + 1)
        large = (self.y + 1).tolist().index(3)
        np.save(self.path("below.npy"), np.where(np.arange(ROWS) == 41, -1, self.y))
        np.savez(self.path("other.npz"), fc=self.w)
        np.save(self.path("one.npy"), np.float32(1))
        for words, code, text in (((), 1, "--target FILE"),
                                  (("--target", y), 1, "input 'x' has no examples: give --input x=FILE"),
                                  (("--input", x, "--target", self.path("few.npy")), 1, "'x' has 90 examples, the target 7"),
                                  (("--input", x, "--target", self.path("one.npy")), 1, "no examples"),
                                  (("--input", "z=" + y, "--target", y), 1, "no input 'z'"),
                                  (("--input", x, "--target", self.path("large.npy")), 1, f"the target's class at {large} is 3, not in 0..2"),
                                  (("--input", x, "--target", self.path("below.npy")), 1, "the target's class at 41 is -1, not in 0..2"),
                                  (("--input", x, "--target", y, "--weights", self.path("other.npz")), 1, "other.npz holds none of the model's weights"),
                                  (("--input", x, "--target", self.path("none.npy")), 1, "none.npy"),
                                  (("--rate", "0"), 2, "above 0, not '0'"), (("--rate", "nan"), 2, "above 0"),
                                  (("--epochs", "0"), 2, "above 0"), (("--batch", "70000"), 2, "not a number from 0 to 65536"),
                                  (("--loss", "hinge"), 2, "cross-entropy, mse or bce, not 'hinge'")):
            with self.subTest(words=words):
                self.assertIn(text, self.train(*words, code=code))


if __name__ == "__main__":
    unittest.main()
