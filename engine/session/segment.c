// Segments: binding what is live, lowering, planning.
//
// Called by session_run.c on the session's thread. A segment owns everything it needs but the
// model's data, the buffers of earlier segments it reads, and large constants of theirs (watched by
// their stamps).
#include "session/segment.h"

#include "backend/cpu/kernel/kernels.h"
#include "backend/run_watch.h"
#include "base/alloc.h"
#include "base/check.h"
#include "lower/lower.h"
#include "program/fuse.h"
#include "session/session_backend.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT_CHUNK ((size_t)64 << 10)
#define ATTEMPTS_MAX  64u // lowerings of one segment before it has commands

struct build {
    struct eng_session *session;
    const struct eng_graph *graph;
    struct eng_segment *segment;
    struct eng_lower *lower;
    struct eng_lower_options options; // lowering keeps pointing here
    struct base_error *error;
};

void eng_segment_free(struct eng_segment *segment)
{
    if (segment == NULL) {
        return;
    }
    eng_exec_done(&segment->exec);
    base_arena_done(&segment->arena);
    free(segment);
}

// Whether a value is live before node `first` and somebody from there on reads it. Lowering binds
// initializers itself.
static bool is_bound(const struct build *build, uint32_t value)
{
    const struct eng_value *v = &build->graph->values[value];
    return !v->is_initializer && build->session->live[value].type != ENG_VALUE_UNKNOWN &&
           build->session->last_use[value] > build->segment->first &&
           (v->producer == ENG_NONE || v->producer < build->segment->first);
}

// --- binding -------------------------------------------------------------------------------------

static bool has_strings(const struct eng_item *item)
{
    return item->desc.dtype == ENG_STRING;
}

// Whether contents of all items are there to be used while lowering.
static bool can_know(const struct build *build, uint32_t value)
{
    const struct eng_live *live = &build->session->live[value];
    for (uint32_t i = 0; i < live->count; i++) {
        if (live->items[i].data == NULL) {
            return false;
        }
        if (!live->items[i].is_const && !build->session->wants_known[value]) {
            return false;
        }
    }
    return true;
}

// Copies the contents a plan depends on, when they are small; `is_exact` tells whether all are.
static enum base_status keep_contents(const struct build *build, struct eng_binding *binding)
{
    base_assert(binding->is_known);
    binding->is_exact = true;
    for (uint32_t i = 0; i < binding->live.count; i++) {
        struct eng_item *item = &binding->live.items[i];
        size_t bytes = eng_desc_bytes(&item->desc);
        if (has_strings(item) || bytes > ENG_KNOWN_BYTES_MAX) {
            binding->is_exact = false; // constants are still recognised by their stamp
            continue;
        }
        if (item->is_const && item->stamp == 0) {
            continue; // the model's: nothing changes it
        }
        item->data = base_arena_copy(&build->segment->arena, item->data, bytes);
        if (item->data == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    return BASE_OK;
}

static enum base_status bind_item(const struct build *build, const struct eng_binding *binding,
                                  const struct eng_item *item, uint32_t *out_tensor)
{
    const void *known = binding->is_known ? item->data : NULL;
    return eng_lower_bind(build->lower, binding->value, &item->desc, known, out_tensor);
}

// Items of a sequence are bound to its value one after the other; what lasts is the slot of them
// all, bound at the end.
static enum base_status bind_live(const struct build *build, uint32_t value,
                                  struct eng_binding *binding)
{
    struct base_arena *arena = &build->segment->arena;
    const struct eng_live *live = &build->session->live[value];
    base_assert(live->type != ENG_VALUE_TENSOR || live->count == 1);
    base_assert(live->type != ENG_VALUE_OPTIONAL || live->count == 0);
    uint32_t *tensors = base_arena_zalloc(arena, (live->count + 1u) * sizeof *tensors);
    *binding = (struct eng_binding){.value = value, .live = *live, .tensors = tensors};
    binding->live.items = base_arena_copy(arena, live->items, live->count * sizeof *live->items);
    if (tensors == NULL || binding->live.items == NULL) {
        return BASE_ERR_NOMEM;
    }
    binding->is_known = can_know(build, value);
    if (binding->is_known) {
        BASE_TRY(keep_contents(build, binding));
    }
    for (uint32_t i = 0; i < live->count; i++) {
        BASE_TRY(bind_item(build, binding, &binding->live.items[i], &tensors[i]));
    }
    if (live->type == ENG_VALUE_TENSOR) {
        return BASE_OK;
    }
    return eng_lower_bind_slot(build->lower, value,
                               &(struct eng_slot){.type = live->type,
                                                  .tensor = ENG_NONE,
                                                  .item_count = live->count,
                                                  .items = tensors,
                                                  .dtype = live->dtype});
}

static enum base_status bind_all(const struct build *build)
{
    struct eng_segment *segment = build->segment;
    uint32_t count = 0;
    for (uint32_t v = 0; v < build->graph->value_count; v++) {
        count += is_bound(build, v);
    }
    segment->bindings =
        base_arena_zalloc(&segment->arena, (count + 1u) * sizeof(struct eng_binding));
    if (segment->bindings == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t v = 0; v < build->graph->value_count; v++) {
        if (is_bound(build, v)) {
            BASE_TRY(bind_live(build, v, &segment->bindings[segment->binding_count]));
            segment->binding_count++;
        }
    }
    base_assert(segment->binding_count == count); // binding changes nothing that is_bound looks at
    return BASE_OK;
}

// --- stops for contents --------------------------------------------------------------------------

// Whether the blocked node asks for (something made from) this value's contents.
static bool is_asked_for(const struct build *build, uint32_t value, const uint32_t *wanted,
                         uint32_t wanted_count)
{
    const struct eng_slot *slot = eng_lower_value(build->lower, value);
    for (uint32_t i = 0; slot != NULL && i < wanted_count; i++) {
        if (slot->type == ENG_VALUE_TENSOR && slot->tensor == wanted[i]) {
            return true;
        }
        for (uint32_t j = 0; slot->type == ENG_VALUE_SEQUENCE && j < slot->item_count; j++) {
            if (slot->items[j] == wanted[i]) {
                return true;
            }
        }
    }
    return false;
}

static bool is_known_value(const struct build *build, uint32_t value)
{
    const struct eng_slot *slot = eng_lower_value(build->lower, value);
    if (slot == NULL) {
        return true; // absent: nothing to know
    }
    if (slot->type == ENG_VALUE_TENSOR) {
        return eng_lower_is_known(build->lower, slot->tensor);
    }
    for (uint32_t i = 0; slot->type == ENG_VALUE_SEQUENCE && i < slot->item_count; i++) {
        if (!eng_lower_is_known(build->lower, slot->items[i])) {
            return false;
        }
    }
    return true;
}

// Marks one value the blocked node reads; true when that is something new to know.
static bool want_value(const struct build *build, uint32_t value, const uint32_t *wanted,
                       uint32_t wanted_count)
{
    if (value == ENG_NONE || is_known_value(build, value) ||
        (wanted != NULL && !is_asked_for(build, value, wanted, wanted_count))) {
        return false;
    }
    base_assert(value < build->graph->value_count);
    build->session->wants_known[value] = true;
    return true;
}

// Inputs of the node and what its subgraphs capture; `wanted` NULL marks all of them.
static bool want_inputs(const struct build *build, const struct eng_node *node,
                        const uint32_t *wanted, uint32_t wanted_count)
{
    bool is_new = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        is_new |= want_value(build, node->inputs[i], wanted, wanted_count);
    }
    for (uint32_t i = 0; i < node->attr_count; i++) {
        if (node->attrs[i].kind != ENG_ATTR_GRAPH) {
            continue;
        }
        const struct eng_graph *graph = node->attrs[i].u.graph;
        for (uint32_t j = 0; j < graph->capture_count; j++) {
            is_new |= want_value(build, graph->captures[j].outer, wanted, wanted_count);
        }
    }
    return is_new;
}

static enum base_status note_wanted(const struct build *build)
{
    base_assert(build->segment->next < build->graph->node_count);
    const struct eng_node *node = &build->graph->nodes[build->segment->next];
    uint32_t count = 0;
    const uint32_t *wanted = eng_lower_wanted(build->lower, &count);
    static const uint32_t nothing[1];
    if (want_inputs(build, node, wanted != NULL ? wanted : nothing, count) ||
        want_inputs(build, node, NULL, 0)) {
        return BASE_OK;
    }
    return eng_node_error(node, build->error, BASE_ERR_UNSUPPORTED,
                          "needs contents that are not known before it runs");
}

// Whether lowering again at once, with more contents known, goes further: nothing was emitted, and
// some value bound here without contents has them and is wanted.
static bool is_worth_again(const struct build *build)
{
    if (build->segment->program.command_count > 0) {
        return false;
    }
    for (uint32_t i = 0; i < build->segment->binding_count; i++) {
        const struct eng_binding *binding = &build->segment->bindings[i];
        if (!binding->is_known && can_know(build, binding->value)) {
            return true;
        }
    }
    return false;
}

// --- results -------------------------------------------------------------------------------------

// Makes one tensor of a value dense, PLAIN and lasting.
static enum base_status settle(const struct build *build, uint32_t value, uint32_t tensor,
                               struct eng_item *item, uint32_t *out_tensor)
{
    BASE_TRY(eng_lower_plain(build->lower, tensor, &tensor));
    BASE_TRY(eng_lower_real(build->lower, tensor, &tensor));
    struct eng_tensor *t = &build->segment->program.tensors[tensor];
    base_assert(t->kind != ENG_VIRTUAL);
    t->is_output = true;
    if (t->value == ENG_NONE) {
        t->value = value;
    }
    *item = (struct eng_item){.desc = t->desc};
    if (t->kind == ENG_CONST) {
        item->is_const = true;
        item->stamp = t->identity != NULL ? 0 : build->segment->stamp;
        item->data = (void *)(uintptr_t)t->data; // nobody writes through items
    }
    *out_tensor = tensor;
    return BASE_OK;
}

static enum base_status add_result(const struct build *build, uint32_t value,
                                   struct eng_result *result)
{
    const struct eng_slot *bound = eng_lower_value(build->lower, value);
    if (bound == NULL) {
        return BASE_OK;
    }
    struct eng_slot slot = *bound;
    base_assert(slot.type != ENG_VALUE_TENSOR ||
                slot.tensor < build->segment->program.tensor_count);
    struct base_arena *arena = &build->segment->arena;
    uint32_t count = slot.type == ENG_VALUE_TENSOR     ? 1
                     : slot.type == ENG_VALUE_SEQUENCE ? slot.item_count
                                                       : 0;
    uint32_t *tensors = base_arena_zalloc(arena, (count + 1u) * sizeof *tensors);
    struct eng_item *items = base_arena_zalloc(arena, (count + 1u) * sizeof *items);
    if (tensors == NULL || items == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = slot.type == ENG_VALUE_TENSOR ? slot.tensor : slot.items[i];
        BASE_TRY(settle(build, value, tensor, &items[i], &tensors[i]));
    }
    *result = (struct eng_result){
        .value = value,
        .live = {.type = slot.type, .dtype = slot.dtype, .count = count, .items = items},
        .tensors = tensors,
    };
    build->segment->result_count++;
    return BASE_OK;
}

// Whether a value the segment computed is read after it (or by the caller).
static bool is_lasting(const struct build *build, uint32_t value)
{
    return value != ENG_NONE && (build->session->options.keep_values ||
                                 build->session->last_use[value] > build->segment->next);
}

static enum base_status add_results(const struct build *build)
{
    struct eng_segment *segment = build->segment;
    uint32_t count = 0;
    base_assert(segment->first <= segment->next && segment->next <= build->graph->node_count);
    for (uint32_t n = segment->first; n < segment->next; n++) {
        count += build->graph->nodes[n].output_count;
    }
    segment->results = base_arena_zalloc(&segment->arena, (count + 1u) * sizeof(struct eng_result));
    if (segment->results == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t n = segment->first; n < segment->next; n++) {
        const struct eng_node *node = &build->graph->nodes[n];
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (is_lasting(build, node->outputs[i])) {
                BASE_TRY(
                    add_result(build, node->outputs[i], &segment->results[segment->result_count]));
            }
        }
    }
    base_assert(segment->result_count <= count);
    return BASE_OK;
}

// Whether the plan was made with contents that another run may bring otherwise.
static bool hangs_on_contents(const struct eng_segment *segment)
{
    for (uint32_t i = 0; i < segment->binding_count; i++) {
        const struct eng_binding *binding = &segment->bindings[i];
        for (uint32_t j = 0; binding->is_known && j < binding->live.count; j++) {
            if (!binding->live.items[j].is_const) {
                return true;
            }
        }
    }
    return false;
}

// --- planning ------------------------------------------------------------------------------------

static enum base_status watch_look(const void *ctx, struct base_error *error)
{
    return eng_watch_look(ctx, error);
}

static enum base_status lower_once(struct build *build, bool *out_is_final)
{
    const struct eng_session_options *options = &build->session->options;
    struct eng_segment *segment = build->segment;
    base_assert(segment->exec.program == NULL); // what it has lies in the arena that is emptied
    base_arena_reset(&segment->arena);
    build->session->fold.work = 0;
    segment->bindings = NULL;
    segment->binding_count = 0;
    eng_program_init(&segment->program, &segment->arena);
    build->options = (struct eng_lower_options){
        .no_merge = options->no_merge,
        .keep_values = options->keep_values,
        .runner_ctx = &build->session->fold,
        .run_program = eng_fold_run,
        .look = {&build->session->watch, watch_look},
    };
    build->lower = eng_lower_new(&segment->arena, &segment->program, build->graph, &build->options,
                                 build->error);
    if (build->lower == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(bind_all(build));
    enum base_status status = eng_lower_run(build->lower, segment->first, &segment->next);
    if (status == BASE_ERR_BUSY && options->one_piece) {
        base_assert(segment->next < build->graph->node_count);
        return eng_node_error(&build->graph->nodes[segment->next], build->error,
                              BASE_ERR_UNSUPPORTED,
                              "what it does hangs on contents, so there is no plan in one piece");
    }
    if (status == BASE_ERR_BUSY) {
        BASE_TRY(note_wanted(build));
        *out_is_final = !is_worth_again(build);
        return BASE_OK;
    }
    *out_is_final = true;
    return status;
}

static enum base_status plan(const struct build *build)
{
    struct eng_session *session = build->session;
    struct eng_segment *segment = build->segment;
    struct eng_prepare prepare = {
        .arena = &segment->arena,
        .packs = session->model->packs,
        .model = session->model,
        .kernels = session->kernels,
        .pool = session->pool,
        .precision = session->options.precision,
        .search = session->search,
        .buffer_bytes_max = session->options.memory_bytes_max,
        .watch = &session->watch,
        .device = session->device,
        .weights = session->device != NULL ? session->model->device_weights : NULL,
        .error = build->error,
    };
    struct eng_optimise_options passes = {
        .no_fuse = session->options.no_fuse,
        .no_chains = session->options.precision == ENG_PRECISION_LOW || session->device != NULL,
    };
    BASE_TRY(eng_program_optimise(&segment->program, &passes, build->error));
    BASE_TRY(eng_watch_look(&session->watch, build->error));
    prepare.kernels = eng_session_backend(session, &segment->program);
    if (segment->first == 0) {
        session->isa = prepare.kernels != NULL ? prepare.kernels->name : "ref";
    }
#ifdef BASE_DEBUG
    BASE_TRY(eng_program_validate(&segment->program, build->error));
#endif
    BASE_TRY(eng_exec_init(&segment->exec, &segment->program, &prepare));
    base_assert(segment->exec.step_count == segment->program.command_count);
    if (session->options.trace) {
        segment->events = base_arena_zalloc(&segment->arena, (segment->exec.step_count + 1u) *
                                                                 sizeof *segment->events);
        if (segment->events == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    return BASE_OK;
}

static enum base_status build_segment(struct build *build)
{
    bool is_final = false;
    for (uint32_t attempt = 0; !is_final; attempt++) {
        if (attempt >= ATTEMPTS_MAX) {
            return base_error_set(build->error, BASE_ERR_LIMIT,
                                  "lowering asked for contents more than %u times", ATTEMPTS_MAX);
        }
        BASE_TRY(lower_once(build, &is_final));
    }
    build->segment->by_contents = hangs_on_contents(build->segment);
    build->segment->plan_work = build->segment->by_contents ? build->session->fold.work : 0;
    BASE_TRY(add_results(build));
    return plan(build);
}

enum base_status eng_segment_new(struct eng_session *session, uint32_t first,
                                 struct eng_segment **out_segment, struct base_error *error)
{
    base_assert(first == 0 || first < session->model->graph->node_count);
    struct eng_segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL) {
        return BASE_ERR_NOMEM;
    }
    size_t limit = session->options.memory_bytes_max;
    base_arena_init(&segment->arena, base_alloc_heap(), SEGMENT_CHUNK,
                    limit != 0 && limit < ENG_PLAN_BYTES_MAX ? limit : ENG_PLAN_BYTES_MAX);
    segment->first = first;
    segment->next = first;
    segment->stamp = ++session->next_stamp;
    struct build b = {
        .session = session, .graph = session->model->graph, .segment = segment, .error = error};
    enum base_status status = build_segment(&b);
    if (status == BASE_ERR_NOMEM && segment->arena.was_full) {
        status = base_error_set(error, BASE_ERR_TOO_LARGE,
                                "the plan's program needs more than %zu bytes",
                                segment->arena.limit_bytes);
    }
    if (status != BASE_OK) {
        eng_segment_free(segment);
        return status;
    }
    *out_segment = segment;
    return BASE_OK;
}
