// REDUCE, ARG_REDUCE, SOFTMAX, NORM, CUMSUM, POOL and ATTENTION of the fast backend against the
// reference backend, over shapes with every kind of remainder.
#include "vec_rig.h"

static struct base_prng prng;

static int64_t below(int64_t bound)
{
    return (int64_t)base_prng_below(&prng, (uint64_t)bound);
}

static const int64_t shapes[][3] = {
    {1, 1, 1},   {1, 5, 1},     {3, 16, 1},   {4, 100, 1},  {2, 1000, 1},  {300, 256, 1},
    {7, 33, 1},  {1, 7, 5},     {2, 49, 64},  {1, 49, 130}, {3, 5, 17},    {2, 600, 3},
    {1, 1, 100}, {1, 70000, 1}, {40, 30, 80}, {2, 2, 1},    {1, 300, 1000}};

static void reductions(void **state)
{
    (void)state;
    for (int fn = 0; fn < ENG_REDUCE_COUNT; fn++) {
        for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
            const int64_t *s = shapes[i];
            struct ref_rig rig;
            rig_init(&rig);
            int64_t out_dims[2] = {s[0], s[2]};
            uint32_t in = vec_random(&rig, &prng, ENG_PLAIN, 3, s, 1.0f);
            float *x = rig.data[in];
            for (int64_t k = 0; k < s[0] * s[1] * s[2]; k++) {
                if (fn == ENG_REDUCE_PROD) {
                    x[k] = 1.0f + x[k] / 64.0f;
                } else if (fn == ENG_REDUCE_LOG_SUM) {
                    x[k] = fabsf(x[k]) + 0.1f;
                }
            }
            uint32_t out = rig_out(&rig, ENG_F32, 2, out_dims);
            struct eng_command *command = rig_command(&rig, ENG_OP_REDUCE, 1, &in, 1, &out);
            command->u.reduce = (struct eng_reduce){(enum eng_reduce_fn)fn, s[0], s[1], s[2]};
            bool taken = vec_check(&rig, command, 2e-6f * (1.0f + sqrtf((float)s[1])));
            assert_true(taken || (fn == ENG_REDUCE_LOG_SUM_EXP && s[2] > 1));
            rig_done(&rig);
        }
    }
}

// A NaN anywhere is the result; infinities are ordinary.
static void nan_is_seen(void **state)
{
    (void)state;
    for (int place = 0; place < 70; place++) {
        for (int fn = ENG_REDUCE_MAX; fn <= ENG_REDUCE_MIN; fn++) {
            for (int columns = 1; columns <= 3; columns += 2) {
                struct ref_rig rig;
                rig_init(&rig);
                uint32_t in = vec_random(&rig, &prng, ENG_PLAIN, DIMS(70, columns), 1.0f);
                ((float *)rig.data[in])[place * columns] = place == 40 ? INFINITY : NAN;
                uint32_t out = rig_out(&rig, ENG_F32, DIMS(columns));
                struct eng_command *command = rig_command(&rig, ENG_OP_REDUCE, 1, &in, 1, &out);
                command->u.reduce = (struct eng_reduce){(enum eng_reduce_fn)fn, 1, 70, columns};
                assert_true(vec_check(&rig, command, 0));
                rig_done(&rig);
            }
        }
    }
}

static void arg_reductions(void **state)
{
    (void)state;
    for (int mode = 0; mode < 4; mode++) {
        for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
            const int64_t *s = shapes[i];
            struct ref_rig rig;
            rig_init(&rig);
            int64_t out_dims[2] = {s[0], s[2]};
            uint32_t in = vec_random(&rig, &prng, ENG_PLAIN, 3, s, 4.0f);
            float *x = rig.data[in];
            for (int64_t k = 0; k < s[0] * s[1] * s[2]; k++) {
                x[k] = rintf(x[k]); // many equal ones
            }
            uint32_t out = rig_out(&rig, ENG_I64, 2, out_dims);
            struct eng_command *command = rig_command(&rig, ENG_OP_ARG_REDUCE, 1, &in, 1, &out);
            command->u.arg_reduce =
                (struct eng_arg_reduce){mode % 2 != 0, mode >= 2, s[0], s[1], s[2]};
            assert_true(vec_check(&rig, command, 0));
            rig_done(&rig);
        }
    }
}

static void softmax(void **state)
{
    (void)state;
    for (int log = 0; log < 2; log++) {
        for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
            const int64_t *s = shapes[i];
            struct ref_rig rig;
            rig_init(&rig);
            uint32_t in = vec_random(&rig, &prng, ENG_PLAIN, 3, s, i % 2 == 0 ? 5.0f : 90.0f);
            ((float *)rig.data[in])[0] = i % 3 == 1 && s[1] > 1 ? -INFINITY : 1.0f;
            uint32_t out = rig_out(&rig, ENG_F32, 3, s);
            struct eng_command *command = rig_command(&rig, ENG_OP_SOFTMAX, 1, &in, 1, &out);
            command->u.softmax = (struct eng_softmax){log != 0, s[0], s[1], s[2]};
            assert_true(vec_check(&rig, command, 1e-6f));
            rig_done(&rig);
        }
    }
}

static void cumsum(void **state)
{
    (void)state;
    for (int mode = 0; mode < 4; mode++) {
        for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
            const int64_t *s = shapes[i];
            struct ref_rig rig;
            rig_init(&rig);
            uint32_t in = vec_random(&rig, &prng, ENG_PLAIN, 3, s, 1.0f);
            uint32_t out = rig_out(&rig, ENG_F32, 3, s);
            struct eng_command *command = rig_command(&rig, ENG_OP_CUMSUM, 1, &in, 1, &out);
            command->u.cumsum = (struct eng_cumsum){s[0], s[1], s[2], mode % 2 != 0, mode >= 2};
            assert_true(vec_check(&rig, command, 1e-6f));
            rig_done(&rig);
        }
    }
}

struct norm_case {
    int64_t groups, n, scale_inner, scale_count;
    bool per_group, rms, has_scale, has_bias, has_moments;
};

static void norms(void **state)
{
    (void)state;
    static const struct norm_case cases[] = {
        {256, 768, 1, 768, false, false, true, true, false},
        {5, 33, 1, 33, false, false, true, true, true},
        {3, 7, 1, 7, false, true, true, false, false},
        {6, 49, 1, 3, true, false, true, true, false},
        {6, 100, 25, 4, false, false, true, true, false},
        {4, 64, 0, 0, false, false, false, false, true},
        {1, 1, 1, 1, false, false, true, true, false},
        {40, 3000, 1, 3000, false, false, false, true, false},
        {40, 3000, 1, 20, true, false, true, false, false},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct norm_case *c = &cases[i];
        struct ref_rig rig;
        rig_init(&rig);
        int64_t dims[2] = {c->groups, c->n};
        uint32_t in[3] = {vec_random(&rig, &prng, ENG_PLAIN, 2, dims, 3.0f), ENG_NONE, ENG_NONE};
        float *x = rig.data[in[0]];
        for (int64_t k = 0; k < c->groups * c->n; k++) {
            x[k] += 10.0f; // a mean worth subtracting
        }
        if (c->has_scale) {
            in[1] = vec_random(&rig, &prng, ENG_PLAIN, 1, &c->scale_count, 1.0f);
        }
        if (c->has_bias) {
            in[2] = vec_random(&rig, &prng, ENG_PLAIN, 1, &c->scale_count, 1.0f);
        }
        uint32_t out[3] = {rig_out(&rig, ENG_F32, 2, dims), ENG_NONE, ENG_NONE};
        if (c->has_moments) {
            out[1] = rig_out(&rig, ENG_F32, 1, &c->groups);
            out[2] = rig_out(&rig, ENG_F32, 1, &c->groups);
        }
        struct eng_command *command = rig_command(&rig, ENG_OP_NORM, 3, in, 3, out);
        command->u.norm = (struct eng_norm){.groups = c->groups,
                                            .n = c->n,
                                            .scale_inner = c->scale_inner,
                                            .scale_count = c->scale_count,
                                            .epsilon = 1e-5f,
                                            .scale_per_group = c->per_group,
                                            .rms = c->rms};
        assert_true(vec_check(&rig, command, 2e-5f));
        rig_done(&rig);
    }
}

static int64_t pooled(const struct eng_pool *p, uint32_t d, int64_t in, bool ceil_mode)
{
    int64_t room = in + p->pad_begin[d] + p->pad_end[d] - p->dilation[d] * (p->kernel[d] - 1) - 1;
    return (room + (ceil_mode ? p->stride[d] - 1 : 0)) / p->stride[d] + 1;
}

static void pools(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 3, 16, 17, 64, 70};
    for (int round = 0; round < 200; round++) {
        struct ref_rig rig;
        rig_init(&rig);
        struct eng_pool p = {.fn = round % 2 == 0 ? ENG_POOL_MAX : ENG_POOL_AVERAGE,
                             .spatial = 1 + (uint32_t)below(3),
                             .count_include_pad = below(2) != 0};
        int64_t in_dims[5] = {1 + below(2), channels[below(6)]};
        int64_t out_dims[5] = {in_dims[0], in_dims[1]};
        bool fits = true;
        for (uint32_t d = 0; d < p.spatial; d++) {
            p.kernel[d] = 1 + below(4);
            p.stride[d] = 1 + below(3);
            p.dilation[d] = 1 + below(2);
            p.pad_begin[d] = below(p.kernel[d]);
            p.pad_end[d] = below(p.kernel[d]);
            in_dims[d + 2] = 3 + below(p.spatial == 3 ? 5 : 20);
            int64_t reach = p.dilation[d] * (p.kernel[d] - 1) + 1;
            fits = fits && in_dims[d + 2] + p.pad_begin[d] + p.pad_end[d] >= reach;
            out_dims[d + 2] = fits ? pooled(&p, d, in_dims[d + 2], round % 5 == 0) : 1;
        }
        if (fits) {
            uint32_t in = vec_random(&rig, &prng, ENG_CHANNELS_LAST, p.spatial + 2, in_dims, 1.0f);
            uint32_t out =
                rig_tensor(&rig, ENG_CHANNELS_LAST, ENG_F32, p.spatial + 2, out_dims, NULL);
            struct eng_command *command = rig_command(&rig, ENG_OP_POOL, 1, &in, 1, &out);
            command->u.pool = p;
            assert_true(vec_check(&rig, command, 2e-6f));
            uint32_t dy = vec_random(&rig, &prng, ENG_CHANNELS_LAST, p.spatial + 2, out_dims, 1.0f);
            uint32_t back[2] = {in, dy};
            uint32_t dx =
                rig_tensor(&rig, ENG_CHANNELS_LAST, ENG_F32, p.spatial + 2, in_dims, NULL);
            command = rig_command(&rig, ENG_OP_POOL_GRAD, 2, back, 1, &dx);
            command->u.pool = p;
            assert_true(vec_check(&rig, command, 2e-6f));
        }
        rig_done(&rig);
    }
}

// Of equal values the first takes the gradient, of several NaN the last.
static void pool_gradients_choose_one(void **state)
{
    (void)state;
    static const float values[2][6] = {{1, 2, 2, 0, 2, 1}, {1, NAN, 3, NAN, 0, 9}};
    static const float one[1] = {1};
    const int64_t in_dims[4] = {1, 1, 2, 3}, out_dims[4] = {1, 1, 1, 1};
    for (int i = 0; i < 2; i++) {
        struct ref_rig rig;
        rig_init(&rig);
        uint32_t back[2] = {rig_tensor(&rig, ENG_CHANNELS_LAST, ENG_F32, 4, in_dims, values[i]),
                            rig_tensor(&rig, ENG_CHANNELS_LAST, ENG_F32, 4, out_dims, one)};
        uint32_t dx = rig_tensor(&rig, ENG_CHANNELS_LAST, ENG_F32, 4, in_dims, NULL);
        struct eng_command *command = rig_command(&rig, ENG_OP_POOL_GRAD, 2, back, 1, &dx);
        command->u.pool = (struct eng_pool){.fn = ENG_POOL_MAX,
                                            .spatial = 2,
                                            .kernel = {2, 3},
                                            .stride = {1, 1},
                                            .dilation = {1, 1}};
        assert_true(vec_check(&rig, command, 0));
        rig_done(&rig);
    }
}

// Attention over [B, S, H, D] tensors, as exported models keep them.
struct attention_case {
    int64_t b, h, s, t, d, e;
    int mask; // 0 none, 1 [B,1,1,T], 2 [S,T], 3 [B,H,S,T], 4 one value per row
};

static void set_view(struct eng_view *view, int64_t a, int64_t b, int64_t c, int64_t d)
{
    *view = (struct eng_view){.stride = {a, b, c, d}};
}

static void attention(void **state)
{
    (void)state;
    static const struct attention_case cases[] = {
        {1, 1, 1, 1, 1, 1, 0},       {1, 2, 5, 7, 8, 8, 0},        {2, 3, 33, 70, 64, 64, 1},
        {1, 2, 100, 256, 64, 64, 2}, {2, 2, 17, 64, 10, 33, 3},    {1, 1, 128, 65, 24, 130, 4},
        {1, 12, 70, 256, 64, 64, 1}, {1, 1, 300, 1000, 16, 16, 0}, {3, 1, 1, 100, 32, 32, 2},
        {1, 1, 2, 9000, 8, 8, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct attention_case *c = &cases[i];
        struct ref_rig rig;
        rig_init(&rig);
        const int64_t q[4] = {c->b, c->s, c->h, c->d};
        const int64_t k[4] = {c->b, c->t, c->h, c->d};
        const int64_t v[4] = {c->b, c->t, c->h, c->e};
        const int64_t o[4] = {c->b, c->s, c->h, c->e};
        const int64_t masks[5][4] = {{1, 1, 1, 1},
                                     {c->b, 1, 1, c->t},
                                     {1, 1, c->s, c->t},
                                     {c->b, c->h, c->s, c->t},
                                     {1, 1, c->s, 1}};
        uint32_t in[4] = {vec_random(&rig, &prng, ENG_PLAIN, 4, q, 2.0f),
                          vec_random(&rig, &prng, ENG_PLAIN, 4, k, 2.0f),
                          vec_random(&rig, &prng, ENG_PLAIN, 4, v, 2.0f), ENG_NONE};
        uint32_t out = rig_out(&rig, ENG_F32, 4, o);
        if (c->mask != 0) {
            in[3] = vec_random(&rig, &prng, ENG_PLAIN, 4, masks[c->mask], 3.0f);
        }
        struct eng_command *command = rig_command(&rig, ENG_OP_ATTENTION, 4, in, 1, &out);
        const int64_t size[6] = {c->b, c->h, c->s, c->t, c->d, c->e};
        command->box.rank = 6;
        memcpy(command->box.size, size, sizeof size);
        set_view(&command->views[0], c->s * c->h * c->d, c->d, c->h * c->d, 1);
        set_view(&command->views[1], c->t * c->h * c->d, c->d, c->h * c->d, 1);
        set_view(&command->views[2], c->t * c->h * c->e, c->e, c->h * c->e, 1);
        const int64_t *m = masks[c->mask];
        set_view(&command->views[3], m[0] == 1 ? 0 : m[1] * m[2] * m[3],
                 m[1] == 1 ? 0 : m[2] * m[3], m[2] == 1 ? 0 : m[3], m[3] == 1 ? 0 : 1);
        command->u.attention.scale = 0.125f;
        set_view(&command->u.attention.out_view, c->s * c->h * c->e, c->e, c->h * c->e, 1);
        assert_true(vec_check(&rig, command, 5e-6f));
        rig_done(&rig);
    }
}

int main(void)
{
    test_seed(&prng);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),     cmocka_unit_test(nan_is_seen),
        cmocka_unit_test(arg_reductions), cmocka_unit_test(softmax),
        cmocka_unit_test(cumsum),         cmocka_unit_test(norms),
        cmocka_unit_test(pools),          cmocka_unit_test(pool_gradients_choose_one),
        cmocka_unit_test(attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
