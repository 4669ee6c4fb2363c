// Einsum against a loop over every value of every label; MatMul, Gemm and their mistakes.
#include "op_rig.h"

#define LABELS 64

struct parsed {
    int rank[4];
    int labels[4][ENG_RANK_MAX];
    int operands;
    int out_rank;
    int out[ENG_RANK_MAX];
};

static const struct {
    const char *equation; // as the operator gets it
    const char *plain;    // without ellipsis, every label named, with an output
    int64_t sizes[26];    // of a, b, c... in the plain form
} cases[] = {
    {"ij->ji", "ij->ji", {[8] = 3, [9] = 4}},
    {"ij", "ij->ij", {[8] = 3, [9] = 4}},
    {"ba", "ba->ab", {3, 4}},
    {"ij->", "ij->", {[8] = 3, [9] = 4}},
    {"ii->i", "ii->i", {[8] = 5}},
    {"ii", "ii->", {[8] = 5}},
    {"iji->j", "iji->j", {[8] = 3, [9] = 4}},
    {"ij,jk->ik", "ij,jk->ik", {[8] = 3, [9] = 4, [10] = 5}},
    {"ij,jk", "ij,jk->ik", {[8] = 3, [9] = 4, [10] = 5}},
    {"ij,kj->ik", "ij,kj->ik", {[8] = 3, [9] = 4, [10] = 5}},
    {"ji,jk->ik", "ji,jk->ik", {[8] = 3, [9] = 4, [10] = 5}},
    {"i,j->ij", "i,j->ij", {[8] = 3, [9] = 4}},
    {"i,i->", "i,i->", {[8] = 7}},
    {"i,i->i", "i,i->i", {[8] = 7}},
    {"bij,bjk->bik", "bij,bjk->bik", {[1] = 2, [8] = 3, [9] = 4, [10] = 5}},
    {"bhqd,bhkd->bhqk", "bhqd,bhkd->bhqk", {[1] = 2, [7] = 3, [16] = 4, [3] = 5, [10] = 6}},
    {"bqhd,bkhd->bhqk", "bqhd,bkhd->bhqk", {[1] = 2, [7] = 3, [16] = 4, [3] = 5, [10] = 6}},
    {"abc,cd,def->abef", "abc,cd,def->abef", {2, 3, 4, 5, 2, 3}},
    {"ab,bc,ca->", "ab,bc,ca->", {3, 4, 5}},
    {"ab,cd->", "ab,cd->", {2, 3, 4, 5}},
    {"abc,abd->cd", "abc,abd->cd", {2, 3, 4, 5}},
    {"...ij,...jk->...ik", "abij,abjk->abik", {2, 3, [8] = 4, [9] = 2, [10] = 3}},
    {"...ij,...jk", "abij,abjk->abik", {2, 3, [8] = 4, [9] = 2, [10] = 3}},
    {"...ii->...i", "abii->abi", {2, 3, [8] = 4}},
    {"i...->...", "iab->ab", {2, 3, [8] = 4}},
    {" i j , j k -> i k ", "ij,jk->ik", {[8] = 3, [9] = 4, [10] = 5}},
    {"aab,b->a", "aab,b->a", {3, 4}},
    {"ab,ab,ab->ab", "ab,ab,ab->ab", {3, 4}},
    {"abcd,abcd->acbd", "abcd,abcd->acbd", {2, 3, 2, 3}},
    {",a->a", ",a->a", {4}},
};

static struct parsed parse(const char *text)
{
    struct parsed p = {.operands = 1};
    for (; *text != '\0' && *text != '-'; text++) {
        if (*text == ',') {
            p.operands++;
        } else {
            p.labels[p.operands - 1][p.rank[p.operands - 1]++] = *text - 'a';
        }
    }
    for (text += 2; *text != '\0'; text++) {
        p.out[p.out_rank++] = *text - 'a';
    }
    return p;
}

static int64_t offset_of(const int *labels, int rank, const int64_t *sizes, const int64_t *at)
{
    int64_t offset = 0;
    for (int i = 0; i < rank; i++) {
        offset = offset * sizes[labels[i]] + at[labels[i]];
    }
    return offset;
}

// Sums the products over all label values at once.
static void naive(const struct parsed *p, const int64_t *sizes, float *const *data, double *out)
{
    int64_t at[LABELS] = {0};
    bool used[LABELS] = {false};
    for (int o = 0; o < p->operands; o++) {
        for (int i = 0; i < p->rank[o]; i++) {
            used[p->labels[o][i]] = true;
        }
    }
    for (;;) {
        double product = 1;
        for (int o = 0; o < p->operands; o++) {
            product *= (double)data[o][offset_of(p->labels[o], p->rank[o], sizes, at)];
        }
        out[offset_of(p->out, p->out_rank, sizes, at)] += product;
        int label = 0;
        for (; label < 26; label++) {
            if (used[label] && ++at[label] < sizes[label]) {
                break;
            }
            at[label] = 0;
        }
        if (label == 26) {
            return;
        }
    }
}

static void equations(void **state)
{
    (void)state;
    static const char *const names[4] = {"", "a", "a b", "a b c"};
    static const char *const single[3] = {"a", "b", "c"};
    struct base_prng prng;
    base_prng_seed(&prng, 31);
    print_message("seed 31\n");
    for (size_t c = 0; c < TEST_COUNT(cases); c++) {
        struct parsed p = parse(cases[c].plain);
        const int64_t *sizes = cases[c].sizes;
        float *data[3] = {NULL, NULL, NULL};
        struct op_rig *rig = op_named("Einsum", names[p.operands], "y");
        op_attr_text(rig, "equation", cases[c].equation);
        for (int o = 0; o < p.operands; o++) {
            int64_t dims[ENG_RANK_MAX];
            int64_t count = 1;
            for (int i = 0; i < p.rank[o]; i++) {
                dims[i] = sizes[p.labels[o][i]];
                count *= dims[i];
            }
            data[o] = op_random(&prng, count);
            struct eng_array array = op_array(ENG_F32, data[o], dims, (size_t)p.rank[o]);
            op_feed(rig, single[o], &array);
        }
        int64_t dims[ENG_RANK_MAX];
        int64_t count = 1;
        for (int i = 0; i < p.out_rank; i++) {
            dims[i] = sizes[p.out[i]];
            count *= dims[i];
        }
        double want[512] = {0};
        assert_true(count <= 512);
        naive(&p, sizes, data, want);
        print_message("%s\n", cases[c].equation);
        op_run_at(rig, 12);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, dims, (size_t)p.out_rank);
        op_near(&y, want, count, 1e-5);
        op_done(rig);
        for (int o = 0; o < 3; o++) {
            free(data[o]);
        }
    }
}

static void dims_of_one_broadcast(void **state)
{
    (void)state;
    static const float a[6] = {1, 2, 3, 4, 5, 6};
    static const float b[4] = {1, 10, 100, 1000};
    // a [1, 3, 2] and b [2, 2, 1]: the batch of a and the columns of b's product spread.
    double want[6];
    for (int n = 0; n < 2; n++) {
        for (int i = 0; i < 3; i++) {
            want[n * 3 + i] = (double)(a[i * 2] * b[n * 2] + a[i * 2 + 1] * b[n * 2 + 1]);
        }
    }
    struct op_rig *rig = op_named("Einsum", "a b", "y");
    op_attr_text(rig, "equation", "...ij,...jk->...ik");
    struct eng_array arrays[2] = {op_floats(a, 1, 3, 2), op_floats(b, 2, 2, 1)};
    op_feed(rig, "a", &arrays[0]);
    op_feed(rig, "b", &arrays[1]);
    op_run_at(rig, 12);
    struct eng_array y = op_output(rig, 0);
    op_same_shape(&y, ENG_F32, OP_DIMS(2, 3, 1));
    op_near(&y, want, 6, 0);
    op_done(rig);
}

static void integers_are_exact(void **state)
{
    (void)state;
    static const int8_t a[4] = {100, 27, -128, 3};
    static const int8_t b[2] = {1, 0};
    static const int8_t want[2] = {100, -128};
    struct op_rig *rig = op_named("Einsum", "a b", "y");
    op_attr_text(rig, "equation", "ij,j->i");
    struct eng_array arrays[2] = {op_of(ENG_I8, a, 2, 2), op_of(ENG_I8, b, 2)};
    op_feed(rig, "a", &arrays[0]);
    op_feed(rig, "b", &arrays[1]);
    op_run_at(rig, 12);
    struct eng_array y = op_output(rig, 0);
    op_same_shape(&y, ENG_I8, OP_DIMS(2));
    assert_memory_equal(y.data, want, 2);
    op_done(rig);
}

static void wrong_equations_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *equation;
        const char *words;
    } wrong[] = {
        {"ij,jk,kl->il", "3 terms for 2 inputs"},
        {"ijk,jk->i", "rank 2"},
        {"ij,jk->iz", "output"},
        {"ij,jk->ii", "output"},
        {"i?,jk->i", "rank 2"},
        {"i...?,jk->i", "not a term"},
        {"ij,ik->ij", "sizes"},
        {"", "terms"},
    };
    static const float data[12];
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        struct op_rig *rig = op_named("Einsum", "a b", "y");
        op_attr_text(rig, "equation", wrong[i].equation);
        struct eng_array arrays[2] = {op_floats(data, 2, 3), op_floats(data, 3, 2)};
        op_feed(rig, "a", &arrays[0]);
        op_feed(rig, "b", &arrays[1]);
        op_refused(rig, 12, BASE_ERR_INVALID, wrong[i].words);
    }
}

// numpy.matmul for every combination of vectors, matrices and stacks.
static void products(void **state)
{
    (void)state;
    static const struct {
        int64_t a[4], b[4], y[4];
        size_t a_rank, b_rank, y_rank;
    } shapes[] = {
        {{3}, {3}, {0}, 1, 1, 0},
        {{3}, {3, 4}, {4}, 1, 2, 1},
        {{2, 3}, {3}, {2}, 2, 1, 1},
        {{5, 2, 3}, {3}, {5, 2}, 3, 1, 2},
        {{3}, {5, 3, 4}, {5, 4}, 1, 3, 2},
        {{2, 3}, {5, 3, 4}, {5, 2, 4}, 2, 3, 3},
        {{5, 2, 3}, {3, 4}, {5, 2, 4}, 3, 2, 3},
        {{5, 1, 2, 3}, {6, 3, 4}, {5, 6, 2, 4}, 4, 3, 4},
    };
    struct base_prng prng;
    base_prng_seed(&prng, 32);
    print_message("seed 32\n");
    for (size_t s = 0; s < TEST_COUNT(shapes); s++) {
        int64_t a_count = 1;
        int64_t b_count = 1;
        int64_t y_count = 1;
        for (size_t i = 0; i < 4; i++) {
            a_count *= i < shapes[s].a_rank ? shapes[s].a[i] : 1;
            b_count *= i < shapes[s].b_rank ? shapes[s].b[i] : 1;
            y_count *= i < shapes[s].y_rank ? shapes[s].y[i] : 1;
        }
        int64_t rows = shapes[s].a_rank == 1 ? 1 : 2;
        int64_t cols = shapes[s].b_rank == 1 ? 1 : 4;
        int64_t batch = y_count / (rows * cols);
        int64_t a_batch = a_count / (rows * 3);
        int64_t b_batch = b_count / (cols * 3);
        float *a = op_random(&prng, a_count);
        float *b = op_random(&prng, b_count);
        double want[512];
        for (int64_t i = 0; i < y_count; i++) {
            int64_t n = i / (rows * cols);
            // The stacks here either match, broadcast as a whole, or (last case) cross.
            int64_t na = a_batch == batch ? n : a_batch == 1 ? 0 : n / b_batch;
            int64_t nb = b_batch == batch ? n : b_batch == 1 ? 0 : n % b_batch;
            int64_t r = i / cols % rows;
            want[i] = 0;
            for (int64_t k = 0; k < 3; k++) {
                want[i] +=
                    (double)a[(na * rows + r) * 3 + k] * (double)b[(nb * 3 + k) * cols + i % cols];
            }
        }
        struct op_rig *rig = op_named("MatMul", "a b", "y");
        struct eng_array arrays[2] = {op_array(ENG_F32, a, shapes[s].a, shapes[s].a_rank),
                                      op_array(ENG_F32, b, shapes[s].b, shapes[s].b_rank)};
        op_feed(rig, "a", &arrays[0]);
        op_feed(rig, "b", &arrays[1]);
        op_run_at(rig, 9);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, shapes[s].y, shapes[s].y_rank);
        op_near(&y, want, y_count, 1e-6);
        op_done(rig);
        free(a);
        free(b);
    }
}

static void gemm_in_every_form(void **state)
{
    (void)state;
    static const int64_t c_dims[][2] = {{1, 1}, {4, 1}, {1, 5}, {4, 5}};
    struct base_prng prng;
    base_prng_seed(&prng, 33);
    print_message("seed 33\n");
    for (int form = 0; form < 32; form++) {
        bool trans_a = form & 1;
        bool trans_b = form & 2;
        const int64_t *cd = c_dims[form / 4 % 4];
        bool constant = form >= 16;
        float *a = op_random(&prng, 12);
        float *b = op_random(&prng, 15);
        float *c = op_random(&prng, cd[0] * cd[1]);
        double want[20];
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < 5; j++) {
                double sum = 0;
                for (int k = 0; k < 3; k++) {
                    sum += (double)a[trans_a ? k * 4 + i : i * 3 + k] *
                           (double)b[trans_b ? j * 3 + k : k * 5 + j];
                }
                double addend = (double)c[(cd[0] == 1 ? 0 : i) * cd[1] + (cd[1] == 1 ? 0 : j)];
                want[i * 5 + j] = 0.5 * sum + 0.25 * addend;
            }
        }
        struct op_rig *rig = op_named("Gemm", "a b c", "y");
        op_attr_float(rig, "alpha", 0.5f);
        op_attr_float(rig, "beta", 0.25f);
        op_attr_int(rig, "transA", trans_a);
        op_attr_int(rig, "transB", trans_b);
        struct eng_array arrays[3] = {op_floats(a, trans_a ? 3 : 4, trans_a ? 4 : 3),
                                      op_floats(b, trans_b ? 5 : 3, trans_b ? 3 : 5),
                                      op_array(ENG_F32, c, cd, 2)};
        op_feed(rig, "a", &arrays[0]);
        (constant ? op_constant : op_feed)(rig, "b", &arrays[1]);
        (constant ? op_constant : op_feed)(rig, "c", &arrays[2]);
        op_run_at(rig, 11);
        struct eng_array y = op_output(rig, 0);
        op_near(&y, want, 20, 1e-6);
        op_done(rig);
        free(a);
        free(b);
        free(c);
    }
}

static void mismatched_products_are_named(void **state)
{
    (void)state;
    static const float data[12];
    struct eng_array arrays[3] = {op_floats(data, 2, 3), op_floats(data, 2, 3), op_floats(data, 3)};
    struct op_rig *rig = op_named("MatMul", "a b", "y");
    op_feed(rig, "a", &arrays[0]);
    op_feed(rig, "b", &arrays[1]);
    op_refused(rig, 9, BASE_ERR_INVALID, "float[2,3] times float[2,3]");
    rig = op_named("Gemm", "a b", "y");
    op_feed(rig, "a", &arrays[0]);
    op_feed(rig, "b", &arrays[2]);
    op_refused(rig, 11, BASE_ERR_INVALID, "times");
    rig = op_named("Gemm", "a b c", "y");
    op_attr_int(rig, "transB", 1);
    op_feed(rig, "a", &arrays[0]);
    op_feed(rig, "b", &arrays[1]);
    op_feed(rig, "c", &arrays[2]);
    op_refused(rig, 11, BASE_ERR_INVALID, "does not broadcast");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equations),
        cmocka_unit_test(dims_of_one_broadcast),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(wrong_equations_are_named),
        cmocka_unit_test(products),
        cmocka_unit_test(gemm_in_every_form),
        cmocka_unit_test(mismatched_products_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
