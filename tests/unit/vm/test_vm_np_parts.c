// walle.np.linalg, walle.np.fft and walle.np.random where NumPy is no measure: budgets within one
// call, memory, what an unseeded run draws, sizes that the comparison with NumPy does not reach.
// What functions come to is compared with NumPy in e2e/test_np_differential.py.
#include "vm_kit.h"

#define HEAP_KIB 1024
// Behind a limit: to the next look, to a line of the script, and an array that is made in between.
#define SLACK_UNITS 220

static int setup(void **state)
{
    static struct vm_kit kit;
    kit_init(&kit, HEAP_KIB);
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_done(*state);
    return 0;
}

static void prints(struct vm_kit *kit, const char *source, const char *want)
{
    kit_run_source(kit, source);
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, want);
}

static uint64_t units_of(struct vm_kit *kit, const char *work, uint64_t limit, enum dev_vm_end end)
{
    char source[512];
    (void)snprintf(source, sizeof(source),
                   "from walle import np\n"
                   "a = np.arange(10000.).reshape(100, 100) %% 37 + 50 * np.eye(100)\n"
                   "%s\n",
                   work);
    kit->job.instruction_max = limit;
    kit_run_source(kit, source);
    kit->job.instruction_max = 0;
    if (kit->result.end != end) {
        fail_msg("%s ended %s: %s", work, dev_vm_end_name(kit->result.end), kit->result.message);
    }
    return kit->result.instructions;
}

// One call that takes many units ends soon behind the limit, not when it is done.
static void budgets_hold_within_a_call(void **state)
{
    static const char *const work[] = {
        "np.linalg.inv(a)",
        "np.linalg.det(np.concatenate([[a]] * 3))",
        "np.linalg.solve(a, a)",
        "a = np.repeat(50 * np.eye(100).reshape(1, 100, 100), 3, 0); np.linalg.cholesky(a)",
        "np.linalg.qr(a)",
        "np.linalg.svd(a)",
        "np.linalg.svd(np.zeros((100, 100)))",
        "np.linalg.norm(a, 2)",
        "np.linalg.lstsq(a, a)",
        "np.linalg.pinv(a)",
        "np.linalg.eigh(a)",
        "np.linalg.eigvalsh(a)",
        "np.linalg.matrix_power(a, 1000)",
        "np.fft.fft(np.ones(8192))",
        "np.fft.rfft(np.ones(4000))",
        "np.fft.ifft2(np.ones((50, 60, 2)))",
        "np.random.choice(9000, 8000, False, np.full(9000, 1 / 9000))",
    };
    for (size_t i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
        uint64_t before = units_of(*state, "pass", 0, DEV_VM_FINISHED);
        uint64_t whole = units_of(*state, work[i], 0, DEV_VM_FINISHED) - before;
        uint64_t ended = units_of(*state, work[i], before + whole / 3, DEV_VM_BUDGET) - before;
        if (whole < 90 || ended > whole / 3 + SLACK_UNITS) {
            fail_msg("%s: of %llu units, %llu were done when a third was granted", work[i],
                     (unsigned long long)whole, (unsigned long long)ended);
        }
    }
}

static void no_call_outlives_its_budget(void **state)
{
    static const char *const work[] = {
        "np.linalg.det(np.zeros((2 ** 14, 0, 0))) and [0 for i in range(2 ** 30)]",
        "np.linalg.inv(np.zeros((2 ** 40, 0, 0)))",
        "np.linalg.cholesky(np.zeros((2 ** 40, 0, 0)))",
        "np.linalg.eigh(np.zeros((2 ** 40, 2 ** 20, 0, 0)))",
        "np.linalg.qr(np.zeros((2 ** 40, 0, 3)), 'r')",
    };
    for (size_t i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
        char source[256];
        (void)snprintf(source, sizeof(source),
                       "try:\n    %s\nexcept ValueError:\n    while True: pass", work[i]);
        (void)units_of(*state, source, 50000, DEV_VM_BUDGET);
    }
}

static void memory_errors_are_raised(void **state)
{
    prints(
        *state,
        "from walle import np\n"
        "def no(f):\n"
        "    try:\n        print('took', f())\n"
        "    except MemoryError as e:\n        print(str(e)[:9])\n"
        "a = np.ones((200, 200))\n"
        "no(lambda: np.fft.fft(np.ones(4), 2 ** 40))\n"
        "no(lambda: np.fft.fft(np.ones(40000)))\n"
        "no(lambda: np.linalg.svd(np.ones((2 ** 15, 1))))\n"
        "no(lambda: np.linalg.pinv(a))\n"
        "no(lambda: np.linalg.lstsq(a, a))\n"
        "no(lambda: np.linalg.qr(np.concatenate([a, a])))\n"
        "no(lambda: np.random.random(2 ** 40))\n"
        "no(lambda: np.random.permutation(2 ** 40))\n"
        "no(lambda: np.random.choice(2 ** 40, 3, False))\n"
        "print(round(np.linalg.det(np.eye(50) * 2) / 2.0 ** 50, 9))\n",
        "walle.np:\nwalle.np:\nwalle.np:\nwalle.np:\nwalle.np:\nwalle.np:\nwalle.np:\nwalle.np:\n"
        "walle.np:\n1.0\n");
}

static void errors_have_their_class(void **state)
{
    prints(*state,
           "from walle import np\n"
           "for f in (lambda: np.linalg.inv(np.zeros((2, 2))), lambda: np.linalg.inv([1, 2]),\n"
           "          lambda: np.linalg.cholesky([[0.0]]), lambda: np.linalg.svd([[np.nan]])):\n"
           "    try:\n        print('took', f())\n"
           "    except np.linalg.LinAlgError as e:\n        print(e)\n"
           "try:\n    np.linalg.solve([[0]], [1])\n"
           "except ValueError as e:\n    print(type(e).__name__)\n"
           "for f in (lambda: np.fft.ifft([1.0, 2, 3]), lambda: np.fft.rfft([1, 2], pairs=True),\n"
           "          lambda: np.random.randint([1, 2], 5), lambda: np.random.shuffle({}),\n"
           "          lambda: np.fft.fft(np.zeros((1,) * 8))):\n"
           "    try:\n        print('took', f())\n"
           "    except (TypeError, ValueError) as e:\n        print(e)\n",
           "walle.np.linalg: Singular matrix\n"
           "walle.np.linalg: a matrix has 2 dimensions or more\n"
           "walle.np.linalg: Matrix is not positive definite\n"
           "walle.np.linalg: SVD did not converge\n"
           "LinAlgError\n"
           "walle.np.fft: pairs have 2 elements in the last dimension\n"
           "walle.np.fft: rfft is of reals\n"
           "walle.np.random: a bound of randint is one number\n"
           "walle.np.random: an array or a list is shuffled\n"
           "walle.np.fft: no room for the dimension of pairs\n");
}

static void factors_of_larger_matrices(void **state)
{
    prints(*state,
           "from walle import np\n"
           "np.random.seed(4)\n"
           "def near(a, b): return bool(np.abs(a - b).max() < 1e-10)\n"
           "a = np.random.normal(size=(70, 40))\n"
           "a[:, 7] = a[:, 3] * 2 + a[:, 5]\n" // of rank 39
           "for m in (a, a.T, np.zeros((3, 5)), a * 1e200, a * 1e-250):\n"
           "    u, s, v = np.linalg.svd(m)\n"
           "    k = len(s)\n"
           "    scale = np.abs(m).max() + (m.max() == 0)\n"
           "    print(near(u.T @ u, np.eye(len(u))), near(v @ v.T, np.eye(len(v))),\n"
           "          near((u[:, :k] * (s / scale)) @ v[:k], m / scale), (s[1:] <= s[:-1]).all(),\n"
           "          np.linalg.matrix_rank(m))\n"
           "s = a.T @ a\n"
           "w, v = np.linalg.eigh(s)\n"
           "print(near(s @ v, v * w), near(v.T @ v, np.eye(40)), (w[1:] >= w[:-1]).all())\n"
           "b = s + np.eye(40)\n"
           "c = np.linalg.cholesky(b)\n"
           "print(near(c @ c.T, b), near(np.linalg.inv(b) @ b, np.eye(40)))\n"
           "x = np.linalg.lstsq(a, a @ np.ones(40), None)[0]\n"
           "print(near(a @ x, a @ np.ones(40)), bool(np.linalg.norm(x) < 40 ** 0.5))\n",
           "True True True True 39\nTrue True True True 39\nTrue True True True 0\n"
           "True True True True 39\nTrue True True True 39\n"
           "True True True\nTrue True\nTrue True\n");
}

static void transforms_of_larger_lengths(void **state)
{
    prints(
        *state,
        "from walle import np\n"
        "np.random.seed(5)\n"
        "for n in (1000, 1021, 2048, 3125):\n"
        "    x = np.random.uniform(-1, 1, (n, 2))\n"
        "    y = np.fft.fft(x, pairs=True)\n"
        "    k = 2 * np.pi * 77 * np.arange(n) / n\n" // one of them, summed up by hand
        "    re = (x[:, 0] * np.cos(k) + x[:, 1] * np.sin(k)).sum()\n"
        "    im = (x[:, 1] * np.cos(k) - x[:, 0] * np.sin(k)).sum()\n"
        "    print(bool(abs(re - y[77, 0]) + abs(im - y[77, 1]) < 1e-9),\n"
        "          bool(np.abs(np.fft.ifft(y) - x).max() < 1e-12),\n"
        "          bool(np.abs(np.fft.irfft(np.fft.rfft(x[:, 0]), n) - x[:, 0]).max() < 1e-12))\n"
        "    y = x = k = None\n",
        "True True True\nTrue True True\nTrue True True\nTrue True True\n");
}

// What the authors of the generator publish, and the C++ standard.
static void known_draws(void **state)
{
    prints(*state,
           "from walle import np\n"
           "np.random.seed([0x123, 0x234, 0x345, 0x456])\n"
           "print(np.random.randint(0, 2 ** 32, size=5).tolist())\n"
           "np.random.seed(5489)\n"
           "print(int(np.random.randint(0, 2 ** 32, size=10000)[-1]))\n",
           "[1067595299, 955945823, 477289528, 4107218783, 4228976476]\n4123659995\n");
}

static void drawn(struct vm_kit *kit, char out[64])
{
    kit_run_source(kit, "from walle import np\nprint(np.random.randint(0, 2 ** 60))\n");
    kit_ended(kit, DEV_VM_FINISHED);
    assert_true(kit->result.looked);
    (void)snprintf(out, 64, "%.*s", (int)kit->result.output.size, kit->result.output.data);
}

// Without a seed: the same for the same device and input, else others.
static void unseeded_runs(void **state)
{
    struct vm_kit *kit = *state;
    struct dev_event event = {.seq = 9, .wall_ms = 1000, .name = BASE_STR("tap")};
    char first[64], again[64], input[64], device[64], told[64], later[64];
    drawn(kit, first);
    drawn(kit, again);
    kit->job.input = BASE_STR("[1]");
    drawn(kit, input);
    kit->job.input = (struct base_str){NULL, 0};
    kit->job.device_id++;
    drawn(kit, device);
    kit->job.device_id--;
    kit->job.events = &event;
    kit->job.event_count = 1;
    drawn(kit, told);
    event.seq++;
    drawn(kit, later);
    kit->job.events = NULL;
    kit->job.event_count = 0;
    assert_string_equal(first, again);
    const char *const others[] = {input, device, told, later};
    for (size_t i = 0; i < 4; i++) {
        assert_string_not_equal(first, others[i]);
        assert_string_not_equal(others[i], others[(i + 1) % 4]);
    }
    prints(kit,
           "from walle import np\n"
           "a = np.random.random()\nnp.random.seed(1)\nb = np.random.random()\nnp.random.seed()\n"
           "print(np.random.random() == a, b != a)\n",
           "True True\n");
}

// A content's first run and those that begin from its image draw the same, and no run sees another.
static void runs_repeat(void **state)
{
    struct vm_kit *kit = *state;
    kit_modules_drop(kit);
    kit_add(kit, "main",
            "import walle\nfrom walle import np\n"
            "np.random.seed(3)\nnp.random.randn()\n" // half of a pair is used
            "x = walle.input\n"
            "walle.result([np.random.randint(0, 10 ** 6), np.random.randn() > 0, x])\n");
    for (int i = 0; i < 4; i++) {
        kit->job.input = i % 2 == 0 ? BASE_STR("1") : BASE_STR("2");
        kit_run(kit);
        kit_ended(kit, DEV_VM_FINISHED);
        kit_text_is(kit->result.result, i % 2 == 0 ? "[572344,true,1]" : "[572344,true,2]");
    }
    kit->job.input = (struct base_str){NULL, 0};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_hold_within_a_call),
        cmocka_unit_test(no_call_outlives_its_budget),
        cmocka_unit_test(memory_errors_are_raised),
        cmocka_unit_test(errors_have_their_class),
        cmocka_unit_test(factors_of_larger_matrices),
        cmocka_unit_test(transforms_of_larger_lengths),
        cmocka_unit_test(known_draws),
        cmocka_unit_test(unseeded_runs),
        cmocka_unit_test(runs_repeat),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
