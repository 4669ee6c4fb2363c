"""Point 18: the limits that the pages name are those of the code: docs/LIMITS.md is what .ci/limits writes, and no row of another page
names a constant beside another number."""
import importlib.machinery
import importlib.util
import os
import unittest

from walle_stack import SOURCE


def load():
    loader = importlib.machinery.SourceFileLoader("limits", os.path.join(SOURCE, ".ci", "limits"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("limits", loader))
    loader.exec_module(module)
    return module


class Limits(unittest.TestCase):
    def setUp(self):
        self.limits = load()
        self.constants = self.limits.read_constants()

    def test_the_pages_are_the_code(self):
        self.assertEqual(list(self.limits.differences(self.constants)), [])
        with open(os.path.join(SOURCE, "docs", "LIMITS.md"), encoding="utf-8") as file:
            self.assertEqual(file.read(), self.limits.page(self.constants), ".ci/limits writes docs/LIMITS.md")

    def test_another_number_is_seen(self):
        before = self.limits.page(self.constants)
        for name in ("GW_SPOOL_MEMORY_MAX", "TASK_TREE_DEPTH_MAX", "GW_ACCESS_BURST", "POL_EXPR_LITERALS_MAX", "GW_EXPIRE_SLICE"):
            with self.subTest(name=name):
                constant = self.constants[name]
                self.constants[name] = self.limits.Constant(constant.path, "(7u * 13)", constant.meaning)
                seen = list(self.limits.differences(self.constants))
                self.assertTrue(any(f"{name} is 91" in line for line in seen), seen)
                self.assertNotEqual(self.limits.page(self.constants), before)
                self.constants[name] = constant

    def test_a_limit_that_is_gone_or_new_is_seen(self):
        del self.constants["GW_TASK_OPEN_MAX"]
        self.assertTrue(any("no constant GW_TASK_OPEN_MAX" in line for line in self.limits.differences(self.constants)))
        self.constants["GW_NEW_THING_MAX"] = self.limits.Constant("gateway/svc/new.h", "(4u << 10)", "things")
        self.assertIn("| `GW_NEW_THING_MAX` | 4,096 | things | `new.h` |", self.limits.page(self.constants))

    def test_values_are_worked_out(self):
        constant = self.limits.Constant("a.h", "(2 * (POL_EXPR_DEPTH_MAX + 1) << 20ull)", "")
        self.assertEqual(self.limits.value_of("X", {**self.constants, "X": constant}), 66 << 20)
        self.assertIsNone(self.limits.value_of("X", {"X": self.limits.Constant("a.h", "sizeof(struct x)", "")}))


if __name__ == "__main__":
    unittest.main()
