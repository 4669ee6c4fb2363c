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
    " return a[0] if a else k\n"
    // Instances of classes over any type: one that is never made, one that is, one that is used
    // before and while it is, and a chain whose first class makes the last one's native part.
    "def U(b, *a):\n"
    " class u(b):\n"
    "  def __init__(s, *a): hook()\n"
    " return u(*a)\n"
    "def M(b, *a):\n"
    " class m(b): pass\n"
    " return m(*a)\n"
    "def H(b, *a):\n"
    " class h(b):\n"
    "  def __init__(s, *a):\n"
    "   global v5\n"
    "   v5 = s; hook(); super().__init__(*a); hook()\n"
    " return h(*a)\n"
    "def K(b, *a):\n"
    " class i(b):\n"
    "  def __new__(c, *a): hook(); return super(i, c).__new__(c)\n"
    " class j(i):\n"
    "  def __init__(s, *a): b.__init__(s, *a)\n"
    " class k(j):\n"
    "  def __init__(s, *a):\n"
    "   if n % 2: super().__init__(*a)\n"
    " return k(*a)\n";

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
    "(sys.modules if hasattr(sys, 'modules') else sys)",
    "property(@k)",
    "super(E, E(1))",
    "staticmethod(@k)",
    "(@e).__class__",
    "[@e] * 3",
    "@o",
    "@u",
    "U(@n, @e)",
    "H(@n, @e)",
    "@u",
};

// What a class may stand on.
static const char *const grammar_n[] = {
    "list",
    "dict",
    "deque",
    "bytes",
    "bytearray",
    "int",
    "str",
    "tuple",
    "float",
    "bool",
    "set",
    "frozenset",
    "Exception",
    "ValueError",
    "OSError",
    "StopIteration",
    "SystemExit",
    "BaseException",
    "object",
    "OrderedDict",
    "array.array",
    "memoryview",
    "io.StringIO",
    "io.BytesIO",
    "range",
    "slice",
    "zip",
    "map",
    "filter",
    "enumerate",
    "reversed",
    "property",
    "staticmethod",
    "classmethod",
    "type",
    "super",
    "type(None)",
    "type(len)",
    "type(f)",
    "type(g)",
    "type(g())",
    "type(iter(@e))",
    "type([].append)",
    "type(E(1).keys)",
    "type(math)",
    "type(re.compile('a'))",
    "type(re.match('a', 'a'))",
    "type(nn.tensor([1.0]))",
    "type(data.events())",
    "type(data.count())",
    "type({}.keys())",
    "type(@e)",
    "NT",
    "E",
    "N",
    "L",
    "T",
    "X",
    "type(@v)",
};

// Instances of classes over those.
static const char *const grammar_u[] = {
    "U(list)", "U(@n)",     "U(@n, @e)",   "M(@n)", "M(@n, @e)",     "H(@n)", "H(@n, @e)",
    "K(@n)",   "K(@n, @e)", "U(type(@u))", "@v",    "M(@n, @e, @i)", "v5",
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
    "__new__",
    "__getitem__",
    "__setitem__",
    "__delitem__",
    "__iter__",
    "__len__",
    "__bases__",
    "errno",
    "__exit__",
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
    "(sys.getsizeof(@e) if hasattr(sys, 'getsizeof') else 0)",
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
    "(v0 if @e else v1)",
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
    "(@u @b @e)",
    "(@e @b @u)",
    "(@u @b @u)",
    "(@u)()",
    "(@u)(@e)",
    "(@u).@a",
    "(@u).@a(@e)",
    "(@u).@a(@e, @i)",
    "(@u)[@i]",
    "(@u)[@i:@i]",
    "-(@u)",
    "~(@u)",
    "+(@u)",
    "not (@u)",
    "len(@u)",
    "iter(@u)",
    "next(@u)",
    "list(@u)",
    "bytes(@u)",
    "memoryview(@u)",
    "int(@u)",
    "float(@u)",
    "hash(@u)",
    "abs(@u)",
    "round(@u, @i)",
    "divmod(@u, @u)",
    "pow(@u, @u)",
    "repr(@u)",
    "str(@u, 'utf8')",
    "chr(@u)",
    "ord(@u)",
    "sum(@u)",
    "sorted(@u)",
    "max(@u)",
    "dict(@u)",
    "set(@u)",
    "f(*@u)",
    "f(**@u)",
    "'a'.join(@u)",
    "'a' in @u",
    "@F % @u",
    "@F.format(@u)",
    "struct.pack(@P, @u)",
    "struct.unpack(@P, @u)",
    "struct.pack_into(@P, @u, 0, @e)",
    "json.dumps(@u)",
    "json.load(@u)",
    "json.dump(@e, @u)",
    "json.loads(@u)",
    "re.match(@u, 'a')",
    "re.match('a', @u)",
    "re.compile('a').split(@u)",
    "binascii.hexlify(@u)",
    "io.BytesIO(@u).read()",
    "io.StringIO(@u).write(@u)",
    "array.array('@t', @u)",
    "int.from_bytes(@u, 'big')",
    "print(@e, file=@u)",
    "sys.print_exception(@u)",
    "heapq.heappush(@u, @e)",
    "heapq.heapify(@u)",
    "nn.tensor(@u)",
    "nn.tensor([1.0], shape=@u)",
    "nn.tensor([1.0]).reshape(@u)",
    "data.Filter(@u, @k)",
    "data.KeyBy(data.events(), @u)",
    "data.events().aggregate(n=@u)",
    "data.upload('u', @u)",
    "walle.result(@u)",
    "slice(@u, @u).indices(@u)",
    "range(@u)",
    "[1, 2, 3][@u]",
    "'abc'[@u:@u]",
    "bytearray(b'abc')[@u]",
    "{@u: @e}",
    "isinstance(@e, @u)",
    "issubclass(type(@u), @n)",
    "issubclass(@u, @n)",
    "getattr(@u, @u, @e)",
    "type(@u)(@e)",
    "type(@u).@a(@e)",
    "@n.__init__(@u, @e)",
    "@n.__new__(@n)",
    "@n.__new__(type(@u), @e)",
    "object.__new__(type(@u))",
    "object.__new__(@n)",
    "@n.@a(@u)",
    "@n.@a(@u, @e)",
    "@n.@a(@e, @e)",
    "super(type(@u), @u)",
    "super(type(@u), @u).@a",
    "super(type(@u), @u).@a(@e)",
    "super(type(@u), @u).__init__(@e)",
    "super(@n, @u).@a(@e)",
    "super(type(@u), type(@u)).@a(@e)",
    "super(@n, @n).@a",
    "type('Z', (@n,), {'a': @e})(@e)",
    "type('Z', (@n, @n), {})",
    "type('Z', (@n, E), {})(@e)",
    "type('Z', (type(@u),), {'@a': @k})(@e)",
    "(@u).__class__.__bases__",
    "(@u).__dict__",
    "(y for y in @u)",
    "map(@u, @u)",
    "zip(@u, @u)",
    "enumerate(@u)",
    "reversed(@u)",
    "min(@u, key=@u)",
    "list.sort(@u, key=@u)",
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
    "raise @u",
    "raise @u from @u",
    "try:\n raise @u\nexcept @n as y:\n x = y.args, y.value, repr(y)\n @s",
    "for y in @u:\n @s",
    "with @u as y:\n @s",
    "y, *z = @u",
    "y, z = @u",
    "(@u)[@e] = @e",
    "(@u)[@i:@i] = @e",
    "del (@u)[@i]",
    "(@u).@a = @e",
    "del (@u).@a",
    "y = @u\ny *= @e",
    "y = @u\ny += @u\ny[0] = y\nx = y == y",
    "def q(y):\n return (yield from @u)\nx = list(q(@u))",
    "x = g()\nnext(x)\nx.throw(@u)",
    "@v = @u\n@s\n@s",
    "class B(@n):\n def __init__(s, *a):\n  x = s @b @e\n  super().__init__(*a)\n  @c\nx = B(@e)",
    "class B(@n):\n def __init__(s, *a):\n  global v4\n  v4 = s\n  @s\nx = B(@e)",
    "class B(@n):\n def __new__(c, *a): hook(); return @e\n def __init__(s, *a): "
    "super().__init__(*a)\nx = B(@e)",
    "class B(@n):\n def __new__(c, *a): return super().__new__(c, *a)\nx = B(@e)\nx.@a(@e)",
    "class B(@n):\n def m(s, *a): return super().@a(*a)\nx = B.m(@u, @e)",
    "class B(@n):\n def m(s, *a): return super().@a(*a)\nx = B(@e).m(@e)",
    "class B(@n):\n def m(s): return super().@a\nx = B.m(B)\nx(@e)",
    "class B(@n):\n def __init__(s, *a): hook()\nclass F(B):\n def __init__(s, *a):\n"
    "  x = s @b @e\n  super().__init__(*a)\n  @c\nx = F(@e)",
    "class B(@n):\n pass\nclass F(B):\n def __getitem__(s, i): return super().__getitem__(i)\n"
    " def __len__(s): return super().__len__()\nx = F(@e)\nx[@i]; len(x); x[@i:@i]",
    "class B(@n):\n def __eq__(s, o): return super().__eq__(o)\n def __hash__(s): return "
    "super().__hash__()\nx = {B(@e): 1, B(@e): 2}\nx = B(@e) == @u",
    "class B(@n):\n def __iter__(s): return super().__iter__()\n def __next__(s): return "
    "super().__next__()\nfor y in B(@e): @c",
    "class B(@n):\n def __getattr__(s, a): return super().@a\nx = B(@e).@a\nx(@e)",
    "class B(@n):\n def __call__(s, *a): return super().__call__(*a)\nx = B(@e)\nx(@e)",
    "class B(@n, @n):\n pass\nx = B(@e)\nx.@a(@e)",
    "class B(E, @n):\n pass\nx = B(@e)\nx.@a(@e)",
    "x = type(@u)\nx.@a = @e\ny = x(@e)\ny @b @e",
    // Made once more while something holds what it was.
    "y = @u\nfor z in y:\n super(type(y), y).__init__(@e)\n gc.collect()",
    "y = M(@n, @e)\nz = iter(y)\nsuper(type(y), y).__init__(@e)\ngc.collect()\nx = list(z)",
    "y = M(@n, @e)\nz = memoryview(y)\nsuper(type(y), y).__init__(@e)\ngc.collect()\nz[@i:@i] = @e",
    "y = M(list, @e)\ny.sort(key=lambda a: super(type(y), y).__init__(@e) or gc.collect())",
    "y = M(@n, @e)\nx = y.@a\nsuper(type(y), y).__init__(@e)\ngc.collect()\nx(@e)",
    "class B(@n):\n def __init__(s, *a): super().__init__(*a); hook(); super().__init__(*a)\n"
    "@v = B(@e)\n@s",
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
        GRAMMAR_RULE('c', grammar_c), GRAMMAR_RULE('s', grammar_s), GRAMMAR_RULE('n', grammar_n),
        GRAMMAR_RULE('u', grammar_u),
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rules[i].name == name) {
            return &rules[i];
        }
    }
    return NULL;
}

#endif
