"""docs/FEATURES.md: every feature marked Y names a test that is run, and the counts are what the page owes.
docs/SECURITY.md: names all hardening tests, and none that does not exist."""
import glob
import json
import os
import re
import subprocess
import unittest

from walle_stack import BIN, SOURCE

MUST = {1, 4, 7, 10, 12, 13, 15, 16, *range(18, 23), 25, 26, *range(29, 33), 36, *range(39, 43), 44, 45, 46}


class FeaturesPage(unittest.TestCase):
    def rows(self):
        with open(os.path.join(SOURCE, "docs", "FEATURES.md"), encoding="utf-8") as file:
            found = re.findall(r"^\| (S?\d+) \| (.*?) \| ([YPN]) \| (.*?) *\|$", file.read(), re.M)
        return {number: (feature, mark, proof) for number, feature, mark, proof in found}

    def test_every_row_is_there_once(self):
        self.assertEqual(set(self.rows()), {str(n) for n in range(1, 47)} | {f"S{n}" for n in range(1, 28)})

    def test_every_proof_is_run(self):
        listed = subprocess.run(["ctest", "--test-dir", os.path.dirname(BIN), "--show-only=json-v1"], check=True, capture_output=True).stdout
        tests = json.loads(listed)["tests"]
        names = {test["name"] for test in tests}
        scripts = {os.path.relpath(word, SOURCE) for test in tests for word in test.get("command", []) if word.endswith(".py")}
        for number, (feature, mark, proof) in self.rows().items():
            named = re.findall(r"`([\w/.-]+): (\w+)`", proof)
            self.assertTrue(named or mark != "Y", f"row {number} ({feature}) names no test")
            for path, name in named:
                full = os.path.join(SOURCE, "tests", path)
                self.assertTrue(os.path.exists(full), f"row {number}: no file {path}")
                with open(full, encoding="utf-8") as file:
                    text = file.read()
                script = path.endswith(".py")
                ran = os.path.join("tests", path) in scripts if script else os.path.basename(path)[:-2] in names
                self.assertTrue(ran, f"row {number}: ctest does not run {path}")
                # A method that unittest finds; a function that is defined and stands in the list of cmocka.
                pattern = rf"^class .*TestCase\):(?s:.*?)^    def {name}\(self" if script else \
                    rf"^static void {name}\(void (?s:.*)\bCMUnitTest\b(?s:.*)\b{name}\b"
                self.assertTrue(re.search(pattern, text, re.M) and (name.startswith("test_") or not script),
                                f"row {number}: {path} runs no test {name}")

    def test_what_must_be_there_is(self):
        rows = self.rows()
        self.assertEqual([n for n in sorted(MUST) if rows[str(n)][1] != "Y"], [])
        self.assertGreaterEqual(sum(rows[str(n)][1] == "Y" for n in range(1, 47)), 42)
        self.assertEqual([n for n in range(1, 10) if rows[f"S{n}"][1] != "Y"], [])


class SecurityPage(unittest.TestCase):
    def test_it_names_the_tests(self):
        with open(os.path.join(SOURCE, "docs", "SECURITY.md"), encoding="utf-8") as file:
            named = set(re.findall(r"`((?:hardening_\d\d|fuzz)_\w+)`", file.read()))
        files = [os.path.splitext(os.path.basename(path))[0]
                 for path in glob.glob(os.path.join(SOURCE, "tests", "**", "*.*"), recursive=True)]
        self.assertEqual(sorted(name for name in named if name not in files), [], "no such test")
        there = {name for name in files if re.match(r"hardening_\d\d_", name)}
        self.assertEqual(sorted(there - named), [], "tests that the page does not name")


if __name__ == "__main__":
    unittest.main()
