"""Random Python programs on which the device's VM and CPython must agree, by number: the same number is the same program.

    python3 script_maker.py NUMBER      prints one

A program notes what it comes across in LOG: values, and the names of the exceptions it meets. It uses no more than both have in
common: no floats, no order of dictionaries and sets, no texts of exceptions, nothing that hangs on when a generator is collected.
Every loop is short and nothing recurses, so all programs end; FUEL keeps them short.
"""
import random
import re
import sys

PRELUDE = '''LOG = []
FUEL = [400]
class Stop(Exception): pass
class Odd(ValueError): pass
def safe(x, deep=2):
    if x is None or x is True or x is False: return x
    if isinstance(x, int): return x % 1000003
    if isinstance(x, str): return x[:12]
    if isinstance(x, (list, tuple)): return [safe(y, deep - 1) for y in x[:5]] if deep else len(x)
    if isinstance(x, (dict, set)): return len(x)
    return "other"
def log(*a):
    if len(LOG) < 100: LOG.append([safe(x) for x in a])
    return a[0] if a else None
def tick():
    FUEL[0] -= 1
    if FUEL[0] < 0: raise Stop
def end(g):
    for i in range(20):
        try:
            g.close()
            break
        except RuntimeError: log("goes on")
class Guard:
    def __init__(s, name, eats=False): s.name = name; s.eats = eats
    def __enter__(s): log("enter", s.name); return s.name
    def __exit__(s, kind, value, trace): log("exit", s.name, kind is None); return s.eats
class Box:
    made = 0
    def __init__(s, x=0): s.x = x; Box.made += 1
    def __eq__(s, o): return isinstance(o, Box) and s.x == o.x
    def __hash__(s): return 7
    def __len__(s): return s.x % 3 if isinstance(s.x, int) else 1
    def __call__(s, y=1): return s.x + y
    def __getitem__(s, i): return i * 2 + s.x
    def __iter__(s): return iter([s.x, 1, 2])
    def __add__(s, o): return Box((s.x + (o.x if isinstance(o, Box) else o)) % 97)
    def __contains__(s, y): return y == s.x
    @property
    def twice(s): return s.x + s.x
    @staticmethod
    def three(): return 3
    @classmethod
    def of(c, x): return c(x)
class Sub(Box):
    def __init__(s, x=5): super().__init__(x); s.z = x
    def __call__(s, y=2): return super().__call__(y) + 1
ints = [3, 1, 2]
'''
EXCEPTIONS = ["ValueError", "(TypeError, KeyError)", "ZeroDivisionError", "Odd", "Exception", "IndexError", "(Odd, NameError)", "AttributeError"]
RAISED = ["ValueError", "Odd('x')", "KeyError(1)", "IndexError", "Odd", "ZeroDivisionError"]
DEPTH_MAX = 3
NUMBERS = ["(@n + @n)", "(@n - @n)", "(@n * @n % 9973)", "(@n // @n)", "divmod(@n, @n)[1]", "(@n & @n)", "(@n | @n)", "(@n ^ @n)", "(-@n)", "(~@n)",
           "(@n if @t else @n)", "len(@l)", "len(@s)", "sum(@l)", "@l[0]", "@l[-1]", "@l[@d]", "log(@n)", "(@n or @n)", "(@n and @n)",
           "Box(@n).x", "Sub(@n)(@n)", "Box(@n)[@n]", "Sub.of(@n).twice", "(lambda p, q=@n: p + q)(@n)", "max(@n, @n)", "int('@d@d')",
           "(Box(@n) + Sub(@n)).x", "@c", "@c", "next(iter(@l))", "(@n << @d) % 9973", "[@n, @n][-1]", "{1: @n, 2: @n}[@d]", "Box.three()",
           "(ints[0] + @n)", "getattr(Box(@n), 'x', @n)", "getattr(Box(@n), 'none', @n)", "len(Box(@n))"]
TRUTHS = ["@n < @n", "@n == @n", "not @n", "@n > 2", "@n <= @n != 3", "@n in @l", "(@n or None) is None", "True", "Box(@n) == Box(@n)", "Box(@n)",
          "@n in Box(@n)", "@n < @n or @n < 4", "isinstance(@n, int) and @n > 0", "@n not in (@n, 1)", "@d < @n < 30", "@s < @s"]
LISTS = ["[@n, @n]", "(@n, @n, 3)", "list(range(@d))", "[y + @n for y in (@n, @n)]", "[y for y in [@n, @n, 2] if @t]", "ints", "ints[1:]",
         "ints[:2]", "ints[::-1]", "ints[-2:]", "sorted([@n, @n, 1])", "list(map(lambda y: y + @n, (@n, @n)))",
         "[y + z for y in (@n, 1) for z in (2, @n)]", "list(Box(@n))", "sorted({y: 1 for y in (@n, @n)})", "sorted({@n, @n, 1})",
         "[@n] * 2", "list(y for y in (@n, @n))", "[p for p, *q in [(@n, 1, 2), (@n,)]]", "@g", "@g", "[[@n, y][1] for y in @l]"]
TEXTS = ["'ab'", "str(@n)[:9]", "'%d-%s' % (@n, 'x')", "('q' + str(@n))[:9]", "'abcdef'[@n % 6:]", "'a,b'.split(',')[0]",
         "'-'.join([str(y)[:5] for y in @l])[:9]", "'{}/{}'.format(@n, 1)[:9]", "('xyz'.upper() if @t else '')", "(@s + @s)[:9]"]


class Function:
    """What is known of the function that is being written."""

    def __init__(self, names=(), outer=None, generator=False):
        self.names = list(names)
        self.outer = outer
        self.generator = generator
        self.shared = set()
        self.new = []


class Maker:
    def __init__(self, number):
        self.random = random.Random(f"script {number}")
        self.lines = []
        self.functions = []  # (name, parameters, has varargs)
        self.generators = []
        self.count = 0

    def one(self, *choices):
        return self.random.choice(choices)

    def often(self, share):
        return self.random.random() < share

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def put(self, indent, text):
        for line in text.split("\n"):
            self.lines.append("    " * indent + line)

    # --- expressions

    def write(self, template, scope, depth=0):
        """A template with its @x replaced: n a number, t a truth, s a text, l numbers, v a variable, d a digit, c a call, g a series."""
        rules = {"n": self.number, "t": self.truth, "s": self.text, "l": self.numbers, "v": self.variable, "c": self.call, "g": self.series}
        return re.sub("@(.)", lambda found: str(self.random.randint(0, 4)) if found.group(1) == "d" else
                      rules[found.group(1)](scope, depth), template)

    def variable(self, scope, _depth=0):
        return self.random.choice(scope.names) if scope.names and self.often(0.9) else self.one("v0", "v1", "ints[0]")

    def number(self, scope, depth=0):
        if depth > 2 or self.often(0.25):
            return self.one(str(self.random.randint(-9, 40)), self.variable(scope), self.variable(scope))
        return self.write(self.random.choice(NUMBERS), scope, depth + 1)

    def truth(self, scope, depth=0):
        return self.write(self.random.choice(TRUTHS), scope, depth + 1)

    def numbers(self, scope, depth=0):
        if depth > 2:
            return self.one("[1, 2]", "ints", "(4,)")
        return self.write(self.random.choice(LISTS), Function(scope.names + ["y"]) if self.often(0.1) else scope, depth + 1)

    def text(self, scope, depth=0):
        return self.write(self.random.choice(TEXTS), scope, depth + 1)

    def series(self, scope, depth=0):
        return f"list({self.random.choice(self.generators)}({self.number(scope, depth + 1)}))" if self.generators else "[0]"

    def call(self, scope, depth=0):
        if not self.functions:
            return "len(ints)"
        name, count, more = self.random.choice(self.functions)
        given = ", ".join(["@n"] * (count if self.often(0.9) else count + 1))
        template = self.one(f"{name}({given})", f"{name}(*[{given}])", f"{name}(*[{given}], *ints)" if more else f"{name}({given})",
                            name + "(**{'k': @n})", f"{name}({given}{', ' if given else ''}k=@n)")
        return self.write(template, scope, depth + 1)

    # --- statements

    def block(self, indent, scope, depth, loop, final=False):
        for _ in range(self.random.randint(1, 2)):
            self.statement(indent, scope, depth, loop, final)

    def statement(self, indent, scope, depth, loop, final):
        simple = [self.assign, self.assign, self.note, self.note, self.change, self.leave, self.unpack, self.remove, self.give]
        nested = [self.branch, self.count_loop, self.for_loop, self.handlers, self.handlers, self.finals, self.guarded, self.inner, self.drive]
        kind = self.random.choice(simple if depth >= DEPTH_MAX or self.often(0.45) else nested)
        kind(indent, scope, depth, loop, final)

    def target(self, scope):
        if scope.names and self.often(0.6):
            return self.random.choice(scope.names)
        scope.names.append(self.name("v"))
        scope.new.append(scope.names[-1])
        return scope.names[-1]

    def begin(self, at, indent, scope):
        """Most of a scope's variables have a value from its start; a read of the others may be a NameError."""
        named = [name for name in scope.new if self.often(0.97)]
        if named:
            self.lines.insert(at, "    " * indent + " = ".join(named) + " = 3")

    def assign(self, indent, scope, *_):
        value = self.write(self.one("@n", "@n", "@n", "@n", "@n", "@n", "@s", "@l"), scope)
        where = self.one("{0}", "{0}", "{0} = {1}", "{0}: int").format(self.target(scope), self.target(scope))
        self.put(indent, f"{where} = {value}")

    def note(self, indent, scope, *_):
        self.put(indent, self.write(self.one("log(@n, @n)", "log(@s)", "log(@t, @n)", "log(@l)", "log(@c)"), scope))

    def change(self, indent, scope, *_):
        self.put(indent, self.write(self.one("@v += @n" if scope.names else "pass", "ints[0] = @n", "ints[1] -= 1", "ints[@n % 3] = 4",
                                             "b = Box(@n); b.x += 1; log(b.x)", "ints[:] = [3, @n, 1]", "assert @t, 'no'"), scope, 1))

    def leave(self, indent, scope, depth, loop, final):
        ways = ["raise " + self.random.choice(RAISED), "pass", "tick()"]
        if loop:
            ways += ["break", "continue"] * 2
        if scope.outer is not None:
            ways += ["return" if scope.generator else "return @n"] * 2
        way = self.random.choice(ways)
        self.put(indent, self.write(way if self.often(0.15) else "if @t: " + way, scope, 1))

    def unpack(self, indent, scope, *_):
        a, b = self.target(scope), self.target(scope)
        rest = self.target(scope)
        self.put(indent, self.write(self.one(f"{a}, {b} = @n, @n", f"{a}, *{rest} = @l", f"({a}, [{b}, *{rest}]) = (1, @l)",
                                             f"{a}, {b} = {b}, {a}", f"[{a}, {b}] = @l"), scope, 1))

    def remove(self, indent, scope, *_):
        if scope.outer is not None and scope.names and self.often(0.3):
            name = self.random.choice(scope.names)
            self.put(indent, f"del {name}\n{name} = 5" if self.often(0.7) else f"del {name}")
        else:
            self.put(indent, "v = [1, 2, 3]; del v[1]; log(v)")

    def give(self, indent, scope, *_):
        if not scope.generator:
            self.note(indent, scope)
            return
        self.put(indent, self.write(self.one("yield @n", self.target(scope) + " = yield @n", "yield from @l", "log((yield @n))",
                                             "yield from (@n, 1)"), scope, 1))

    def branch(self, indent, scope, depth, loop, final):
        self.put(indent, f"if {self.truth(scope)}:")
        self.block(indent + 1, scope, depth + 1, loop, final)
        if self.often(0.4):
            self.put(indent, f"elif {self.truth(scope)}:")
            self.block(indent + 1, scope, depth + 1, loop, final)
        if self.often(0.6):
            self.put(indent, "else:")
            self.block(indent + 1, scope, depth + 1, loop, final)

    def after_loop(self, indent, scope, depth, loop, final):
        if self.often(0.4):
            self.put(indent, "else:")
            self.block(indent + 1, scope, depth + 1, loop, final)

    def count_loop(self, indent, scope, depth, loop, final):
        counter = self.name("c")
        self.put(indent, f"{counter} = 0\nwhile {counter} < {self.random.randint(1, 4)}:\n    {counter} += 1; tick()")
        self.block(indent + 1, scope, depth + 1, True)
        self.after_loop(indent, scope, depth, loop, final)

    def for_loop(self, indent, scope, depth, loop, final):
        which = self.write(self.one("@l", "range(@d)", "range(3, -@d, -1)", "enumerate(@l)", "zip(@l, ints)", "'abc'"), scope, 1)
        self.put(indent, f"for {self.target(scope)} in {which}:\n    tick()")
        self.block(indent + 1, scope, depth + 1, True)
        self.after_loop(indent, scope, depth, loop, final)

    def handlers(self, indent, scope, depth, loop, final):
        self.put(indent, "try:")
        self.block(indent + 1, scope, depth + 1, loop, final)
        for _ in range(self.random.randint(1, 2)):
            self.put(indent, self.one(f"except {self.random.choice(EXCEPTIONS)}:", f"except {self.random.choice(EXCEPTIONS)} as e:"))
            if self.lines[-1].endswith("as e:"):
                self.put(indent + 1, "log(isinstance(e, Odd))")
            self.block(indent + 1, scope, depth + 1, loop, final)
            if self.often(0.2):
                self.put(indent + 1, self.one("raise", "raise Odd from None"))
        if self.often(0.3):
            self.put(indent, "else:")
            self.block(indent + 1, scope, depth + 1, loop, final)
        if self.often(0.3):
            self.put(indent, "finally:")
            self.block(indent + 1, scope, depth + 1, loop, True)

    def finals(self, indent, scope, depth, loop, final):
        self.put(indent, "try:")
        self.block(indent + 1, scope, depth + 1, loop, final)
        self.put(indent, "finally:")
        self.put(indent + 1, f"log('finally', {self.count})")
        self.block(indent + 1, scope, depth + 1, loop, True)

    def guarded(self, indent, scope, depth, loop, final):
        guard = f"Guard({self.number(scope, 2)}, {self.one('True', 'False')})"
        self.put(indent, self.one(f"with {guard}:", f"with {guard} as {self.target(scope)}:", f"with {guard}, Guard('b') as {self.target(scope)}:"))
        self.block(indent + 1, scope, depth + 1, loop, final)

    def inner(self, indent, scope, depth, loop, final):
        """A function in a function, which may change what is around it; and its calls."""
        if scope.outer is None:
            self.count_loop(indent, scope, depth, loop, final)
            return
        name = self.name("h")
        around = [n for n in scope.names if n not in scope.shared] if self.often(0.7) else []
        function = Function(["p"], outer=scope)
        self.put(indent, f"def {name}(p=1, *r):")
        if around:
            taken = self.random.choice(around)
            if self.often(0.5):
                self.put(indent + 1, f"nonlocal {taken}\n{taken} = {self.number(function, 2)}")
            function.shared.add(taken)
            self.put(indent + 1, f"log({taken}, p, r)")
        at = len(self.lines)
        self.block(indent + 1, function, depth + 1, False)
        self.begin(at, indent + 1, function)
        self.put(indent + 1, f"return {self.number(function, 1)}")
        self.put(indent, f"log({name}({self.number(scope, 2)}), {name}())")

    def drive(self, indent, scope, depth, loop, final):
        """A generator by hand, to its end or closed: when one is collected is nobody's promise."""
        if not self.generators:
            self.branch(indent, scope, depth, loop, final)
            return
        it = self.name("g")
        self.put(indent, f"{it} = {self.random.choice(self.generators)}({self.number(scope, 2)})\ntry:\n    log(next({it}))")
        for _ in range(self.random.randint(0, 3)):
            self.put(indent + 1, self.one(f"log({it}.send({self.number(scope, 2)}))", f"log(next({it}))", f"log({it}.throw(Odd))"))
        self.put(indent, f"except StopIteration:\n    log('stop')\nfinally:\n    end({it})")

    # --- programs

    def function(self, generator):
        name = self.name("gen" if generator else "f")
        count = self.random.randint(0, 3)
        more = self.often(0.4)
        parameters = [f"a{i}" for i in range(count)]
        text = ", ".join(parameters + (["*r"] if more else []) + ["k=2"])
        if generator:
            parameters, text, count = ["a0"], "a0=1, k=2", 1
        scope = Function(parameters + ["k"], outer=self, generator=generator)
        self.put(0, f"def {name}({text}):\n    tick()")
        if self.often(0.2):
            self.put(1, "global v0\nv0 = 11")
        if generator:
            self.put(1, "yield a0")
        at = len(self.lines)
        for _ in range(self.random.randint(1, 3)):
            self.statement(1, scope, 0, False, False)
        self.begin(at, 1, scope)
        if generator:
            self.generators.append(name)
        else:
            self.put(1, f"return {self.number(scope)}")
            self.functions.append((name, count, more))

    def program(self):
        self.put(0, PRELUDE)
        self.put(0, "v0 = 1\nv1 = 2")
        for _ in range(self.random.randint(2, 4)):
            self.function(self.often(0.3))
        scope = Function(["v0", "v1"])
        at = len(self.lines)
        for _ in range(self.random.randint(3, 6)):
            self.put(0, "try:")
            self.statement(1, scope, 0, False, False)
            if self.functions:
                self.put(1, f"log({self.call(scope, 2)})")
            self.put(0, "except Stop:\n    log('fuel')\nexcept Exception as e:\n    log('NameError' if isinstance(e, NameError) else type(e).__name__)")
        self.begin(at, 0, scope)
        return "\n".join(self.lines) + "\n"


def script_of(number):
    """The first of a number's programs that Python compiles: a `nonlocal` may stand behind a use."""
    for attempt in range(100):
        text = Maker(f"{number}.{attempt}").program()
        try:
            compile(text, str(number), "exec")
        except SyntaxError:
            continue
        return text
    raise AssertionError(f"{number}: no program")


if __name__ == "__main__":
    print(script_of(int(sys.argv[1])), end="")
