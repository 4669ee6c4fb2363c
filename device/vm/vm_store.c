// The module `walle.store`: what a task keeps from run to run on its device. The store is asked for
// when the script first looks at it, and changed in a copy of the run's own; the runtime takes that
// copy over, whole, when the run ended well. So a run that fails, or is cut off, leaves the store
// as it found it, and no other run sees it half changed. On the VM's thread.
#include "vm/vm_store.h"

#include "vm/vm_np.h"
#include "vm/vm_state.h"
#include "vm/mpy/vm_text.h"

#include "wire/declaration.h"

#include "py/builtin.h"
#include "py/cstack.h"
#include "py/mperrno.h"
#include "py/objlist.h"
#include "py/objstr.h"
#include "py/objtuple.h"
#include "py/runtime.h"

#include "vm_hooks.h"

#include <string.h>

// ---- Values to bytes. Raises TypeError for what cannot be kept, OverflowError for an int beyond
// 64 bits, UnicodeError for text that is no UTF-8, RuntimeError for values nested too deep. What
// does not fit fails the writer.

static void value_write(struct base_writer *writer, mp_obj_t value);

static void block_write(struct base_writer *writer, const void *bytes, size_t size)
{
    dev_vm_work(size / DEV_VM_COPY_PER_UNIT);
    base_writer_varint(writer, size);
    base_writer_bytes(writer, bytes, size);
}

static void text_write(struct base_writer *writer, mp_obj_t text)
{
    size_t size;
    const char *data = mp_obj_str_get_data(text, &size);
    dev_vm_work(size / DEV_VM_TEXT_PER_UNIT);
    if (!dev_text_valid((const uint8_t *)data, size)) {
        mp_raise_msg(&mp_type_UnicodeError, MP_ERROR_TEXT("walle.store: text is not UTF-8"));
    }
    block_write(writer, data, size);
}

static void dict_write(struct base_writer *writer, mp_obj_t value)
{
    const mp_map_t *map = mp_obj_dict_get_map(value);
    uint32_t ticks = 0;
    base_writer_varint(writer, map->used);
    for (size_t i = 0; i < map->alloc && dev_vm_tick(&ticks); i++) {
        if (!mp_map_slot_is_filled(map, i)) {
            continue;
        }
        if (!mp_obj_is_str(map->table[i].key)) {
            mp_raise_TypeError(MP_ERROR_TEXT("walle.store: keys of a dict must be str"));
        }
        text_write(writer, map->table[i].key);
        value_write(writer, map->table[i].value);
    }
}

static void items_write(struct base_writer *writer, mp_obj_t value)
{
    size_t count;
    mp_obj_t *items;
    mp_obj_get_array(value, &count, &items);
    base_writer_varint(writer, count);
    for (size_t i = 0; i < count; i++) {
        value_write(writer, items[i]);
    }
}

static void number_write(struct base_writer *writer, mp_obj_t value)
{
    double real = mp_obj_get_float(value);
    uint64_t bits;
    memcpy(&bits, &real, sizeof(bits));
    base_writer_u8(writer, 'D');
    base_writer_u64(writer, bits);
}

static bool bytes_write(struct base_writer *writer, mp_obj_t value)
{
    mp_buffer_info_t buffer;
    const mp_obj_type_t *type = mp_obj_get_type(value);
    if (type != &mp_type_bytes && type != &mp_type_bytearray) {
        return false;
    }
    mp_get_buffer_raise(value, &buffer, MP_BUFFER_READ);
    base_writer_u8(writer, 'B');
    block_write(writer, buffer.buf, buffer.len);
    return true;
}

// What holds others, or elements. False: it is none.
static bool group_write(struct base_writer *writer, mp_obj_t value)
{
    const mp_obj_type_t *type = mp_obj_get_type(value);
    if (type == &mp_type_list || type == &mp_type_tuple) {
        base_writer_u8(writer, type == &mp_type_list ? 'L' : 'U');
        items_write(writer, value);
    } else if (mp_obj_is_dict_or_ordereddict(value)) {
        base_writer_u8(writer, 'M');
        dict_write(writer, value);
    } else if (type == &dev_np_array_type) {
        base_writer_u8(writer, 'A');
        dev_np_store_write(writer, value);
    } else {
        return false;
    }
    return true;
}

static void value_write(struct base_writer *writer, mp_obj_t value)
{
    mp_cstack_check();
    if (value == mp_const_none) {
        base_writer_u8(writer, 'N');
    } else if (value == mp_const_true || value == mp_const_false) {
        base_writer_u8(writer, value == mp_const_true ? 'T' : 'F');
    } else if (mp_obj_is_int(value)) {
        base_writer_u8(writer, 'I');
        base_writer_zigzag(writer, mp_obj_get_int(value));
    } else if (mp_obj_get_type(value) == &mp_type_float) {
        number_write(writer, value);
    } else if (mp_obj_is_str(value)) {
        base_writer_u8(writer, 'S');
        text_write(writer, value);
    } else if (!bytes_write(writer, value) && !group_write(writer, value)) {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.store: cannot keep a %s"),
                          mp_obj_get_type_str(value));
    }
}

// ---- Values from bytes, of which none is believed: a store can be damaged, and a task's process
// can make one. Nesting is bounded by the VM's own check of its stack; a count never allocates more
// than the bytes that are there.

static mp_obj_t value_read(struct base_reader *reader);

static _Noreturn void raise_damaged(void)
{
    mp_raise_ValueError(MP_ERROR_TEXT("walle.store: what is kept is damaged"));
}

static const uint8_t *block_read(struct base_reader *reader, size_t *out_size)
{
    size_t size = (size_t)base_reader_varint_max(reader, base_reader_left(reader));
    const uint8_t *bytes = base_reader_bytes(reader, size);
    if (bytes == NULL) {
        raise_damaged();
    }
    dev_vm_work(size / DEV_VM_TEXT_PER_UNIT);
    *out_size = size;
    return bytes;
}

static mp_obj_t text_read(struct base_reader *reader)
{
    size_t size;
    const uint8_t *text = block_read(reader, &size);
    return mp_obj_new_str((const char *)text, size); // checks it
}

static mp_obj_t list_read(struct base_reader *reader)
{
    uint64_t count = base_reader_varint_max(reader, base_reader_left(reader));
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (uint64_t i = 0; i < count; i++) {
        mp_obj_list_append(list, value_read(reader));
    }
    return list;
}

static mp_obj_t tuple_read(struct base_reader *reader)
{
    size_t count;
    mp_obj_t *items;
    mp_obj_t list = list_read(reader);
    mp_obj_get_array(list, &count, &items);
    return mp_obj_new_tuple(count, items);
}

static mp_obj_t dict_read(struct base_reader *reader)
{
    uint64_t count = base_reader_varint_max(reader, base_reader_left(reader));
    mp_obj_t dict = mp_obj_new_dict(0);
    for (uint64_t i = 0; i < count; i++) {
        mp_obj_t key = text_read(reader);
        mp_obj_dict_store(dict, key, value_read(reader));
    }
    return dict;
}

static mp_obj_t number_read(struct base_reader *reader)
{
    uint64_t bits = base_reader_u64(reader);
    double real;
    memcpy(&real, &bits, sizeof(real));
    if (reader->status != BASE_OK) {
        raise_damaged();
    }
    return mp_obj_new_float(real);
}

static mp_obj_t integer_read(struct base_reader *reader)
{
    int64_t number = base_reader_zigzag(reader);
    if (reader->status != BASE_OK) {
        raise_damaged();
    }
    return mp_obj_new_int(number);
}

static mp_obj_t bytes_read(struct base_reader *reader)
{
    size_t size;
    const uint8_t *bytes = block_read(reader, &size);
    return mp_obj_new_bytes(bytes, size);
}

static mp_obj_t value_read(struct base_reader *reader)
{
    mp_cstack_check();
    switch (base_reader_u8(reader)) {
    case 'N':
        return mp_const_none;
    case 'T':
        return mp_const_true;
    case 'F':
        return mp_const_false;
    case 'I':
        return integer_read(reader);
    case 'D':
        return number_read(reader);
    case 'S':
        return text_read(reader);
    case 'B':
        return bytes_read(reader);
    case 'L':
        return list_read(reader);
    case 'U':
        return tuple_read(reader);
    case 'M':
        return dict_read(reader);
    case 'A':
        return dev_np_store_read(reader);
    default:
        raise_damaged();
    }
}

// ---- The run's store

static size_t quota_of(struct base_str declaration)
{
    struct wire_declaration declared;
    if (declaration.size == 0 || wire_declaration_parse((const uint8_t *)declaration.data,
                                                        declaration.size, &declared) != BASE_OK) {
        return 0;
    }
    return (size_t)declared.store_kib * 1024;
}

struct taken {
    uint8_t *bytes;
    size_t size;
};

// The port is foreign code that must not be jumped out of.
static bool image_take(void *ctx, struct base_str key, uint64_t time_ms, const uint8_t *value,
                       size_t value_size)
{
    struct taken *taken = ctx;
    (void)key, (void)time_ms;
    if (value_size <= WIRE_STORE_IMAGE_MAX) {
        memcpy(taken->bytes, value, value_size);
        taken->size = value_size;
    }
    return false;
}

static enum base_status image_ask(struct dev_vm *vm, struct taken *taken)
{
    const struct dev_vm_data_port *port = vm->job->data;
    const struct dev_vm_query own = {.feature = {"", 0}, .key = {"", 0}, .to_ms = UINT64_MAX};
    if (port == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    dev_vm_current->away = true;
    enum base_status status = port->query(port->ctx, &own, image_take, taken);
    dev_vm_current->away = false;
    return status;
}

// The run's store, asked for once. Counts for what any of the calls below goes through.
static struct wire_store *store_of(struct dev_vm *vm)
{
    dev_vm_outside(vm);
    vm->out->looked = true;
    if (vm->store_quota != 0) {
        dev_vm_work(1 + vm->store.keys / DEV_VM_LOOP_PER_UNIT);
        return &vm->store;
    }
    size_t quota = quota_of(vm->job->declaration);
    if (quota == 0) {
        mp_raise_msg(&mp_type_OSError,
                     MP_ERROR_TEXT("walle.store: the task declares no \"store\" in task.json"));
    }
    struct taken taken = {.bytes = vm->store_bytes};
    enum base_status status = image_ask(vm, &taken);
    if (status != BASE_OK && status != BASE_ERR_NOT_FOUND) {
        mp_raise_OSError(MP_EIO);
    }
    if (taken.size == 0 || wire_store_parse(taken.bytes, taken.size, &vm->store) != BASE_OK) {
        wire_store_init(&vm->store, vm->store_bytes, 0);
    }
    dev_vm_work(1 + vm->store.size / DEV_VM_TEXT_PER_UNIT);
    vm->store_quota = quota;
    return &vm->store;
}

static struct base_str key_take(mp_obj_t object)
{
    size_t size;
    const char *key = mp_obj_str_get_data(object, &size);
    if (!mp_obj_is_str(object) || size == 0 || size > WIRE_STORE_KEY_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.store: a key is a str of 1 to %d bytes"),
                          WIRE_STORE_KEY_MAX);
    }
    return (struct base_str){key, size};
}

// get(key, default=None)
mp_obj_t dev_vm_store_get(size_t count, const mp_obj_t *args)
{
    struct base_str key = key_take(args[0]);
    struct base_span value;
    struct base_reader reader;
    if (wire_store_find(store_of(dev_vm_current), key, &value) != BASE_OK) {
        return count > 1 ? args[1] : mp_const_none;
    }
    base_reader_init(&reader, value.data, value.size);
    mp_obj_t made = value_read(&reader);
    if (base_reader_finish(&reader) != BASE_OK) {
        raise_damaged();
    }
    return made;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(store_get_obj, 1, 2, dev_vm_store_get);

// put(key, value). The store is as it was where this raises.
mp_obj_t dev_vm_store_put(mp_obj_t key_in, mp_obj_t value_in)
{
    struct dev_vm *vm = dev_vm_current;
    struct base_str key = key_take(key_in);
    struct wire_store *store = store_of(vm);
    struct base_writer writer;
    base_writer_init(&writer, vm->store_value, sizeof(vm->store_value));
    value_write(&writer, value_in);
    const struct base_span value = {vm->store_value, base_writer_size(&writer)};
    enum base_status status = writer.status;
    if (status == BASE_OK) {
        dev_vm_work((store->size + value.size) / DEV_VM_COPY_PER_UNIT);
        status = wire_store_put(store, key, value, vm->store_quota);
    }
    if (status == BASE_ERR_LIMIT) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.store: more than %d keys"),
                          WIRE_STORE_KEYS_MAX);
    }
    if (status != BASE_OK) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.store: keys and values are over %d KiB"),
                          (int)(vm->store_quota / 1024));
    }
    vm->store_changed = true;
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_2(store_put_obj, dev_vm_store_put);

// delete(key): was it there?
static mp_obj_t store_delete(mp_obj_t key_in)
{
    struct dev_vm *vm = dev_vm_current;
    struct base_str key = key_take(key_in);
    bool was = wire_store_remove(store_of(vm), key);
    vm->store_changed |= was;
    return mp_obj_new_bool(was);
}
static MP_DEFINE_CONST_FUN_OBJ_1(store_delete_obj, store_delete);

// keys(prefix=""): ascending
static mp_obj_t store_keys(size_t count, const mp_obj_t *args)
{
    size_t size = 0;
    const char *prefix = count > 0 ? mp_obj_str_get_data(args[0], &size) : "";
    const struct wire_store *store = store_of(dev_vm_current);
    struct wire_store_entry entry;
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (size_t at = 0; wire_store_next(store, &at, &entry);) {
        dev_vm_step();
        if (entry.key.size >= size && memcmp(entry.key.data, prefix, size) == 0) {
            mp_obj_list_append(list, mp_obj_new_str(entry.key.data, entry.key.size));
        }
    }
    return list;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(store_keys_obj, 0, 1, store_keys);

static mp_obj_t store_clear(void)
{
    struct dev_vm *vm = dev_vm_current;
    struct wire_store *store = store_of(vm);
    vm->store_changed |= store->keys > 0;
    wire_store_init(store, vm->store_bytes, store->tag);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_0(store_clear_obj, store_clear);

void dev_vm_store_finish(struct dev_vm *vm)
{
    if (vm->out->end != DEV_VM_FINISHED || !vm->store_changed) {
        return;
    }
    vm->effects[vm->effect_count++] = (struct dev_vm_effect){.kind = DEV_VM_EFFECT_SAVE,
                                                             .format = WIRE_RECORD_BYTES,
                                                             .bytes = vm->store.bytes,
                                                             .size = (uint32_t)vm->store.size};
}

static const mp_rom_map_elem_t store_globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_store)},
    {MP_ROM_QSTR(MP_QSTR_get), MP_ROM_PTR(&store_get_obj)},
    {MP_ROM_QSTR(MP_QSTR_put), MP_ROM_PTR(&store_put_obj)},
    {MP_ROM_QSTR(MP_QSTR_delete), MP_ROM_PTR(&store_delete_obj)},
    {MP_ROM_QSTR(MP_QSTR_keys), MP_ROM_PTR(&store_keys_obj)},
    {MP_ROM_QSTR(MP_QSTR_clear), MP_ROM_PTR(&store_clear_obj)},
};
static MP_DEFINE_CONST_DICT(store_globals, store_globals_table);

const mp_obj_module_t dev_vm_module_store = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&store_globals,
};
