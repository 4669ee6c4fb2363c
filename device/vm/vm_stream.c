// Streams of events as scripts see them: Filter, Map, KeyBy, TimeWindow and Join, with the
// expressions and stream functions of device/pipeline underneath. A stream is the places of its
// events and what was declared over them; each function gives a new one. Runs on the VM's thread;
// each event costs a budget unit, as a step of a loop does.
#include "vm/vm_data.h"

#include "pipeline/stream/event_predicate.h"
#include "vm/vm_state.h"

#include "py/cstack.h"
#include "py/runtime.h"

#include <string.h>

extern const mp_obj_type_t dev_vm_stream_type;

struct dev_vm_stream *dev_vm_stream_of(mp_obj_t object)
{
    if (!mp_obj_is_exact_type(object, &dev_vm_stream_type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.data: not a stream of events"));
    }
    return MP_OBJ_TO_PTR(object);
}

static struct dev_vm_stream *stream_new(const struct dev_vm_stream *like, uint32_t room)
{
    struct dev_vm_stream *stream = mp_obj_malloc(struct dev_vm_stream, &dev_vm_stream_type);
    mp_obj_base_t base = stream->base;
    *stream =
        like != NULL ? *like : (struct dev_vm_stream){.key = mp_const_none, .where = mp_const_none};
    stream->base = base;
    stream->left_out = (struct dev_vm_left_out){0};
    if (room > 0) {
        stream->events = NULL;
        stream->events = m_new(uint32_t, room);
    }
    return stream;
}

mp_obj_t dev_vm_stream_all(void)
{
    dev_vm_outside(dev_vm_current);
    uint32_t count = dev_vm_current->job->event_count;
    struct dev_vm_stream *stream = stream_new(NULL, count);
    for (uint32_t i = 0; i < count; i++) {
        stream->events[i] = i;
    }
    stream->count = count;
    return MP_OBJ_FROM_PTR(stream);
}

const uint8_t *dev_vm_expression(mp_obj_t text, uint32_t flags)
{
    size_t size;
    const char *data = mp_obj_str_get_data(text, &size);
    uint8_t program[DEV_PREDICATE_BYTES_MAX];
    struct base_error error = {.status = BASE_OK};
    struct dev_predicate_program made = {.bytes = program, .capacity = sizeof(program)};
    if (dev_predicate_compile((struct base_str){data, size}, flags, &made, &error) != BASE_OK) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("expression:%d:%d: %s"),
                          (int)error.line, (int)error.column, error.text);
    }
    uint8_t *kept = m_new(uint8_t, made.size);
    memcpy(kept, program, made.size);
    return kept;
}

static const struct dev_event *event_at(const struct dev_vm_stream *stream, uint32_t index)
{
    return &dev_vm_current->job->events[stream->events[index]];
}

static void plain_check(const struct dev_vm_stream *stream)
{
    if (stream->other != NULL) {
        mp_raise_ValueError(
            MP_ERROR_TEXT("walle.data: a join can only be windowed and aggregated"));
    }
}

// Filter(stream, rule): the events for which an expression is true, or a function says so.
static mp_obj_t filter(mp_obj_t stream_in, mp_obj_t rule)
{
    const struct dev_vm_stream *from = dev_vm_stream_of(stream_in);
    plain_check(from);
    const uint8_t *program =
        mp_obj_is_str(rule) ? dev_vm_expression(rule, DEV_PREDICATE_TRUTH) : NULL;
    struct dev_vm_stream *stream = stream_new(from, from->count);
    stream->count = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        mp_cstack_check();
        const struct dev_event *event = event_at(from, i);
        bool passes = program != NULL
                          ? dev_predicate_test(program, event)
                          : mp_obj_is_true(mp_call_function_1(rule, dev_vm_event_new(event)));
        if (passes) {
            stream->events[stream->count++] = from->events[i];
        }
    }
    return MP_OBJ_FROM_PTR(stream);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_vm_filter_obj, filter);

// Map(stream, f): a list of what an expression or a function gives for each event.
static mp_obj_t map(mp_obj_t stream_in, mp_obj_t rule)
{
    const struct dev_vm_stream *from = dev_vm_stream_of(stream_in);
    plain_check(from);
    const uint8_t *program = mp_obj_is_str(rule) ? dev_vm_expression(rule, 0) : NULL;
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (uint32_t i = 0; i < from->count; i++) {
        mp_cstack_check();
        const struct dev_event *event = event_at(from, i);
        mp_obj_list_append(
            list, program != NULL ? dev_vm_value_object(dev_predicate_value(program, event, NULL))
                                  : mp_call_function_1(rule, dev_vm_event_new(event)));
    }
    return list;
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_vm_map_obj, map);

// KeyBy(stream, key): an expression.
static mp_obj_t key_by(mp_obj_t stream_in, mp_obj_t key)
{
    const struct dev_vm_stream *from = dev_vm_stream_of(stream_in);
    plain_check(from);
    (void)dev_vm_expression(key, 0);
    struct dev_vm_stream *stream = stream_new(from, 0);
    stream->key = key;
    return MP_OBJ_FROM_PTR(stream);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_vm_key_by_obj, key_by);

static uint64_t milliseconds(mp_obj_t object)
{
    if (object == MP_OBJ_NULL || object == mp_const_none) {
        return 0;
    }
    mp_int_t value = mp_obj_get_int(object);
    if (value < 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.data: a time is negative"));
    }
    return (uint64_t)value;
}

// TimeWindow(stream, size=0, kind="tumbling", hop=, gap=, count=, lateness=, allowed=): times in
// ms.
static mp_obj_t time_window(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { STREAM, SIZE, KIND, HOP, GAP, COUNT, LATENESS, ALLOWED, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_stream, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_size, MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_kind, MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_hop, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_gap, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_count, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_lateness, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_allowed, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct dev_vm_stream *from = dev_vm_stream_of(values[STREAM].u_obj);
    struct dev_window_spec window = {.kind = DEV_WINDOW_TUMBLING};
    if (values[KIND].u_obj != MP_OBJ_NULL) {
        size_t size;
        const char *name = mp_obj_str_get_data(values[KIND].u_obj, &size);
        if (dev_window_kind_parse((struct base_str){name, size}, &window.kind) != BASE_OK) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.data: unknown kind of window"));
        }
    }
    uint64_t events = milliseconds(values[COUNT].u_obj);
    uint64_t hop = milliseconds(values[HOP].u_obj);
    bool counts = window.kind == DEV_WINDOW_COUNT;
    if (events > UINT32_MAX || (counts && hop > UINT32_MAX)) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.data: a count is too large"));
    }
    window.size_ms = milliseconds(values[SIZE].u_obj);
    window.count = (uint32_t)events;
    window.hop_ms = counts ? 0 : hop;
    window.hop_count = counts ? (uint32_t)hop : 0;
    window.gap_ms = milliseconds(values[GAP].u_obj);
    window.lateness_ms = milliseconds(values[LATENESS].u_obj);
    window.allowed_ms = milliseconds(values[ALLOWED].u_obj);
    struct dev_vm_stream *stream = stream_new(from, 0);
    stream->windowed = true;
    stream->window = window;
    return MP_OBJ_FROM_PTR(stream);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_vm_time_window_obj, 1, time_window);

static uint32_t join_bytes(mp_obj_t object)
{
    if (object == mp_const_none) {
        return 0;
    }
    mp_int_t size = mp_obj_get_int(object);
    if (size < DEV_JOIN_BYTES_MIN || size > DEV_JOIN_BYTES_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.data: size of a join is not %d to %d bytes"),
                          DEV_JOIN_BYTES_MIN, DEV_JOIN_BYTES_MAX);
    }
    return (uint32_t)size;
}

// Join(left, right, within, where=None, size=None, lateness=0): both keyed; `where` and aggregates
// know other.NAME.
static mp_obj_t join(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { LEFT, RIGHT, WITHIN, WHERE, SIZE, LATENESS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_left, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_right, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_within, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_where, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_size, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_lateness, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct dev_vm_stream *left = dev_vm_stream_of(values[LEFT].u_obj);
    struct dev_vm_stream *right = dev_vm_stream_of(values[RIGHT].u_obj);
    plain_check(left);
    plain_check(right);
    if (left->key == mp_const_none || right->key == mp_const_none) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.data: Join needs KeyBy on both sides"));
    }
    struct dev_vm_stream *stream = stream_new(left, 0);
    stream->other = right;
    stream->within_ms = milliseconds(values[WITHIN].u_obj);
    stream->lateness_ms = milliseconds(values[LATENESS].u_obj);
    stream->join_bytes = join_bytes(values[SIZE].u_obj);
    if (values[WHERE].u_obj != mp_const_none) {
        (void)dev_vm_expression(values[WHERE].u_obj, DEV_PREDICATE_TRUTH | DEV_PREDICATE_OTHER);
        stream->where = values[WHERE].u_obj;
    }
    return MP_OBJ_FROM_PTR(stream);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_vm_join_obj, 0, join);

// --- the object

static mp_obj_t stream_unary(mp_unary_op_t op, mp_obj_t self)
{
    const struct dev_vm_stream *stream = MP_OBJ_TO_PTR(self);
    switch (op) {
    case MP_UNARY_OP_LEN:
        return MP_OBJ_NEW_SMALL_INT((mp_int_t)stream->count);
    case MP_UNARY_OP_BOOL:
        return mp_obj_new_bool(stream->count != 0);
    default:
        return MP_OBJ_NULL;
    }
}

static mp_obj_t stream_subscr(mp_obj_t self, mp_obj_t index, mp_obj_t value)
{
    const struct dev_vm_stream *stream = MP_OBJ_TO_PTR(self);
    if (value != MP_OBJ_SENTINEL) {
        return MP_OBJ_NULL;
    }
    size_t at = mp_get_index(&dev_vm_stream_type, stream->count, index, false);
    return dev_vm_event_new(event_at(stream, (uint32_t)at));
}

struct stream_iterator {
    mp_obj_base_t base;
    mp_fun_1_t next;
    const struct dev_vm_stream *stream;
    uint32_t at;
};

static mp_obj_t iterator_next(mp_obj_t self)
{
    struct stream_iterator *iterator = MP_OBJ_TO_PTR(self);
    if (iterator->at >= iterator->stream->count) {
        return MP_OBJ_STOP_ITERATION;
    }
    return dev_vm_event_new(event_at(iterator->stream, iterator->at++));
}

static mp_obj_t stream_iter(mp_obj_t self, mp_obj_iter_buf_t *buffer)
{
    _Static_assert(sizeof(struct stream_iterator) <= sizeof(mp_obj_iter_buf_t), "fits the buffer");
    struct stream_iterator *iterator = (struct stream_iterator *)buffer;
    iterator->base.type = &mp_type_polymorph_iter;
    iterator->next = iterator_next;
    iterator->stream = MP_OBJ_TO_PTR(self);
    iterator->at = 0;
    return MP_OBJ_FROM_PTR(iterator);
}

// What the last aggregate call left out, and what the run was not given. Other names are the type's
// own.
static void stream_attr(mp_obj_t self, qstr attr, mp_obj_t *dest)
{
    const struct dev_vm_left_out *left_out =
        &((struct dev_vm_stream *)MP_OBJ_TO_PTR(self))->left_out;
    if (dest[0] != MP_OBJ_NULL) {
        return; // a store, which is refused
    }
    switch (attr) {
    case MP_QSTR_late:
        dest[0] = mp_obj_new_int_from_ull(left_out->late);
        return;
    case MP_QSTR_evicted:
        dest[0] = mp_obj_new_int_from_ull(left_out->evicted);
        return;
    case MP_QSTR_dropped:
        dest[0] = mp_obj_new_int_from_ull(left_out->dropped);
        return;
    case MP_QSTR_timed_out:
        dest[0] = mp_obj_new_bool(dev_vm_current->job->events_timed_out);
        return;
    case MP_QSTR_missing:
        dest[0] = mp_obj_new_int_from_ull(dev_vm_current->job->events_missing);
        return;
    default:
        dest[1] = MP_OBJ_SENTINEL;
        return;
    }
}

static const mp_rom_map_elem_t stream_locals_table[] = {
    {MP_ROM_QSTR(MP_QSTR_aggregate), MP_ROM_PTR(&dev_vm_aggregate_obj)},
};
static MP_DEFINE_CONST_DICT(stream_locals, stream_locals_table);

MP_DEFINE_CONST_OBJ_TYPE(dev_vm_stream_type, MP_QSTR_Stream, MP_TYPE_FLAG_NONE, unary_op,
                         stream_unary, attr, stream_attr, subscr, stream_subscr, iter, stream_iter,
                         locals_dict, &stream_locals);
