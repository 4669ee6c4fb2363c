// The backend of a graph: the least total by given rates, copies and what is left to the reference
// included; near ties, small graphs and sessions that name an instruction set stay with the best.
#include "session/session_backend.h"

#include "backend/cpu/kernel/isa.h"
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "search/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { A, B, C, D, TENSORS };
enum { PRODUCT, COPY, SORT, COMMANDS };

#define SIZE 256 // 2 * 256^3 operations: over ENG_BACKEND_FLOPS_MIN

struct fixture {
    struct eng_tensor tensors[TENSORS];
    struct eng_command commands[COMMANDS];
    struct eng_region region;
    struct eng_program program;
    uint32_t numbers[TENSORS];
};

static void fill(struct fixture *f, int64_t size)
{
    *f = (struct fixture){0};
    for (uint32_t i = 0; i < TENSORS; i++) {
        f->numbers[i] = i;
        f->tensors[i].kind = i == B ? ENG_CONST : ENG_TEMP;
        f->tensors[i].desc = (struct eng_desc){.dtype = ENG_F32, .rank = 2, .dims = {size, size}};
    }
    f->region = (struct eng_region){.source = C, .rank = 1, .size = {size * size}};
    f->commands[PRODUCT] = (struct eng_command){.op = ENG_OP_MATMUL,
                                                .input_count = 2,
                                                .output_count = 1,
                                                .inputs = &f->numbers[A],
                                                .outputs = &f->numbers[C],
                                                .box = {.rank = 3, .size = {size, size, size}}};
    f->commands[COPY] = (struct eng_command){.op = ENG_OP_RASTER,
                                             .input_count = 1,
                                             .output_count = 1,
                                             .inputs = &f->numbers[C],
                                             .outputs = &f->numbers[D],
                                             .u.raster = {.regions = &f->region, .count = 1}};
    f->commands[SORT] = (struct eng_command){.op = ENG_OP_TOPK,
                                             .input_count = 1,
                                             .output_count = 1,
                                             .inputs = &f->numbers[D],
                                             .outputs = &f->numbers[A]};
    f->program = (struct eng_program){.tensors = f->tensors,
                                      .commands = f->commands,
                                      .tensor_count = TENSORS,
                                      .command_count = COMMANDS};
}

// Every backend of this processor at `flops`, one of them at `other_flops`.
static struct eng_machine rates(const char *other, double flops, double other_flops)
{
    struct eng_machine machine = {.bytes_l2 = 5e10, .bytes_l3 = 4e10, .bytes_memory = 1e10};
    for (int i = 0; i <= ENG_ISA_COUNT; i++) {
        const char *name = i < ENG_ISA_COUNT ? eng_isa_name((enum eng_isa)i) : "ref";
        struct eng_rate *rate = &machine.rates[machine.rate_count++];
        snprintf(rate->name, sizeof rate->name, "%s", name);
        rate->flops = strcmp(name, other) == 0 ? other_flops : flops;
    }
    return machine;
}

struct ask {
    const char *other; // backend with another rate
    double other_flops;
    bool is_open, explained;
    int64_t size;
};

// Name of the backend taken; the table goes to `text` when it is asked for.
static const char *taken(const struct ask *ask, struct base_buffer *text)
{
    struct fixture f;
    fill(&f, ask->size);
    const struct eng_machine machine = rates(ask->other, 1e11, ask->other_flops);
    const struct eng_kernels *best = eng_kernels_find(NULL);
    const struct eng_search_options options = {
        .clock = base_clock_real(), .isa = best->name, .threads = 1, .machine = &machine};
    struct eng_session session = {
        .kernels = best,
        .is_open = ask->is_open,
        .options = {.threads = 1, .explain = ask->explained ? "-" : NULL}};
    assert_int_equal(eng_search_new(&options, &session.search), BASE_OK);
    const struct eng_kernels *kernels = eng_session_backend(&session, &f.program);
    assert_ptr_equal(eng_session_backend(&session, &f.program), kernels); // and again the same
    if (text != NULL) {
        assert_int_equal(eng_search_explain(session.search, text), BASE_OK);
    }
    eng_search_free(session.search);
    return kernels != NULL ? kernels->name : "ref";
}

static void the_least_total_is_taken(void **state)
{
    (void)state;
    const char *best = eng_kernels_find(NULL)->name;
    assert_string_equal(taken(&(struct ask){"none", 0, true, false, SIZE}, NULL), best);
    // The generic kernels are everywhere: ten times the rate of the others, or hardly more.
    assert_string_equal(taken(&(struct ask){"generic", 1e12, true, false, SIZE}, NULL), "generic");
    assert_string_equal(taken(&(struct ask){"generic", 1.02e11, true, false, SIZE}, NULL), best);
    assert_string_equal(taken(&(struct ask){"ref", 1e15, true, false, SIZE}, NULL), "ref");
}

static void some_sessions_do_not_ask(void **state)
{
    (void)state;
    const char *best = eng_kernels_find(NULL)->name;
    // Named, and small.
    assert_string_equal(taken(&(struct ask){"ref", 1e15, false, false, SIZE}, NULL), best);
    assert_string_equal(taken(&(struct ask){"ref", 1e15, true, false, SIZE / 8}, NULL), best);
    // An explanation changes nothing.
    assert_string_equal(taken(&(struct ask){"ref", 1e15, false, true, SIZE}, NULL), best);
    assert_string_equal(taken(&(struct ask){"ref", 1e15, true, true, SIZE / 8}, NULL), best);
    struct eng_session session = {.kernels = eng_kernels_find(NULL), .is_open = true};
    struct fixture f;
    fill(&f, SIZE);
    assert_ptr_equal(eng_session_backend(&session, &f.program), session.kernels); // no search
}

// The row of a backend in the table, its five figures.
static void read_row(const char *text, const char *backend, double out[5])
{
    char head[32];
    snprintf(head, sizeof head, " %s ", backend);
    const char *row = strstr(strstr(text, "estimated us"), head);
    assert_non_null(row);
    char *end = (char *)(uintptr_t)(row + strlen(head));
    for (int i = 0; i < 5; i++) {
        out[i] = strtod(end, &end);
    }
}

static void copies_and_fallbacks_are_counted(void **state)
{
    (void)state;
    struct base_buffer text;
    base_buffer_init(&text, base_alloc_heap(), 0);
    const char *best = eng_kernels_find(NULL)->name;
    assert_string_equal(taken(&(struct ask){"none", 0, true, true, SIZE}, &text), best);
    double row[5];
    read_row((const char *)text.data, best, row);
    print_message("%s: compute %.1f copies %.1f other %.1f reference %.1f total %.1f\n", best,
                  row[0], row[1], row[2], row[3], row[4]);
    const double elements = (double)SIZE * SIZE;
    assert_true(row[0] > 0.99 * 2 * elements * SIZE / 1e5 &&
                row[0] < 1.01 * 2 * elements * SIZE / 1e5);
    // Two bytes moved for each byte of the raster, at the rate of some level of the memory.
    assert_true(row[1] > 8 * elements / 5e4 * 0.99 && row[1] < 8 * elements / 1e4 * 1.01);
    assert_true(row[3] > 0); // TOPK has no fast kernel
    const double sum = row[0] + row[1] + row[2] + row[3];
    assert_true(row[4] > sum - 1 && row[4] < sum + 1);
    base_buffer_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_total_is_taken),
        cmocka_unit_test(some_sessions_do_not_ask),
        cmocka_unit_test(copies_and_fallbacks_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
