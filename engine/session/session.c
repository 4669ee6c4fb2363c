// Sessions: making and freeing them, planning, running, statistics.
//
// Users of engine.h call these on the session's own thread. Sessions of one model share the model
// (immutable) and its cache of packed weights (locks itself).
#include "session/session.h"

#include "backend/cpu/kernel/kernels.h"
#include "backend/run_device.h"
#include "backend/device_weights.h"
#include "backend/pack.h"
#include "base/alloc.h"
#include "base/check.h"
#include "session/exec_device.h"
#include "session/segment.h"
#include "session/session_device.h"
#include "session/session_search.h"

#include <stdlib.h>
#include <string.h>

#define SESSION_CHUNK     ((size_t)64 << 10)
#define SESSION_BYTES_MAX ((size_t)1 << 30)

// --- making --------------------------------------------------------------------------------------

// The model's pack cache; whoever comes first makes it.
static enum base_status share_packs(struct eng_model *model)
{
    if (__atomic_load_n(&model->packs, __ATOMIC_ACQUIRE) != NULL) {
        return BASE_OK;
    }
    struct eng_pack_cache *fresh = NULL;
    BASE_TRY(eng_pack_cache_new(&fresh));
    struct eng_pack_cache *none = NULL;
    if (!__atomic_compare_exchange_n(&model->packs, &none, fresh, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        eng_pack_cache_free(fresh); // another session was faster
    }
    return BASE_OK;
}

static enum base_status choose_kernels(struct eng_session *session, struct base_error *error)
{
    base_assert(session->kernels == NULL);
    const char *isa = session->options.isa;
    if (isa == NULL || isa[0] == '\0') {
        isa = getenv("WALLE_ENGINE_ISA");
    }
    if (isa != NULL && isa[0] == '\0') {
        isa = NULL;
    }
    if (isa != NULL && strcmp(isa, "ref") == 0) {
        session->isa = "ref";
        return BASE_OK;
    }
    session->kernels = eng_kernels_find(isa);
    if (session->kernels == NULL) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "instruction set '%s': this processor lacks it, or there is no such",
                              isa != NULL ? isa : "");
    }
    session->isa = session->kernels->name;
    session->is_open = isa == NULL;
    return BASE_OK;
}

static void note_use(struct eng_session *session, uint32_t value, uint32_t last)
{
    base_assert(value == ENG_NONE || value < session->model->graph->value_count);
    if (value != ENG_NONE && session->last_use[value] < last) {
        session->last_use[value] = last;
    }
}

// Fills last_use. A subgraph reads what it captures when its node runs.
static void find_last_uses(struct eng_session *session)
{
    const struct eng_graph *graph = session->model->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            note_use(session, node->inputs[i], n + 1);
        }
        for (uint32_t i = 0; i < node->attr_count; i++) {
            if (node->attrs[i].kind != ENG_ATTR_GRAPH) {
                continue;
            }
            const struct eng_graph *inner = node->attrs[i].u.graph;
            for (uint32_t j = 0; j < inner->capture_count; j++) {
                note_use(session, inner->captures[j].outer, n + 1);
            }
        }
    }
    for (size_t i = 0; eng_session_output_value(session, i) != ENG_NONE; i++) {
        note_use(session, eng_session_output_value(session, i), ENG_LAST_USE_OUTPUT);
    }
}

// Initializers that are graph outputs are there without running anything.
static enum base_status show_initializers(struct eng_session *session)
{
    const struct eng_graph *graph = session->model->graph;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct eng_value *value = &graph->values[v];
        if (!value->is_initializer ||
            (session->last_use[v] != ENG_LAST_USE_OUTPUT && !session->options.keep_values)) {
            continue;
        }
        base_assert(value->producer == ENG_NONE); // no node computes it
        struct eng_item *item = base_arena_zalloc(&session->arena, sizeof *item);
        if (item == NULL) {
            return BASE_ERR_NOMEM;
        }
        *item = (struct eng_item){
            .desc = value->desc, .is_const = true, .data = (void *)(uintptr_t)value->data};
        if ((uintptr_t)value->data % 4 != 0 && value->desc.dtype == ENG_F32) {
            item->data =
                base_arena_copy(&session->arena, value->data, eng_desc_bytes(&value->desc));
            if (item->data == NULL) {
                return BASE_ERR_NOMEM;
            }
        }
        session->live[v] = (struct eng_live){.type = ENG_VALUE_TENSOR, .count = 1, .items = item};
    }
    return BASE_OK;
}

static enum base_status fill(struct eng_session *session, struct base_error *error)
{
    const struct eng_session_options options = session->options;
    session->options.values = NULL; // the caller's
    base_assert(session->options.threads > 0);
    const struct eng_graph *graph = session->model->graph;
    struct base_arena *arena = &session->arena;
    size_t values = (size_t)graph->value_count + 1;
    session->inputs =
        base_arena_zalloc(arena, ((size_t)graph->input_count + 1) * sizeof *session->inputs);
    session->live = base_arena_zalloc(arena, values * sizeof *session->live);
    session->last_use = base_arena_zalloc(arena, values * sizeof *session->last_use);
    session->wants_known = base_arena_zalloc(arena, values * sizeof *session->wants_known);
    if (session->inputs == NULL || session->live == NULL || session->last_use == NULL ||
        session->wants_known == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(eng_session_ask(session, &options, error));
    find_last_uses(session);
    BASE_TRY(show_initializers(session));
    BASE_TRY(choose_kernels(session, error));
    BASE_TRY(eng_session_device_open(session, error));
    BASE_TRY(share_packs(session->model));
    BASE_TRY(eng_pool_new(session->options.threads, &session->pool));
    BASE_TRY(eng_session_search_new(session));
    eng_fold_init(&session->fold, session->kernels, session->pool);
    session->fold.watch = &session->watch;
    if (session->options.memory_bytes_max != 0) {
        session->fold.arena.limit_bytes = session->options.memory_bytes_max;
    }
    return BASE_OK;
}

enum base_status eng_session_new(struct eng_model *model, const struct eng_session_options *options,
                                 struct eng_session **out_session, struct base_error *error)
{
    static const struct eng_session_options defaults;
    options = options != NULL ? options : &defaults;
    if (options->threads > ENG_THREADS_MAX || (unsigned)options->precision > ENG_PRECISION_LOW) {
        return base_error_set(error, BASE_ERR_INVALID, "%s",
                              options->threads > ENG_THREADS_MAX ? "too many threads"
                                                                 : "no such precision");
    }
    struct eng_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    session->model = eng_model_ref(model);
    session->options = *options;
    session->options.threads = options->threads == 0 ? 1 : options->threads;
    base_arena_init(&session->arena, base_alloc_heap(), SESSION_CHUNK, SESSION_BYTES_MAX);
    enum base_status status = fill(session, error);
    if (status != BASE_OK) {
        eng_session_free(session);
        return status == BASE_ERR_NOMEM ? base_error_set(error, status, "out of memory") : status;
    }
    base_assert(session->isa != NULL); // eng_session_stats reads it
    *out_session = session;
    return BASE_OK;
}

void eng_session_free(struct eng_session *session)
{
    if (session == NULL) {
        return;
    }
    if (session->live != NULL) {
        eng_session_drop_plan(session);
    }
    free(session->segments);
    for (uint32_t i = 0; session->inputs != NULL && i < session->model->graph->input_count; i++) {
        free(session->inputs[i].one.data);
        free(session->inputs[i].text);
        free(session->inputs[i].sequence);
    }
    eng_fold_done(&session->fold);
    eng_device_close(session->device);
    eng_pool_free(session->pool);
    eng_search_free(session->search);
    base_arena_done(&session->arena);
    eng_model_unref(session->model);
    free(session);
}

// --- planning and running ------------------------------------------------------------------------

static const struct eng_run_options no_limits;

// Gives failures without a text one.
static enum base_status explained(enum base_status status, struct base_error *error)
{
    if (status != BASE_OK && error->text[0] == '\0') {
        return base_error_set(error, status, "%s", base_status_text(status));
    }
    if (status != BASE_OK) {
        error->status = status;
    }
    return status;
}

// What the call may do and whether it has its inputs. `error` is never NULL.
static enum base_status begin(struct eng_session *session, bool is_run,
                              const struct eng_run_options *options, struct base_error *error)
{
    *error = (struct base_error){0};
    session->has_run = false;
    session->watch = (struct eng_watch){
        .deadline_us = options->deadline_us, .stop = options->stop, .work_max = options->work_max};
    return eng_session_check_inputs(session, is_run, error);
}

enum base_status eng_session_prepare(struct eng_session *session, struct base_error *error)
{
    return eng_session_prepare_within(session, NULL, error);
}

enum base_status eng_session_prepare_within(struct eng_session *session,
                                            const struct eng_run_options *limits,
                                            struct base_error *error)
{
    struct base_error local;
    error = error != NULL ? error : &local;
    enum base_status status = begin(session, false, limits != NULL ? limits : &no_limits, error);
    if (status == BASE_OK) {
        status = eng_session_plan_first(session, error);
    }
    base_assert(status != BASE_OK || session->segment_count > 0);
    return explained(status, error);
}

enum base_status eng_session_run(struct eng_session *session, const struct eng_run_options *options,
                                 struct base_error *error)
{
    struct base_error local;
    error = error != NULL ? error : &local;
    enum base_status status = begin(session, true, options != NULL ? options : &no_limits, error);
    if (status == BASE_OK) {
        status = eng_session_run_segments(session, error);
    }
    base_assert(status != BASE_OK || session->segment_count > 0);
    session->has_run = status == BASE_OK;
    return explained(status, error);
}

// --- statistics ----------------------------------------------------------------------------------

void eng_session_stats(const struct eng_session *session, struct eng_session_stats *out_stats)
{
    struct eng_session_stats stats = {
        .packed_bytes = session->model->packs != NULL ? eng_pack_bytes(session->model->packs) : 0,
        .node_count = session->model->graph->node_count,
        .segment_count = session->segment_count,
        .plan_us = session->plan_us,
        .search_us = session->search_us,
        .run_work = session->watch.work,
        .device = session->device != NULL ? session->device->name : "cpu",
    };
    for (uint32_t i = 0; i < session->segment_count; i++) {
        const struct eng_segment *segment = session->segments[i];
        base_assert(segment->exec.step_count == segment->program.command_count); // it was planned
        stats.arena_bytes += segment->exec.buffer_bytes;
        stats.plan_bytes += segment->arena.used_bytes;
        stats.device_bytes += eng_exec_device_bytes(segment->exec.device);
        stats.left_to_host += eng_exec_device_left(segment->exec.device);
        stats.replays += eng_exec_device_replays(segment->exec.device);
        stats.by_contents |= segment->by_contents || session->segment_count > 1;
        stats.activation_bytes += segment->exec.activation_bytes;
        stats.command_count += segment->program.command_count;
        for (uint32_t j = 0; j < segment->program.command_count; j++) {
            stats.raster_count += segment->program.commands[j].op == ENG_OP_RASTER;
        }
    }
    for (uint32_t i = 0; i < session->model->graph->input_count; i++) {
        stats.plan_bytes += session->inputs[i].capacity_bytes;
    }
    if (session->device != NULL) {
        stats.device_bytes += eng_device_weights_bytes(session->model->device_weights);
    }
    size_t length = strnlen(session->isa, sizeof stats.isa - 1);
    memcpy(stats.isa, session->isa, length);
    *out_stats = stats;
}
