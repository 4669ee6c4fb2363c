// Calls of an inference service whose models are in an infer_kit, for tests: each is submitted,
// waited for, and looked at; and a model that runs until somebody stops it.
#ifndef INFER_ASK_H
#define INFER_ASK_H

#include "infer_kit.h"
#include "onnx_bytes.h"

#include "base/alloc.h"
#include "infer/infer_private.h"

#include <pthread.h>

#define ARENA_MAX ((size_t)1 << 24)

struct seen {
    pthread_mutex_t lock;
    pthread_cond_t more;
    uint32_t done;
};

struct ask {
    struct gw_infer_ticket ticket; // first: done finds the rest by it
    struct base_arena arena;
    struct gw_infer_call call;
    struct gw_infer_tensor input;
    float x[64 * 3];
    struct seen *seen;
    uint32_t ends;
    uint32_t place; // among all that ended, from 1
};

struct world {
    struct infer_kit kit;
    struct seen seen;
    struct gw_infer_service *service;
    struct base_log log;
};

static inline void done(struct gw_infer_ticket *ticket)
{
    struct ask *ask = (struct ask *)ticket;
    pthread_mutex_lock(&ask->seen->lock);
    ask->ends++;
    ask->place = ++ask->seen->done;
    pthread_cond_broadcast(&ask->seen->more);
    pthread_mutex_unlock(&ask->seen->lock);
}

static inline void wait_for(struct seen *seen, uint32_t count)
{
    pthread_mutex_lock(&seen->lock);
    while (seen->done < count) {
        pthread_cond_wait(&seen->more, &seen->lock);
    }
    pthread_mutex_unlock(&seen->lock);
}

// 0: it has not ended.
static inline uint32_t place_of(const struct ask *ask)
{
    pthread_mutex_lock(&ask->seen->lock);
    uint32_t place = ask->place;
    pthread_mutex_unlock(&ask->seen->lock);
    return place;
}

static inline void begin(struct world *world)
{
    *world = (struct world){0};
    pthread_mutex_init(&world->seen.lock, NULL);
    pthread_cond_init(&world->seen.more, NULL);
    infer_kit_begin(&world->kit);
}

static inline void start(struct world *world, uint32_t threads)
{
    struct base_error error = {0};
    base_log_stderr(&world->log, BASE_LOG_WARN); // why a model is not loaded
    const struct gw_infer_options options = {
        .models_dir = world->kit.dir, .threads = threads, .log = &world->log};
    if (gw_infer_service_new(&options, &world->service, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

static inline void end(struct world *world)
{
    gw_infer_service_free(world->service);
    infer_kit_end(&world->kit);
    pthread_cond_destroy(&world->seen.more);
    pthread_mutex_destroy(&world->seen.lock);
}

static inline struct ask *ask_new(struct world *world, const char *model, uint32_t rows)
{
    struct ask *ask = calloc(1, sizeof(*ask));
    assert_non_null(ask);
    base_arena_init(&ask->arena, base_alloc_heap(), 0, ARENA_MAX);
    ask->seen = &world->seen;
    ask->input = (struct gw_infer_tensor){.name = BASE_STR("x"),
                                          .desc = {ENG_F32, 2, {rows, 3}},
                                          .data = ask->x,
                                          .bytes = rows * 3 * sizeof(float)};
    ask->call = (struct gw_infer_call){.model = base_str_of(model),
                                       .priority = GW_INFER_PRIORITY_USUAL,
                                       .inputs = &ask->input,
                                       .input_count = 1};
    ask->ticket = (struct gw_infer_ticket){.call = &ask->call, .arena = &ask->arena, .done = done};
    return ask;
}

static inline void ask_free(struct ask *ask)
{
    assert_int_equal(ask->ends, 1);
    base_arena_done(&ask->arena);
    free(ask);
}

// One call, waited for.
static inline struct ask *ask_one(struct world *world, struct ask *ask)
{
    pthread_mutex_lock(&world->seen.lock);
    uint32_t before = world->seen.done;
    pthread_mutex_unlock(&world->seen.lock);
    gw_infer_submit(world->service, &ask->ticket);
    wait_for(&world->seen, before + 1);
    return ask;
}

static inline void check_relu(const struct ask *ask)
{
    static const float w[3] = {1, -2, 3};
    const struct gw_infer_tensor *y = &ask->ticket.result.outputs[0];
    size_t count = ask->input.bytes / sizeof(float);
    assert_int_equal(ask->ticket.status, BASE_OK);
    assert_int_equal(ask->ticket.result.output_count, 1);
    assert_int_equal(y->bytes, ask->input.bytes);
    assert_int_equal(y->desc.dims[0], ask->input.desc.dims[0]);
    for (size_t i = 0; i < count; i++) {
        float sum = ask->x[i] + w[i % 3];
        float wanted = sum > 0 ? sum : 0;
        assert_true(((const float *)y->data)[i] == wanted);
    }
}

static const int64_t open_dims[] = {-1, -1}; // so that no load plans it

static inline void add_input(struct base_buffer *graph, const char *name, enum eng_dtype dtype,
                             uint32_t rank)
{
    ob_take(graph, OB_GRAPH_INPUT, ob_value(name, dtype, rank, open_dims));
}

// y = x, through a loop that ends when the sum of x is not below a million: for ever, as far as a
// test is concerned, so whoever is behind it waits until somebody stops it.
static inline void add_endless(const struct infer_kit *kit, const char *name)
{
    struct base_buffer graph = ob_new();
    struct base_buffer body = ob_new();
    char path[64];
    const float limit = 1e6F;
    add_input(&body, "i", ENG_I64, 0);
    add_input(&body, "go", ENG_BOOL, 0);
    add_input(&body, "s", ENG_F32, 2);
    struct base_buffer sum = ob_node("ReduceSum", "sum", "s", "t");
    ob_attr_int(&sum, "keepdims", 0);
    ob_take(&body, OB_GRAPH_NODE, sum);
    ob_take(&body, OB_GRAPH_INITIALIZER,
            ob_raw_tensor("limit", ENG_F32, 0, NULL, &limit, sizeof(limit)));
    ob_take(&body, OB_GRAPH_NODE, ob_node("Less", "less", "t,limit", "more"));
    ob_take(&body, OB_GRAPH_NODE, ob_node("Identity", "keep", "s", "next"));
    ob_take(&body, OB_GRAPH_OUTPUT, ob_value("more", ENG_BOOL, 0, NULL));
    ob_take(&body, OB_GRAPH_OUTPUT, ob_value("next", ENG_F32, 2, open_dims));
    ob_text(&body, OB_GRAPH_NAME, "b");
    add_input(&graph, "x", ENG_F32, 2);
    struct base_buffer node = ob_node("Loop", "loop", ",,x", "y");
    ob_attr_graph(&node, "body", body);
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, open_dims));
    ob_text(&graph, OB_GRAPH_NAME, "g");
    struct base_buffer model = ob_model(8, 13, graph);
    infer_kit_folder(kit, name);
    snprintf(path, sizeof(path), "%s/1", name);
    infer_kit_folder(kit, path);
    snprintf(path, sizeof(path), "%s/1/model.onnx", name);
    infer_kit_write(kit, path, model.data, model.size);
    base_buffer_done(&model);
}

static inline struct gw_infer_figures figures_of(struct world *world, const char *model)
{
    struct base_arena arena;
    struct gw_infer_row *rows = NULL;
    size_t count = 0;
    const struct gw_infer_call named = {.model = base_str_of(model)};
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(gw_infer_rows(world->service, &named, &arena, &rows, &count), BASE_OK);
    struct gw_infer_figures figures = rows[0].figures;
    base_arena_done(&arena);
    return figures;
}

static inline void wait_until_runs(struct world *world, const char *model)
{
    while (figures_of(world, model).running == 0) {
        usleep(500);
    }
}

#endif
