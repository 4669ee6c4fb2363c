// JSON text of a script's value: strict, unlike MicroPython's own json.dumps, which prints what it
// does not know. Called by vm_module.c (walle.result, config, input) and by vm_data.c (what is
// stored or uploaded), on the VM's thread. Reals have the fewest digits that read back as the same
// number; NaN and infinities raise, as do values that are no JSON. Nesting is bounded by the VM's
// own check of its stack, which raises in a script as any recursion does.
#include "vm/vm_json.h"

#include "vm/mpy/vm_text.h"

#include "base/text/real.h"

#include "py/builtin.h"
#include "py/cstack.h"
#include "py/objint.h"
#include "py/objlist.h"
#include "py/objstr.h"
#include "py/objtuple.h"
#include "py/runtime.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define REAL_DIGITS_MIN 15

struct json_writer {
    char *out;
    size_t capacity;
    size_t size;
};

// A block of bytes is paid for as any copy is.
static void put(struct json_writer *writer, const char *text, size_t size)
{
    if (size > writer->capacity - writer->size) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("result is over %d bytes"),
                          (int)writer->capacity);
    }
    if (size > 0) {
        memcpy(writer->out + writer->size, text, size);
    }
    writer->size += size;
}

static void put_char(struct json_writer *writer, char c)
{
    if (writer->size == writer->capacity) {
        put(writer, &c, 1); // raises
    }
    writer->out[writer->size++] = c;
}

static void json_add(void *context, const char *text, size_t size)
{
    put(context, text, size);
}

static void value_write(struct json_writer *writer, mp_obj_t value);

static void sequence_write(struct json_writer *writer, mp_obj_t value)
{
    size_t count;
    mp_obj_t *items;
    mp_obj_get_array(value, &count, &items);
    put_char(writer, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            put_char(writer, ',');
        }
        value_write(writer, items[i]);
    }
    put_char(writer, ']');
}

// A bit in each byte that is none to be copied as it is: below space, a quote or a backslash.
static uint64_t special_bits(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = UINT64_C(0x8080808080808080);
    uint64_t quote = word ^ ones * '"';
    uint64_t slash = word ^ ones * '\\';
    return ((word - ones * ' ') | (quote - ones) | (slash - ones)) & ~word & highs;
}

// How many bytes can be copied as they are. What special_bits says too often is looked at again.
static size_t plain_size(const char *text, size_t size)
{
    size_t at = 0;
    for (uint64_t word; at + sizeof(word) <= size; at += sizeof(word)) {
        __builtin_memcpy(&word, text + at, sizeof(word));
        if (special_bits(word) != 0) {
            break;
        }
    }
    while (at < size && (unsigned char)text[at] >= ' ' && text[at] != '"' && text[at] != '\\') {
        at++;
    }
    return at;
}

static void escape_write(struct json_writer *writer, char c)
{
    char text[8];
    int size = 2;
    if (c == '"' || c == '\\') {
        size = snprintf(text, sizeof(text), "\\%c", c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
        size = snprintf(text, sizeof(text), "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    } else {
        size = snprintf(text, sizeof(text), "\\u%04x", (unsigned)(unsigned char)c);
    }
    put(writer, text, (size_t)size);
}

static void string_write(struct json_writer *writer, mp_obj_t value)
{
    size_t size;
    const char *text = mp_obj_str_get_data(value, &size);
    dev_vm_work(size / DEV_VM_TEXT_PER_UNIT);
    put_char(writer, '"');
    for (size_t at = 0; at < size; at++) {
        size_t plain = plain_size(text + at, size - at);
        put(writer, text + at, plain);
        at += plain;
        if (at < size) {
            escape_write(writer, text[at]);
        }
    }
    put_char(writer, '"');
}

static void dict_write(struct json_writer *writer, mp_obj_t value)
{
    const mp_map_t *map = mp_obj_dict_get_map(value);
    bool first = true;
    put_char(writer, '{');
    uint32_t ticks = 0;
    for (size_t i = 0; i < map->alloc && dev_vm_tick(&ticks); i++) {
        if (!mp_map_slot_is_filled(map, i)) {
            continue;
        }
        if (!mp_obj_is_str(map->table[i].key)) {
            mp_raise_TypeError(MP_ERROR_TEXT("walle.result: keys must be str"));
        }
        if (!first) {
            put_char(writer, ',');
        }
        first = false;
        string_write(writer, map->table[i].key);
        put_char(writer, ':');
        value_write(writer, map->table[i].value);
    }
    put_char(writer, '}');
}

static void integer_write(struct json_writer *writer, mp_obj_t value)
{
    char text[24];
    char *at = text + sizeof(text);
    if (!mp_obj_is_small_int(value)) {
        const mp_print_t print = {writer, json_add};
        mp_obj_print_helper(&print, value, PRINT_REPR);
        return;
    }
    mp_cstack_check(); // counted as what prints any other
    mp_int_t number = MP_OBJ_SMALL_INT_VALUE(value);
    mp_uint_t left = number < 0 ? 0 - (mp_uint_t)number : (mp_uint_t)number;
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0) {
        *--at = '-';
    }
    put(writer, at, (size_t)(text + sizeof(text) - at));
}

// In as few digits as it takes to be read as the same number again: 17 always do. The VM's own text
// of it has 16.
static void real_write(struct json_writer *writer, double value)
{
    char text[BASE_REAL_TEXT_MAX] = "";
    const char *end = NULL;
    for (int digits = REAL_DIGITS_MIN; digits <= BASE_REAL_DIGITS_MAX; digits++) {
        (void)base_real_print(value, digits, text);
        if (base_real_read(text, &end) == value) {
            break;
        }
    }
    put(writer, text, strlen(text));
    if (strpbrk(text, ".e") == NULL) {
        put(writer, ".0", 2); // it stays a real
    }
}

static void value_write(struct json_writer *writer, mp_obj_t value)
{
    mp_cstack_check();
    const mp_obj_type_t *type = mp_obj_get_type(value);
    if (value == mp_const_none) {
        put(writer, "null", 4);
    } else if (value == mp_const_true) {
        put(writer, "true", 4);
    } else if (value == mp_const_false) {
        put(writer, "false", 5);
    } else if (type == &mp_type_str) {
        string_write(writer, value);
    } else if (mp_obj_is_int(value)) {
        integer_write(writer, value);
    } else if (type == &mp_type_float) {
        if (!isfinite(mp_obj_get_float(value))) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.result: float is not finite"));
        }
        real_write(writer, mp_obj_get_float(value));
    } else if (type == &mp_type_list || type == &mp_type_tuple) {
        sequence_write(writer, value);
    } else if (mp_obj_is_dict_or_ordereddict(value)) {
        dict_write(writer, value);
    } else {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.result: not JSON: %s"),
                          mp_obj_get_type_str(value));
    }
}

size_t dev_vm_json_write(mp_obj_t value, char *out, size_t capacity)
{
    struct json_writer writer = {.out = out, .capacity = capacity};
    value_write(&writer, value);
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
