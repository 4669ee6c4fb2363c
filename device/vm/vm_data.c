// The module `walle.data`: the run's events, stored features, and what a script wants stored or
// uploaded. Effects are only noted here; the runtime carries them out when the run ended well. Runs
// on the VM's thread.
#include "vm/vm_data.h"

#include "vm/vm_json.h"
#include "vm/vm_state.h"

#include "py/mperrno.h"
#include "py/runtime.h"

#include <string.h>

static mp_obj_t events(void)
{
    return dev_vm_stream_all();
}
static MP_DEFINE_CONST_FUN_OBJ_0(events_obj, events);

// --- names and times

static struct base_str name_take(mp_obj_t object, char separator)
{
    size_t size;
    const char *name = mp_obj_str_get_data(object, &size);
    bool good = size > 0 && size <= DEV_VM_FEATURE_NAME_MAX;
    for (size_t i = 0; good && i < size; i++) {
        char c = name[i];
        good = (c >= 'a' && c <= 'z') ||
               (i > 0 && ((c >= '0' && c <= '9') || c == '_' || c == separator));
    }
    if (!good) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.data: a name is not [a-z][a-z0-9_%c]* of at most %d "
                                        "bytes"),
                          separator, DEV_VM_FEATURE_NAME_MAX);
    }
    return (struct base_str){name, size};
}

static struct base_str key_take(mp_obj_t object)
{
    size_t size;
    const char *key = mp_obj_str_get_data(object, &size);
    if (size > DEV_VM_FEATURE_KEY_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.data: a key is over %d bytes"),
                          DEV_VM_FEATURE_KEY_MAX);
    }
    return (struct base_str){key, size};
}

static uint64_t time_take(mp_obj_t object, uint64_t otherwise)
{
    if (object == mp_const_none) {
        return otherwise;
    }
    mp_int_t time = mp_obj_get_int(object);
    if (time < 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.data: a time is negative"));
    }
    return (uint64_t)time;
}

// --- query

// A row in the buffer; key and value follow.
struct row {
    uint64_t time_ms;
    uint32_t key_size;
    uint32_t value_size;
};

struct rows {
    uint8_t *bytes;
    size_t used;
    uint32_t count;
    bool full;
};

// The port is foreign code that must not be jumped out of: rows are copied first.
static bool row_take(void *ctx, struct base_str key, uint64_t time_ms, const uint8_t *value,
                     size_t value_size)
{
    struct rows *rows = ctx;
    struct row row = {time_ms, (uint32_t)key.size, (uint32_t)value_size};
    size_t room = DEV_VM_QUERY_BYTES - rows->used;
    if (rows->count == DEV_VM_QUERY_ROWS_MAX || key.size > DEV_VM_FEATURE_KEY_MAX ||
        value_size > DEV_VM_QUERY_BYTES || sizeof(row) + key.size + value_size > room) {
        rows->full = true;
        return false;
    }
    uint8_t *at = rows->bytes + rows->used;
    memcpy(at, &row, sizeof(row));
    if (key.size > 0) {
        memcpy(at + sizeof(row), key.data, key.size);
    }
    if (value_size > 0) {
        memcpy(at + sizeof(row) + key.size, value, value_size);
    }
    rows->used += sizeof(row) + key.size + value_size;
    rows->count++;
    return true;
}

// What store() wrote is JSON; values of other makers may be plain bytes.
static mp_obj_t value_object(const uint8_t *bytes, size_t size)
{
    nlr_buf_t nlr;
    if (nlr_push(&nlr) == 0) {
        mp_obj_t value = dev_vm_json_read((const char *)bytes, size);
        nlr_pop();
        return value;
    }
    mp_obj_t raised = MP_OBJ_FROM_PTR(nlr.ret_val);
    const mp_obj_type_t *type = mp_obj_get_type(raised);
    if (type != &mp_type_ValueError && type != &mp_type_UnicodeError) {
        nlr_jump(nlr.ret_val); // MemoryError and the like
    }
    return mp_obj_new_bytes(bytes, size);
}

static mp_obj_t rows_object(const struct rows *rows, bool with_key)
{
    mp_obj_t list = mp_obj_new_list(0, NULL);
    size_t at = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        struct row row;
        memcpy(&row, rows->bytes + at, sizeof(row));
        const uint8_t *key = rows->bytes + at + sizeof(row);
        mp_obj_t items[3] = {mp_obj_new_int_from_uint(row.time_ms),
                             value_object(key + row.key_size, row.value_size), mp_const_none};
        if (with_key) {
            items[2] = mp_obj_new_str((const char *)key, row.key_size);
        }
        mp_obj_list_append(list, mp_obj_new_tuple(with_key ? 3 : 2, items));
        at += sizeof(row) + row.key_size + row.value_size;
    }
    return list;
}

// query(feature, key, start=0, end=None, newest=0): [(time, value), ...], newest first; with key
// None: of every key, [(time, value, key), ...].
static mp_obj_t query(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { FEATURE, KEY, START, END, NEWEST, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_feature, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_key, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_start, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_end, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_newest, MP_ARG_INT, {.u_int = 0}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    bool every = values[KEY].u_obj == mp_const_none;
    struct dev_vm_query wanted = {
        .feature = name_take(values[FEATURE].u_obj, '.'),
        .every_key = every,
        .from_ms = time_take(values[START].u_obj, 0),
        .to_ms = time_take(values[END].u_obj, UINT64_MAX),
        .newest = values[NEWEST].u_int > 0 ? (uint32_t)values[NEWEST].u_int : 0,
    };
    if (!every) {
        wanted.key = key_take(values[KEY].u_obj);
    }
    struct dev_vm *vm = dev_vm_current;
    struct rows rows = {.bytes = vm->query_bytes};
    const struct dev_vm_data_port *port = vm->job->data;
    dev_vm_outside(vm);
    vm->out->looked = true;
    vm->away = true;
    enum base_status status =
        port != NULL ? port->query(port->ctx, &wanted, row_take, &rows) : BASE_OK;
    vm->away = false;
    if (rows.full || status == BASE_ERR_LIMIT) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.data: more than %d rows or %d bytes: ask for less"),
                          DEV_VM_QUERY_ROWS_MAX, DEV_VM_QUERY_BYTES);
    }
    if (status != BASE_OK && status != BASE_ERR_NOT_FOUND) {
        mp_raise_OSError(MP_EIO);
    }
    return rows_object(&rows, every);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(query_obj, 2, query);

// --- effects

// Room for the texts of one more effect; raises when there is none.
static struct dev_vm_effect *effect_begin(struct dev_vm *vm)
{
    dev_vm_outside(vm);
    if (vm->effect_count == DEV_VM_EFFECTS_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.data: more than %d stores and uploads"),
                          DEV_VM_EFFECTS_MAX);
    }
    return &vm->effects[vm->effect_count];
}

static uint8_t *bytes_take(struct dev_vm *vm, size_t *used, const void *bytes, size_t size)
{
    if (size > DEV_VM_EFFECT_BYTES - *used) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.data: stores and uploads are over %d bytes"),
                          DEV_VM_EFFECT_BYTES);
    }
    uint8_t *at = vm->effect_bytes + *used;
    if (size > 0) {
        memcpy(at, bytes, size);
    }
    *used += size;
    return at;
}

static struct base_str text_take(struct dev_vm *vm, size_t *used, struct base_str text)
{
    return (struct base_str){(const char *)bytes_take(vm, used, text.data, text.size), text.size};
}

// The value as JSON behind what is used; nothing is noted when it cannot be written.
static void json_take(struct dev_vm *vm, size_t *used, mp_obj_t value, size_t most,
                      struct dev_vm_effect *effect)
{
    size_t room = DEV_VM_EFFECT_BYTES - *used;
    uint8_t *at = vm->effect_bytes + *used;
    size_t size = dev_vm_json_write(value, (char *)at, room < most ? room : most);
    effect->format = WIRE_RECORD_JSON;
    effect->bytes = at;
    effect->size = (uint32_t)size;
    *used += size;
}

static void effect_end(struct dev_vm *vm, size_t used)
{
    vm->effect_size = used;
    vm->effect_count++;
}

// store(feature, key, value, time=None)
static mp_obj_t store(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { FEATURE, KEY, VALUE, TIME, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_feature, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_key, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_value, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_time, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct dev_vm *vm = dev_vm_current;
    struct base_str name = name_take(values[FEATURE].u_obj, '.');
    struct base_str key = key_take(values[KEY].u_obj);
    uint64_t time_ms = time_take(values[TIME].u_obj, 0);
    struct dev_vm_effect *effect = effect_begin(vm);
    size_t used = vm->effect_size;
    *effect = (struct dev_vm_effect){.kind = DEV_VM_EFFECT_STORE, .time_ms = time_ms};
    effect->name = text_take(vm, &used, name);
    effect->key = text_take(vm, &used, key);
    json_take(vm, &used, values[VALUE].u_obj, DEV_VM_STORE_MAX, effect);
    effect_end(vm, used);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_KW(store_obj, 0, store);

// upload(name, value): bytes as they are, anything else as JSON.
static mp_obj_t upload(mp_obj_t name_in, mp_obj_t value)
{
    struct dev_vm *vm = dev_vm_current;
    struct base_str name = name_take(name_in, '-');
    struct dev_vm_effect *effect = effect_begin(vm);
    size_t used = vm->effect_size;
    *effect = (struct dev_vm_effect){.kind = DEV_VM_EFFECT_UPLOAD};
    effect->name = text_take(vm, &used, name);
    mp_buffer_info_t buffer;
    if (!mp_obj_is_str(value) && mp_get_buffer(value, &buffer, MP_BUFFER_READ)) {
        effect->format = WIRE_RECORD_BYTES;
        effect->bytes = bytes_take(vm, &used, buffer.buf, buffer.len);
        effect->size = (uint32_t)buffer.len;
    } else {
        json_take(vm, &used, value, DEV_VM_EFFECT_BYTES, effect);
    }
    dev_vm_leaves_upload(vm, effect);
    effect_end(vm, used);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_2(upload_obj, upload);

void dev_vm_effects_finish(struct dev_vm *vm)
{
    bool well = vm->out->end == DEV_VM_FINISHED;
    dev_vm_store_finish(vm);
    vm->out->effects = vm->effects;
    vm->out->effect_count = well ? vm->effect_count : 0;
}

static const mp_rom_map_elem_t data_globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_data)},
    {MP_ROM_QSTR(MP_QSTR_events), MP_ROM_PTR(&events_obj)},
    {MP_ROM_QSTR(MP_QSTR_Filter), MP_ROM_PTR(&dev_vm_filter_obj)},
    {MP_ROM_QSTR(MP_QSTR_Map), MP_ROM_PTR(&dev_vm_map_obj)},
    {MP_ROM_QSTR(MP_QSTR_KeyBy), MP_ROM_PTR(&dev_vm_key_by_obj)},
    {MP_ROM_QSTR(MP_QSTR_TimeWindow), MP_ROM_PTR(&dev_vm_time_window_obj)},
    {MP_ROM_QSTR(MP_QSTR_Join), MP_ROM_PTR(&dev_vm_join_obj)},
    {MP_ROM_QSTR(MP_QSTR_count), MP_ROM_PTR(&dev_vm_count_obj)},
    {MP_ROM_QSTR(MP_QSTR_sum), MP_ROM_PTR(&dev_vm_sum_obj)},
    {MP_ROM_QSTR(MP_QSTR_min), MP_ROM_PTR(&dev_vm_min_obj)},
    {MP_ROM_QSTR(MP_QSTR_max), MP_ROM_PTR(&dev_vm_max_obj)},
    {MP_ROM_QSTR(MP_QSTR_mean), MP_ROM_PTR(&dev_vm_mean_obj)},
    {MP_ROM_QSTR(MP_QSTR_distinct), MP_ROM_PTR(&dev_vm_distinct_obj)},
    {MP_ROM_QSTR(MP_QSTR_last), MP_ROM_PTR(&dev_vm_last_obj)},
    {MP_ROM_QSTR(MP_QSTR_histogram), MP_ROM_PTR(&dev_vm_histogram_obj)},
    {MP_ROM_QSTR(MP_QSTR_quantiles), MP_ROM_PTR(&dev_vm_quantiles_obj)},
    {MP_ROM_QSTR(MP_QSTR_query), MP_ROM_PTR(&query_obj)},
    {MP_ROM_QSTR(MP_QSTR_store), MP_ROM_PTR(&store_obj)},
    {MP_ROM_QSTR(MP_QSTR_upload), MP_ROM_PTR(&upload_obj)},
};
static MP_DEFINE_CONST_DICT(data_globals, data_globals_table);

const mp_obj_module_t dev_vm_module_data = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&data_globals,
};
