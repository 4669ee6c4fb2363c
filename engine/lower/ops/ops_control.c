// Control flow. If takes the branch of a known condition; Loop and Scan repeat their body
// (body_kit.h), in place while that stays small.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/body_kit.h"

#include "base/check.h"

#include <string.h>

// Content of a one-element bool tensor.
static enum base_status read_bool(struct eng_lower *lower, const struct eng_node *node,
                                  uint32_t tensor, bool *out)
{
    struct eng_array array;
    BASE_TRY(eng_lower_content(lower, tensor, &array));
    if (array.desc.dtype != ENG_BOOL || eng_desc_count(&array.desc) != 1) {
        char text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "its condition is %s, not one bool",
                              eng_desc_text(&array.desc, text, sizeof(text)));
    }
    *out = *(const uint8_t *)array.data != 0;
    return BASE_OK;
}

static enum base_status lower_if(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t tensor = ENG_NONE;
    bool taken = false;
    BASE_TRY(eng_lower_input(lower, node, 0, &tensor));
    BASE_TRY(read_bool(lower, node, tensor, &taken));
    const struct eng_graph *graph = eng_node_graph(node, taken ? "then_branch" : "else_branch");
    if (graph == NULL || graph->input_count != 0 || graph->output_count < node->output_count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "its %s branch does not fit its outputs", taken ? "then" : "else");
    }
    struct eng_slot none = {0};
    struct eng_slot *out = eng_lower_alloc(lower, (graph->output_count + (size_t)1) * sizeof(*out));
    if (out == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(eng_lower_inline(lower, node, graph, &none, out));
    for (uint32_t i = 0; i < node->output_count; i++) {
        BASE_TRY(eng_lower_output_slot(lower, node, i, &out[i]));
    }
    return BASE_OK;
}

// --- Loop

static enum base_status tensor_slot(struct eng_lower *lower, uint32_t tensor, struct eng_slot *out)
{
    *out = (struct eng_slot){
        .type = ENG_VALUE_TENSOR, .tensor = tensor, .dtype = eng_lower_desc(lower, tensor)->dtype};
    return BASE_OK;
}

// A one-element constant for input `input` of the body, of the rank it declares (0 or 1).
static enum base_status bind_scalar(struct eng_body *body, uint32_t input, enum eng_dtype dtype,
                                    const void *data)
{
    base_assert(input < body->graph->input_count);
    base_assert(dtype == ENG_I64 || dtype == ENG_BOOL);
    const struct eng_value *value = &body->graph->values[body->graph->inputs[input]];
    struct eng_desc desc = {.dtype = dtype, .dims = {1}};
    desc.rank = value->has_shape && value->desc.rank == 1;
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_const(body->l, &desc, data, &tensor));
    return tensor_slot(body->l, tensor, &body->in[input]);
}

struct loop {
    struct eng_body
        body; // inputs: trip number, condition, states; outputs: condition, states, scans
    uint32_t states, scans; // state variables, stacked outputs
    struct eng_pile *piles; // of the scan outputs
};

// Runs the iterations: body.in starts with the first states and ends with the last ones in place;
// piles receive the scan outputs.
static enum base_status loop_run(struct loop *loop, int64_t trips, bool more)
{
    struct eng_body *body = &loop->body;
    base_assert(body->graph->output_count == 1 + loop->states + loop->scans);
    for (int64_t i = 0; i < trips && more; i++) {
        if (i == ENG_TRIPS_MAX) {
            return eng_lower_fail(body->l, body->node, BASE_ERR_LIMIT, "more than %lld iterations",
                                  (long long)ENG_TRIPS_MAX);
        }
        uint8_t condition = more;
        BASE_TRY(bind_scalar(body, 0, ENG_I64, &i));
        BASE_TRY(bind_scalar(body, 1, ENG_BOOL, &condition));
        BASE_TRY(eng_body_step(body));
        for (uint32_t k = 0; k < loop->scans; k++) {
            const struct eng_slot *slot = &body->out[1 + loop->states + k];
            if (slot->type != ENG_VALUE_TENSOR) {
                return eng_lower_fail(body->l, body->node, BASE_ERR_INVALID,
                                      "scan output %u of its body is no tensor", k);
            }
            BASE_TRY(eng_pile_add(body, &loop->piles[k], slot->tensor));
        }
        memcpy(body->in + 2, body->out + 1, loop->states * sizeof(*body->in));
        if (body->out[0].type != ENG_VALUE_TENSOR) {
            return eng_lower_fail(body->l, body->node, BASE_ERR_INVALID,
                                  "its body's condition is no tensor");
        }
        if (i + 1 < trips) {
            BASE_TRY(read_bool(body->l, body->node, body->out[0].tensor, &more));
        }
    }
    return BASE_OK;
}

// Ports of the loop, its first states and piles.
static enum base_status loop_init(struct loop *loop, struct eng_lower *lower,
                                  const struct eng_node *node)
{
    struct eng_body *body = &loop->body;
    if (node->input_count < 2) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "it has %u inputs, at least 2 wanted",
                              node->input_count);
    }
    loop->states = node->input_count - 2;
    BASE_TRY(eng_body_init(body, lower, node, loop->states + 2, loop->states + 1));
    base_assert(body->graph->input_count == loop->states + 2);
    loop->scans = body->graph->output_count - loop->states - 1;
    if (node->output_count > loop->states + loop->scans) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%u outputs, its body gives %u",
                              node->output_count, loop->states + loop->scans);
    }
    for (uint32_t i = 0; i < loop->states; i++) {
        body->in[2 + i] = (struct eng_slot){.type = ENG_VALUE_OPTIONAL, .tensor = ENG_NONE};
    }
    loop->piles = eng_lower_alloc(lower, (loop->scans + (size_t)1) * sizeof(*loop->piles));
    if (loop->piles == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(loop->piles, 0, (loop->scans + (size_t)1) * sizeof(*loop->piles));
    return BASE_OK;
}

static enum base_status lower_loop(struct eng_lower *lower, const struct eng_node *node)
{
    struct loop loop;
    struct eng_body *body = &loop.body;
    int64_t trips = INT64_MAX;
    bool more = true;
    BASE_TRY(loop_init(&loop, lower, node));
    if (eng_lower_has(lower, node, 0)) {
        BASE_TRY(eng_input_int(lower, node, 0, &trips));
    }
    if (eng_lower_has(lower, node, 1)) {
        uint32_t tensor = ENG_NONE;
        BASE_TRY(eng_lower_input(lower, node, 1, &tensor));
        BASE_TRY(read_bool(lower, node, tensor, &more));
    }
    for (uint32_t i = 0; i < loop.states; i++) {
        if (eng_lower_has(lower, node, 2 + i)) {
            BASE_TRY(eng_lower_slot(lower, node, 2 + i, &body->in[2 + i]));
        }
    }
    BASE_TRY(loop_run(&loop, trips, more));
    base_assert(node->output_count <= loop.states + loop.scans);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (i < loop.states) {
            BASE_TRY(eng_lower_output_slot(lower, node, i, &body->in[2 + i]));
        } else if (eng_lower_wants(lower, node, i)) {
            uint32_t out = ENG_NONE;
            BASE_TRY(eng_pile_stack(body, &loop.piles[i - loop.states], 1 + i, 0, &out));
            BASE_TRY(eng_lower_output(lower, node, i, out));
        }
    }
    return BASE_OK;
}

// --- Scan

struct scan {
    struct eng_body body;
    uint32_t states, inputs, outputs; // state variables, scanned inputs, stacked outputs
    uint32_t *x;                      // scanned tensors
    uint32_t *axes;                   // along which
    const int64_t *reversed;          // 1: from the end; NULL: none
    const int64_t *out_axes, *out_reversed;
    struct eng_pile *piles;
    int64_t length;
};

// A list attribute that, when present, has one number for each of `count` ports.
static enum base_status scan_list(struct eng_lower *lower, const struct eng_node *node,
                                  const char *name, uint32_t count, const int64_t **out)
{
    uint32_t given = 0;
    *out = eng_node_ints(node, name, &given);
    if (*out != NULL && given != count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%s has %u numbers for %u ports", name,
                              given, count);
    }
    return BASE_OK;
}

// Ports and attributes; `skip` inputs come before the states (opset 8: sequence lengths).
static enum base_status scan_init(struct scan *scan, struct eng_lower *lower,
                                  const struct eng_node *node, uint32_t skip)
{
    base_assert(skip == (node->opset < 9 ? 1 : 0));
    int64_t scanned = eng_node_int(node, "num_scan_inputs", 0);
    if (scanned < 1 || scanned + (int64_t)skip > (int64_t)node->input_count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "num_scan_inputs is %lld of %u inputs",
                              (long long)scanned, node->input_count);
    }
    memset(scan, 0, sizeof(*scan));
    scan->inputs = (uint32_t)scanned;
    scan->states = node->input_count - skip - scan->inputs;
    BASE_TRY(eng_body_init(&scan->body, lower, node, scan->states + scan->inputs, scan->states));
    scan->outputs = scan->body.graph->output_count - scan->states;
    if (node->output_count > scan->body.graph->output_count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%u outputs, its body gives %u",
                              node->output_count, scan->body.graph->output_count);
    }
    scan->x = eng_lower_alloc(lower, scan->inputs * sizeof(*scan->x));
    scan->axes = eng_lower_alloc(lower, scan->inputs * sizeof(*scan->axes));
    scan->piles = eng_lower_alloc(lower, (scan->outputs + (size_t)1) * sizeof(*scan->piles));
    if (scan->x == NULL || scan->axes == NULL || scan->piles == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(scan->piles, 0, (scan->outputs + (size_t)1) * sizeof(*scan->piles));
    return BASE_OK;
}

// Runs the body over scan->x; body.in holds the states before and after.
static enum base_status scan_run(struct scan *scan)
{
    base_assert(scan->length >= 0);
    struct eng_body *body = &scan->body;
    if (scan->length > ENG_TRIPS_MAX) {
        return eng_lower_fail(body->l, body->node, BASE_ERR_LIMIT, "more than %lld iterations",
                              (long long)ENG_TRIPS_MAX);
    }
    for (uint32_t k = 0; k < scan->outputs; k++) {
        scan->piles[k].count = 0;
    }
    for (int64_t t = 0; t < scan->length; t++) {
        for (uint32_t i = 0; i < scan->inputs; i++) {
            bool back = scan->reversed != NULL && scan->reversed[i] != 0;
            uint32_t item = ENG_NONE;
            BASE_TRY(eng_take_item(body->l, scan->x[i], scan->axes[i],
                                   back ? scan->length - 1 - t : t, &item));
            BASE_TRY(tensor_slot(body->l, item, &body->in[scan->states + i]));
        }
        BASE_TRY(eng_body_step(body));
        for (uint32_t i = 0; i < scan->states + scan->outputs; i++) {
            if (body->out[i].type != ENG_VALUE_TENSOR) {
                return eng_lower_fail(body->l, body->node, BASE_ERR_INVALID,
                                      "output %u of its body is no tensor", i);
            }
            if (i >= scan->states) {
                BASE_TRY(eng_pile_add(body, &scan->piles[i - scan->states], body->out[i].tensor));
            }
        }
        memcpy(body->in, body->out, scan->states * sizeof(*body->in));
    }
    return BASE_OK;
}

static enum base_status lower_scan(struct eng_lower *lower, const struct eng_node *node)
{
    struct scan scan;
    const int64_t *axes = NULL;
    BASE_TRY(scan_init(&scan, lower, node, 0));
    BASE_TRY(scan_list(lower, node, "scan_input_axes", scan.inputs, &axes));
    BASE_TRY(scan_list(lower, node, "scan_input_directions", scan.inputs, &scan.reversed));
    BASE_TRY(scan_list(lower, node, "scan_output_axes", scan.outputs, &scan.out_axes));
    BASE_TRY(scan_list(lower, node, "scan_output_directions", scan.outputs, &scan.out_reversed));
    for (uint32_t i = 0; i < scan.states; i++) {
        uint32_t tensor = ENG_NONE;
        BASE_TRY(eng_lower_input(lower, node, i, &tensor));
        BASE_TRY(tensor_slot(lower, tensor, &scan.body.in[i]));
    }
    for (uint32_t i = 0; i < scan.inputs; i++) {
        BASE_TRY(eng_lower_input(lower, node, scan.states + i, &scan.x[i]));
        const struct eng_desc *desc = eng_lower_desc(lower, scan.x[i]);
        BASE_TRY(
            eng_lower_axis(lower, node, axes != NULL ? axes[i] : 0, desc->rank, &scan.axes[i]));
        int64_t length = desc->dims[scan.axes[i]];
        if (i > 0 && length != scan.length) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "inputs of %lld and %lld steps",
                                  (long long)scan.length, (long long)length);
        }
        scan.length = length;
    }
    BASE_TRY(scan_run(&scan));
    base_assert(node->output_count <= scan.states + scan.outputs);
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint32_t out = scan.body.in[i].tensor;
        if (i >= scan.states) {
            uint32_t k = i - scan.states;
            if (scan.out_reversed != NULL && scan.out_reversed[k] != 0) {
                eng_pile_reverse(&scan.piles[k]);
            }
            BASE_TRY(eng_pile_stack(&scan.body, &scan.piles[k], i,
                                    scan.out_axes != NULL ? scan.out_axes[k] : 0, &out));
        }
        BASE_TRY(eng_lower_output(lower, node, i, out));
    }
    return BASE_OK;
}

// --- Scan of opset 8: over [batch, sequence, ...]

// Dimensions shared by all inputs, and the length of every batch entry.
struct scan_batch {
    int64_t batch, sequence;
    const int64_t *lengths; // NULL: all of them
};

static enum base_status batch_init(struct scan *scan, struct scan_batch *out)
{
    struct eng_lower *l = scan->body.l;
    const struct eng_node *node = scan->body.node;
    for (uint32_t i = 0; i < scan->inputs; i++) {
        uint32_t tensor = ENG_NONE;
        BASE_TRY(eng_lower_input(l, node, 1 + scan->states + i, &tensor));
        const struct eng_desc *desc = eng_lower_desc(l, tensor);
        if (desc->rank < 2 || desc->dims[0] < 1 ||
            (i > 0 && (desc->dims[0] != out->batch || desc->dims[1] != out->sequence))) {
            return eng_lower_fail(l, node, BASE_ERR_INVALID,
                                  "scanned inputs must be [batch, sequence, ...]");
        }
        out->batch = desc->dims[0];
        out->sequence = desc->dims[1];
    }
    base_assert(out->batch >= 1 && out->sequence >= 0);
    if (eng_lower_has(l, node, 0)) {
        uint32_t tensor = ENG_NONE;
        uint32_t count = 0;
        BASE_TRY(eng_lower_input(l, node, 0, &tensor));
        BASE_TRY(eng_lower_ints(l, node, tensor, &out->lengths, &count));
        for (uint32_t b = 0; b < count; b++) {
            if (out->lengths[b] < 0 || out->lengths[b] > out->sequence) {
                count = 0;
            }
        }
        if ((int64_t)count != out->batch) {
            return eng_lower_fail(l, node, BASE_ERR_INVALID, "sequence lengths do not suit");
        }
    }
    return BASE_OK;
}

// Stacked output `index` of one batch entry, zeros up to the whole sequence's length.
static enum base_status batch_output(struct scan *scan, const struct scan_batch *batch,
                                     uint32_t index, uint32_t *out)
{
    base_assert(index < scan->outputs);
    struct eng_lower *l = scan->body.l;
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_pile_stack(&scan->body, &scan->piles[index], scan->states + index, 0, &tensor));
    BASE_TRY(eng_lower_plain(l, tensor, &tensor));
    struct eng_desc desc = *eng_lower_desc(l, tensor);
    struct eng_map map;
    struct eng_maps maps = {.l = l};
    eng_map_init(&map, tensor, &desc);
    base_assert(desc.dims[0] <= batch->sequence);
    desc.dims[0] = batch->sequence;
    BASE_TRY(eng_maps_add(&maps, &map));
    return eng_maps_finish(&maps, &desc, out);
}

static enum base_status batch_run(struct scan *scan, const struct scan_batch *batch, int64_t entry,
                                  struct eng_pile *results)
{
    base_assert(entry >= 0 && entry < batch->batch);
    struct eng_lower *l = scan->body.l;
    for (uint32_t i = 0; i < scan->states + scan->inputs; i++) {
        uint32_t tensor = ENG_NONE;
        BASE_TRY(eng_lower_input(l, scan->body.node, 1 + i, &tensor));
        const struct eng_desc *desc = eng_lower_desc(l, tensor);
        if (desc->rank < 1 || desc->dims[0] != batch->batch) {
            return eng_lower_fail(l, scan->body.node, BASE_ERR_INVALID,
                                  "input %u has no batch of %lld", 1 + i, (long long)batch->batch);
        }
        BASE_TRY(eng_take_item(l, tensor, 0, entry, &tensor));
        if (i < scan->states) {
            BASE_TRY(tensor_slot(l, tensor, &scan->body.in[i]));
        } else {
            scan->x[i - scan->states] = tensor;
            scan->axes[i - scan->states] = 0;
        }
    }
    scan->length = batch->lengths != NULL ? batch->lengths[entry] : batch->sequence;
    BASE_TRY(scan_run(scan));
    for (uint32_t i = 0; i < scan->states + scan->outputs; i++) {
        uint32_t tensor = scan->body.in[i < scan->states ? i : 0].tensor;
        if (i >= scan->states) {
            BASE_TRY(batch_output(scan, batch, i - scan->states, &tensor));
        }
        BASE_TRY(eng_pile_add(&scan->body, &results[i], tensor));
    }
    return BASE_OK;
}

static enum base_status lower_scan8(struct eng_lower *lower, const struct eng_node *node)
{
    struct scan scan;
    struct scan_batch batch = {0};
    BASE_TRY(scan_init(&scan, lower, node, 1));
    BASE_TRY(scan_list(lower, node, "directions", scan.inputs, &scan.reversed));
    BASE_TRY(batch_init(&scan, &batch));
    size_t ports = scan.states + scan.outputs + (size_t)1;
    struct eng_pile *results = eng_lower_alloc(lower, ports * sizeof(*results));
    if (results == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(results, 0, ports * sizeof(*results));
    if (batch.batch > ENG_TRIPS_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_LIMIT, "a batch of more than %lld",
                              (long long)ENG_TRIPS_MAX);
    }
    for (int64_t b = 0; b < batch.batch; b++) {
        BASE_TRY(batch_run(&scan, &batch, b, results));
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint32_t out = ENG_NONE;
        base_assert(results[i].count == batch.batch);
        BASE_TRY(eng_stack_items(lower, node, &results[i], 0, &out));
        BASE_TRY(eng_lower_output(lower, node, i, out));
    }
    return BASE_OK;
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("If", 1, ENG_OPSET_MAX, CONTROL, lower_if),
    ENG_OP_ROW("Loop", 1, ENG_OPSET_MAX, CONTROL, lower_loop),
    ENG_OP_ROW("Scan", 8, 8, CONTROL, lower_scan8),
    ENG_OP_ROW("Scan", 9, ENG_OPSET_MAX, CONTROL, lower_scan),
};
const struct eng_op_table eng_ops_control = ENG_OP_TABLE(rows);
