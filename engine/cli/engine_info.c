// `walle-engine info`: what a model declares and is made of; or, without one, what the engine is
// (instruction sets, BLAS, operators it knows, commands each backend takes). Called by
// engine_cli_main.c, on the main thread. It loads a model and plans nothing, so it is quick for
// any; graphs are walked with their subgraphs, whose depth the reader has bounded. The lists come
// from the tables the engine itself works with.
#include "cli/engine_cli.h"

#include "backend/backend.h"
#include "backend/cpu/blas.h"
#include "backend/cpu/kernel/isa.h"
#include "backend/cuda/cuda_device.h"
#include "base/check.h"
#include "lower/lower.h"

#include <stdlib.h>
#include <string.h>

struct op_row {
    const char *domain;
    const char *op;
    uint32_t count;
    const struct eng_op *impl; // of the first such node; NULL: unsupported
};

static void print_port(const char *title, const struct eng_port_info *port)
{
    printf("  %-6s %s: %s", title, port->name, eng_dtype_name(port->desc.dtype));
    if (!port->has_shape) {
        printf(" (no shape declared)\n");
        return;
    }
    printf("[");
    for (uint32_t i = 0; i < port->desc.rank; i++) {
        const char *comma = i == 0 ? "" : ",";
        if (port->desc.dims[i] >= 0) {
            printf("%s%lld", comma, (long long)port->desc.dims[i]);
        } else {
            printf("%s%s", comma, port->dim_names[i] != NULL ? port->dim_names[i] : "?");
        }
    }
    printf("]\n");
}

static int by_count(const void *left, const void *right)
{
    const struct op_row *x = left;
    const struct op_row *y = right;
    if (x->count != y->count) {
        return x->count < y->count ? 1 : -1;
    }
    return strcmp(x->op, y->op);
}

static const char *kind_of(const struct eng_op *impl)
{
    static const char *const kinds[] = {"atomic", "transform", "composite", "control"};
    base_assert(impl == NULL || impl->kind < sizeof kinds / sizeof kinds[0]);
    return impl != NULL ? kinds[impl->kind] : "unsupported";
}

struct op_list {
    struct base_arena *arena;
    struct op_row *rows;
    uint32_t count, capacity;
    uint32_t node_count, graph_count;
};

static bool count_node(struct op_list *list, const struct eng_node *node)
{
    list->node_count++;
    for (uint32_t i = 0; i < list->count; i++) {
        struct op_row *row = &list->rows[i];
        if (strcmp(row->op, node->op) == 0 && strcmp(row->domain, node->domain) == 0) {
            row->count++;
            return true;
        }
    }
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        struct op_row *grown = base_arena_alloc(list->arena, capacity * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        if (list->count > 0) {
            memcpy(grown, list->rows, list->count * sizeof *grown);
        }
        list->rows = grown;
        list->capacity = capacity;
    }
    base_assert(list->count < list->capacity);
    list->rows[list->count++] = (struct op_row){node->domain, node->op, 1, node->impl};
    return true;
}

// Counts a graph and its subgraphs; the reader has bounded their depth (ENG_GRAPH_DEPTH_MAX).
static bool count_graph(struct op_list *list, const struct eng_graph *graph)
{
    list->graph_count++;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        if (!count_node(list, node)) {
            return false;
        }
        for (uint32_t i = 0; i < node->attr_count; i++) {
            if (node->attrs[i].kind == ENG_ATTR_GRAPH &&
                !count_graph(list, node->attrs[i].u.graph)) {
                return false;
            }
        }
    }
    return true;
}

static void print_operators(struct eng_cli *cli, const struct eng_model *model)
{
    struct op_list list = {.arena = &cli->arena};
    if (!count_graph(&list, model->graph)) {
        return;
    }
    if (list.count > 0) {
        qsort(list.rows, list.count, sizeof *list.rows, by_count);
    }
    base_assert(list.graph_count > 0 && list.count <= list.node_count);
    printf("nodes       %u (%u operators, %u subgraphs)\n", list.node_count, list.count,
           list.graph_count - 1);
    uint32_t unknown = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        const struct op_row *row = &list.rows[i];
        unknown += row->impl == NULL;
        printf("  %6u  %-28s %s%s%s\n", row->count, row->op, kind_of(row->impl),
               row->domain[0] != '\0' ? "  domain " : "", row->domain);
    }
    if (unknown > 0) {
        printf("%u of the operators are not supported: this model cannot be run\n", unknown);
    }
}

static void print_initializers(const struct eng_graph *graph)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        char text[96];
        if (graph->values[v].is_initializer) {
            printf("  weight %s: %s\n", graph->values[v].name,
                   eng_desc_text(&graph->values[v].desc, text, sizeof text));
        }
    }
}

// --- counts --------------------------------------------------------------------------------------

// Distinct operators by kind; rows for further ranges of opsets follow the first of a name.
static void print_operator_counts(void)
{
    static const char *const kinds[] = {"atomic", "transform", "composite", "control"};
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    _Static_assert(KINDS == ENG_KIND_CONTROL + 1, "each kind has a name");
    size_t total = 0;
    size_t by_kind[KINDS] = {0};
    for (size_t i = 0; i < eng_operator_count(); i++) {
        const struct eng_operator_info *row = eng_operator(i);
        bool is_new = true;
        for (size_t j = 0; j < i && is_new; j++) {
            is_new = strcmp(row->name, eng_operator(j)->name) != 0 ||
                     strcmp(row->domain, eng_operator(j)->domain) != 0;
        }
        for (size_t k = 0; k < KINDS && is_new; k++) {
            by_kind[k] += strcmp(row->kind, kinds[k]) == 0;
        }
        total += is_new;
    }
    printf("operators   %zu handled (", total);
    for (size_t k = 0; k < KINDS; k++) {
        printf("%s%zu %s", k == 0 ? "" : ", ", by_kind[k], kinds[k]);
    }
    printf(")\n");
}

static size_t count_commands(bool (*takes)(enum eng_atomic op))
{
    size_t count = 0;
    for (size_t i = 0; i <= eng_atomic_count(); i++) { // raster is number 0
        count += takes((enum eng_atomic)i);
    }
    return count;
}

static void print_counts(void)
{
    print_operator_counts();
    printf("commands    %zu atomic and raster: what a backend may implement\n", eng_atomic_count());
    printf("kernels     by backend, of %zu\n", eng_atomic_count() + 1);
    printf("  %-10s %zu\n", "ref", count_commands(eng_ref_takes));
    for (int i = 0; i < ENG_ISA_COUNT; i++) {
        printf("  %-10s %zu%s\n", eng_isa_name((enum eng_isa)i), count_commands(eng_cpu_takes),
               eng_isa_has((enum eng_isa)i) ? "" : "  not on this processor");
    }
    printf("  %-10s %zu\n", "cuda", count_commands(eng_cuda_takes));
    printf("  %-10s 2 (matmul, conv of single pixels)%s\n", "blas",
           eng_blas_get() != NULL ? "" : "  not on this machine");
}

int eng_cli_info(struct eng_cli *cli)
{
    base_assert(cli->word_count <= 1);
    if (cli->counts) {
        print_counts();
    }
    if (cli->word_count == 0) {
        if (!cli->counts) {
            fprintf(stderr, "walle-engine: info needs a model, or --counts\n");
        }
        return cli->counts ? ENG_CLI_OK : ENG_CLI_USAGE;
    }
    struct eng_model_options options = {.allow_unknown = true};
    struct eng_model *model = eng_cli_model(cli->words[0], &options);
    if (model == NULL) {
        return ENG_CLI_FAILED;
    }
    printf("model       %s\n", cli->words[0]);
    printf("producer    %s\n", model->producer_name != NULL ? model->producer_name : "");
    printf("opset       %d (IR %lld)\n", model->opset, (long long)model->ir_version);
    printf("parameters  %llu\n", (unsigned long long)model->parameter_count);
    printf("inputs      %zu\n", eng_model_input_count(model));
    for (size_t i = 0; i < eng_model_input_count(model); i++) {
        print_port("input", eng_model_input(model, i));
    }
    printf("outputs     %zu\n", eng_model_output_count(model));
    for (size_t i = 0; i < eng_model_output_count(model); i++) {
        print_port("output", eng_model_output(model, i));
    }
    if (cli->is_verbose) {
        print_initializers(model->graph);
    }
    print_operators(cli, model);
    eng_model_unref(model);
    return ENG_CLI_OK;
}
