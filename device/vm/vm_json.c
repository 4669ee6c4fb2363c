// JSON text of a script's value: strict, unlike MicroPython's own json.dumps, which prints what it
// does not know. Called by vm_module.c (walle.result, config, input) and by vm_data.c (what is
// stored or uploaded), on the VM's thread. Reals have the fewest digits that read back as the same
// number; NaN and infinities raise, as do values that are no JSON. Nesting is bounded by the VM's
// own check of its stack, which raises in a script as any recursion does.
#include "vm/vm_json.h"

#include "vm/vm_text.h"

#include "base/text/real.h"

#include "py/builtin.h"
#include "py/cstack.h"
#include "py/objint.h"
#include "py/objlist.h"
#include "py/objstr.h"
#include "py/objtuple.h"
#include "py/runtime.h"

#include <math.h>
#include <string.h>

#define REAL_DIGITS_MIN 15

struct json_writer {
    char *out;
    size_t capacity;
    size_t size;
};

static void json_add(void *context, const char *text, size_t size)
{
    struct json_writer *writer = context;
    if (size > writer->capacity - writer->size) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("result is over %d bytes"),
                          (int)writer->capacity);
    }
    if (size > 0) {
        memcpy(writer->out + writer->size, text, size);
    }
    writer->size += size;
}

static void value_write(const mp_print_t *print, mp_obj_t value);

static void sequence_write(const mp_print_t *print, mp_obj_t value)
{
    size_t count;
    mp_obj_t *items;
    mp_obj_get_array(value, &count, &items);
    mp_print_str(print, "[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            mp_print_str(print, ",");
        }
        value_write(print, items[i]);
    }
    mp_print_str(print, "]");
}

static void string_write(const mp_print_t *print, mp_obj_t value)
{
    size_t size;
    const char *text = mp_obj_str_get_data(value, &size);
    mp_str_print_json(print, (const byte *)text, size);
}

static void dict_write(const mp_print_t *print, mp_obj_t value)
{
    const mp_map_t *map = mp_obj_dict_get_map(value);
    bool first = true;
    mp_print_str(print, "{");
    uint32_t ticks = 0;
    for (size_t i = 0; i < map->alloc && dev_vm_tick(&ticks); i++) {
        if (!mp_map_slot_is_filled(map, i)) {
            continue;
        }
        if (!mp_obj_is_str(map->table[i].key)) {
            mp_raise_TypeError(MP_ERROR_TEXT("walle.result: keys must be str"));
        }
        if (!first) {
            mp_print_str(print, ",");
        }
        first = false;
        string_write(print, map->table[i].key);
        mp_print_str(print, ":");
        value_write(print, map->table[i].value);
    }
    mp_print_str(print, "}");
}

// In as few digits as it takes to be read as the same number again: 17 always do. The VM's own text
// of it has 16.
static void real_write(const mp_print_t *print, double value)
{
    char text[BASE_REAL_TEXT_MAX] = "";
    const char *end = NULL;
    for (int digits = REAL_DIGITS_MIN; digits <= BASE_REAL_DIGITS_MAX; digits++) {
        (void)base_real_print(value, digits, text);
        if (base_real_read(text, &end) == value) {
            break;
        }
    }
    mp_print_str(print, text);
    if (strpbrk(text, ".e") == NULL) {
        mp_print_str(print, ".0"); // it stays a real
    }
}

static void value_write(const mp_print_t *print, mp_obj_t value)
{
    mp_cstack_check();
    const mp_obj_type_t *type = mp_obj_get_type(value);
    if (value == mp_const_none) {
        mp_print_str(print, "null");
    } else if (value == mp_const_true) {
        mp_print_str(print, "true");
    } else if (value == mp_const_false) {
        mp_print_str(print, "false");
    } else if (mp_obj_is_str(value)) {
        string_write(print, value);
    } else if (mp_obj_is_int(value)) {
        mp_obj_print_helper(print, value, PRINT_REPR);
    } else if (type == &mp_type_float) {
        if (!isfinite(mp_obj_get_float(value))) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.result: float is not finite"));
        }
        real_write(print, mp_obj_get_float(value));
    } else if (type == &mp_type_list || type == &mp_type_tuple) {
        sequence_write(print, value);
    } else if (mp_obj_is_dict_or_ordereddict(value)) {
        dict_write(print, value);
    } else {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.result: not JSON: %s"),
                          mp_obj_get_type_str(value));
    }
}

size_t dev_vm_json_write(mp_obj_t value, char *out, size_t capacity)
{
    struct json_writer writer = {.out = out, .capacity = capacity};
    const mp_print_t print = {&writer, json_add};
    value_write(&print, value);
    if (!dev_text_valid((const uint8_t *)out, writer.size)) {
        mp_raise_msg(&mp_type_UnicodeError, MP_ERROR_TEXT("walle.result: text is not UTF-8"));
    }
    return writer.size;
}

extern const mp_obj_module_t mp_module_json;

mp_obj_t dev_vm_json_read(const char *text, size_t size)
{
    mp_obj_t loads = mp_load_attr(MP_OBJ_FROM_PTR(&mp_module_json), MP_QSTR_loads);
    return mp_call_function_1(loads, mp_obj_new_str(text, size));
}
