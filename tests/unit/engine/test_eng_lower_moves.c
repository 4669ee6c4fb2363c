// Virtual tensors: random chains of moving operators, merged, unmerged and mixed with commands,
// against moving every element by hand.
#include "lower_rig.h"

#define CELLS_MAX 4096

// What a tensor should hold.
struct model {
    uint32_t tensor;
    struct eng_desc desc;
    int32_t *cells;
};

static int64_t count_of(const struct model *m)
{
    return eng_desc_count(&m->desc);
}

static struct model new_model(const struct eng_desc *desc)
{
    struct model m = {.desc = *desc};
    m.cells = calloc((size_t)eng_desc_count(desc) + 1, sizeof(int32_t));
    assert_non_null(m.cells);
    return m;
}

// Coordinates of element i.
static void coordinates(const struct eng_desc *desc, int64_t i, int64_t at[ENG_RANK_MAX])
{
    for (uint32_t d = desc->rank; d-- > 0;) {
        at[d] = i % desc->dims[d];
        i /= desc->dims[d];
    }
}

static int64_t place(const struct eng_desc *desc, const int64_t at[ENG_RANK_MAX])
{
    int64_t i = 0;
    for (uint32_t d = 0; d < desc->rank; d++) {
        i = i * desc->dims[d] + at[d];
    }
    return i;
}

static int64_t below(struct base_prng *prng, int64_t bound)
{
    return (int64_t)base_prng_below(prng, (uint64_t)bound);
}

static struct model do_transpose(struct rig *rig, struct base_prng *prng, const struct model *m)
{
    uint32_t perm[ENG_RANK_MAX];
    struct eng_desc desc = m->desc;
    for (uint32_t d = 0; d < desc.rank; d++) {
        perm[d] = d;
    }
    for (uint32_t d = desc.rank; d > 1; d--) {
        uint32_t other = (uint32_t)base_prng_below(prng, d);
        uint32_t kept = perm[d - 1];
        perm[d - 1] = perm[other];
        perm[other] = kept;
    }
    for (uint32_t d = 0; d < desc.rank; d++) {
        desc.dims[d] = m->desc.dims[perm[d]];
    }
    struct model out = new_model(&desc);
    rig_ok(rig, eng_lower_transpose(rig->lower, m->tensor, perm, &out.tensor));
    for (int64_t i = 0; i < count_of(&out); i++) {
        int64_t to[ENG_RANK_MAX];
        int64_t from[ENG_RANK_MAX];
        coordinates(&desc, i, to);
        for (uint32_t d = 0; d < desc.rank; d++) {
            from[perm[d]] = to[d];
        }
        out.cells[i] = m->cells[place(&m->desc, from)];
    }
    return out;
}

static struct model do_reshape(struct rig *rig, struct base_prng *prng, const struct model *m)
{
    struct eng_desc desc = {.dtype = ENG_I32, .rank = 1 + (uint32_t)base_prng_below(prng, 5)};
    int64_t rest = count_of(m);
    for (uint32_t d = 0; d + 1 < desc.rank; d++) {
        int64_t divisor = 1 + below(prng, 6);
        desc.dims[d] = rest == 0 || rest % divisor == 0 ? divisor : 1;
        rest /= desc.dims[d];
    }
    desc.dims[desc.rank - 1] = rest;
    struct model out = new_model(&desc);
    rig_ok(rig, eng_lower_reshape(rig->lower, m->tensor, &desc, &out.tensor));
    memcpy(out.cells, m->cells, (size_t)count_of(m) * sizeof(int32_t));
    return out;
}

static struct model do_slice(struct rig *rig, struct base_prng *prng, const struct model *m)
{
    struct eng_desc desc = m->desc;
    struct eng_slice slice = eng_slice_whole(&desc);
    for (uint32_t d = 0; d < desc.rank; d++) {
        int64_t n = m->desc.dims[d];
        if (n > 0 && base_prng_below(prng, 2) == 0) {
            int64_t start = below(prng, n);
            int64_t step = 1 + below(prng, 3);
            int64_t size = 1 + below(prng, (n - start + step - 1) / step);
            bool back = base_prng_below(prng, 4) == 0;
            slice.start[d] = back ? start + (size - 1) * step : start;
            slice.step[d] = back ? -step : step;
            slice.size[d] = size;
        }
        desc.dims[d] = slice.size[d];
    }
    struct model out = new_model(&desc);
    rig_ok(rig, eng_lower_slice(rig->lower, m->tensor, &slice, &out.tensor));
    for (int64_t i = 0; i < count_of(&out); i++) {
        int64_t at[ENG_RANK_MAX];
        coordinates(&desc, i, at);
        for (uint32_t d = 0; d < desc.rank; d++) {
            at[d] = slice.start[d] + at[d] * slice.step[d];
        }
        out.cells[i] = m->cells[place(&m->desc, at)];
    }
    return out;
}

static struct model do_concat(struct rig *rig, struct base_prng *prng, const struct model *a,
                              const struct model *b)
{
    uint32_t axis = (uint32_t)base_prng_below(prng, a->desc.rank);
    struct eng_desc desc = a->desc;
    desc.dims[axis] += b->desc.dims[axis];
    struct model out = new_model(&desc);
    const uint32_t tensors[2] = {a->tensor, b->tensor};
    rig_ok(rig, eng_lower_concat(rig->lower, tensors, 2, axis, &out.tensor));
    for (int64_t i = 0; i < count_of(&out); i++) {
        int64_t at[ENG_RANK_MAX];
        coordinates(&desc, i, at);
        bool first = at[axis] < a->desc.dims[axis];
        at[axis] -= first ? 0 : a->desc.dims[axis];
        out.cells[i] = first ? a->cells[place(&a->desc, at)] : b->cells[place(&b->desc, at)];
    }
    return out;
}

static struct model do_expand(struct rig *rig, struct base_prng *prng, const struct model *m)
{
    struct eng_desc desc = m->desc;
    for (uint32_t d = 0; d < desc.rank; d++) {
        desc.dims[d] = desc.dims[d] == 1 ? 1 + below(prng, 3) : desc.dims[d];
    }
    if (desc.rank < 5 && base_prng_below(prng, 3) == 0) {
        memmove(&desc.dims[1], desc.dims, desc.rank * sizeof(int64_t));
        desc.dims[0] = 2;
        desc.rank++;
    }
    struct model out = new_model(&desc);
    rig_ok(rig, eng_lower_expand(rig->lower, m->tensor, &desc, &out.tensor));
    uint32_t skip = desc.rank - m->desc.rank;
    for (int64_t i = 0; i < count_of(&out); i++) {
        int64_t at[ENG_RANK_MAX];
        int64_t from[ENG_RANK_MAX];
        coordinates(&desc, i, at);
        for (uint32_t d = 0; d < m->desc.rank; d++) {
            from[d] = m->desc.dims[d] == 1 ? 0 : at[d + skip];
        }
        out.cells[i] = m->cells[place(&m->desc, from)];
    }
    return out;
}

// One element of zeros around every dim, through regions of the test's own.
static struct model do_pad(struct rig *rig, const struct model *m)
{
    struct eng_desc desc = m->desc;
    uint32_t plain;
    rig_ok(rig, eng_lower_plain(rig->lower, m->tensor, &plain));
    struct eng_region region = {.source = plain, .rank = desc.rank};
    int64_t src = 1;
    int64_t dst = 1;
    for (uint32_t d = desc.rank; d-- > 0;) {
        desc.dims[d] += 2;
        region.size[d] = m->desc.dims[d];
        region.src_stride[d] = src;
        region.dst_stride[d] = dst;
        region.dst_offset += dst;
        src *= m->desc.dims[d];
        dst *= desc.dims[d];
    }
    struct model out = new_model(&desc);
    rig_ok(rig, eng_lower_virtual(rig->lower, &desc, &region, 1, &out.tensor));
    for (int64_t i = 0; i < count_of(m); i++) {
        int64_t at[ENG_RANK_MAX];
        coordinates(&m->desc, i, at);
        for (uint32_t d = 0; d < desc.rank; d++) {
            at[d]++;
        }
        out.cells[place(&desc, at)] = m->cells[i];
    }
    return out;
}

// A command in between, so that chains meet real tensors in whatever layout they have.
static struct model do_negate(struct rig *rig, struct base_prng *prng, const struct model *m)
{
    struct model out = new_model(&m->desc);
    uint32_t x = m->tensor;
    if (m->desc.rank >= 3 && m->desc.rank <= 5 && base_prng_below(prng, 2) == 0) {
        rig_ok(rig, eng_lower_channels_last(rig->lower, x, &x));
    }
    rig_ok(rig, eng_emit_unary(rig->lower, &(struct eng_unary){ENG_NEG, 0, 0}, x, &out.tensor));
    for (int64_t i = 0; i < count_of(m); i++) {
        out.cells[i] = -m->cells[i];
    }
    return out;
}

// A sum with a broadcast of itself: its first row, plane...
static struct model do_add(struct rig *rig, struct base_prng *prng, const struct model *m)
{
    struct eng_desc first = m->desc;
    for (uint32_t d = 0; d < first.rank; d++) {
        if (first.dims[d] > 0 && base_prng_below(prng, 2) == 0) {
            first.dims[d] = 1;
        }
    }
    uint32_t part;
    const struct eng_slice slice = eng_slice_whole(&first);
    rig_ok(rig, eng_lower_slice(rig->lower, m->tensor, &slice, &part));
    struct model out = new_model(&m->desc);
    rig_ok(rig, eng_emit_binary(rig->lower, ENG_ADD, m->tensor, part, &out.tensor));
    for (int64_t i = 0; i < count_of(m); i++) {
        int64_t at[ENG_RANK_MAX];
        coordinates(&m->desc, i, at);
        for (uint32_t d = 0; d < first.rank; d++) {
            at[d] = first.dims[d] == 1 ? 0 : at[d];
        }
        out.cells[i] = (int32_t)((uint32_t)m->cells[i] + (uint32_t)m->cells[place(&m->desc, at)]);
    }
    return out;
}

static struct model step(struct rig *rig, struct base_prng *prng, const struct model *m)
{
    uint32_t kind = (uint32_t)base_prng_below(prng, 12);
    bool small = count_of(m) < CELLS_MAX / 16;
    switch (kind) {
    case 0:
    case 1:
    case 2:
        return do_transpose(rig, prng, m);
    case 3:
    case 4:
    case 5:
        return do_reshape(rig, prng, m);
    case 6:
        return do_slice(rig, prng, m);
    case 7:
        return do_negate(rig, prng, m);
    case 8:
        return do_add(rig, prng, m);
    case 9:
        return small ? do_expand(rig, prng, m) : do_transpose(rig, prng, m);
    case 10:
        return small && m->desc.rank > 0 ? do_pad(rig, m) : do_reshape(rig, prng, m);
    default: {
        if (!small || m->desc.rank == 0) {
            return do_slice(rig, prng, m);
        }

        return do_concat(rig, prng, m, m);
    }
    }
}

static void check(struct rig *rig, const struct model *m, const int32_t *input, uint64_t seed)
{
    uint32_t real;
    rig_ok(rig, eng_lower_plain(rig->lower, m->tensor, &real));
    rig_ok(rig, eng_lower_real(rig->lower, real, &real));
    rig_ok(rig, eng_program_validate(&rig->program, &rig->error));
    assert_true(eng_desc_equal(eng_lower_desc(rig->lower, real), &m->desc));
    void **data = base_arena_zalloc(&rig->arena, rig->program.tensor_count * sizeof(void *));
    assert_non_null(data);
    data[0] = base_arena_copy(&rig->arena, input, CELLS_MAX * sizeof(int32_t));
    rig_ok(rig, rig_execute(&rig->program, data, &rig->arena, &rig->error));
    if (eng_desc_count(&m->desc) == 0) {
        return;
    }
    for (int64_t i = 0; i < count_of(m); i++) {
        if (((const int32_t *)data[real])[i] != m->cells[i]) {
            rig_print(rig);
            fail_msg("chain %llu: element %lld is %d, not %d", (unsigned long long)seed,
                     (long long)i, ((const int32_t *)data[real])[i], m->cells[i]);
        }
    }
}

static void chain(uint64_t seed, bool no_merge, bool known, uint32_t *commands)
{
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    struct rig rig;
    rig_init(&rig);
    rig.options.no_merge = no_merge;
    static int32_t input[CELLS_MAX];
    struct eng_desc desc = {.dtype = ENG_I32, .rank = (uint32_t)base_prng_below(&prng, 5)};
    for (uint32_t d = 0; d < desc.rank; d++) {
        desc.dims[d] = 1 + below(&prng, 6);
    }
    struct model m = new_model(&desc);
    for (int32_t i = 0; i < CELLS_MAX; i++) {
        input[i] = i + 1;
    }
    memcpy(m.cells, input, (size_t)count_of(&m) * sizeof(int32_t));
    rig_ok(&rig, eng_lower_bind(rig.lower, 0, &desc, known ? input : NULL, &m.tensor));
    for (int i = 0; i < 7; i++) {
        struct model next = step(&rig, &prng, &m);
        free(m.cells);
        m = next;
    }
    check(&rig, &m, input, seed);
    if (known) {
        struct eng_array array;
        rig_ok(&rig, eng_lower_content(rig.lower, m.tensor, &array));
        assert_memory_equal(array.data, m.cells, (size_t)count_of(&m) * sizeof(int32_t));
    }
    *commands += rig.program.command_count;
    free(m.cells);
    rig_done(&rig);
}

static void random_chains(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint32_t merged = 0;
    uint32_t unmerged = 0;
    uint32_t known = 0;
    for (int i = 0; i < 3000; i++) {
        uint64_t seed = base_prng_next(&prng);
        chain(seed, false, false, &merged);
        chain(seed, true, false, &unmerged);
        chain(seed, false, true, &known);
    }
    printf("commands: merged %u, unmerged %u\n", merged, unmerged);
    assert_true(merged < unmerged);
}

static void reshape_is_free(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    uint32_t x = rig_input(&rig, 0, ENG_F32, 4, (const int64_t[]){2, 3, 4, 5});
    const struct eng_desc flat = rig_desc(ENG_F32, 2, (const int64_t[]){6, 20});
    uint32_t y;
    rig_ok(&rig, eng_lower_reshape(rig.lower, x, &flat, &y));
    rig_ok(&rig, eng_lower_real(rig.lower, y, &y));
    assert_int_equal(rig.program.command_count, 0);
    assert_int_equal(rig.program.tensors[y].alias, x);
    // Back again: the tensor itself.
    uint32_t z;
    rig_ok(&rig, eng_lower_reshape(rig.lower, y, eng_lower_desc(rig.lower, x), &z));
    assert_int_equal(z, x);
    // A transpose and its inverse too.
    const uint32_t there[4] = {0, 2, 3, 1};
    const uint32_t back[4] = {0, 3, 1, 2};
    rig_ok(&rig, eng_lower_transpose(rig.lower, x, there, &y));
    rig_ok(&rig, eng_lower_transpose(rig.lower, y, back, &z));
    assert_int_equal(z, x);
    rig_done(&rig);
}

static void equal_moves_are_shared(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    uint32_t x = rig_input(&rig, 0, ENG_F32, 2, (const int64_t[]){3, 4});
    const uint32_t perm[2] = {1, 0};
    uint32_t a;
    uint32_t b;
    rig_ok(&rig, eng_lower_transpose(rig.lower, x, perm, &a));
    rig_ok(&rig, eng_lower_transpose(rig.lower, x, perm, &b));
    assert_int_equal(a, b);
    rig_ok(&rig, eng_lower_real(rig.lower, a, &a));
    rig_ok(&rig, eng_lower_real(rig.lower, b, &b));
    assert_int_equal(a, b);
    assert_int_equal(rig_count(&rig, ENG_OP_RASTER), 1);
    rig_done(&rig);
}

// Two rows joined and repeated: joined once, and read in place by whoever adds to it.
static void pieces_are_joined_before_they_repeat(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    const uint32_t rows[2] = {rig_input(&rig, 0, ENG_F32, 2, (const int64_t[]){1, 16}),
                              rig_input(&rig, 1, ENG_F32, 2, (const int64_t[]){1, 16})};
    uint32_t x = rig_input(&rig, 2, ENG_F32, 2, (const int64_t[]){100, 32});
    uint32_t y;
    rig_ok(&rig, eng_lower_concat(rig.lower, rows, 2, 1, &y));
    rig_ok(&rig, eng_lower_expand(rig.lower, y, eng_lower_desc(rig.lower, x), &y));
    rig_ok(&rig, eng_emit_binary(rig.lower, ENG_MUL, x, y, &y));
    assert_int_equal(rig.program.command_count, 2);
    const struct eng_command *raster = &rig.program.commands[0];
    assert_int_equal(eng_desc_count(&rig.program.tensors[raster->outputs[0]].desc), 32);
    rig_done(&rig);
}

// A result that grows by one row at a time costs what its rows cost, not their square.
static void long_chains_stay_small(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    uint32_t row = rig_input(&rig, 0, ENG_F32, 2, (const int64_t[]){1, 2});
    uint32_t all = row;
    for (int i = 0; i < 2000; i++) {
        const uint32_t both[2] = {all, row};
        rig_ok(&rig, eng_lower_concat(rig.lower, both, 2, 0, &all));
    }
    assert_int_equal(eng_lower_desc(rig.lower, all)->dims[0], 2001);
    assert_in_range(rig.program.command_count, 1, 100);
    assert_true(rig.arena.used_bytes < (size_t)64 << 20);
    rig_ok(&rig, eng_program_validate(&rig.program, &rig.error));
    rig_done(&rig);
}

// [1, 256, 768] -> heads: products read Q, K, V where they lie.
static void head_split_costs_no_copy(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    const int64_t rows[3] = {1, 256, 768};
    uint32_t q = rig_input(&rig, 0, ENG_F32, 3, rows);
    uint32_t k = rig_input(&rig, 1, ENG_F32, 3, rows);
    const struct eng_desc heads = rig_desc(ENG_F32, 4, (const int64_t[]){1, 256, 12, 64});
    const uint32_t split[4] = {0, 2, 1, 3};
    const uint32_t split_transposed[4] = {0, 2, 3, 1};
    rig_ok(&rig, eng_lower_reshape(rig.lower, q, &heads, &q));
    rig_ok(&rig, eng_lower_transpose(rig.lower, q, split, &q));
    rig_ok(&rig, eng_lower_reshape(rig.lower, k, &heads, &k));
    rig_ok(&rig, eng_lower_transpose(rig.lower, k, split_transposed, &k));
    uint32_t scores;
    rig_ok(&rig, eng_emit_matmul(rig.lower, (struct eng_factor){.tensor = q},
                                 (struct eng_factor){.tensor = k}, 1.0f, &scores));
    assert_int_equal(rig.program.command_count, 1);
    const struct eng_command *command = &rig.program.commands[0];
    assert_int_equal(command->box.rank, 4);
    assert_int_equal(command->views[0].stride[0], 64);
    assert_int_equal(command->views[0].stride[1], 768);
    assert_int_equal(command->views[0].stride[3], 1);
    assert_int_equal(command->views[1].stride[2], 768);
    assert_int_equal(command->views[1].stride[3], 1);
    // A dense layer over [1, 256, 768] is one product of 256 rows.
    uint32_t w = rig_input(&rig, 2, ENG_F32, 2, (const int64_t[]){768, 100});
    uint32_t x = rig_input(&rig, 3, ENG_F32, 3, rows);
    rig_ok(&rig, eng_emit_matmul(rig.lower, (struct eng_factor){.tensor = x},
                                 (struct eng_factor){.tensor = w}, 1.0f, &x));
    command = &rig.program.commands[1];
    assert_int_equal(command->box.rank, 3);
    assert_int_equal(command->box.size[0], 256);
    rig_ok(&rig, eng_program_validate(&rig.program, &rig.error));
    rig_done(&rig);
}

// Between convolutions everything stays channels-last: split, shuffle, concatenation.
static void channels_stay_last(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    uint32_t x = rig_input(&rig, 0, ENG_F32, 4, (const int64_t[]){1, 8, 6, 6});
    uint32_t w = rig_input(&rig, 1, ENG_F32, 4, (const int64_t[]){8, 8, 1, 1});
    uint32_t scale = rig_input(&rig, 2, ENG_F32, 3, (const int64_t[]){8, 1, 1});
    const struct eng_conv conv = {.spatial = 2,
                                  .groups = 1,
                                  .kernel = {1, 1},
                                  .stride = {1, 1},
                                  .dilation = {1, 1},
                                  .epilogue.bias = ENG_NONE};
    uint32_t y;
    rig_ok(&rig, eng_emit_conv(rig.lower, &conv, x, w, &y));
    uint32_t rasters = rig_count(&rig, ENG_OP_RASTER);
    assert_int_equal(rasters, 1); // the input
    rig_ok(&rig, eng_emit_binary(rig.lower, ENG_MUL, y, scale, &y));
    assert_int_equal(rig.program.tensors[y].layout, ENG_CHANNELS_LAST);
    assert_int_equal(rig_count(&rig, ENG_OP_RASTER), rasters);
    // Channel shuffle.
    const struct eng_desc groups = rig_desc(ENG_F32, 5, (const int64_t[]){1, 2, 4, 6, 6});
    const uint32_t swap[5] = {0, 2, 1, 3, 4};
    const struct eng_desc whole = *eng_lower_desc(rig.lower, y);
    uint32_t z;
    rig_ok(&rig, eng_lower_reshape(rig.lower, y, &groups, &z));
    rig_ok(&rig, eng_lower_transpose(rig.lower, z, swap, &z));
    rig_ok(&rig, eng_lower_reshape(rig.lower, z, &whole, &z));
    // Its second half through a ReLU, then a convolution of both halves joined again.
    struct eng_slice slice = {.step = {1, 1, 1, 1}, .size = {1, 4, 6, 6}};
    uint32_t half[2];
    rig_ok(&rig, eng_lower_slice(rig.lower, z, &slice, &half[0]));
    slice.start[1] = 4;
    rig_ok(&rig, eng_lower_slice(rig.lower, z, &slice, &half[1]));
    rig_ok(&rig, eng_emit_unary(rig.lower, &(struct eng_unary){ENG_RELU, 0, 0}, half[1], &half[1]));
    assert_int_equal(rig.program.tensors[half[1]].layout, ENG_CHANNELS_LAST);
    rig_ok(&rig, eng_lower_concat(rig.lower, half, 2, 1, &z));
    rig_ok(&rig, eng_emit_conv(rig.lower, &conv, z, w, &z));
    assert_int_equal(rig_count(&rig, ENG_OP_RASTER), rasters + 2);
    // The mean over positions works in place and ends as plain [1, 8, 1, 1].
    const uint32_t axes[2] = {2, 3};
    uint32_t mean;
    rig_ok(&rig, eng_emit_reduce(rig.lower, &(struct eng_reduction){ENG_REDUCE_MEAN, axes, 2, true},
                                 z, &mean));
    assert_int_equal(rig_count(&rig, ENG_OP_RASTER), rasters + 2);
    assert_int_equal(rig.program.tensors[mean].layout, ENG_PLAIN);
    rig_ok(&rig, eng_program_validate(&rig.program, &rig.error));
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_chains),
        cmocka_unit_test(reshape_is_free),
        cmocka_unit_test(equal_moves_are_shared),
        cmocka_unit_test(pieces_are_joined_before_they_repeat),
        cmocka_unit_test(long_chains_stay_small),
        cmocka_unit_test(head_split_costs_no_copy),
        cmocka_unit_test(channels_stay_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
