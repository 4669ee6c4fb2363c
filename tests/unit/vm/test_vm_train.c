// nn.Trainer from scripts: what it learns against sums done in the script, what is saved and goes
// on in a later run to the bit, the exported model, choices of parameters, every refusal, and a
// run that ends while a step is under way.
#include "nn_models.h"

#include "engine/train.h"
#include "model/model_store.h"
#include "vm_kit.h"
#include "wire/declaration.h"
#include "wire/store/store_image.h"

enum { LINEAR, TWO, CUT, TEXT, NORMED, MODELS };

static struct vm_kit kit;
static struct nn_model files[MODELS];
static const char *const names[MODELS] = {"linear.onnx", "two.onnx", "cut.onnx", "text.onnx",
                                          "normed.onnx"};
static struct dev_vm_model listed[MODELS];
static struct dev_model_store *store;
static struct dev_model_port model_port;
static uint8_t declaration_bytes[64];
static uint8_t image[WIRE_STORE_IMAGE_MAX];
static size_t image_size;

// y = x w + b, x [n, 2], y [n, 2]
static void linear(struct nn_model *model)
{
    struct onnx_kit *onnx = onnx_begin();
    const float w[] = {0.5F, -1, 2, 0.25F}, b[] = {0, 0.5F};
    onnx_input(onnx, "x", ENG_F32, -1, 2);
    onnx_output(onnx, "y", ENG_F32, -1, 2);
    onnx_initializer(onnx, "w", ENG_F32, ONNX_DIMS(2, 2), w, sizeof(w));
    onnx_initializer(onnx, "b", ENG_F32, ONNX_DIMS(2), b, sizeof(b));
    onnx_node(onnx, "MatMul", "x w", "p");
    onnx_node(onnx, "Add", "p b", "y");
    nn_model_take(model, onnx);
}

// y = a w + c, z = a - c
static void two_inputs(struct nn_model *model)
{
    struct onnx_kit *onnx = onnx_begin();
    const float w[] = {1, 2};
    onnx_input(onnx, "a", ENG_F32, -1, 2);
    onnx_input(onnx, "c", ENG_F32, -1, 2);
    onnx_output(onnx, "y", ENG_F32, -1, 2);
    onnx_output(onnx, "z", ENG_F32, -1, 2);
    onnx_initializer(onnx, "w", ENG_F32, ONNX_DIMS(2), w, sizeof(w));
    onnx_node(onnx, "Mul", "a w", "p");
    onnx_node(onnx, "Add", "p c", "y");
    onnx_node(onnx, "Sub", "a c", "z");
    nn_model_take(model, onnx);
}

// A convolution with a normalisation behind it, which loading folds.
static void normed(struct nn_model *model)
{
    struct onnx_kit *onnx = onnx_begin();
    const float filter[] = {2}, scale[] = {1}, bias[] = {0}, mean[] = {1}, var[] = {4};
    onnx_input(onnx, "x", ENG_F32, -1, 1, 1, 2);
    onnx_output(onnx, "y", ENG_F32, -1, 1, 1, 2);
    onnx_initializer(onnx, "filter", ENG_F32, ONNX_DIMS(1, 1, 1, 1), filter, sizeof(filter));
    onnx_initializer(onnx, "scale", ENG_F32, ONNX_DIMS(1), scale, sizeof(scale));
    onnx_initializer(onnx, "bias", ENG_F32, ONNX_DIMS(1), bias, sizeof(bias));
    onnx_initializer(onnx, "mean", ENG_F32, ONNX_DIMS(1), mean, sizeof(mean));
    onnx_initializer(onnx, "var", ENG_F32, ONNX_DIMS(1), var, sizeof(var));
    onnx_node(onnx, "Conv", "x filter", "c");
    onnx_node(onnx, "BatchNormalization", "c scale bias mean var", "y");
    nn_model_take(model, onnx);
}

static enum base_status give_image(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                                   void *visit_ctx)
{
    (void)ctx, (void)query;
    (void)visit(visit_ctx, (struct base_str){NULL, 0}, 0, image, image_size);
    return BASE_OK;
}

static const struct dev_vm_data_port data_port = {NULL, give_image};

static void declare(uint32_t kib)
{
    const struct wire_declaration declaration = {.result_upload = WIRE_DECLARATION_NO_UPLOAD,
                                                 .store_kib = kib};
    size_t size = 0;
    assert_int_equal(
        wire_declaration_encode(&declaration, declaration_bytes, sizeof(declaration_bytes), &size),
        BASE_OK);
    kit.job.declaration = (struct base_str){(const char *)declaration_bytes, size};
}

static int setup(void **state)
{
    (void)state;
    struct wire_store kept;
    linear(&files[LINEAR]);
    two_inputs(&files[TWO]);
    nn_nonzero(&files[CUT]);
    nn_identity(&files[TEXT], ENG_STRING);
    normed(&files[NORMED]);
    for (size_t i = 0; i < MODELS; i++) {
        listed[i] = (struct dev_vm_model){base_str_of(names[i]), files[i].bytes, files[i].size,
                                          files[i].digest};
    }
    assert_int_equal(dev_model_store_new(0, &store), BASE_OK);
    kit_init(&kit, 1024);
    kit.job.models = listed;
    kit.job.model_count = MODELS;
    model_port = dev_model_store_port(store);
    kit.job.model_port = &model_port;
    kit.job.data = &data_port;
    wire_store_init(&kept, image, 1);
    image_size = kept.size;
    declare(4);
    return 0;
}

static int teardown(void **state)
{
    struct dev_model_store_stats stats;
    (void)state;
    dev_model_store_stats(store, &stats);
    assert_int_equal(stats.held, 0); // runs leave nothing held
    kit_done(&kit);
    dev_model_store_free(store);
    return 0;
}

// Runs and takes over what a device would.
static void play(const char *source)
{
    kit_run_source(&kit, source);
    for (uint32_t i = 0; i < kit.result.effect_count; i++) {
        if (kit.result.effects[i].kind == DEV_VM_EFFECT_SAVE) {
            memcpy(image, kit.result.effects[i].bytes, kit.result.effects[i].size);
            image_size = kit.result.effects[i].size;
        }
    }
}

static void prints(const char *source, const char *want)
{
    play(source);
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_text_is(kit.result.output, want);
}

// What learning takes is a run's time with models; making a trainer is not.
static void learning_is_time_with_models(void **state)
{
    (void)state;
    static const char *const calls[] = {"t.step(X, T)", "t.evaluate(X, T)", "t.predict(X)"};
    char source[512];
    const char *head = "from walle import nn\nt = nn.Trainer(nn.load('linear.onnx'))\n"
                       "X, T = [[1, 2]] * 500, [0] * 500\n";
    play(head);
    kit_ended(&kit, DEV_VM_FINISHED);
    assert_int_equal(kit.result.prepare_us, kit.result.duration_us);
    for (size_t i = 0; i < TEST_COUNT(calls); i++) {
        (void)snprintf(source, sizeof(source), "%sfor i in range(200):\n    %s\n", head, calls[i]);
        play(source);
        kit_ended(&kit, DEV_VM_FINISHED);
        const struct dev_vm_result *result = &kit.result;
        assert_true(result->prepare_us > 0);
        assert_true(result->model_us > 0);
        assert_true(result->prepare_us + result->model_us <= result->duration_us);
    }
}

#define HEAD                                                                                       \
    "from walle import nn, np, store\n"                                                            \
    "model = nn.load('linear.onnx')\n"                                                             \
    "X = [[1, 2], [-1, 0.5], [0.25, -2], [3, 1]]\n"                                                \
    "T = [0, 1, 1, 0]\n"

static void scripts_learn_what_the_sums_say(void **state)
{
    (void)state;
    // Softmax regression by numpy's rules in double precision, momentum and decay included.
    prints(HEAD "t = nn.Trainer(model, lr=0.1, momentum=0.9, weight_decay=0.01)\n"
                "x = np.array(X, dtype=np.float64)\n"
                "w, b = np.array([[0.5, -1.0], [2.0, 0.25]]), np.array([0.0, 0.5])\n"
                "hot = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])\n"
                "vw, vb, worst = w * 0, b * 0, 0.0\n"
                "for i in range(50):\n"
                "    y = np.matmul(x, w) + b\n"
                "    e = np.exp(y - np.max(y, axis=1, keepdims=True))\n"
                "    p = e / np.sum(e, axis=1, keepdims=True)\n"
                "    want = -float(np.mean(np.sum(hot * np.log(p), axis=1)))\n"
                "    d = (p - hot) / 4\n"
                "    vw = 0.9 * vw + np.matmul(x.T, d) + 0.01 * w\n"
                "    vb = 0.9 * vb + np.sum(d, axis=0) + 0.01 * b\n"
                "    w, b = w - 0.1 * vw, b - 0.1 * vb\n"
                "    loss = t.step(X, T)\n"
                "    worst = max(worst, abs(loss - want))\n"
                "y = np.matmul(x, w) + b\n"
                "got = t.predict(X).tolist()\n"
                "far = max(abs(got[i][j] - float(y[i, j])) for i in range(4) for j in range(2))\n"
                "print(worst < 1e-4, far < 1e-3, t.steps, loss < 0.2)\n",
           "True True 50 True\n");
}

static void what_is_saved_goes_on_in_another_run(void **state)
{
    (void)state;
    static const char *const kinds[] = {"optimizer='adam'", "momentum=0.5", "lr=0.05"};
    for (size_t k = 0; k < 3; k++) {
        char source[1024], whole[DEV_VM_OUTPUT_MAX], parts[DEV_VM_OUTPUT_MAX];
        (void)snprintf(source, sizeof(source),
                       HEAD "t = nn.Trainer(model, %s)\nfor i in range(12):\n"
                            "    print(repr(t.step(X, T)))\n",
                       kinds[k]);
        play(source);
        kit_ended(&kit, DEV_VM_FINISHED);
        (void)snprintf(whole, sizeof(whole), "%.*s", (int)kit.result.output.size,
                       kit.result.output.data);
        // Four runs of four steps; the third is cut off in the middle, and is made again.
        (void)snprintf(source, sizeof(source),
                       HEAD "t = nn.Trainer(model, %s)\nprint(t.load('k') or t.steps, end=' ')\n"
                            "for i in range(4):\n    print(repr(t.step(X, T)))\nt.save('k')\n",
                       kinds[k]);
        parts[0] = '\0';
        for (int run = 0; run < 4; run++) {
            kit.job.instruction_max = run == 2 ? kit.result.instructions - 20 : 0;
            play(source);
            kit_ended(&kit, run == 2 ? DEV_VM_BUDGET : DEV_VM_FINISHED);
            if (run != 2) {
                const char *blank = memchr(kit.result.output.data, ' ', kit.result.output.size);
                size_t skipped = (size_t)(blank + 1 - kit.result.output.data);
                (void)snprintf(parts + strlen(parts), sizeof(parts) - strlen(parts), "%.*s",
                               (int)(kit.result.output.size - skipped), blank + 1);
            }
        }
        assert_string_equal(parts, whole);
        prints("from walle import store\nprint(store.keys())\nstore.clear()\n", "['k']\n");
    }
}

static void exported_models_are_models(void **state)
{
    (void)state;
    prints(HEAD "import binascii\n"
                "t = nn.Trainer(model, train=['b'], lr=0.5)\n"
                "before = t.export()\nt.step(X, T)\nafter = t.export()\n"
                "print(len(before) == len(after), before == after, t.parameters)\n"
                "store.put('model', after)\nstore.put('y', t.predict(X).tolist())\n",
           "True False [('w', (2, 2), False), ('b', (2,), True)]\n");
    // The engine reads what came out, and computes what the trainer said.
    struct wire_store kept;
    struct base_span value;
    struct eng_model *model = NULL;
    struct eng_session *session = NULL;
    struct base_error error = {0};
    assert_int_equal(wire_store_parse(image, image_size, &kept), BASE_OK);
    assert_int_equal(wire_store_find(&kept, BASE_STR("model"), &value), BASE_OK);
    size_t head = value.size - files[LINEAR].size; // tag and length; sizes stay as they were
    assert_true(head > 1 && head < 12);
    assert_int_equal(
        eng_model_load_memory(value.data + head, value.size - head, NULL, &model, &error), BASE_OK);
    assert_int_equal(eng_session_new(model, NULL, &session, &error), BASE_OK);
    float x[] = {1, 2, -1, 0.5F, 0.25F, -2, 3, 1};
    struct eng_array input = {.desc = {.dtype = ENG_F32, .rank = 2, .dims = {4, 2}}, .data = x};
    struct eng_array y;
    assert_int_equal(eng_session_set_input(session, 0, &input, &error), BASE_OK);
    assert_int_equal(eng_session_run(session, NULL, &error), BASE_OK);
    assert_int_equal(eng_session_output(session, 0, &y, &error), BASE_OK);
    char source[512];
    const float *found = y.data;
    (void)snprintf(source, sizeof(source),
                   "from walle import store\ny = store.get('y')\n"
                   "print(abs(y[0][0] - %.9g) < 1e-5, abs(y[3][1] - %.9g) < 1e-5)\n",
                   (double)found[0], (double)found[7]);
    eng_session_free(session);
    eng_model_unref(model);
    prints(source, "True True\n");
}

static void inputs_and_targets_of_every_form(void **state)
{
    (void)state;
    prints(
        HEAD
        "t = nn.Trainer(model, loss='mse')\n"
        "y = np.array([[1.0, 2.0]] * 4)\n"
        "a = t.evaluate(np.array(X), y)\n"
        "print(a == t.evaluate({'x': X}, y.tolist()), a == t.evaluate(nn.tensor(X), y), t.steps)\n"
        "loss, g = t.value_and_grad(X, y)\n"
        "print(loss == a, sorted(g), g['b'].shape, g['w'].dtype, t.steps)\n"
        "c = nn.Trainer(model)\n"
        "want = c.evaluate(X, T)\n"
        "for k in (np.array(T), np.array(T, dtype=np.int32), np.array(T, dtype=np.uint8), "
        "nn.tensor(T, dtype='int64'), [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]):\n"
        "    assert abs(c.evaluate(X, k) - want) < 1e-6, k\n"
        "m = nn.Trainer(nn.load('two.onnx'), loss='mse', output='y')\n"
        "A, C = [[1, 2]], [[3, 4]]\n"
        "print(m.evaluate((A, C), [[4, 8]]), m.evaluate({'c': C, 'a': A}, [[4, 9]]))\n"
        "print([o.tolist() for o in m.predict([A, C])])\n"
        "m.lr = 0.25\nprint(m.lr, m.step((A, C), [[4, 9]]), m.predict((A, C))[0].tolist())\n",
        "True True 0\n"
        "True ['b', 'w'] (2,) float32 0\n"
        "0.0 0.5\n"
        "[[[4.0, 8.0]], [[-2.0, -2.0]]]\n"
        "0.25 0.5 [[4.0, 9.0]]\n");
}

static void batch_norm_moves_by_choice(void **state)
{
    (void)state;
    prints("from walle import nn\n"
           "def mean(t, key):\n"
           "    t.lr = 1e-20\n    t.step([[[[1, 3]]]], [[[[0, 0]]]])\n"
           "    e = t.export()\n    return e == key\n"
           "m = nn.load('normed.onnx')\n"
           "a = nn.Trainer(m, loss='mse', train=['filter'], batch_norm='train')\n"
           "b = nn.Trainer(m, loss='mse', train=['filter'])\n"
           "first = b.export()\n"
           "print(mean(a, first), mean(b, first), [p[0] for p in a.parameters if p[2]])\n"
           // running mean 0.9 * 1 + 0.1 * 4, variance 0.9 * 4 + 0.1 * 4
           "y = a.predict([[[[1, 3]]]]).tolist()[0][0][0]\n"
           "print(abs(y[0] - 0.35) < 1e-3, abs(y[1] - 2.35) < 1e-3)\n",
           "False True ['filter']\n"
           "True True\n");
}

static void refusals(void **state)
{
    (void)state;
    prints(HEAD "def no(f):\n"
                "    try:\n        print('took', f())\n"
                "    except Exception as e:\n        print(type(e).__name__, e)\n"
                "no(lambda: nn.Trainer('linear.onnx'))\n"
                "no(lambda: nn.Trainer(model, loss='hinge'))\n"
                "no(lambda: nn.Trainer(model, optimizer='rmsprop'))\n"
                "no(lambda: nn.Trainer(model, lr=-1))\n"
                "no(lambda: nn.Trainer(model, freeze='w'))\n"
                "no(lambda: nn.Trainer(model, freeze=['v']))\n"
                "no(lambda: nn.Trainer(model, train=['w'] * 65))\n"
                "no(lambda: nn.Trainer(model, freeze=['*']))\n"
                "no(lambda: nn.Trainer(model, batch_norm='maybe'))\n"
                "no(lambda: nn.Trainer(model, output='z'))\n"
                "no(lambda: nn.Trainer(nn.load('cut.onnx')))\n"
                "t = nn.Trainer(model)\n"
                "no(lambda: t.step([[1, 2, 3]], [0]))\n"
                "no(lambda: t.step(X, [0, 1, 2, 0]))\n"
                "no(lambda: t.step(X, [0, 1]))\n"
                "no(lambda: t.step({'z': X}, T))\n"
                "no(lambda: t.step({'x': X, 'z': X}, T))\n"
                "no(lambda: t.save(3))\n"
                "no(lambda: t.load('none'))\n"
                "store.put('other', b'WTS')\nno(lambda: t.load('other'))\n"
                "def rate(): t.lr = 0\n"
                "no(rate)\n"
                "def more():\n    for i in range(4): nn.Trainer(model)\n"
                "no(more)\n"
                "print(t.steps)\n",
           "TypeError walle.nn: a trainer is made of a model of nn.load\n"
           "ValueError walle.nn: no loss \"hinge\"\n"
           "ValueError walle.nn: no optimizer \"rmsprop\"\n"
           "ValueError linear.onnx: learning rate out of range\n"
           "TypeError walle.nn: freeze and train take a list of names\n"
           "ValueError linear.onnx: the model has no parameter 'v'\n"
           "ValueError walle.nn: more than 64 names\n"
           "ValueError linear.onnx: the model has nothing to train\n"
           "ValueError walle.nn: no batch_norm \"maybe\"\n"
           "ValueError linear.onnx: no output 'z'\n"
           "ValueError cut.onnx: the model has nothing to train\n"
           "ValueError linear.onnx: input 'x' is float[?,2], not float[1,3]\n"
           "ValueError linear.onnx: the target's class at 2 is 2, not in 0..1\n"
           "ValueError linear.onnx: target int64[2] does not go with output float[4,2]\n"
           "ValueError walle.nn: input \"x\" is not given\n"
           "ValueError walle.nn: the model has 1 inputs\n"
           "TypeError can't convert 'int' object to str implicitly\n"
           "took False\n"
           "ValueError walle.nn: this is no state of a trainer\n"
           "ValueError walle.nn: a learning rate is above 0\n"
           "ValueError walle.nn: more than 4 trainers in a run\n"
           "0\n");
}

// One input that is no number, and a head that is kept from run to run would never be one again.
static void what_would_spoil_the_weights_changes_nothing(void **state)
{
    (void)state;
    prints(HEAD "def no(f):\n"
                "    try:\n        print('took', f())\n"
                "    except Exception as e:\n        print(type(e).__name__, e)\n"
                "inf = float('inf')\n"
                "no(lambda: nn.Trainer(model, lr=inf))\n"
                "no(lambda: nn.Trainer(model, weight_decay=inf))\n"
                "no(lambda: nn.Trainer(model, train=[]))\n"
                "t = nn.Trainer(model)\n"
                "before = t.evaluate(X, T)\n"
                "no(lambda: t.step([[inf - inf, 1]], [0]))\n"
                "print(t.evaluate(X, T) == before, t.steps)\n"
                "print(t.step((np.array(X, dtype=np.float32),), T) == before, t.steps)\n",
           "ValueError linear.onnx: learning rate out of range\n"
           "ValueError linear.onnx: weight decay out of range\n"
           "ValueError walle.nn: train names nothing to train\n"
           "ValueError linear.onnx: the loss is no finite number, so no parameter was changed: see "
           "to the examples, or a lower learning rate\n"
           "True 0\n"
           "True 1\n");
}

static void a_run_ends_in_the_middle_of_training(void **state)
{
    (void)state;
    static const char endless[] = HEAD "t = nn.Trainer(model)\n"
                                       "while True:\n"
                                       "    try:\n        t.step(X * 50, T * 50)\n"
                                       "    except BaseException:\n        print('caught')\n";
    kit.job.time_ms = 300;
    play(endless);
    kit_ended(&kit, DEV_VM_BUDGET);
    assert_int_equal(kit.result.output.size, 0);
    kit.job.time_ms = 30000;
    kit.job.instruction_max = 3000;
    play(endless);
    kit_ended(&kit, DEV_VM_BUDGET);
    uint64_t used = kit.result.instructions;
    play(endless);
    assert_int_equal(kit.result.instructions, used); // the same on every machine
    kit.job.instruction_max = 0;
    kit.job.model_memory_max = 20000;
    play(HEAD "nn.Trainer(model).step(X * 500, T * 500)\n");
    kit_ended(&kit, DEV_VM_MEMORY);
    kit.job.model_memory_max = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scripts_learn_what_the_sums_say, setup, teardown),
        cmocka_unit_test_setup_teardown(learning_is_time_with_models, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_saved_goes_on_in_another_run, setup, teardown),
        cmocka_unit_test_setup_teardown(exported_models_are_models, setup, teardown),
        cmocka_unit_test_setup_teardown(inputs_and_targets_of_every_form, setup, teardown),
        cmocka_unit_test_setup_teardown(batch_norm_moves_by_choice, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(what_would_spoil_the_weights_changes_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_run_ends_in_the_middle_of_training, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
