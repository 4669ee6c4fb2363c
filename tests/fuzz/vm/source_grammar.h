// The grammar of hostile scripts: texts by rule, in which @x stands for a choice of rule x. The
// first text of a rule is short and has no other rule in it, so that every program ends.
#ifndef SOURCE_GRAMMAR_H
#define SOURCE_GRAMMAR_H

#include <stddef.h>

#define GRAMMAR_VARIABLES 6

struct grammar_rule {
    char name;
    const char *const *texts;
    size_t count;
};

// Modules, and classes whose special methods call hook().
static const char grammar_prelude[] =
    "import array, binascii, gc, heapq, io, json, math, re, struct, sys, walle\n"
    "from collections import deque, namedtuple, OrderedDict\n"
    "from walle import data, nn\n"
    "n = 0\nx = v0 = v1 = v2 = v3 = v4 = v5 = None\n"
    "def hook(): pass\n"
    "class E:\n"
    " def __init__(s, x=1): s.x = x\n"
    " def __eq__(s, o): hook(); return s.x is o\n"
    " def __hash__(s): hook(); return s.x if isinstance(s.x, int) else 3\n"
    " def __lt__(s, o): hook(); return n % 3 == 0\n"
    " def __gt__(s, o): hook(); return n % 3 == 1\n"
    " def __len__(s): hook(); return s.x if isinstance(s.x, int) else 2\n"
    " def __iter__(s): hook(); return iter([s.x, v0, v1])\n"
    " def __getitem__(s, i): hook(); return v2\n"
    " def __setitem__(s, i, v): hook()\n"
    " def __contains__(s, o): hook(); return False\n"
    " def __call__(s, *a, **k): hook(); return s.x\n"
    " def __str__(s): hook(); return 'E%d' % n\n"
    " def __repr__(s): hook(); return 'r'\n"
    " def __int__(s): hook(); return s.x\n"
    " def __float__(s): hook(); return 1.5\n"
    " def __bool__(s): hook(); return n % 2 == 0\n"
    " def __add__(s, o): hook(); return o\n"
    " def __radd__(s, o): hook(); return o\n"
    " def __enter__(s): hook(); return s\n"
    " def __exit__(s, *a): hook(); return True\n"
    " def __del__(s): hook()\n"
    " def keys(s): hook(); return ['a', 'b']\n"
    "class A(E):\n"
    " def __getattr__(s, a): hook(); return v3\n"
    "class N(E):\n"
    " def __next__(s):\n"
    "  hook()\n"
    "  if n % 7 == 6: raise StopIteration(v4)\n"
    "  return s.x\n"
    " def __iter__(s): return s\n"
    "class L(list): pass\n"
    "class D(dict): pass\n"
    "class T(tuple):\n"
    " def __init__(s, *a): hook()\n"
    "class X(ValueError):\n"
    " def __init__(s, *a): hook()\n"
    "NT = namedtuple('NT', ('a', 'b'))\n"
    "def g(k=3):\n"
    " try:\n"
    "  for i in range(k):\n"
    "   yield i\n"
    "   hook()\n"
    " finally:\n"
    "  hook()\n"
    "def f(*a, **k):\n"
    " hook()\n"
    " return a[0] if a else k\n";

static const char *const grammar_v[] = {"v0", "v1", "v2", "v3", "v4", "v5"};

static const char *const grammar_i[] = {
    "0",           "1",        "-1",       "2",           "7",       "255",
    "1000",        "(1<<30)",  "-(1<<31)", "(1<<32)",     "(1<<61)", "((1<<61)+1)",
    "((1<<62)-1)", "-(1<<62)", "(1<<64)",  "-(1<<70)",    "(n+1)",   "len(@v)",
    "True",        "3.7",      "E(@i)",    "int('9'*50)",
};

static const char *const grammar_e[] = {
    "v0",
    "@v",
    "@i",
    "None",
    "[1, 2, 3]",
    "(1, 'a', b'b')",
    "{'a': 1, 'b': [2]}",
    "{1, 2, 'a'}",
    "bytearray(b'0123456789')",
    "b'bytes' * 9",
    "'text\\u00e4\\u20ac' * 3",
    "1.5",
    "E(@i)",
    "A(@e)",
    "N(@e)",
    "[@e, @e]",
    "(@e, @e)",
    "{@e: @e, E(5): @e}",
    "{@e, E(6)}",
    "list(range(40))",
    "bytearray(40)",
    "memoryview(bytearray(16))",
    "memoryview(@v)",
    "array.array('@t', [1, 2, 3])",
    "deque([1, 2, 3], 5)",
    "deque(@e, @i)",
    "OrderedDict([(1, 2), ('a', @e)])",
    "frozenset([1, @i])",
    "io.StringIO('line\\nnext')",
    "io.BytesIO(@e)",
    "range(@i, @i, @i)",
    "slice(@i, @i, @i)",
    "NT(@e, @e)",
    "namedtuple('Q', ('x', 'y', 'z'))(@e, 2, 3)",
    "L(@e)",
    "D(@e)",
    "T(@e)",
    "X(@e)",
    "L",
    "E",
    "g()",
    "g",
    "f",
    "iter(@e)",
    "reversed(@e)",
    "enumerate(@e)",
    "zip(@e, @e)",
    "map(@k, @e)",
    "filter(@k, @e)",
    "object()",
    "type(@e)",
    "re.compile(@R)",
    "(lambda a, *b, c=@v: @e)",
    "globals()",
    "[E(i) for i in range(9)]",
    "{E(i): i for i in range(9)}",
    "{i * 19: i for i in range(30)}",
    "nn.tensor([[1.0, 2.0], [3.0, 4.0]])",
    "nn.tensor(@e, dtype='@d')",
    "nn.tensor(@e, shape=@e)",
    "data.events()",
    "data.Filter(data.events(), @k)",
    "data.KeyBy(data.events(), 'kind')",
    "data.count()",
    "walle.input",
    "walle.config",
    "math",
    "sys.modules if hasattr(sys, 'modules') else sys",
    "property(@k)",
    "super(E, E(1))",
    "staticmethod(@k)",
    "(@e).__class__",
    "[@e] * 3",
    "@o",
};

static const char *const grammar_k[] = {
    "f", "lambda a: hook()", "lambda a: @e", "lambda *a: a", "len", "int", "E", "@v", "hash", "str",
};

static const char *const grammar_t[] = {"b", "B", "h", "H", "i", "I", "l", "L",
                                        "q", "Q", "f", "d", "O", "P", "S"};
static const char *const grammar_d[] = {"float32", "int64", "bool",     "uint8",
                                        "float16", "int8",  "bfloat16", "float64"};

static const char *const grammar_b[] = {
    "+", "-",  "*",  "/", "//", "%", "**", "<<", ">>", "&",      "|",
    "^", "==", "!=", "<", "<=", ">", ">=", "in", "is", "not in", "and",
};

static const char *const grammar_a[] = {
    "append",
    "extend",
    "pop",
    "clear",
    "sort",
    "insert",
    "remove",
    "reverse",
    "index",
    "count",
    "copy",
    "get",
    "update",
    "setdefault",
    "popitem",
    "keys",
    "values",
    "items",
    "add",
    "discard",
    "union",
    "difference",
    "isdisjoint",
    "symmetric_difference_update",
    "intersection_update",
    "find",
    "rfind",
    "split",
    "rsplit",
    "join",
    "strip",
    "replace",
    "format",
    "partition",
    "center",
    "encode",
    "decode",
    "splitlines",
    "startswith",
    "upper",
    "appendleft",
    "popleft",
    "read",
    "write",
    "seek",
    "readline",
    "readinto",
    "getvalue",
    "close",
    "send",
    "throw",
    "hex",
    "fromhex",
    "to_bytes",
    "from_bytes",
    "match",
    "search",
    "sub",
    "group",
    "groups",
    "span",
    "reshape",
    "tolist",
    "tobytes",
    "argmax",
    "item",
    "aggregate",
    "fromkeys",
    "__init__",
    "__next__",
    "__class__",
    "__dict__",
    "__name__",
    "a",
    "x",
    "with_traceback",
    "args",
    "value",
    "pend_throw",
    "__call__",
    "isdigit",
    "move_to_end",
    "tell",
    "readlines",
    "itemsize",
    "shape",
    "start",
    "indices",
    "__getattr__",
};

// Operations of C over operands of any kind.
static const char *const grammar_o[] = {
    "len(v0)",
    "(@e @b @e)",
    "(@v @b @i)",
    "@v[@i]",
    "@v[@i:@i]",
    "@v[@i:@i:@i]",
    "@v.@a()",
    "@v.@a(@e)",
    "@v.@a(@e, @i)",
    "@v.@a(@i, @e)",
    "@v.@a(@e, @e, @i)",
    "(@e).@a",
    "(@e).@a(@e)",
    "type(@v).@a(@e, @e)",
    "@v.sort(key=@k)",
    "@v.sort(key=@k, reverse=True)",
    "sorted(@e, key=@k)",
    "sum(@e, @e)",
    "min(@e, key=@k)",
    "max(@e, @e)",
    "all(@e)",
    "any(@e)",
    "abs(@e)",
    "divmod(@e, @i)",
    "pow(@i, @i, @i)",
    "pow(@e, @i)",
    "round(@e, @i)",
    "hash(@e)",
    "repr(@e)",
    "str(@e)",
    "str(@e, 'utf8')",
    "int(@e)",
    "int(@e, @i)",
    "float(@e)",
    "chr(@i)",
    "ord(@e)",
    "hex(@i)",
    "bytes(@e)",
    "bytearray(@e)",
    "list(@e)",
    "tuple(@e)",
    "set(@e)",
    "dict(@e)",
    "dict(@e, a=@e)",
    "dict.fromkeys(@e, @e)",
    "next(@e)",
    "next(@e, @e)",
    "iter(@e)",
    "isinstance(@e, @e)",
    "issubclass(@e, (E, @e))",
    "getattr(@e, '@a')",
    "getattr(@e, '@a', @e)",
    "hasattr(@e, '@a')",
    "dir(@e)",
    "id(@e)",
    "callable(@e)",
    "f(*@e)",
    "f(*@e, *@e)",
    "f(**@e)",
    "f(@e, *@e, a=@e, **@e)",
    "(@e)(*@e)",
    "(@e)(@e)",
    "NT(*@e)",
    "NT(**@e)",
    "E(*@e)",
    "L(*@e)",
    "X(*@e)",
    "type('Z', (@e,), @e)",
    "type('Z', (L, E), {})",
    "type('Z', (@e, @e), {'a': @e})(@e)",
    "__import__(@e)",
    "__import__('a' * 999, globals(), None, None, 1)",
    "@F % (@e, @e, @i)",
    "@F % @e",
    "@F.format(@e, @e, a=@e)",
    "'{:{}}'.format(@e, @i)",
    "re.match(@R, 'aab(b1 ' * 5)",
    "re.search(@R, 'aabb1 ')",
    "re.sub(@R, @k, 'aabb1 ')",
    "re.sub(@R, '\\\\g<1>x\\\\2', 'aabb1')",
    "re.compile(@R).split('abab', @i)",
    "struct.pack(@P, @e, @i, @i)",
    "struct.unpack(@P, @e)",
    "struct.unpack_from(@P, @e, @i)",
    "struct.pack_into(@P, @v, @i, @e, @e)",
    "struct.calcsize(@P)",
    "json.loads(@J)",
    "json.dumps(@e)",
    "json.dump(@e, io.StringIO())",
    "json.load(@e)",
    "binascii.hexlify(@e)",
    "binascii.unhexlify(@e)",
    "binascii.a2b_base64(@e)",
    "binascii.b2a_base64(@e)",
    "heapq.heapify(@v)",
    "heapq.heappush(@v, @e)",
    "heapq.heappop(@v)",
    "math.factorial(@i)",
    "math.sqrt(@e)",
    "math.ldexp(@e, @i)",
    "io.StringIO(@e)",
    "io.BytesIO(@e).read(@i)",
    "io.StringIO(@i).write(@e)",
    "array.array('@t', @e)",
    "array.array(@e, @e)",
    "sys.getsizeof(@e) if hasattr(sys, 'getsizeof') else 0",
    "sys.print_exception(@e)",
    "gc.collect()",
    "gc.mem_free()",
    "(1 << 300) @b @e",
    "(3 ** 200 - 1) @b -@i",
    "@e @b (7 ** 99)",
    "((1 << 70) + 1).to_bytes(@i, 'big')",
    "int.from_bytes(@e, 'little')",
    "[y for y in @e if y]",
    "{y: 1 for y in @e}",
    "{y for y in @e}",
    "(y for y in @e)",
    "(yield_from(@e) if 0 else @e)",
    "v0 if @e else v1",
    "nn.tensor(@e)",
    "nn.tensor(@e, dtype='@d').reshape(@e)",
    "nn.tensor(list(range(12)), shape=(3, 4))[@i:@i].tolist()",
    "nn.load(@e)",
    "data.Filter(@e, @e)",
    "data.Map(data.events(), @k)",
    "data.TimeWindow(data.events(), @i, hop=@i, count=@i)",
    "data.Join(@e, @e, @i)",
    "data.KeyBy(@e, @e).aggregate(n=data.count(), m=@e)",
    "data.events().aggregate(**@e)",
    "data.quantiles(@e, @e, 0.5)",
    "data.histogram('time', @i, @i, @i)",
    "data.last('time', @i)",
    "data.distinct(@e, @i)",
    "data.store(@e, @e, @e)",
    "data.upload('u', @e)",
    "data.query(@e, @e, start=@i, newest=@i)",
    "walle.result(@e)",
    "walle.log(@e, @e)",
    "print(@e, @e, sep=@e, end=@e)",
    "print(@e, file=@e)",
    "walle.device",
    "memoryview(@e)[@i:@i]",
    "slice(@i, @i).indices(@i)",
    "globals().clear()",
    "locals()",
    "E.__dict__",
    "(@e).__dict__",
};

// Changes of what is being worked on.
static const char *const grammar_c[] = {
    "pass",
    "v0.clear()",
    "@v.clear()",
    "@v.append(@e)",
    "@v.extend(@e)",
    "@v.extend(range(60))",
    "@v.extend(bytes(90))",
    "@v.pop()",
    "@v.popitem()",
    "@v.insert(0, @e)",
    "@v.sort()",
    "@v[:] = []",
    "@v[@i:@i] = @e",
    "del @v[@i]",
    "del @v[@i:]",
    "@v[@e] = @e",
    "@v.update({i: i for i in range(40)})",
    "@v.add(@e)",
    "@v.discard(1)",
    "gc.collect(); x = [bytearray(40) for i in range(9)]",
    "x = [(1, 2, 3)] * 20; gc.collect()",
    "globals()['@v'] = @e",
    "raise X(@e)",
    "raise MemoryError",
    "@v.close()",
    "@v += @v",
    "@o",
    "E.__eq__ = @k",
    "A.y = @e",
    "x = [@v[:] for i in range(5)]",
};

static const char *const grammar_s[] = {
    "pass",
    "x = @o",
    "@v = @o",
    "@o",
    "@c",
    "@v[@e] = @e",
    "@v[@i:@i] = @e",
    "del @v[@e]",
    "del @v[@i:@i]",
    "@v += @e",
    "@v *= @i",
    "@v.@a = @e",
    "del @v.@a",
    "for y in @e:\n @s",
    "for y in @v:\n @c",
    "for y, z in @e:\n @s",
    "while n < 9:\n n += 1\n @s",
    "with @e as y:\n @s",
    "try:\n @s\nfinally:\n @s",
    "try:\n @s\nexcept @e:\n @s",
    "try:\n raise @e\nexcept X as y:\n @s\nfinally:\n @c",
    "y, *z = @e",
    "y, z = @e",
    "(y, (*z,)) = @e",
    "raise @e",
    "raise X(@e) from @e",
    "assert @e, @e",
    "def h(a, b=@e, *c, d=@e, **k):\n @s\n return @e",
    "x = h(@e, *@e, **@e)",
    "def q(y):\n yield y\n z = yield @e\n @c\n return (yield from @e)",
    "x = q(@e)\nnext(x)\nx.send(None)\nx.throw(X(@e))",
    "x = list(q(@e))",
    "x = g(@i)\nfor y in x:\n @c",
    "class B(@e):\n a = @e\n def __init__(s): super().__init__(@e)",
    "class B(L, E):\n def __eq__(s, o): return @e\nx = B(@e)",
    "class B(E):\n y = property(@k)\nx = B().y",
    "x = B(@e)\nx.a = @e\nx == @e",
    "@v, @v = @e, @e",
    "x = [@e for y in @e for z in @e]",
    "from walle import @a",
    "import @a",
    "for y in range(@i):\n @s",
    "heapq.heapify(@v); heapq.heappush(@v, @e); heapq.heappop(@v)",
    "y = memoryview(@v); @v.extend(bytes(99)); y[@i:@i] = @e",
    "y = iter(@v); next(y); @c; next(y); next(y)",
    "@v.append(@v); x = repr(@v); x = @v == [@v]",
    "x = @v\nfor y in range(30): x = [x, x]\nx == x[:]",
};

#define GRAMMAR_RULE(name, texts)                                                                  \
    {                                                                                              \
        name, texts, sizeof(texts) / sizeof((texts)[0])                                            \
    }

// NULL: no rule of this name.
static inline const struct grammar_rule *grammar_rule_of(char name)
{
    static const struct grammar_rule rules[] = {
        GRAMMAR_RULE('v', grammar_v), GRAMMAR_RULE('i', grammar_i), GRAMMAR_RULE('e', grammar_e),
        GRAMMAR_RULE('k', grammar_k), GRAMMAR_RULE('t', grammar_t), GRAMMAR_RULE('d', grammar_d),
        GRAMMAR_RULE('b', grammar_b), GRAMMAR_RULE('a', grammar_a), GRAMMAR_RULE('o', grammar_o),
        GRAMMAR_RULE('c', grammar_c), GRAMMAR_RULE('s', grammar_s),
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rules[i].name == name) {
            return &rules[i];
        }
    }
    return NULL;
}

#endif
