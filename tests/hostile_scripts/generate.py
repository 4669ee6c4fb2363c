"""Hostile scripts by number: the same number is the same script, everywhere and always.

    python3 generate.py NUMBER          prints one
    python3 generate.py FIRST COUNT DIR writes DIR/s0.py ...

The texts are those of the fuzz target (tests/fuzz/vm/source_grammar.h), chosen by a generator of pseudo-random numbers
instead of a fuzzer's bytes. The scripts beside this file are written by hand: one attack each.
"""
import ast
import os
import random
import re
import sys

GRAMMAR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz", "vm", "source_grammar.h")
ALPHABETS = {  # as in fuzz_source.c
    "R": ("ab()[]*+?.|^$-dwsS:0", 14),
    "F": ("%{}:<>=^!,.*+-0129sdxfrcegb#_", 12),
    "P": ("0123456789bBhHiIlLqQsPfdx<>=@!", 8),
    "J": ('[]{}:,"0123e+-.ntrufalse ', 16),
}
# A build refuses a script that imports what no device has, unless it is ready for that: this one is, and fails all the same.
IMPORT, READY_IMPORT = "import @a", "try: import @a\nexcept ImportError: raise"
DEPTH_MAX = 4
VARIABLES = 6
STRING = r'"(?:\\.|[^"\\])*"'


def strings(text):
    """C strings of an initialiser: neighbours are one, as in C."""
    for group in re.findall(rf"{STRING}(?:\s*{STRING})*", text):
        yield "".join(ast.literal_eval("'''" + part[1:-1].replace("'", "\\'") + "'''") for part in re.findall(STRING, group))


def grammar():
    with open(GRAMMAR, encoding="utf-8") as file:
        text = file.read()
    prelude = next(strings(re.search(r"grammar_prelude\[\] =(.*?);", text, re.S).group(1)))
    rules = {name: [READY_IMPORT if rule == IMPORT else rule for rule in strings(body)] for name, body in
             re.findall(r"grammar_(\w)\[\] = \{(.*?)\};", text, re.S)}
    if not any(READY_IMPORT in texts for texts in rules.values()):
        raise AssertionError(f"{IMPORT}: not in the grammar")
    return prelude, rules


class Maker:
    def __init__(self, number):
        self.random = random.Random(number)
        self.prelude, self.rules = grammar()

    def text(self, template, indent, depth):
        out = []
        parts = re.split(r"@(\w)", template)
        lead = 0  # spaces the line begins with, while there is nothing else on it
        for index, part in enumerate(parts):
            if index % 2 == 0:
                line = part.rsplit("\n", 1)[-1]
                if "\n" in part or index == 0:
                    lead = len(line) - len(line.lstrip(" "))
                out.append(part.replace("\n", "\n" + " " * indent))
            elif part in self.rules:
                texts = self.rules[part]
                choice = self.random.choice(texts) if depth < DEPTH_MAX else texts[0]
                out.append(self.text(choice, indent + lead, depth + 1))
            else:
                alphabet, most = ALPHABETS[part]
                letters = "".join(self.random.choice(alphabet) for _ in range(self.random.randint(0, most)))
                out.append(repr(letters))
        return "".join(out)

    def script(self):
        out = [self.prelude]
        out += [self.text(f"try: v{i}=@e\nexcept Exception: pass\n", 0, 1) for i in range(VARIABLES)]
        out.append("def hook():\n global n\n n += 1\n if n > 40: return\n")
        out.append(self.text(" if n % 2:\n  @c\n else:\n  @c\n", 0, 1))
        for _ in range(self.random.randint(1, 12)):
            out.append("n = 0\ntry:\n " + self.text("@s", 1, 0) + "\nexcept Exception as e: x = e\n")
        return "".join(out)


def script_of(number):
    """The first of a number's scripts that is Python: what is put together may put `return` in a wrong place."""
    for attempt in range(100):
        text = Maker(f"{number}.{attempt}").script()
        try:
            compile(text, str(number), "exec")
        except (SyntaxError, ValueError):
            continue
        return text
    raise AssertionError(f"{number}: no script")


def main():
    if len(sys.argv) == 2:
        print(script_of(int(sys.argv[1])), end="")
        return
    first, count, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    for number in range(first, first + count):
        with open(os.path.join(folder, f"s{number}.py"), "w", encoding="utf-8") as file:
            file.write(script_of(number))


if __name__ == "__main__":
    main()
