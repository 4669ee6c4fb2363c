"""Runs the commands of the tours in README.md from the page, and looks for what the page says one should see. What installs and
builds the tree cannot be run here: of those commands programs, options, presets and what they are said to end with are looked at."""
import json
import os
import re
import subprocess
import unittest

from page_commands import blocks, outputs, run_page
from walle_stack import SOURCE


def tours():
    """(title, text, numbers of its blocks) of each of the six tours."""
    with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
        parts = re.split(r"^## ", file.read(), flags=re.M)
    number = 0
    for part in parts:
        own = range(number, number + len(blocks(part)))
        number = own.stop
        if part.startswith("Five minutes for "):
            yield part.split("\n", 1)[0], part, own


def seen(text):
    """Lines of the blocks marked text, as patterns."""
    lines = "".join(re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S)).splitlines()
    return [".*".join(re.escape(part) for part in line.split("…")) for line in lines]


class Tours(unittest.TestCase):
    def test_every_command_of_the_tours(self):
        said = outputs(run_page(self, "README.md", least=6))
        found = list(tours())
        self.assertEqual(len(found), 6)
        for title, text, own in found:
            with self.subTest(title=title):
                self.assertEqual(len(own) > 0, len(seen(text)) > 0)  # who is run says what one should see
            output = "".join(said[number] for number in own)
            for pattern in seen(text):
                with self.subTest(title=title, line=pattern):
                    self.assertRegex(output, re.compile("^" + pattern, re.M))


def other_commands(text):
    """Commands in the blocks that are not marked and in the prose, one by one; and the comments behind them."""
    fenced = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.M | re.S)
    unmarked = "".join(block for mark, block in fenced if not mark)
    prose = re.findall(r"`(\.[/\w]+(?: [^`]*)?)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    for line in [*unmarked.splitlines(), *prose]:
        line, _, comment = line.partition("#")
        for command in line.split("&&"):
            yield command.split(), comment


class OtherCommands(unittest.TestCase):
    SHELL = {"export", "mkdir", "cd"}

    def test_programs_and_options_are_there(self):
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
            commands = list(other_commands(file.read()))
        with open(os.path.join(SOURCE, "CMakePresets.json"), encoding="utf-8") as file:
            presets = {one["name"] for one in json.load(file)["configurePresets"] if not one.get("hidden")}
        programs = {words[0] for words, _ in commands} - self.SHELL
        self.assertEqual(programs, {"./demo", "./test", ".ci/setup", ".ci/build"})
        for words, comment in commands:
            with self.subTest(command=" ".join(words)):
                if words[0] in self.SHELL:
                    for preset in re.findall(r"build/(\w+)/bin", " ".join(words)):
                        self.assertIn([".ci/build", preset], [other for other, _ in commands])
                    continue
                program = os.path.join(SOURCE, words[0])
                self.assertTrue(os.access(program, os.X_OK), f"no program {words[0]}")
                if words[0] == ".ci/build":
                    self.assertIn(words[1], presets)
                elif len(words) > 1 or comment:
                    usage = subprocess.run([program, "--help"], check=True, capture_output=True, text=True, cwd="/").stdout
                    for option in (word for word in words if word.startswith("--")):
                        self.assertIn(f"{option} ", usage)
                    for said in re.findall(r'"([^"]+)"|\b(out/\w+)', comment):
                        self.assertRegex(usage, rf"(?<!\w){re.escape(''.join(said))}(?!\w)")

    def test_the_small_demo_is_the_one_that_is_run(self):
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
            small = [words for words, _ in other_commands(file.read()) if words[:2] == ["./demo", "--devices"]]
        with open(os.path.join(SOURCE, "tests", "e2e", "test_demo.py"), encoding="utf-8") as file:
            run = re.search(r"^DEVICES = (\d+)$", file.read(), re.M)
        self.assertEqual(small, [["./demo", "--devices", run.group(1)]])


if __name__ == "__main__":
    unittest.main()
