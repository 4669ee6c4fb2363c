// The compiler library: what it makes loads, and what it refuses says where.
#include "vm_kit.h"

static enum base_status compile(const char *source, struct base_error *error)
{
    uint8_t *mpy = NULL;
    size_t size = 0;
    memset(error, 0, sizeof(*error));
    enum base_status status =
        dev_vm_compile(base_str_of(source), BASE_STR("task.py"), &mpy, &size, error);
    if (status == BASE_OK) {
        assert_true(size > 4);
        assert_int_equal(mpy[0], 'M');
        free(mpy);
    } else {
        assert_null(mpy);
    }
    return status;
}

static void test_errors_have_a_line(void **state)
{
    static const struct {
        const char *source;
        uint32_t line;
        const char *text;
    } cases[] = {
        {"x = 1\ny = = 2\n", 2, "SyntaxError: invalid syntax"},
        {"def f():\n    return 1\n   return 2\n", 2,
         "IndentationError: unindent doesn't match any outer indent level"},
        {"x = 1\n\n\n'abc\n", 4, "SyntaxError: invalid syntax"},
        {"def f():\n    x = 1\n    global x\n", 3, "SyntaxError: identifier redefined as global"},
        {"\nreturn 1\n", 2, "SyntaxError: 'return' outside function"},
        {"\n\nbreak\n", 3, "SyntaxError: 'break'/'continue' outside loop"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct base_error error;
        assert_int_equal(compile(cases[i].source, &error), BASE_ERR_INVALID);
        assert_int_equal(error.status, BASE_ERR_INVALID);
        assert_string_equal(error.text, cases[i].text);
        if (error.line != cases[i].line) {
            fail_msg("%s: line %u, not %u", cases[i].source, error.line, cases[i].line);
        }
    }
}

// What the Python of whoever wrote it takes, and a device's does not, is named.
static void test_newer_syntax_is_named(void **state)
{
    static const struct {
        const char *source;
        uint32_t line;
        const char *what;
    } cases[] = {
        {"x = 1\nmatch x:\n    case 1:\n        pass\n", 2,
         "match statement (Python 3.10): use if and elif"},
        {"match (x, y):\n    case _: pass\n", 1, "match statement (Python 3.10): use if and elif"},
        {"type X = int\n", 1, "type statement (Python 3.12)"},
        {"try:\n    x\nexcept* ValueError:\n    pass\n", 3, "except* (Python 3.11)"},
        {"try:\n    x\nexcept A, B:\n    pass\n", 3,
         "except of several names without brackets: except (A, B)"},
        {"\n\ndef f[T](x): pass\n", 3, "type parameters in brackets (Python 3.12)"},
        {"class A[T]: pass\n", 1, "type parameters in brackets (Python 3.12)"},
        {"def f(a, /, b): pass\n", 1,
         "positional-only parameters, a \"/\" among them (Python 3.8)"},
        {"f = lambda a, /: a\n", 1, "positional-only parameters, a \"/\" among them (Python 3.8)"},
        {"with (open(a) as f,\n      open(b) as g):\n    pass\n", 1,
         "brackets around what a with opens (Python 3.10)"},
        {"while True: print 'a'\n", 1,
         "print or exec statement (Python 2): print(...) is a function"},
        {"async def f():\n    return [i async for i in a]\n", 2,
         "async for in a comprehension (Python 3.6)"},
        {"x = t'{a}'\n", 1, "t-strings (Python 3.14)"},
        {"@a[0].b\ndef f(): pass\n", 1, "decorator that is no name, or a call of one (Python 3.9)"},
        {"x = {**a}\n", 1, "** in a dict (Python 3.5): use dict.update"},
        {"x = [*a, *b]\n", 1,
         "* in a list, tuple, set, return or index (Python 3.5): use + or extend"},
        {"def f():\n    return *a, 1\n", 2,
         "* in a list, tuple, set, return or index (Python 3.5): use + or extend"},
        {"x := 2\n", 1, ":= at this place"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct base_error error;
        char want[BASE_ERROR_TEXT_MAX];
        (void)snprintf(want, sizeof(want), "SyntaxError: a device's Python has no %s",
                       cases[i].what);
        assert_int_equal(compile(cases[i].source, &error), BASE_ERR_INVALID);
        assert_string_equal(error.text, want);
        if (error.line != cases[i].line) {
            fail_msg("%s: line %u, not %u", cases[i].source, error.line, cases[i].line);
        }
    }
}

// ... and what it does take, of what is often thought to be missing.
static void test_newer_syntax_that_there_is(void **state)
{
    static const char *const sources[] = {
        "if (n := len('a')) > 0: pass\n",
        "x = f\"{'a'!r:>{8}}{1 + 1}\"\n",
        "a = {'b': 1}\nx = f'{a['b']}'\n",
        "def f(a: int = 1, *b, c=2, **d) -> int: pass\nf(*[1], *[2], **{'c': 1}, **{})\n",
        "x: int = 1_000\n",
        "match = 1\ntype = match\ncase = {match: type}\nprint(match)\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        struct base_error error;
        if (compile(sources[i], &error) != BASE_OK) {
            fail_msg("%s: %s", sources[i], error.text);
        }
    }
}

static void test_members_are_told(void **state)
{
    static const struct {
        const char *source;
        const char *told; // "path:line "
    } cases[] = {
        {"import walle, math\nfrom walle import np as n\nwalle.np.foo.bar(1)\nmath.sqrt(2)\n"
         "n.sum(n.zeros(3))\nn.sum(1)\nx = walle.config['a'].b\n",
         "walle.np.foo.bar:3 math.sqrt:4 walle.np.sum:5 walle.np.zeros:5 walle.config:7 "},
        {"import math as m\ndef f(x):\n    return m.sin(x) if x else m.cos(x)\n",
         "math.sin:3 math.cos:3 "},
        {"from walle import np\nnp = 3\nnp.foo\n", ""},
        {"import math\ndef f(math):\n    math.foo\n", ""},
        {"import math\ntry:\n    math.foo\nexcept AttributeError:\n    math.bar\n", "math.bar:5 "},
        {"import math\ntry:\n    math.foo\nfinally:\n    math.bar\n", "math.foo:3 math.bar:5 "},
        {"import math\nif hasattr(math, 'x'):\n    math.x\n", ""},
        {"if 1:\n    import math\nelse:\n    import cmath as math\nmath.pi\n", ""},
        {"import math\na.math.x = 1\n", ""},
        {"from math import *\nsqrt.foo\n", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static struct dev_vm_compiled told;
        struct base_error error = {0};
        char said[512] = "";
        assert_int_equal(
            dev_vm_compile_told(base_str_of(cases[i].source), BASE_STR("a.py"), &told, &error),
            BASE_OK);
        free(told.mpy);
        for (uint32_t k = 0; k < told.member_count; k++) {
            size_t used = strlen(said);
            (void)snprintf(said + used, sizeof(said) - used, "%s:%u ", told.members[k].path,
                           told.members[k].line);
        }
        assert_string_equal(said, cases[i].told);
    }
}

static void test_what_compiles_loads(void **state)
{
    static const struct {
        const char *source;
        const char *text;
    } cases[] = {
        {"x = '\xe4'\n", "source is not UTF-8"},
        {"x = '\\ud800 a long text, so that it is no name'\n",
         "a device would refuse it: bytecode: text is not UTF-8"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct base_error error;
        assert_int_equal(compile(cases[i].source, &error), BASE_ERR_INVALID);
        assert_string_equal(error.text, cases[i].text);
    }
}

static char *repeated(const char *part, size_t times, const char *tail)
{
    size_t size = strlen(part);
    char *text = malloc(size * times + strlen(tail) + 1);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++) {
        memcpy(text + i * size, part, size);
    }
    memcpy(text + size * times, tail, strlen(tail) + 1);
    return text;
}

static void test_hostile_source(void **state)
{
    static const char *const parts[] = {"(", "[", "-", "not ", "lambda: ", "{1:", "x[", "f("};
    (void)state;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char *source = repeated(parts[i], 5000, "1\n");
        struct base_error error;
        enum base_status status = compile(source, &error);
        // "-" folds into one constant and is fine; the others end in an error, none in a crash.
        assert_true(status == BASE_OK || status == BASE_ERR_INVALID || status == BASE_ERR_NOMEM ||
                    status == BASE_ERR_TOO_LARGE);
        free(source);
    }
    char *long_source = repeated("x = 1\n", 200000, "");
    struct base_error error;
    assert_int_equal(compile(long_source, &error), BASE_ERR_TOO_LARGE);
    free(long_source);
}

// Reading a whole number takes the square of its digits: long ones are refused before it begins,
// and those in texts and comments are none.
static void test_long_numbers(void **state)
{
    static const struct {
        const char *head, *digit;
        size_t digits;
        const char *tail;
        enum base_status status;
        uint32_t line;
    } cases[] = {
        {"x = ", "1", DEV_VM_DIGITS_MAX, "\n", BASE_OK, 0},
        {"\nx = ", "1", DEV_VM_DIGITS_MAX + 1, "\n", BASE_ERR_TOO_LARGE, 2},
        {"a = 1\n\nx = 0x", "f", 400000, "\n", BASE_ERR_TOO_LARGE, 3},
        {"x = 0b", "1", 400000, "\n", BASE_ERR_TOO_LARGE, 1},
        {"x = 1", "_1", 400000, "", BASE_ERR_TOO_LARGE, 1},
        {"def f():\n    return g(", "7", 400000, ")\n", BASE_ERR_TOO_LARGE, 2},
        {"x = '", "7", 400000, "'\n", BASE_OK, 0},
        {"x = 1 # '", "7", 400000, "'\n", BASE_OK, 0},
        {"x = \"\"\"\n", "7", 400000, "\n\"\"\"\n", BASE_OK, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *digits = repeated(cases[i].digit, cases[i].digits, cases[i].tail);
        char *source = malloc(strlen(cases[i].head) + strlen(digits) + 1);
        struct base_error error;
        assert_non_null(source);
        (void)memcpy(source, cases[i].head, strlen(cases[i].head));
        (void)memcpy(source + strlen(cases[i].head), digits, strlen(digits) + 1);
        enum base_status status = compile(source, &error);
        if (status != cases[i].status || error.line != cases[i].line) {
            fail_msg("case %zu: %s (%s), line %u", i, base_status_text(status), error.text,
                     error.line);
        }
        free(source);
        free(digits);
    }
}

// Each limit is said as what it is, with the line where there is one.
static void test_limits_are_named(void **state)
{
    static const struct {
        const char *head, *unit;
        size_t count;
        const char *tail;
        uint32_t line;
        const char *says; // NULL: it compiles
    } cases[] = {
        {"\n", "x", DEV_VM_NAME_MAX, " = 1\n", 0, NULL},
        {"\n", "x", DEV_VM_NAME_MAX + 1, " = 1\n", 2, "a name of over 255 bytes"},
        {"a = 1\na.", "x", 300, " = 1\n", 2, "a name of over 255 bytes"},
        {"import a", ".abcdefg", 40, "\n", 0, "a name of over 255 bytes"},
        {"x = '", "x", 300, "'\n", 0, NULL},
        {"def f(*a):\n    return a\nf(", "1,", DEV_VM_ARGUMENTS_MAX, ")\n", 0, NULL},
        {"\nf(", "1,", DEV_VM_ARGUMENTS_MAX + 1, ")\n", 2, "a call of over 255 arguments"},
        {"\nf(", "'a',", DEV_VM_ARGUMENTS_MAX + 2, ")\n", 2, "a call of over 255 arguments"},
        {"x = a.f(a=1", ",*b", 300, ")\n", 1, "a call of over 255 arguments"},
        {"f(", "a=1,", DEV_VM_ARGUMENTS_MAX, ")\n", 0, NULL},
        {"f(", "a=1,", DEV_VM_ARGUMENTS_MAX + 1, ")\n", 1, "a call of over 255 arguments"},
        {"f(", "a=1,", DEV_VM_ARGUMENTS_MAX, "**a)\n", 1, "a call of over 255 arguments"},
        {"class A(", "object,", DEV_VM_ARGUMENTS_MAX - 2, "):\n    pass\n", 0, NULL},
        {"class A(", "object,", DEV_VM_ARGUMENTS_MAX - 1, "):\n    pass\n", 1, "a call of over"},
        {"x = [", "1,", 3000, "]\n", 0, NULL},
        {"def f():\n", "    f()\n", 10000, "", 0, "bytecode: function of over 32768 bytes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *rest = repeated(cases[i].unit, cases[i].count, cases[i].tail);
        char *source = malloc(strlen(cases[i].head) + strlen(rest) + 1);
        struct base_error error = {0};
        assert_non_null(source);
        (void)memcpy(source, cases[i].head, strlen(cases[i].head));
        (void)memcpy(source + strlen(cases[i].head), rest, strlen(rest) + 1);
        enum base_status status = compile(source, &error);
        const char *says = status == BASE_OK ? "" : error.text;
        if ((status == BASE_OK) != (cases[i].says == NULL) || error.line != cases[i].line ||
            strstr(says, cases[i].says != NULL ? cases[i].says : "") == NULL) {
            fail_msg("case %zu: %s (%s), line %u", i, base_status_text(status), says, error.line);
        }
        free(source);
        free(rest);
    }
}

// `count` names, each in a line of its own.
static char *names_of(const char *head, const char *line, unsigned count, const char *tail)
{
    size_t capacity = strlen(head) + (size_t)count * (strlen(line) + 16) + strlen(tail) + 1;
    char *source = malloc(capacity);
    assert_non_null(source);
    size_t size = (size_t)snprintf(source, capacity, "%s", head);
    for (unsigned i = 0; i < count; i++) {
        size += (size_t)snprintf(source + size, capacity - size, "%s%u%s", line, i,
                                 line[0] == ',' ? "" : "=0\n");
    }
    (void)snprintf(source + size, capacity - size, "%s", tail);
    return source;
}

// More names than the compiler can count are refused before it counts them: in each kind of scope
// that can have them, and where no single one has so many.
static void test_too_many_names(void **state)
{
    static const char table[] = "a device would refuse it: bytecode: over 16384 names";
    static const char counted[] = "a source of over 32768 names and short texts";
    static const struct {
        const char *head, *line;
        unsigned count;
        const char *tail;
        enum base_status status;
        uint32_t line_at;
        const char *says;
    } cases[] = {
        {"", "v", 17000, "", BASE_ERR_INVALID, 0, table},
        {"", "v", 40000, "", BASE_ERR_TOO_LARGE, 32769, counted},
        {"", "v", 66000, "", BASE_ERR_TOO_LARGE, 32769, counted},
        {"", "v", 70000, "", BASE_ERR_TOO_LARGE, 32769, counted},
        {"def ff():\n", " v", 66000, "", BASE_ERR_TOO_LARGE, 32769, counted},
        {"def ff():\n", " v", 70000, "", BASE_ERR_TOO_LARGE, 32769, counted},
        {"class Aa:\n", " v", 66000, "", BASE_ERR_TOO_LARGE, 32768, counted},
        {"\ndef ff():\n global vv", ", v", 66000, "\n pass\n", BASE_ERR_TOO_LARGE, 3, counted},
        {"\ndef ff():\n global vv", ", v", 70000, "\n pass\n", BASE_ERR_TOO_LARGE, 3, counted},
        {"\nff = lambda vv", ",v", 70000, ": 1\n", BASE_ERR_TOO_LARGE, 2, counted},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *source = names_of(cases[i].head, cases[i].line, cases[i].count, cases[i].tail);
        struct base_error error = {0};
        enum base_status status = compile(source, &error);
        // Some of the names are the interpreter's own, and not counted.
        if (status != cases[i].status || strcmp(error.text, cases[i].says) != 0 ||
            error.line < cases[i].line_at || error.line > cases[i].line_at + 4) {
            fail_msg("case %zu: %s (%s), line %u", i, base_status_text(status), error.text,
                     error.line);
        }
        free(source);
    }
}

// Names of many functions, each of which has few: one that came late would be taken for another.
static void test_too_many_names_apart(void **state)
{
    (void)state;
    enum { FUNCTIONS = 22, LOCALS = 3200, LINE = 16 };
    char *source = malloc((size_t)FUNCTIONS * (LOCALS + 1) * LINE + 64);
    size_t size = 0;
    assert_non_null(source);
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        size += (size_t)snprintf(source + size, LINE, "def f%u():\n", i);
        for (unsigned j = 0; j < LOCALS; j++) {
            size += (size_t)snprintf(source + size, LINE, " v%u=0\n", i * LOCALS + j);
        }
    }
    (void)snprintf(source + size, 64, "def last_one():\n return very_last\n");
    struct base_error error = {0};
    assert_int_equal(compile(source, &error), BASE_ERR_TOO_LARGE);
    assert_string_equal(error.text, "a source of over 32768 names and short texts");
    free(source);
}

// A source with its lists written out: <a3,> is a0,a1,a2  <a2=> is a0=1,a1=1  <a2;> is a0=0;a1=0
// <a3@> is aaa, <w3(> is w(),w(),w()
static char *written_out(const char *source)
{
    enum { CAPACITY = 256 * 1024, ITEM_MAX = 24 };
    char *out = malloc(CAPACITY);
    assert_non_null(out);
    size_t size = 0;
    while (*source != '\0') {
        char name = 0;
        char kind = 0;
        unsigned count = 0;
        int length = 0;
        assert_true(size + ITEM_MAX < CAPACITY);
        if (sscanf(source, "<%c%u%c>%n", &name, &count, &kind, &length) != 3 || length == 0) {
            out[size++] = *source++;
            continue;
        }
        const char *value = kind == '=' ? "=1" : kind == ';' ? "=0" : kind == '(' ? "()" : "";
        for (unsigned i = 0; i < count && size + ITEM_MAX < CAPACITY; i++) {
            const char *between = i == 0 || kind == '@' ? "" : kind == ';' ? ";" : ",";
            char number[ITEM_MAX / 2] = "";
            if (kind != '@' && kind != '(') {
                (void)snprintf(number, sizeof(number), "%u", i);
            }
            size +=
                (size_t)snprintf(out + size, ITEM_MAX, "%s%c%s%s", between, name, number, value);
        }
        source += length;
    }
    out[size] = '\0';
    return out;
}

// What the head of a function cannot say is refused with the true reason and the function's line.
static void test_functions_have_limits(void **state)
{
    static const struct {
        const char *source;
        uint32_t line;
        const char *says; // NULL: it compiles
    } cases[] = {
        {"\ndef f():\n <c127;>\n def g(): return [<c127,>]\n return g\n", 0, NULL},
        {"\ndef f():\n <c128;>\n def g(): return [<c128,>]\n return g\n", 2,
         "a function with over 127 variables that functions in it use"},
        {"\n\ndef f():\n <c300;>\n def g():\n  return [<c300,>]\n", 3,
         "a function with over 127 variables that functions in it use"},
        {"def f(<a250,>):\n return lambda: [<a250,>]\n", 1,
         "a function with over 127 variables that functions in it use"},
        {"def f():\n <c128;>\n return [[<c128,>] for i in 'ab']\n", 1, "that functions in it use"},
        {"def f():\n <c255;>\n d = 0\n return lambda: d\n", 0, NULL},
        {"def f():\n <c256;>\n d = 0\n return lambda: d\n", 1,
         "a function with over 256 variables and functions in it that use some"},
        {"def f():\n <c120;>\n def g():\n  <d120;>\n  def h():\n   <e15;>\n"
         "   return lambda: [<c120,>,<d120,>,<e15,>]\n",
         0, NULL},
        {"def f():\n <c120;>\n def g():\n  <d120;>\n  def h():\n   <e16;>\n"
         "   return lambda: [<c120,>,<d120,>,<e16,>]\n",
         7, "a function that uses over 255 variables of those around it"},
        {"def f(<a511,>):\n return a3\n", 0, NULL},
        {"\ndef f(<a512,>):\n return a3\n", 2,
         "a function with over 511 arguments and variables from around it"},
        {"\nf = lambda <a600,>: a3\n", 2, "a function with over 511 arguments"},
        {"def f(<a127=>):\n return a3\n", 0, NULL},
        {"\n\ndef f(<a128=>):\n return a3\n", 3,
         "a function with over 127 arguments that have default values"},
        {"\n\ndef f(<a256=>):\n return a3\n", 3, "that have default values"},
        {"def f(*, <a127,>):\n return a3\n", 0, NULL},
        {"\ndef f(*, <a128,>):\n return a3\n", 2,
         "a function with over 127 keyword-only arguments"},
        {"\ndef f(*, <a300=>):\n return a3\n", 2, "keyword-only arguments"},
        {"def f():\n <v4094;>\n", 0, NULL},
        {"\ndef f():\n <v4095;>\n", 3, "a function with over 4095 variables and values at a time"},
        {"\nx = [<v5000,>]\n", 2, "over 4095 variables and values at a time"},
        {"x = 1\ndef f():\n x = 1\n return [<v5000,>]\n", 4, "over 4095 variables and values"},
        {"def f():\n with <w120(>:\n  pass\n", 0, NULL},
        {"\ndef f():\n with <w200(>:\n  pass\n", 3, "over 127 try and with blocks in one another"},
        {"x = 1\n\nwith <w200(>:\n pass\n", 3, "over 127 try and with blocks in one another"},
        {"x = <n60@>\n", 0, NULL},
        {"x = [0] * 256\n<a255,>, *b = x\n", 0, NULL},
        {"x = [0] * 256\n\n<a256,>, *b = x\n", 3,
         "an assignment with a star of over 255 names before it, or behind"},
        {"x = [0] * 256\n*b, <a255,> = x\n", 0, NULL},
        {"\n*b, <a256,> = x\n", 2, "an assignment with a star of over 255 names"},
        {"\n(<a256,>, *b) = x\n", 2, "an assignment with a star of over 255 names"},
        {"\n[*b, <a256,>] = x\n", 2, "an assignment with a star of over 255 names"},
        {"\nfor <a256,>, *b in x:\n pass\n", 2, "an assignment with a star of over 255 names"},
        {"\nx = [1 for <a256,>, *b in y]\n", 2, "an assignment with a star of over 255 names"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *source = written_out(cases[i].source);
        struct base_error error = {0};
        enum base_status status = compile(source, &error);
        const char *says = status == BASE_OK ? "" : error.text;
        if ((status == BASE_OK) != (cases[i].says == NULL) || error.line != cases[i].line ||
            strstr(says, cases[i].says != NULL ? cases[i].says : "") == NULL) {
            fail_msg("%s: %s (%s), line %u", cases[i].source, base_status_text(status), says,
                     error.line);
        }
        free(source);
    }
}

// Decorators lie on the stack together, and each statement in a try is in one block more.
static void test_statements_have_limits(void **state)
{
    (void)state;
    struct base_error error = {0};
    char *source = repeated("@g\n", 5000, "def f():\n pass\n");
    assert_int_equal(compile(source, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "over 4095 variables and values at a time"));
    assert_int_equal(error.line, 1);
    free(source);
    enum { DEEP = 150 };
    source = malloc(2 * DEEP * (DEEP + 16));
    assert_non_null(source);
    size_t size = 0;
    for (int i = 0; i < DEEP; i++) {
        size += (size_t)sprintf(source + size, "%*stry:\n", i, "");
    }
    size += (size_t)sprintf(source + size, "%*sf()\n", DEEP, "");
    for (int i = DEEP - 1; i >= 0; i--) {
        size += (size_t)sprintf(source + size, "%*sfinally:\n%*sg()\n", i, "", i + 1, "");
    }
    assert_int_equal(compile(source, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "over 127 try and with blocks in one another"));
    assert_true(error.line >= 128 && error.line <= DEEP + 1);
    free(source);
}

// What a jump cannot pass over, brackets in one another, imports of "a.b": each has its reason, at
// once.
static void test_long_sources(void **state)
{
    static const struct {
        const char *head, *line;
        unsigned count;
        const char *tail;
        enum base_status status;
        uint32_t line_at;
        const char *says;
    } cases[] = {
        {"while x:\n", " y = f(z)\n", 2000, "", BASE_OK, 0, ""},
        {"while x:\n", " y = f(z)\n", 15000, "", BASE_ERR_TOO_LARGE, 0,
         "a loop, branch or try of over 32767 bytes of bytecode"},
        {"if x:\n", " y = f(z)\n", 15000, "", BASE_ERR_TOO_LARGE, 0, "a loop, branch or try"},
        {"import a\n", "import a.b\n", 4096, "", BASE_OK, 0, ""},
        {"import a\n", "import a.b\n", 60000, "", BASE_ERR_TOO_LARGE, 4098,
         "a source of over 4096 names with a dot in its imports"},
        {"x = 1\nx = ", "(", 50000, "", BASE_ERR_TOO_LARGE, 2,
         "a depth of over 1000 brackets in one another"},
        {"x = ", "([{", 334, "", BASE_ERR_TOO_LARGE, 1, "a depth of over 1000 brackets"},
        {"x = ", "(),[],", 5000, "\n", BASE_ERR_INVALID, 1, "over 4095 variables and values"},
        {"x = '", "(", 5000, "' # ((\n", BASE_OK, 0, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *many = repeated(cases[i].line, cases[i].count, cases[i].tail);
        char *source = malloc(strlen(cases[i].head) + strlen(many) + 1);
        struct base_error error = {0};
        assert_non_null(source);
        (void)sprintf(source, "%s%s", cases[i].head, many);
        enum base_status status = compile(source, &error);
        if (status != cases[i].status || strstr(error.text, cases[i].says) == NULL ||
            error.line != cases[i].line_at) {
            fail_msg("case %zu: %s (%s), line %u", i, base_status_text(status), error.text,
                     error.line);
        }
        free(source);
        free(many);
    }
}

// However deep a call stands in the source, its arguments are counted.
static void test_deep_call(void **state)
{
    (void)state;
    struct base_error error = {0};
    char *arguments = written_out("f(<a256,>)\n");
    char *source = repeated("not ", 199, arguments);
    assert_int_equal(compile(source, &error), BASE_ERR_TOO_LARGE);
    assert_string_equal(error.text, "a call of over 255 arguments");
    assert_int_equal(error.line, 1);
    free(source);
    source = repeated("not ", 100000, arguments);
    assert_int_equal(compile(source, &error), BASE_ERR_INVALID);
    assert_string_equal(error.text, "source is nested too deep");
    free(source);
    free(arguments);
}

static void test_arguments(void **state)
{
    (void)state;
    uint8_t *mpy = NULL;
    size_t size = 0;
    struct base_error error;
    struct base_str none = {NULL, 0};
    assert_int_equal(dev_vm_compile(BASE_STR("x"), none, &mpy, &size, &error), BASE_ERR_INVALID);
    assert_int_equal(dev_vm_compile(BASE_STR("x = ("), BASE_STR("a.py"), &mpy, &size, NULL),
                     BASE_ERR_INVALID);
    assert_int_equal(dev_vm_compile(none, BASE_STR("a.py"), &mpy, &size, &error), BASE_OK);
    free(mpy);
}

// What a source uploads to: names that are literals, cut where they are too long, the first of
// many.
static void test_uploads_are_told(void **state)
{
    (void)state;
    struct base_error error = {0};
    static struct {
        struct dev_vm_compiled out;
        uint8_t behind[256];
    } told;
    static char many[64 * (DEV_VM_UPLOADS_MAX + 20)];
    char *at = many + sprintf(many, "from walle import data\n");
    memset(told.behind, 0x5a, sizeof(told.behind));
    for (int i = 0; i < DEV_VM_UPLOADS_MAX + 9; i++) {
        at += sprintf(at, "data.upload('u%d', 1)\n", i);
    }
    assert_int_equal(dev_vm_compile_told(base_str_of(many), BASE_STR("a.py"), &told.out, &error),
                     BASE_OK);
    free(told.out.mpy);
    assert_int_equal(told.out.upload_count, DEV_VM_UPLOADS_MAX);
    assert_string_equal(told.out.uploads[0].name, "u0");
    assert_int_equal(told.out.uploads[0].line, 2);
    assert_string_equal(told.out.uploads[DEV_VM_UPLOADS_MAX - 1].name, "u127");
    for (size_t i = 0; i < sizeof(told.behind); i++) {
        assert_int_equal(told.behind[i], 0x5a);
    }
    static const struct {
        const char *source;
        uint32_t count;
        const char *name;
    } cases[] = {
        {"from walle import data\ndata.upload('ab\\x63', 1)\n", 1, "abc"},
        {"import walle\nwalle.data.upload('w', 1)\n", 1, "w"},
        {"from walle import data\ndata.upload(name, 1)\n", 0, NULL},
        {"from walle import data\ndata.store('s', 1)\n", 0, NULL},
        {"from walle import data\n"
         "data.upload('0123456789012345678901234567890123456789012345678901234567890123456', 1)\n",
         1, "012345678901234567890123456789012345678901234567890123456789012"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(&told.out, 0, sizeof(told.out));
        assert_int_equal(
            dev_vm_compile_told(base_str_of(cases[i].source), BASE_STR("a.py"), &told.out, &error),
            BASE_OK);
        free(told.out.mpy);
        assert_int_equal(told.out.upload_count, cases[i].count);
        if (cases[i].count > 0) {
            assert_string_equal(told.out.uploads[0].name, cases[i].name);
        }
    }
}

static void test_same_source_same_bytes(void **state)
{
    (void)state;
    uint8_t *mpy[2];
    size_t size[2];
    struct base_str source =
        BASE_STR("import walle\nclass A:\n    def f(self): return [x for x in 'ab']\n");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dev_vm_compile(source, BASE_STR("a.py"), &mpy[i], &size[i], NULL),
                         BASE_OK);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(mpy[0], mpy[1], size[0]);
    free(mpy[0]);
    free(mpy[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_have_a_line),
        cmocka_unit_test(test_newer_syntax_is_named),
        cmocka_unit_test(test_newer_syntax_that_there_is),
        cmocka_unit_test(test_members_are_told),
        cmocka_unit_test(test_what_compiles_loads),
        cmocka_unit_test(test_hostile_source),
        cmocka_unit_test(test_long_numbers),
        cmocka_unit_test(test_limits_are_named),
        cmocka_unit_test(test_too_many_names),
        cmocka_unit_test(test_too_many_names_apart),
        cmocka_unit_test(test_functions_have_limits),
        cmocka_unit_test(test_statements_have_limits),
        cmocka_unit_test(test_deep_call),
        cmocka_unit_test(test_long_sources),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_uploads_are_told),
        cmocka_unit_test(test_same_source_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
