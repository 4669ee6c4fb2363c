// Aggregates as scripts see them: count() .. quantiles() declare one, stream.aggregate(name=...)
// runs the stream functions of device/pipeline over the stream's events and gives a list of rows.
// The working block lies in the script's heap and is gone afterwards. Runs on the VM's thread.
#include "vm/vm_data.h"

#include "vm/vm_state.h"

#include "py/cstack.h"
#include "py/objtuple.h"
#include "py/runtime.h"

#include <string.h>

#define KEYS_FIRST    64 // more are tried when they did not do
#define QUANTILES_MAX 16 // of one quantiles()
#define ROW_FIELDS    5  // key, start, end, events, complete

struct aggregate_object {
    mp_obj_base_t base;
    enum dev_aggregate_kind kind;
    mp_obj_t value; // str, or None
    uint32_t size;
    double low;
    double high;
    size_t quantile_count;
    double quantiles[];
};

static MP_DEFINE_CONST_OBJ_TYPE(aggregate_type, MP_QSTR_Aggregate, MP_TYPE_FLAG_NONE);

static struct aggregate_object *aggregate_new(enum dev_aggregate_kind kind, mp_obj_t value,
                                              size_t quantiles)
{
    struct aggregate_object *object =
        mp_obj_malloc_var(struct aggregate_object, quantiles, double, quantiles, &aggregate_type);
    object->kind = kind;
    object->value = value;
    object->size = 0;
    object->low = 0;
    object->high = 0;
    object->quantile_count = quantiles;
    return object;
}

static uint32_t size_of(mp_obj_t object)
{
    mp_int_t size = mp_obj_get_int(object);
    if (size < 0 || size > UINT16_MAX) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.data: a size is out of range"));
    }
    return (uint32_t)size;
}

static mp_obj_t count(size_t args_count, const mp_obj_t *args)
{
    return MP_OBJ_FROM_PTR(
        aggregate_new(DEV_AGGREGATE_COUNT, args_count > 0 ? args[0] : mp_const_none, 0));
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(dev_vm_count_obj, 0, 1, count);

static mp_obj_t sum(mp_obj_t value)
{
    return MP_OBJ_FROM_PTR(aggregate_new(DEV_AGGREGATE_SUM, value, 0));
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_vm_sum_obj, sum);

static mp_obj_t least(mp_obj_t value)
{
    return MP_OBJ_FROM_PTR(aggregate_new(DEV_AGGREGATE_MIN, value, 0));
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_vm_min_obj, least);

static mp_obj_t greatest(mp_obj_t value)
{
    return MP_OBJ_FROM_PTR(aggregate_new(DEV_AGGREGATE_MAX, value, 0));
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_vm_max_obj, greatest);

static mp_obj_t mean(mp_obj_t value)
{
    return MP_OBJ_FROM_PTR(aggregate_new(DEV_AGGREGATE_MEAN, value, 0));
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_vm_mean_obj, mean);

// distinct(v, bits=10)
static mp_obj_t distinct(size_t args_count, const mp_obj_t *args, mp_map_t *named)
{
    enum { VALUE, BITS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_v, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_bits, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(DEV_DISTINCT_BITS_DEFAULT)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(args_count, args, named, ARGUMENTS, allowed, values);
    struct aggregate_object *object = aggregate_new(DEV_AGGREGATE_DISTINCT, values[VALUE].u_obj, 0);
    object->size = size_of(values[BITS].u_obj);
    return MP_OBJ_FROM_PTR(object);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_vm_distinct_obj, 0, distinct);

// last(v, n=1)
static mp_obj_t last(size_t args_count, const mp_obj_t *args, mp_map_t *named)
{
    enum { VALUE, COUNT, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_v, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_n, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(args_count, args, named, ARGUMENTS, allowed, values);
    struct aggregate_object *object = aggregate_new(DEV_AGGREGATE_LAST, values[VALUE].u_obj, 0);
    object->size = size_of(values[COUNT].u_obj);
    return MP_OBJ_FROM_PTR(object);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_vm_last_obj, 0, last);

// histogram(v, low, high, bins)
static mp_obj_t histogram(size_t args_count, const mp_obj_t *args, mp_map_t *named)
{
    enum { VALUE, LOW, HIGH, BINS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_v, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_low, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_high, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_bins, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(args_count, args, named, ARGUMENTS, allowed, values);
    struct aggregate_object *object =
        aggregate_new(DEV_AGGREGATE_HISTOGRAM, values[VALUE].u_obj, 0);
    object->low = mp_obj_get_float(values[LOW].u_obj);
    object->high = mp_obj_get_float(values[HIGH].u_obj);
    object->size = size_of(values[BINS].u_obj);
    return MP_OBJ_FROM_PTR(object);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_vm_histogram_obj, 0, histogram);

// quantiles(value, q, ...)
static mp_obj_t quantiles(size_t args_count, const mp_obj_t *args)
{
    if (args_count > 1 + QUANTILES_MAX) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.data: more than 16 quantiles"));
    }
    struct aggregate_object *object =
        aggregate_new(DEV_AGGREGATE_QUANTILES, args[0], args_count - 1);
    for (size_t i = 1; i < args_count; i++) {
        double q = mp_obj_get_float(args[i]);
        if (!(q >= 0 && q <= 1)) { // nor is NaN
            mp_raise_msg_varg(&mp_type_ValueError,
                              MP_ERROR_TEXT("walle.data: quantile %d is not between 0 and 1"),
                              (int)i);
        }
        object->quantiles[i - 1] = q;
    }
    return MP_OBJ_FROM_PTR(object);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(dev_vm_quantiles_obj, 2, 1 + QUANTILES_MAX, quantiles);

// --- rows

struct gather {
    mp_obj_t rows;
    qstr *fields; // of all rows: ROW_FIELDS, the aggregates, the errors of those that have one
    uint32_t field_count;
    uint32_t aggregates;
    struct aggregate_object *objects[DEV_STREAM_AGGREGATES_MAX];
    bool windowed;
    bool closing; // the events are over, and what is open is answered
    struct dev_vm_left_out left_out;
};

static mp_obj_t answer_object(const struct aggregate_object *object,
                              const struct dev_stream_result *result, uint32_t index)
{
    const void *state = dev_stream_answer_state(result, index);
    mp_obj_t items[DEV_AGGREGATE_BINS_MAX + 2];
    size_t size = 0;
    switch (object->kind) {
    case DEV_AGGREGATE_LAST:
        for (; size < dev_aggregate_last_count(state); size++) {
            items[size] = dev_vm_value_object(dev_aggregate_last(state, (uint32_t)size));
        }
        break;
    case DEV_AGGREGATE_HISTOGRAM:
        items[size++] = mp_obj_new_int_from_uint(dev_aggregate_bin(state, object->size)); // below
        for (uint32_t i = 0; i < object->size; i++) {
            items[size++] = mp_obj_new_int_from_uint(dev_aggregate_bin(state, i));
        }
        items[size++] = mp_obj_new_int_from_uint(dev_aggregate_bin(state, object->size + 1));
        break;
    case DEV_AGGREGATE_QUANTILES:
        for (; size < object->quantile_count; size++) {
            items[size] =
                dev_vm_value_object(dev_aggregate_quantile(state, object->quantiles[size]));
        }
        break;
    default:
        return dev_vm_value_object(dev_stream_answer(result, index));
    }
    return mp_obj_new_tuple(size, items);
}

static struct dev_vm_left_out left_out_of(const struct dev_stream *run)
{
    struct dev_stream_stats stats;
    dev_stream_stats(run, &stats);
    return (struct dev_vm_left_out){.late = stats.late + stats.join_late,
                                    .evicted = stats.evicted_keys,
                                    .dropped = stats.dropped + stats.join_dropped};
}

// Without a window all events of a key are its window: it is whole at their end, unless something
// was left out. Of events that the run was not given nobody knows whose they are.
static bool is_complete(const struct gather *gather, const struct dev_stream_result *result)
{
    if (dev_vm_current->job->events_missing > 0) {
        return false;
    }
    if (gather->windowed || !gather->closing) {
        return result->complete;
    }
    struct dev_vm_left_out left_out = left_out_of(result->stream);
    return dev_vm_left_out_sum(&left_out) == 0;
}

// Called from inside the stream: a jump out of here leaves only the working block behind, which is
// collected.
static void row_add(void *ctx, const struct dev_stream_result *result)
{
    struct gather *gather = ctx;
    mp_obj_t items[ROW_FIELDS + 2 * DEV_STREAM_AGGREGATES_MAX];
    uint32_t at = ROW_FIELDS + gather->aggregates;
    items[0] = dev_vm_value_object(result->key);
    items[1] = mp_obj_new_int_from_uint(result->start);
    items[2] = mp_obj_new_int_from_uint(result->end);
    items[3] = mp_obj_new_int_from_uint(result->events);
    items[4] = mp_obj_new_bool(is_complete(gather, result));
    for (uint32_t i = 0; i < gather->aggregates; i++) {
        items[ROW_FIELDS + i] = answer_object(gather->objects[i], result, i);
        if (gather->objects[i]->kind == DEV_AGGREGATE_QUANTILES) {
            items[at++] =
                mp_obj_new_float(dev_aggregate_quantile_error(dev_stream_answer_state(result, i)));
        }
    }
    mp_obj_list_append(gather->rows, mp_obj_new_attrtuple(gather->fields, at, items));
}

// --- running

static struct base_str str_of(mp_obj_t object)
{
    size_t size = 0;
    const char *data = object != mp_const_none ? mp_obj_str_get_data(object, &size) : NULL;
    return (struct base_str){data, size};
}

// Feeds the events of both sides in order.
static void feed(struct dev_stream *run, const struct dev_vm_stream *stream, struct gather *gather)
{
    const struct dev_event *events = dev_vm_current->job->events;
    const struct dev_vm_stream *other = stream->other;
    uint32_t at = 0;
    uint32_t other_at = 0;
    uint32_t other_count = other != NULL ? other->count : 0;
    while (at < stream->count || other_at < other_count) {
        mp_cstack_check();
        uint32_t own = at < stream->count ? stream->events[at] : UINT32_MAX;
        uint32_t joined = other_at < other_count ? other->events[other_at] : UINT32_MAX;
        uint32_t next = own < joined ? own : joined;
        uint32_t sides =
            (own == next ? DEV_STREAM_OWN : 0) | (joined == next ? DEV_STREAM_OTHER : 0);
        at += own == next;
        other_at += joined == next;
        dev_stream_feed(run, &events[next], sides);
    }
    gather->closing = true;
    gather->left_out = left_out_of(run);
    dev_stream_flush(run);
    gather->closing = false;
}

// One try with the room `spec` says; what it left out is in `gather`. False: it is not needed, and
// there was no memory; what the try before gathered is still there.
static bool run_with(const struct dev_vm_stream *stream, const struct dev_stream_spec *spec,
                     bool needed, struct gather *gather)
{
    struct base_error error = {.status = BASE_OK};
    struct dev_stream *run = NULL;
    size_t bytes = 0;
    if (dev_stream_bytes(spec, &bytes, &error) != BASE_OK) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s"), error.text);
    }
    size_t words = bytes / sizeof(uint64_t) + 1;
    uint64_t *block = needed ? m_new(uint64_t, words) : m_new_maybe(uint64_t, words);
    if (block == NULL) {
        return false;
    }
    gather->rows = mp_obj_new_list(0, NULL);
    if (dev_stream_init((struct dev_stream_block){block, bytes}, spec,
                        (struct dev_stream_sink){row_add, gather}, &run, &error) != BASE_OK) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s"), error.text);
    }
    feed(run, stream, gather);
    m_del(uint64_t, block, words);
    return true;
}

// Runs with more room until nothing has to go for want of it. A join whose size the script chose
// keeps that.
static void run_all(const struct dev_vm_stream *stream, struct dev_stream_spec *spec,
                    uint32_t events, struct gather *gather)
{
    uint32_t keys_most = events < DEV_STREAM_KEYS_MAX ? events : DEV_STREAM_KEYS_MAX;
    bool grows = spec->join.on && stream->join_bytes == 0;
    bool needed = true;
    spec->keys_max = events < KEYS_FIRST ? events : KEYS_FIRST;
    spec->join.buffer_bytes = grows ? DEV_JOIN_BYTES_DEFAULT : stream->join_bytes;
    while (run_with(stream, spec, needed, gather)) {
        bool more_keys = gather->left_out.evicted > 0 && spec->keys_max < keys_most;
        bool more_join =
            grows && gather->left_out.dropped > 0 && spec->join.buffer_bytes < DEV_JOIN_BYTES_MAX;
        if (!more_keys && !more_join) {
            return;
        }
        needed = more_keys;
        if (more_keys) {
            spec->keys_max = spec->keys_max * 4 < keys_most ? spec->keys_max * 4 : keys_most;
        }
        if (more_join) {
            spec->join.buffer_bytes *= 4;
        }
    }
}

static void field_add(struct gather *gather, qstr field)
{
    for (uint32_t i = 0; i < gather->field_count; i++) {
        if (gather->fields[i] == field) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.data: a row has this field already"));
        }
    }
    gather->fields[gather->field_count++] = field;
}

// NAME_error; a name that is too long for an aggregate is refused by the stream.
static qstr error_field(struct base_str name)
{
    static const char suffix[] = "_error";
    char text[DEV_AGGREGATE_NAME_MAX + sizeof(suffix)];
    size_t size = name.size < DEV_AGGREGATE_NAME_MAX ? name.size : DEV_AGGREGATE_NAME_MAX;
    memcpy(text, name.data, size);
    memcpy(text + size, suffix, sizeof(suffix) - 1);
    return qstr_from_strn(text, size + sizeof(suffix) - 1);
}

static void aggregates_take(mp_map_t *named, struct gather *gather,
                            struct dev_aggregate_spec *specs)
{
    static const qstr fields[ROW_FIELDS] = {MP_QSTR_key, MP_QSTR_start, MP_QSTR_end, MP_QSTR_events,
                                            MP_QSTR_complete};
    if (named->used == 0 || named->used > DEV_STREAM_AGGREGATES_MAX) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.data: not 1 to 16 aggregates"));
    }
    gather->fields = m_new(qstr, ROW_FIELDS + 2 * named->used);
    memcpy(gather->fields, fields, sizeof(fields));
    gather->field_count = ROW_FIELDS;
    for (size_t i = 0; i < named->alloc; i++) {
        if (!mp_map_slot_is_filled(named, i)) {
            continue;
        }
        mp_obj_t value = named->table[i].value;
        if (!mp_obj_is_exact_type(value, &aggregate_type)) {
            mp_raise_TypeError(MP_ERROR_TEXT("walle.data: not an aggregate"));
        }
        uint32_t at = gather->aggregates++;
        struct aggregate_object *object = MP_OBJ_TO_PTR(value);
        gather->objects[at] = object;
        field_add(gather, mp_obj_str_get_qstr(named->table[i].key));
        specs[at] = (struct dev_aggregate_spec){.name = str_of(named->table[i].key),
                                                .kind = object->kind,
                                                .value = str_of(object->value),
                                                .size = object->size,
                                                .low = object->low,
                                                .high = object->high};
    }
    for (uint32_t i = 0; i < gather->aggregates; i++) {
        if (gather->objects[i]->kind == DEV_AGGREGATE_QUANTILES) {
            field_add(gather, error_field(specs[i].name));
        }
    }
}

// stream.aggregate(name=count(), ...): a list of rows.
static mp_obj_t aggregate(size_t args_count, const mp_obj_t *args, mp_map_t *named)
{
    (void)args_count;
    struct dev_vm_stream *stream = dev_vm_stream_of(args[0]);
    struct gather gather = {.rows = mp_const_none, .windowed = stream->windowed};
    struct dev_aggregate_spec specs[DEV_STREAM_AGGREGATES_MAX];
    aggregates_take(named, &gather, specs);
    struct dev_stream_spec spec = {
        .name = BASE_STR("script"),
        .key = str_of(stream->key),
        .window = stream->window,
        .aggregates = specs,
        .aggregate_count = gather.aggregates,
    };
    if (!stream->windowed) { // one window for all
        spec.window = (struct dev_window_spec){.kind = DEV_WINDOW_COUNT, .count = UINT32_MAX};
    }
    uint32_t events = stream->count > 0 ? stream->count : 1;
    if (stream->other != NULL) {
        spec.join = (struct dev_join_spec){.on = true,
                                           .key = str_of(stream->other->key),
                                           .where = str_of(stream->where),
                                           .within_ms = stream->within_ms};
        if (spec.window.lateness_ms < stream->lateness_ms) {
            spec.window.lateness_ms = stream->lateness_ms;
        }
        events += stream->other->count;
    }
    spec.nodes_max = stream->other == NULL ? events : 0; // an event opens at most one pane
    run_all(stream, &spec, events, &gather);
    struct dev_vm_left_out *sum = &dev_vm_current->out->left_out;
    sum->late += gather.left_out.late;
    sum->evicted += gather.left_out.evicted;
    sum->dropped += gather.left_out.dropped;
    stream->left_out = gather.left_out;
    return gather.rows;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_vm_aggregate_obj, 1, aggregate);
