"""`walle fallback threshold`: a threshold out of labelled scores, its page, and files that are none."""
import json
import os
import shutil
import random
import re
import subprocess
import tempfile
import unittest

from walle_stack import program


def score_lines(count, seed):
    """A device that is right more often the surer it is, and a cloud that is right 97 times of 100."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        confidence = 1 - draw.random() ** 3
        lines.append((round(confidence, 6), int(draw.random() < 0.3 + 0.69 * confidence), int(draw.random() < 0.97)))
    return lines


class Threshold(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="walle-fallback-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, text, name="scores.csv"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def scores(self, lines):
        return self.file("confidence,device_right,cloud_right\n" + "".join(f"{a},{b},{c}\n" for a, b, c in lines))

    def walle(self, *arguments):
        return subprocess.run([program("walle"), "fallback", "threshold", *arguments], capture_output=True, text=True, timeout=60,
                              check=False)

    def answer(self, *arguments):
        run = self.walle(*arguments, "-o", "json")
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def test_counts_are_those_of_the_file(self):
        lines = score_lines(5000, 1)
        found = self.answer(self.scores(lines), "--within", "0.02")
        self.assertEqual(found["inputs"], 5000)
        for cut in found["curve"]:
            sent = [line for line in lines if line[0] < cut["threshold"]]
            kept = [line for line in lines if line[0] >= cut["threshold"]]
            right = sum(line[2] for line in sent) + sum(line[1] for line in kept)
            self.assertAlmostEqual(cut["sent"], len(sent) / 5000, 12)
            self.assertAlmostEqual(cut["accuracy"], right / 5000, 12)
            self.assertTrue(cut["accuracy_interval"][0] < cut["accuracy"] < cut["accuracy_interval"][1])
        chosen = found["chosen"]
        self.assertIn(chosen, found["curve"])
        self.assertGreater(chosen["accuracy"], found["cloud_alone"]["accuracy"] - 0.02)
        self.assertLess(chosen["sent"], 1)

    def test_share_and_accuracy(self):
        path = self.scores(score_lines(5000, 2))
        share = self.answer(path, "--share", "0.15")["chosen"]
        self.assertLessEqual(share["sent"], 0.15)
        sure = self.answer(path, "--accuracy", "0.92")["chosen"]
        self.assertGreater(sure["accuracy"], 0.92)
        surer = self.answer(path, "--accuracy", "0.92", "--alpha", "0.000001")["chosen"]
        self.assertGreater(surer["sent"], sure["sent"])

    def test_not_shown_is_exit_1(self):
        run = self.walle(self.scores(score_lines(5000, 3)), "--accuracy", "0.99")
        self.assertEqual(run.returncode, 1)
        self.assertIn("do not show it", run.stdout)
        few = self.walle(self.scores(score_lines(30, 3)), "--within", "0.01")
        self.assertEqual(few.returncode, 1)
        self.assertTrue(few.stdout.startswith("30 scores are too few to show it; send everything until there are more.\n"), few.stdout)
        self.assertIn("No number of scores shows that nothing is lost",
                      self.walle(self.scores(score_lines(30, 3)), "--within", "0").stdout)

    def test_answers_as_texts(self):
        rows = "id,label,cloud,device,confidence\n1,cat,cat,dog,0.25\n2,dog,dog,dog,0.75\n\n3,cow,cat,cow,1\n"
        found = self.answer(self.file(rows), "--share", "1")
        self.assertEqual(found["inputs"], 3)
        self.assertAlmostEqual(found["device_alone"]["accuracy"], 2 / 3)
        self.assertAlmostEqual(found["cloud_alone"]["accuracy"], 2 / 3)
        self.assertEqual(max(cut["accuracy"] for cut in found["curve"]), 1)

    def test_page(self):
        page = os.path.join(self.folder, "page.html")
        path = os.path.join(self.folder, "<b>&.csv")
        os.rename(self.scores(score_lines(3000, 4)), path)
        run = self.walle(path, "--within", "0.05", "--out", page)
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("&lt;b&gt;&amp;.csv", text)
        self.assertNotIn("<b>", text)
        self.assertNotIn("nan", text)
        self.assertEqual(text.count("<circle"), 1)
        self.assertIn(">right answers</text>", text)
        self.assertEqual(text.count("<line class=target"), 1)
        self.assertIn("walle.config", text)
        self.assertEqual(text.count("tr class=chosen"), 1)

    @unittest.skipUnless(shutil.which("chromium"), "there is no Chromium")
    def test_page_in_a_browser(self):
        page, picture = os.path.join(self.folder, "page.html"), os.path.join(self.folder, "page.png")
        self.assertEqual(self.walle(self.scores(score_lines(3000, 4)), "--within", "0.05", "--out", page).returncode, 0)
        subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--screenshot=" + picture, "file://" + page],
                       capture_output=True, timeout=120, check=True)
        self.assertGreater(os.path.getsize(picture), 5000)

    def test_files_that_are_none(self):
        head = "confidence,device_right,cloud_right\n"
        for text, words in (("", "it is empty"), (head, "no line of scores"), ("a,b\n1,2\n", "columns wanted"),
                            (head + "0.5,1\n", "line 2: it has no field of the column: cloud_right"),
                            (head + "0.5,1,0\n1.5,1,1\n", "line 3: a confidence is a number from 0 to 1, not: 1.5"),
                            (head + "nan,1,1\n", "not: nan"), (head + "0x1p-1,1,1\n", "not: 0x1p-1"),
                            (head + "0.5,1,1\n0.5,1,1\0,7\n", "line 3: a NUL byte"), (head + "0.5,1,1\n0.5,1,1\0", "line 3: a NUL byte"), (head + "0.5,yes,1\n", "neither 0 nor 1"),
                            (head + '0.5,"1",1\n', "a quote"), (head + "0.5," + "1" * 5000 + ",1\n", "line 2: more than 4096 bytes"),
                            ("confidence,confidence,device_right,cloud_right\n1,1,1,1\n", "two columns of one name"),
                            ("confidence,device,cloud,label\n0.5,a,b,\n", "the label is empty"), ("," * 80 + "\n", "more than 64 columns")):
            run = self.walle(self.file(text), "--share", "0.5")
            self.assertEqual((run.returncode, words in run.stderr), (5, True), (text[:60], run.stderr))
        os.mkfifo(os.path.join(self.folder, "pipe"))
        self.assertEqual(self.walle(os.path.join(self.folder, "pipe"), "--share", "0.5").returncode, 5)
        self.assertEqual(self.walle(os.path.join(self.folder, "nosuch"), "--share", "0.5").returncode, 5)

    def test_one_aim(self):
        path = self.scores(score_lines(10, 5))
        for aims in ((), ("--share", "0.1", "--within", "0.1"), ("--share", "1.5"), ("--within", "0.1", "--alpha", "0")):
            run = self.walle(path, *aims)
            self.assertEqual(run.returncode, 2, (aims, run.stdout))
        self.assertIn("one of --accuracy, --within and --share, not two", self.walle(path, "--share", "0.1", "--within", "0.1").stderr)
        self.assertIn("say what is wanted", self.walle(path).stderr)

    def test_the_target_is_in_the_picture(self):
        """A line for what was asked of accuracy, at its height between the axis's numbers, also below all the curve has."""
        page = os.path.join(self.folder, "page.html")
        path = self.scores(score_lines(3000, 6))
        for aim, value, lines in (("--accuracy", "0.3", 1), ("--accuracy", "0.92", 1), ("--within", "0.9", 1), ("--share", "0.5", 0)):
            self.assertEqual(self.walle(path, aim, value, "--out", page).returncode, 0)
            with open(page, encoding="utf-8") as file:
                text = file.read()
            found = re.findall(r"<line class=target x1=\S+ x2=\S+ y1=(\S+) y2=(\S+) />", text)
            self.assertEqual(len(found), lines, (aim, value))
            if aim == "--accuracy":
                grid = re.findall(r"<line class=grid x1=\S+ x2=\S+ y1=(\S+) y2=\S+ /><text [^>]*>([\d.]+)&nbsp;%", text)
                (foot, low), (top, high) = [(float(y), float(share)) for y, share in (grid[0], grid[-1])]
                self.assertAlmostEqual(float(found[0][0]), foot + (top - foot) * (float(value) * 100 - low) / (high - low), delta=1)
            for y, _ in found:
                self.assertTrue(float(grid[-1][0]) <= float(y) <= float(grid[0][0]), (aim, y))


if __name__ == "__main__":
    unittest.main()
