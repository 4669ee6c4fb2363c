// walle.data: events as objects, stream functions against the same in plain Python, stored
// features, and effects that count only when the run ended well.
#include "vm_kit.h"

#include "base/prng.h"

#define EVENTS 300

static struct dev_event events[EVENTS];
static uint8_t attrs[EVENTS][256];

static void event_set(uint32_t i, uint64_t wall_ms, enum dev_event_kind kind, const char *page,
                      const char *item, const struct dev_event_attr *list, uint32_t count)
{
    size_t size = 0;
    assert_int_equal(dev_event_attrs_encode(list, count, attrs[i], sizeof(attrs[i]), &size),
                     BASE_OK);
    events[i] = (struct dev_event){.seq = i + 1,
                                   .wall_ms = wall_ms,
                                   .kind = kind,
                                   .visit = 1 + i / 40,
                                   .page = base_str_of(page),
                                   .item = base_str_of(item),
                                   .attrs = attrs[i],
                                   .attrs_bytes = (uint32_t)size,
                                   .attr_count = count};
}

static int setup(void **state)
{
    static struct vm_kit kit;
    static const char *const pages[] = {"home", "list", "detail"};
    static const char *const items[] = {"", "a1", "b2", "c3", "d4", "e5"};
    struct base_prng prng;
    base_prng_seed(&prng, 5);
    kit_init(&kit, 0);
    uint64_t now = 1700000000000;
    for (uint32_t i = 0; i < EVENTS; i++) {
        now += base_prng_below(&prng, 900);
        const struct dev_event_attr list[] = {
            {.name = BASE_STR("price"),
             .type = DEV_ATTR_INTEGER,
             .integer = (int64_t)base_prng_below(&prng, 100)},
            {.name = BASE_STR("rate"), .type = DEV_ATTR_REAL, .real = base_prng_unit(&prng)},
            {.name = BASE_STR("color"), .type = DEV_ATTR_STRING, .text = BASE_STR("r\xc3\xb6t")},
            {.name = BASE_STR("kind"), .type = DEV_ATTR_BOOLEAN, .integer = 1},
        };
        event_set(i, now, (enum dev_event_kind)(1 + base_prng_below(&prng, 5)),
                  pages[base_prng_below(&prng, 3)], items[base_prng_below(&prng, 6)], list,
                  base_prng_below(&prng, 8) == 0 ? 0 : 4);
    }
    kit.job.events = events;
    kit.job.event_count = EVENTS;
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_done(*state);
    return 0;
}

static void test_event_objects(void **state)
{
    struct vm_kit *kit = *state;
    kit->job.event_count = 3;
    const struct dev_event_attr list[] = {
        {.name = BASE_STR("price"), .type = DEV_ATTR_INTEGER, .integer = -5},
        {.name = BASE_STR("kind"), .type = DEV_ATTR_STRING, .text = BASE_STR("attr")},
    };
    struct dev_event kept = events[1];
    uint8_t bytes[sizeof(attrs[1])];
    memcpy(bytes, attrs[1], sizeof(bytes));
    event_set(1, 123456789012345, DEV_EVENT_CLICK, "home", "", list, 2);
    kit_run_source(kit,
                   "from walle import data\n"
                   "s = data.events()\n"
                   "e = s[1]\n"
                   "print(len(s), len(list(s)), e.kind, e.page, e.item, e.name, e.seq, "
                   "e.time, e.visit, e.instance)\n"
                   "print(e.price, e['price'], e['kind'], e.get('missing', 7), e.get('price'), "
                   "e.get('x'))\n"
                   "try:\n    e.missing\nexcept AttributeError:\n    print('no attribute')\n"
                   "try:\n    e['missing']\nexcept KeyError:\n    print('no key')\n"
                   "try:\n    e.price = 3\nexcept AttributeError:\n    print('no store')\n"
                   "try:\n    s[3]\nexcept IndexError:\n    print('no index')\n"
                   "print(s[-1].seq, e)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "3 3 click home None None 2 123456789012345 1 0\n"
                                    "-5 -5 attr 7 -5 None\n"
                                    "no attribute\nno key\nno store\nno index\n"
                                    "3 <Event click home>\n");
    events[1] = kept;
    memcpy(attrs[1], bytes, sizeof(bytes));
    kit->job.event_count = EVENTS;
}

static void test_no_events(void **state)
{
    struct vm_kit *kit = *state;
    kit->job.event_count = 0;
    kit_run_source(kit, "from walle import data\ns = data.events()\n"
                        "print(len(s), list(s), data.Map(s, 'price'), s.aggregate(n=data.count()), "
                        "data.query('f', 'k'))\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "0 [] [] [] []\n");
    kit->job.event_count = EVENTS;
}

// Each script computes the same twice, with the functions and by hand, and prints what differs.
static const char *const sources[] = {
    // Filter and Map
    "a = [e.seq for e in data.Filter(s, 'price > 50 && kind in {\"click\", \"exit\"}')]\n"
    "b = [e.seq for e in s if e.get('price', 0) > 50 and e.kind in ('click', 'exit')]\n",
    "a = [e.seq for e in data.Filter(s, lambda e: e.get('price', -1) % 2 == 0)]\n"
    "b = [e.seq for e in s if e.get('price', -1) % 2 == 0]\n",
    "a = data.Map(s, 'price * 2 + 1')\n"
    "b = [None if e.get('price') is None else e.price * 2 + 1 for e in s]\n",
    "a = data.Map(data.Filter(s, 'has(item)'), lambda e: e.item + '!')\n"
    "b = [e.item + '!' for e in s if e.item]\n",
    // KeyBy without a window
    "a = sorted((r.key, r.n, r.total, r.low, r.high) for r in data.KeyBy(s, 'item')"
    ".aggregate(n=data.count(), total=data.sum('price'), low=data.min('price'), "
    "high=data.max('price')))\n"
    "g = {}\n"
    "for e in s:\n"
    "    if e.item:\n"
    "        g.setdefault(e.item, []).append(e.get('price'))\n"
    "b = []\n"
    "for k in sorted(g):\n"
    "    p = [x for x in g[k] if x is not None]\n"
    "    b.append((k, len(g[k]), sum(p), min(p), max(p)))\n",
    // tumbling by key
    "a = sorted((r.key, r.start, r.end, r.n, r.total) for r in data.TimeWindow(data.KeyBy("
    "data.Filter(s, 'has(price)'), 'page'), 10000).aggregate(n=data.count(), "
    "total=data.sum('price')))\n"
    "g = {}\n"
    "for e in s:\n"
    "    if e.get('price') is not None:\n"
    "        g.setdefault((e.page, e.time // 10000 * 10000), []).append(e.price)\n"
    "b = [(p, t, t + 10000, len(g[p, t]), sum(g[p, t])) for p, t in sorted(g)]\n",
    // hopping
    "a = sorted((r.start, r.n) for r in data.TimeWindow(s, 9000, 'hopping', hop=3000)"
    ".aggregate(n=data.count()))\n"
    "g = {}\n"
    "for e in s:\n"
    "    t = e.time // 3000 * 3000\n"
    "    for k in range(3):\n"
    "        g[t - k * 3000] = g.get(t - k * 3000, 0) + 1\n"
    "b = sorted(g.items())\n",
    // sliding
    "a = [(r.end, r.n) for r in data.TimeWindow(s, 4000, 'sliding').aggregate(n=data.count())]"
    "\n"
    "t = [e.time for e in s]\n"
    "b = [(t[i], len([1 for x in t[:i + 1] if x > t[i] - 4000])) for i in range(len(t))]\n",
    // session
    "a = [(r.start, r.end, r.n) for r in data.TimeWindow(s, kind='session', gap=700)"
    ".aggregate(n=data.count())]\n"
    "b = []\n"
    "for e in s:\n"
    "    if b and e.time < b[-1][1]:\n"
    "        b[-1] = (b[-1][0], e.time + 700, b[-1][2] + 1)\n"
    "    else:\n"
    "        b.append((e.time, e.time + 700, 1))\n",
    // count and visits
    "a = [r.total for r in data.TimeWindow(s, kind='count', count=50).aggregate("
    "total=data.sum('price'))]\n"
    "p = [e.get('price', 0) for e in s]\n"
    "b = [sum(p[i:i + 50]) for i in range(0, 300, 50)]\n",
    "a = sorted((r.start, r.n) for r in data.TimeWindow(data.Filter(s, 'kind != \"exit\"'), "
    "kind='page').aggregate(n=data.count()))\n"
    "g = {}\n"
    "for e in s:\n"
    "    if e.kind != 'exit':\n"
    "        g[e.visit] = g.get(e.visit, 0) + 1\n"
    "b = sorted(g.items())\n",
    // last, histogram, quantiles, distinct, mean
    "r = s.aggregate(l=data.last('item', 3), h=data.histogram('price', 0, 100, 4), "
    "q=data.quantiles('price', 0, 0.5, 1), d=data.distinct('item'), m=data.mean('price'))[0]\n"
    "p = sorted(e.price for e in s if e.get('price') is not None)\n"
    "i = [e.item for e in s if e.item]\n"
    "m = p[(len(p) - 1) // 2]\n"
    "a = [r.l, r.h, r.q[0], r.q[2], abs(r.q[1] - m) <= 0.03 * m, r.d, abs(r.m - sum(p) / "
    "len(p)) < 1e-9]\n"
    "b = [tuple(i[-3:]), (0,) + tuple(len([x for x in p if x // 25 == k]) for k in range(4)) "
    "+ (0,), p[0], p[-1], True, 5, True]\n",
    // join: clicks with exposures of the same item up to 5 s apart
    "c = data.KeyBy(data.Filter(s, 'kind == \"click\" && has(price)'), 'item')\n"
    "x = data.KeyBy(data.Filter(s, 'kind == \"exposure\"'), 'item')\n"
    "a = [r.total for r in data.Join(c, x, 5000, 'price > other.price').aggregate("
    "total=data.sum('price - other.price'))]\n"
    "g = {}\n"
    "for e in s:\n"
    "    for f in s:\n"
    "        if (e.kind, f.kind) == ('click', 'exposure') and e.item and e.item == f.item and "
    "abs(e.time - f.time) <= 5000:\n"
    "            if e.get('price') is not None and f.get('price') is not None and e.price > "
    "f.price:\n"
    "                g[e.item] = g.get(e.item, 0) + e.price - f.price\n"
    "a = sorted(a)\nb = sorted(g.values())\n",
    // more keys than the first try has room for
    "a = sorted((r.key, r.n) for r in data.KeyBy(s, 'seq').aggregate(n=data.count()))\n"
    "b = [(e.seq, 1) for e in s]\n",
};

static void test_functions_against_plain_python(void **state)
{
    struct vm_kit *kit = *state;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        char source[4096];
        (void)snprintf(source, sizeof(source),
                       "from walle import data\ns = data.events()\n%s"
                       "print(len(a) > 0, a == b)\n"
                       "if a != b:\n    print(a)\n    print(b)\n",
                       sources[i]);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_FINISHED);
        if (!base_str_equal(kit->result.output, BASE_STR("True True\n"))) {
            fail_msg("%s%.*s", source, (int)kit->result.output.size, kit->result.output.data);
        }
    }
}

static void test_errors_say_what_and_where(void **state)
{
    static const struct {
        const char *line;
        const char *error;
    } cases[] = {
        {"data.Filter(s, 'price >')", "ValueError expression:1:8: expected a value\n"},
        {"data.Filter(s, 'price + 1')", "ValueError expression:1:1: this is no condition\n"},
        {"data.Filter(3, 'price')", "TypeError walle.data: not a stream of events\n"},
        {"data.TimeWindow(s, 5, 'odd')", "ValueError walle.data: unknown kind of window\n"},
        {"data.TimeWindow(s, -5)", "ValueError walle.data: a time is negative\n"},
        {"data.TimeWindow(s, kind='session').aggregate(n=data.count())",
         "ValueError stream script: the window needs gap_ms\n"},
        {"s.aggregate()", "ValueError walle.data: not 1 to 16 aggregates\n"},
        {"s.aggregate(n=3)", "TypeError walle.data: not an aggregate\n"},
        {"s.aggregate(key=data.count())", "ValueError walle.data: a row has this field already\n"},
        {"s.aggregate(n=data.sum('1 +'))", "ValueError stream script: value: expected a value\n"},
        {"s.aggregate(n=data.last('price', 1000))",
         "ValueError aggregate n: size 1000 is not between 1 and 64\n"},
        {"data.Join(s, s, 5)", "ValueError walle.data: Join needs KeyBy on both sides\n"},
        {"data.store('Bad', 'k', 1)",
         "ValueError walle.data: a name is not [a-z][a-z0-9_.]* of at most 32 bytes\n"},
        {"data.store('f', 'k' * 65, 1)", "ValueError walle.data: a key is over 64 bytes\n"},
        {"data.store('f', 'k', s)", "TypeError walle.result: not JSON: Stream\n"},
        {"data.store('f', 'k', 'x' * 20000)", "ValueError result is over 16384 bytes\n"},
        {"data.upload('a b', 1)",
         "ValueError walle.data: a name is not [a-z][a-z0-9_-]* of at most 32 bytes\n"},
        {"data.upload('f', bytes(70000))",
         "ValueError walle.data: stores and uploads are over 65536 bytes\n"},
        {"[data.upload('f', i) for i in range(100)]",
         "ValueError walle.data: more than 64 stores and uploads\n"},
    };
    struct vm_kit *kit = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char source[512];
        (void)snprintf(source, sizeof(source),
                       "from walle import data\ns = data.events()\ntry:\n    %s\n"
                       "except Exception as e:\n    print(type(e).__name__, e)\n",
                       cases[i].line);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_FINISHED);
        if (!base_str_equal(kit->result.output, base_str_of(cases[i].error))) {
            fail_msg("%s: %.*s", cases[i].line, (int)kit->result.output.size,
                     kit->result.output.data);
        }
    }
}

static void test_budgets_hold(void **state)
{
    static const char *const endless[] = {
        "while True: data.Filter(s, 'price > 5')\n",
        "while True: s.aggregate(n=data.count())\n",
        "while True: data.KeyBy(s, 'item').aggregate(q=data.quantiles('price', 0.5))\n",
    };
    struct vm_kit *kit = *state;
    kit->job.instruction_max = 20000;
    for (size_t i = 0; i < sizeof(endless) / sizeof(endless[0]); i++) {
        char source[512];
        (void)snprintf(source, sizeof(source), "from walle import data\ns = data.events()\n%s",
                       endless[i]);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_BUDGET);
    }
    kit->job.instruction_max = 0;
    kit_run_source(kit, "from walle import data\ns = data.events()\n"
                        "data.TimeWindow(data.KeyBy(s, 'seq'), 1000).aggregate("
                        "a=data.quantiles('price', 0.5), b=data.distinct('price', 12))\n");
    kit_ended(kit, DEV_VM_MEMORY);
}

// --- stored features and effects

struct fake_rows {
    struct dev_vm_query asked;
    char key[DEV_VM_FEATURE_KEY_MAX + 1];
    char feature[DEV_VM_FEATURE_NAME_MAX + 1];
    uint32_t rows;
    const char *value;
    enum base_status status;
};

static enum base_status fake_query(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                                   void *visit_ctx)
{
    struct fake_rows *fake = ctx;
    fake->asked = *query;
    (void)snprintf(fake->key, sizeof(fake->key), "%.*s", (int)query->key.size, query->key.data);
    (void)snprintf(fake->feature, sizeof(fake->feature), "%.*s", (int)query->feature.size,
                   query->feature.data);
    for (uint32_t i = 0; i < fake->rows; i++) {
        if (!visit(visit_ctx, BASE_STR("k1"), 1000 - i, (const uint8_t *)fake->value,
                   strlen(fake->value))) {
            break;
        }
    }
    return fake->status;
}

static void test_query(void **state)
{
    struct vm_kit *kit = *state;
    struct fake_rows fake = {.rows = 2, .value = "{\"a\":[1,2.5]}"};
    const struct dev_vm_data_port port = {&fake, fake_query};
    kit->job.data = &port;
    kit_run_source(kit, "from walle import data\nprint(data.query('ipv.page', 'k1', 5, 2000))\n");
    kit_text_is(kit->result.output, "[(1000, {'a': [1, 2.5]}), (999, {'a': [1, 2.5]})]\n");
    assert_string_equal(fake.feature, "ipv.page");
    assert_string_equal(fake.key, "k1");
    assert_int_equal(fake.asked.from_ms, 5);
    assert_int_equal(fake.asked.to_ms, 2000);
    assert_false(fake.asked.every_key);
    fake.rows = 1;
    fake.value = "\x01\x02";
    kit_run_source(kit, "from walle import data\nprint(data.query('f', None, newest=1))\n");
    kit_text_is(kit->result.output, "[(1000, b'\\x01\\x02', 'k1')]\n");
    assert_true(fake.asked.every_key);
    assert_int_equal(fake.asked.newest, 1);
    assert_true(fake.asked.to_ms == UINT64_MAX);
    fake.rows = 2000;
    fake.value = "1";
    kit_run_source(kit, "from walle import data\ntry:\n    data.query('f', 'k')\n"
                        "except ValueError as e:\n    print(e)\n");
    kit_text_is(kit->result.output,
                "walle.data: more than 1024 rows or 65536 bytes: ask for less\n");
    fake.rows = 0;
    fake.status = BASE_ERR_IO;
    kit_run_source(kit, "from walle import data\ntry:\n    data.query('f', 'k')\n"
                        "except OSError as e:\n    print('os', e.errno)\n");
    kit_text_is(kit->result.output, "os 5\n");
    fake.status = BASE_ERR_NOT_FOUND;
    kit_run_source(kit, "from walle import data\nprint(data.query('f', 'k'))\n");
    kit_text_is(kit->result.output, "[]\n");
    kit->job.data = NULL;
}

static void test_effects(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "from walle import data\n"
                        "data.store('ipv.page', 'home', {'n': 3}, 777)\n"
                        "data.upload('ipv-raw', b'\\x00\\xff')\n"
                        "try:\n    data.store('ipv.page', 'home', object())\n"
                        "except TypeError:\n    pass\n"
                        "data.upload('ipv-json', [1, 'x'])\n"
                        "data.store('f', '', None)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    const struct dev_vm_effect *effects = kit->result.effects;
    assert_int_equal(kit->result.effect_count, 4);
    assert_int_equal(effects[0].kind, DEV_VM_EFFECT_STORE);
    kit_text_is(effects[0].name, "ipv.page");
    kit_text_is(effects[0].key, "home");
    assert_int_equal(effects[0].time_ms, 777);
    kit_text_is((struct base_str){(const char *)effects[0].bytes, effects[0].size}, "{\"n\":3}");
    assert_int_equal(effects[1].kind, DEV_VM_EFFECT_UPLOAD);
    assert_int_equal(effects[1].format, WIRE_RECORD_BYTES);
    assert_int_equal(effects[1].size, 2);
    assert_memory_equal(effects[1].bytes, "\x00\xff", 2);
    assert_int_equal(effects[2].format, WIRE_RECORD_JSON);
    kit_text_is((struct base_str){(const char *)effects[2].bytes, effects[2].size}, "[1,\"x\"]");
    assert_int_equal(effects[3].time_ms, 0);
    kit_text_is((struct base_str){(const char *)effects[3].bytes, effects[3].size}, "null");
    kit_run_source(kit, "from walle import data\ndata.store('f', 'k', 1)\n1 // 0\n");
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_int_equal(kit->result.effect_count, 0);
}

static void test_jobs_refused(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "pass\n");
    kit->job.event_count = DEV_VM_EVENTS_MAX + 1;
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_ERR_INVALID);
    kit->job.event_count = 1;
    kit->job.events = NULL;
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_ERR_INVALID);
    kit->job.events = events;
    kit->job.event_count = EVENTS;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_objects),
        cmocka_unit_test(test_no_events),
        cmocka_unit_test(test_functions_against_plain_python),
        cmocka_unit_test(test_errors_say_what_and_where),
        cmocka_unit_test(test_budgets_hold),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_effects),
        cmocka_unit_test(test_jobs_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
