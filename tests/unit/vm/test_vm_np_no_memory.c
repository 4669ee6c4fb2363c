// Every allocation of a script's heap failing in turn, alone and with all after it, while walle.np
// computes: the script gets a MemoryError that it can catch, or the right result, and the same
// call comes to the same after that. Operands are not changed by a call that failed.
#include "vm_kit.h"

#define ALLOCATIONS_MAX 400u
#define HEAP_KIB        512

// --- a heap that fails on demand (linked with --wrap of both)

void *__real_gc_alloc(size_t bytes, unsigned flags);
void *__real_gc_realloc(void *at, size_t bytes, bool may_move);
void *__wrap_gc_alloc(size_t bytes, unsigned flags);
void *__wrap_gc_realloc(void *at, size_t bytes, bool may_move);

static bool armed;
static bool only_one;
static size_t left;
static size_t failures;

static bool is_refused(void)
{
    if (!armed) {
        return false;
    }
    if (left > 0) {
        left--;
        return false;
    }
    armed = !only_one;
    failures++;
    return true;
}

void *__wrap_gc_alloc(size_t bytes, unsigned flags)
{
    return is_refused() ? NULL : __real_gc_alloc(bytes, flags);
}

void *__wrap_gc_realloc(void *at, size_t bytes, bool may_move)
{
    return is_refused() ? NULL : __real_gc_realloc(at, bytes, may_move);
}

// The script says between which two lines its heap fails: by asking for the features arm and calm.
static size_t allowed;

static enum base_status asked(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                              void *visit_ctx)
{
    (void)ctx;
    (void)visit;
    (void)visit_ctx;
    armed = base_str_equal(query->feature, BASE_STR("arm"));
    left = allowed;
    return BASE_ERR_NOT_FOUND;
}

// --- what is computed

#define CASES                                                                                      \
    "    lambda: a + 1, lambda: a * b, lambda: -a, lambda: a < b, lambda: 3 < a,\n"                \
    "    lambda: np.add(a.T, b.T), lambda: np.power(a, 2), lambda: np.divide(w, 3),\n"             \
    "    lambda: a.sum(), lambda: a.mean(axis=0), lambda: a.std(axis=1), lambda: a.max(axis=1),\n" \
    "    lambda: w.argmax(axis=0), lambda: np.cumsum(w), lambda: np.count_nonzero(w),\n"           \
    "    lambda: np.ptp(a), lambda: np.average(a, axis=0, weights=[1, 2, 3]),\n"                   \
    "    lambda: np.nansum(a), lambda: np.nanmin(a, axis=0), lambda: np.nanargmax(a),\n"           \
    "    lambda: np.nanvar(a, axis=1), lambda: np.nanmean(w), lambda: np.around(a, 1),\n"          \
    "    lambda: np.around(w, -1), lambda: np.divmod(w, 4), lambda: np.modf(a),\n"                 \
    "    lambda: np.zeros((2, 3)), lambda: np.full((2,), 7), lambda: np.arange(9),\n"              \
    "    lambda: np.linspace(0, 1, 5), lambda: np.logspace(0, 1, 3),\n"                            \
    "    lambda: np.geomspace(1, 8, 4), lambda: np.eye(3), lambda: np.identity(2),\n"              \
    "    lambda: np.array([[1, 2.5], [3, True]]), lambda: np.asarray(range(5)),\n"                 \
    "    lambda: np.array(b'abc'), lambda: np.meshgrid([1, 2], w[0]),\n"                           \
    "    lambda: np.broadcast_arrays(a, 1), lambda: np.unravel_index([3, 5], (2, 3)),\n"           \
    "    lambda: np.array_equal(a, a, True), lambda: a.reshape(-1), lambda: b.T.ravel(),\n"        \
    "    lambda: np.transpose(a), lambda: np.rollaxis(a, 1), lambda: np.expand_dims(a, 0),\n"      \
    "    lambda: np.concatenate([a, b]), lambda: np.stack([a, w]), lambda: np.hstack([a, b]),\n"   \
    "    lambda: np.split(a, 3), lambda: np.array_split(w, 2), lambda: np.repeat(w, 2),\n"         \
    "    lambda: np.tile(a, 2), lambda: np.roll(a, 1), lambda: np.pad(a, 1),\n"                    \
    "    lambda: np.take(a, [0, 2]), lambda: a[1:, ::2], lambda: a[[0, 2]], lambda: a[a > 0],\n"   \
    "    lambda: np.where(a > 0, a, 0), lambda: np.nonzero(w), lambda: np.clip(a, 0, 2),\n"        \
    "    lambda: np.sort(a), lambda: np.argsort(w), lambda: np.lexsort((w[0], w[1])),\n"           \
    "    lambda: np.unique(w, True), lambda: np.searchsorted([1, 2], a[0]), lambda: "              \
    "np.msort(a),\n"                                                                               \
    "    lambda: a @ b.T, lambda: np.dot(a[0], b[0]), lambda: np.outer(a[0], w[1]),\n"             \
    "    lambda: np.vdot(a, b), lambda: a.astype('float32'), lambda: a.tolist(), lambda: "         \
    "str(w),\n"                                                                                    \
    "    lambda: a.tobytes(), lambda: [r for r in a], lambda: put(a.copy()),\n"

static const char source[] = "import walle\n"
                             "from walle import np, data\n"
                             "a = np.array([[1.5, -2.25, 3], [np.nan, 5, 6], [0, 0, -9.75]])\n"
                             "b = np.ones((3, 3)) * 2\n"
                             "w = np.array([[3, 1, 2], [9, 5, 14], [7, 7, 0]], dtype='int32')\n"
                             "def put(x):\n"
                             "    x[1:] = 4\n    x[0, 0] += 1\n    x *= 2\n    return x\n"
                             "cases = (\n" CASES ")\n"
                             "def show(x):\n"
                             "    return repr(x) + str(a) + str(b) + str(w)\n"
                             "f = cases[walle.input]\n"
                             "want = show(f())\n"
                             "try:\n"
                             "    data.query('arm', 'k')\n"
                             "    got = f()\n"
                             "    data.query('calm', 'k')\n"
                             "    how = 'same' if show(got) == want else 'other'\n"
                             "except MemoryError:\n"
                             "    data.query('calm', 'k')\n"
                             "    how = 'memory'\n"
                             "walle.result([how, show(f()) == want, len(cases)])\n";

static size_t run_case(struct vm_kit *kit, size_t which)
{
    char input[16];
    (void)snprintf(input, sizeof(input), "%zu", which);
    kit->job.input = base_str_of(input);
    failures = 0;
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_OK);
    armed = false;
    if (kit->result.end != DEV_VM_FINISHED) {
        fail_msg("case %zu, %zu allocations: %s: %s: %s (line %u)", which, allowed,
                 dev_vm_end_name(kit->result.end), kit->result.type, kit->result.message,
                 kit->result.line);
    }
    char how[16] = "";
    char after[16] = "";
    unsigned cases = 0;
    char text[64];
    assert_true(kit->result.result.size < sizeof(text));
    memcpy(text, kit->result.result.data, kit->result.result.size);
    text[kit->result.result.size] = '\0';
    assert_int_equal(sscanf(text, "[\"%15[a-z]\",%15[a-z],%u]", how, after, &cases), 3);
    if (strcmp(after, "true") != 0 || strcmp(how, "other") == 0 ||
        (strcmp(how, "same") != 0 && failures == 0)) {
        fail_msg("case %zu, %zu allocations, %zu refused: %s", which, allowed, failures, text);
    }
    return cases;
}

static void every_allocation_fails_in_turn(void **state)
{
    struct vm_kit *kit = *state;
    size_t cases = 1;
    size_t refused = 0;
    for (size_t i = 0; i < cases * 2; i++) {
        only_one = i % 2 == 1;
        allowed = 0;
        do {
            assert_true(allowed < ALLOCATIONS_MAX);
            cases = run_case(kit, i / 2);
            refused += failures;
            allowed++;
        } while (failures > 0);
    }
    assert_true(cases > 70);
    assert_true(refused > cases * 2); // each makes more than one
}

static int setup(void **state)
{
    static struct vm_kit kit;
    static const struct dev_vm_data_port port = {.query = asked};
    kit_init(&kit, HEAP_KIB);
    kit_add(&kit, "main", source);
    kit.job.data = &port;
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_done(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_in_turn),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
