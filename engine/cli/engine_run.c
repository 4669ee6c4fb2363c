// `walle-engine run`, `search` and `dump`: one session, planned or run, and what came of it. Called
// by engine_cli_main.c, on the main thread; inputs come in and outputs go to files by
// engine_cli_io.c, which the other commands share. The three are in one file because they begin
// alike, with a session for the shapes that were given: `search` ends with the plan's table, `dump`
// with the program as text (at most DUMP_BYTES_MAX), `run` with the outputs.
#include "cli/engine_cli.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/check.h"
#include "session/segment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DUMP_BYTES_MAX ((size_t)1 << 30)
#define SHOWN_VALUES   6

// --- run -----------------------------------------------------------------------------------------

static void print_range(const struct eng_array *array)
{
    int64_t count = eng_desc_count(&array->desc);
    if (array->desc.dtype != ENG_F32 || count == 0) {
        return;
    }
    const float *data = array->data;
    float low = data[0];
    float high = data[0];
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        low = fminf(low, data[i]);
        high = fmaxf(high, data[i]);
        sum += (double)data[i];
    }
    printf("  min %.6g  max %.6g  mean %.6g", (double)low, (double)high, sum / (double)count);
}

static void print_array(const char *name, const struct eng_array *array)
{
    char text[96];
    printf("%s: %s", name, eng_desc_text(&array->desc, text, sizeof text));
    print_range(array);
    printf("\n");
}

// Prints every output and writes them to --output.
static enum base_status show_outputs(struct eng_cli *cli, struct eng_model *model,
                                     struct eng_session *session, struct base_error *error)
{
    struct eng_tensor_list all = {.kind = ENG_VALUE_SEQUENCE};
    const struct eng_cli_loaded loaded = {model, session};
    size_t outputs = eng_model_output_count(model);
    size_t total = 0;
    for (size_t i = 0; i < outputs; i++) {
        total += eng_session_output_items(session, i);
    }
    all.arrays = base_arena_zalloc(&cli->arena, (total + 1) * sizeof *all.arrays);
    all.names = base_arena_zalloc(&cli->arena, (total + 1) * sizeof *all.names);
    if (all.arrays == NULL || all.names == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t i = 0; i < outputs; i++) {
        struct eng_tensor_list list;
        BASE_TRY(eng_cli_output(cli, &loaded, i, &list, error));
        for (uint32_t j = 0; j < list.count; j++) {
            base_assert(all.count < total);
            print_array(list.names[j], &list.arrays[j]);
            all.arrays[all.count] = list.arrays[j];
            all.names[all.count] = list.names[j];
            all.count++;
        }
        if (list.count == 0) {
            printf("%s: empty\n", eng_model_output(model, i)->name);
        }
    }
    if (cli->output == NULL) {
        return BASE_OK;
    }
    all.kind = all.count == 1 ? ENG_VALUE_TENSOR : ENG_VALUE_SEQUENCE;
    return eng_tensor_file_write(cli->output, &all, error);
}

static int by_number(const void *left, const void *right)
{
    uint64_t x = *(const uint64_t *)left;
    uint64_t y = *(const uint64_t *)right;
    return x < y ? -1 : x > y;
}

static uint64_t planned_us(const struct eng_session *session)
{
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    return stats.plan_us;
}

// Runs as often as asked for. What planning takes is not the runs': that of the later segments
// falls into the first one.
static enum base_status time_runs(struct eng_cli *cli, struct eng_session *session,
                                  uint64_t *times_ns, struct base_error *error)
{
    BASE_TRY(eng_session_prepare(session, error));
    for (uint32_t i = 0; i < cli->repeat; i++) {
        uint64_t planned_before_us = planned_us(session);
        uint64_t begin_ns = eng_cli_now_ns();
        BASE_TRY(eng_session_run(session, NULL, error));
        uint64_t passed_ns = eng_cli_now_ns() - begin_ns;
        uint64_t plan_ns = (planned_us(session) - planned_before_us) * 1000;
        times_ns[i] = passed_ns > plan_ns ? passed_ns - plan_ns : 0;
    }
    return BASE_OK;
}

static void print_times(const struct eng_cli *cli, const struct eng_session *session,
                        uint64_t *times_ns)
{
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    base_assert(cli->repeat > 0);
    uint64_t first_ns = times_ns[0];
    qsort(times_ns, cli->repeat, sizeof *times_ns, by_number);
    uint64_t median_ns = times_ns[cli->repeat / 2];
    int digits = eng_cli_ms_digits(median_ns);
    if (cli->repeat == 1) {
        fprintf(stderr, "1 run: %.*f ms", digits, (double)first_ns / 1e6);
    } else {
        fprintf(stderr, "%u runs: first %.*f ms, median %.*f ms", cli->repeat, digits,
                (double)first_ns / 1e6, digits, (double)median_ns / 1e6);
    }
    fprintf(stderr, " (%s, planning took another %.3f ms, %u commands in %u segment%s)\n",
            stats.isa, (double)stats.plan_us / 1000, stats.command_count, stats.segment_count,
            stats.segment_count == 1 ? "" : "s");
    if (stats.device_bytes > 0) {
        fprintf(stderr, "%s: %zu bytes, %u command%s left to the host, %llu of the runs replayed\n",
                stats.device, stats.device_bytes, stats.left_to_host,
                stats.left_to_host == 1 ? "" : "s", (unsigned long long)stats.replays);
    }
}

static enum base_status run_all(struct eng_cli *cli, struct eng_model *model,
                                struct eng_session *session, struct base_error *error)
{
    cli->repeat = cli->repeat == 0 ? 1 : cli->repeat;
    uint64_t *times_ns = base_arena_zalloc(&cli->arena, cli->repeat * sizeof *times_ns);
    if (times_ns == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(time_runs(cli, session, times_ns, error));
    BASE_TRY(show_outputs(cli, model, session, error));
    if (cli->trace != NULL) {
        BASE_TRY(eng_session_trace(session, cli->trace, error));
    }
    print_times(cli, session, times_ns);
    return BASE_OK;
}

int eng_cli_run(struct eng_cli *cli)
{
    struct eng_model *model = eng_cli_model(cli->words[0], NULL);
    if (model == NULL) {
        return ENG_CLI_FAILED;
    }
    cli->session.trace = cli->trace != NULL;
    struct eng_session *session = eng_cli_session(model, &cli->session);
    int code = ENG_CLI_FAILED;
    if (session != NULL && eng_cli_set_inputs(cli, model, session) == BASE_OK) {
        struct base_error error = {0};
        error.status = run_all(cli, model, session, &error);
        code = error.status == BASE_OK ? ENG_CLI_OK : eng_cli_complain(cli->words[0], &error);
    }
    eng_session_free(session);
    eng_model_unref(model);
    return code;
}

// --- search --------------------------------------------------------------------------------------

int eng_cli_search(struct eng_cli *cli)
{
    base_assert(cli->word_count == 1);
    struct eng_model *model = eng_cli_model(cli->words[0], NULL);
    if (model == NULL) {
        return ENG_CLI_FAILED;
    }
    cli->session.explain = cli->explain;
    cli->is_random = true;
    struct eng_session *session = eng_cli_session(model, &cli->session);
    int code = ENG_CLI_FAILED;
    if (session != NULL && eng_cli_set_inputs(cli, model, session) == BASE_OK) {
        struct base_error error = {0};
        error.status = eng_session_run(session, NULL, &error);
        code = error.status == BASE_OK ? ENG_CLI_OK : eng_cli_complain(cli->words[0], &error);
    }
    if (code == ENG_CLI_OK) {
        struct eng_session_stats stats;
        eng_session_stats(session, &stats);
        printf("%s: planned in %.3f ms, of that %.3f ms measuring\n", stats.isa,
               (double)stats.plan_us / 1000, (double)stats.search_us / 1000);
    }
    eng_session_free(session);
    eng_model_unref(model);
    return code;
}

// --- dump ----------------------------------------------------------------------------------------

static const char *value_name(const struct eng_graph *graph, uint32_t value)
{
    base_assert(value == ENG_NONE || value < graph->value_count);
    return value == ENG_NONE ? "-" : graph->values[value].name;
}

static void print_text(struct eng_string text)
{
    printf("\"%.*s\"", text.size > 60 ? 60 : (int)text.size, text.at);
}

static void print_attr(const struct eng_attr *attr)
{
    printf(" %s=", attr->name);
    char text[96];
    switch (attr->kind) {
    case ENG_ATTR_INT:
        printf("%lld", (long long)attr->u.i);
        break;
    case ENG_ATTR_FLOAT:
        printf("%g", (double)attr->u.f);
        break;
    case ENG_ATTR_STRING:
        print_text(attr->u.s);
        break;
    case ENG_ATTR_TENSOR:
        printf("%s", eng_desc_text(&attr->u.tensor.desc, text, sizeof text));
        break;
    case ENG_ATTR_INTS:
    case ENG_ATTR_FLOATS:
    case ENG_ATTR_STRINGS:
        printf("[");
        for (uint32_t i = 0; i < attr->count && i < SHOWN_VALUES; i++) {
            printf("%s", i == 0 ? "" : ",");
            if (attr->kind == ENG_ATTR_INTS) {
                printf("%lld", (long long)attr->u.ints[i]);
            } else if (attr->kind == ENG_ATTR_FLOATS) {
                printf("%g", (double)attr->u.floats[i]);
            } else {
                print_text(attr->u.strings[i]);
            }
        }
        printf("%s]", attr->count > SHOWN_VALUES ? ",..." : "");
        break;
    default:
        base_assert(attr->kind == ENG_ATTR_GRAPH || attr->kind == ENG_ATTR_OTHER);
        printf("{...}");
        break;
    }
}

// Depth is bounded by the reader (ENG_GRAPH_DEPTH_MAX).
static void print_graph(const struct eng_graph *graph, int indent)
{
    base_assert(indent >= 0 && indent <= 4 * (int)ENG_GRAPH_DEPTH_MAX);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        printf("%*s%u %s", indent, "", n, node->op);
        for (uint32_t i = 0; i < node->input_count; i++) {
            printf("%s%s", i == 0 ? "(" : ", ", value_name(graph, node->inputs[i]));
        }
        printf("%s ->", node->input_count > 0 ? ")" : "()");
        for (uint32_t i = 0; i < node->output_count; i++) {
            printf("%s %s", i == 0 ? "" : ",", value_name(graph, node->outputs[i]));
        }
        for (uint32_t i = 0; i < node->attr_count; i++) {
            print_attr(&node->attrs[i]);
        }
        printf("%s%s\n", node->name[0] != '\0' ? "  # " : "", node->name);
        for (uint32_t i = 0; i < node->attr_count; i++) {
            if (node->attrs[i].kind == ENG_ATTR_GRAPH) {
                print_graph(node->attrs[i].u.graph, indent + 4);
            }
        }
    }
}

static enum base_status dump_program(struct eng_session *session, struct base_error *error)
{
    BASE_TRY(eng_session_run(session, NULL, error));
    for (uint32_t i = 0; i < session->segment_count; i++) {
        const struct eng_segment *segment = session->segments[i];
        struct base_buffer text;
        base_buffer_init(&text, base_alloc_heap(), DUMP_BYTES_MAX);
        enum base_status status = eng_program_dump(&segment->program, &text);
        printf("segment %u: nodes %u to %u\n", i, segment->first, segment->next);
        if (status == BASE_OK && text.data != NULL) {
            fputs((const char *)text.data, stdout);
        }
        base_buffer_done(&text);
        BASE_TRY(status);
        for (uint32_t j = 0; j < segment->exec.step_count; j++) {
            const struct eng_step *step = &segment->exec.steps[j];
            printf("step %u: %s  %s\n", j, eng_atomic_text(step->command->op),
                   step->kernel != NULL ? step->kernel : "");
        }
    }
    return BASE_OK;
}

int eng_cli_dump(struct eng_cli *cli)
{
    base_assert(cli->word_count == 1);
    struct eng_model *model = eng_cli_model(cli->words[0], NULL);
    if (model == NULL) {
        return ENG_CLI_FAILED;
    }
    int code = ENG_CLI_OK;
    if (!cli->program) {
        print_graph(model->graph, 0);
    } else {
        cli->is_random = true;
        struct eng_session *session = eng_cli_session(model, &cli->session);
        code = ENG_CLI_FAILED;
        if (session != NULL && eng_cli_set_inputs(cli, model, session) == BASE_OK) {
            struct base_error error = {0};
            error.status = dump_program(session, &error);
            code = error.status == BASE_OK ? ENG_CLI_OK : eng_cli_complain(cli->words[0], &error);
        }
        eng_session_free(session);
    }
    eng_model_unref(model);
    return code;
}
