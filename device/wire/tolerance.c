// Tolerances of a shadow's result: their rules and their bytes. Called by the codec of statements
// (statement.c), by the device's record (core/device_state.c) and by the gateway's stored stages
// (svc/plan/stage_codec.c), whose bytes are all the same; result_compare.c finds the one of a
// field. Any thread, nothing is allocated. Fields are sorted by name and unique, which makes equal
// declarations equal bytes under a signature.
#include "wire/tolerance.h"

#include "base/check.h"
#include "wire/wiretext.h"

#include <float.h>
#include <string.h>

static struct base_str field_of(const struct wire_tolerance *tolerance)
{
    base_assert(tolerance->field_size <= WIRE_TOLERANCE_FIELD_MAX);
    return (struct base_str){tolerance->field, tolerance->field_size};
}

// Below 0: `a` comes first.
static int order(struct base_str a, struct base_str b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int first = common > 0 ? memcmp(a.data, b.data, common) : 0;
    return first != 0 ? first : (a.size > b.size) - (a.size < b.size);
}

static bool tolerance_ok(const struct wire_tolerance *tolerance)
{
    if (tolerance->field_size > WIRE_TOLERANCE_FIELD_MAX) {
        return false;
    }
    struct base_str field = field_of(tolerance);
    bool named = field.size > 0;
    if (named && (!wire_text_printable(field) || memchr(field.data, '"', field.size) != NULL ||
                  memchr(field.data, '\\', field.size) != NULL)) {
        return false;
    }
    bool says = tolerance->absolute > 0 || tolerance->relative > 0;
    // Also false for what is no number.
    return tolerance->absolute >= 0 && tolerance->absolute <= DBL_MAX && tolerance->relative >= 0 &&
           tolerance->relative <= 1 && (named || says);
}

bool wire_tolerances_ok(const struct wire_tolerances *tolerances)
{
    if (tolerances->count > WIRE_TOLERANCES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < tolerances->count; i++) {
        const struct wire_tolerance *item = &tolerances->items[i];
        if (!tolerance_ok(item) || (i > 0 && order(field_of(item - 1), field_of(item)) >= 0)) {
            return false;
        }
    }
    return true;
}

bool wire_tolerances_equal(const struct wire_tolerances *a, const struct wire_tolerances *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (uint32_t i = 0; i < a->count && i < WIRE_TOLERANCES_MAX; i++) {
        const struct wire_tolerance *one = &a->items[i];
        const struct wire_tolerance *other = &b->items[i];
        if (order(field_of(one), field_of(other)) != 0 || one->absolute != other->absolute ||
            one->relative != other->relative) {
            return false;
        }
    }
    return true;
}

bool wire_tolerances_place(const struct wire_tolerances *tolerances, struct base_str field,
                           uint32_t *out_index)
{
    base_assert(tolerances->count <= WIRE_TOLERANCES_MAX);
    uint32_t index = 0;
    while (index < tolerances->count && order(field_of(&tolerances->items[index]), field) < 0) {
        index++;
    }
    if (index < tolerances->count && order(field_of(&tolerances->items[index]), field) == 0) {
        return false;
    }
    *out_index = index;
    return true;
}

const struct wire_tolerance *wire_tolerances_find(const struct wire_tolerances *tolerances,
                                                  struct base_str field)
{
    const struct wire_tolerance *found = NULL;
    for (uint32_t i = 0; i < tolerances->count && i < WIRE_TOLERANCES_MAX; i++) {
        const struct wire_tolerance *item = &tolerances->items[i];
        if (item->field_size == 0 || base_str_equal(field_of(item), field)) {
            found = item; // a name comes behind the empty one, and wins
        }
    }
    return found;
}

static void real_write(struct base_writer *writer, double value)
{
    uint64_t bits = 0;
    value = value == 0 ? 0 : value; // one zero
    memcpy(&bits, &value, sizeof(bits));
    base_writer_u64(writer, bits);
}

static double real_read(struct base_reader *reader)
{
    uint64_t bits = base_reader_u64(reader);
    double value = 0;
    memcpy(&value, &bits, sizeof(value));
    if (value == 0 && bits != 0) {
        base_reader_fail(reader, BASE_ERR_INVALID); // another zero
    }
    return value;
}

void wire_tolerances_write(struct base_writer *writer, const struct wire_tolerances *tolerances)
{
    base_writer_u8(writer, (uint8_t)tolerances->count);
    for (uint32_t i = 0; i < tolerances->count && i < WIRE_TOLERANCES_MAX; i++) {
        wire_text_write(writer, field_of(&tolerances->items[i]), WIRE_TOLERANCE_FIELD_MAX);
        real_write(writer, tolerances->items[i].absolute);
        real_write(writer, tolerances->items[i].relative);
    }
}

void wire_tolerances_read(struct base_reader *reader, struct wire_tolerances *out)
{
    struct wire_tolerances read = {.count = base_reader_u8(reader)};
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < read.count && i < WIRE_TOLERANCES_MAX; i++) {
        struct wire_tolerance *item = &read.items[i];
        struct base_str field = wire_text_read(reader, WIRE_TOLERANCE_FIELD_MAX);
        item->field_size = (uint8_t)field.size;
        if (field.size > 0) {
            memcpy(item->field, field.data, field.size);
        }
        item->absolute = real_read(reader);
        item->relative = real_read(reader);
    }
    if (!wire_tolerances_ok(&read)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    if (reader->status == BASE_OK) {
        *out = read;
    }
}
