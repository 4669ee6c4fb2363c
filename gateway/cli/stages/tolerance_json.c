// Tolerances of stages in the command. Called where stages are checked, signed and shown; one
// thread. Those are ladder.c, rollout_draft.c and plan_show.c. The gateway has a parser of its own
// (api/tolerance_body.c); this one fills the form of the statement, since what is signed has to be
// what the file says.
#include "cli/stages/tolerance_json.h"

#include <stdio.h>
#include <string.h>

static bool read_two(const json_t *object, struct wire_tolerance *out, const char **out_wrong)
{
    const char *const keys[] = {"absolute", "relative"};
    double *const values[] = {&out->absolute, &out->relative};

    for (size_t i = 0; i < 2; ++i) {
        const json_t *value = json_object_get(object, keys[i]);
        if (value != NULL && !json_is_null(value) && !json_is_number(value)) {
            *out_wrong = "\"absolute\" and \"relative\" are numbers";
            return false;
        }
        *values[i] = json_number_value(value);
    }
    if (!(out->absolute >= 0) || !(out->relative >= 0 && out->relative <= 1)) {
        *out_wrong = "\"absolute\" is 0 or more, \"relative\" 0 to 1";
        return false;
    }
    return true;
}

static bool add_field(struct wire_tolerances *out, const char *name, const json_t *value,
                      const char **out_wrong)
{
    struct wire_tolerance item = {0};
    struct base_str field = base_str_of(name);
    uint32_t index = 0;

    bool is_read = json_is_object(value) || json_is_null(value); // null: exactly
    if (!is_read || !read_two(value, &item, out_wrong)) {
        *out_wrong = is_read ? *out_wrong : "a field has an object of two numbers";
        return false;
    }
    if (field.size == 0 || field.size > WIRE_TOLERANCE_FIELD_MAX ||
        out->count == WIRE_TOLERANCES_MAX || !wire_tolerances_place(out, field, &index)) {
        *out_wrong = "4 names with the rest's, of 1 to 24 bytes";
        return false;
    }
    item.field_size = (uint8_t)field.size;
    memcpy(item.field, field.data, field.size);
    memmove(&out->items[index + 1], &out->items[index],
            (out->count - index) * sizeof(out->items[0]));
    out->items[index] = item;
    out->count++;
    return true;
}

static bool keys_known(const json_t *object)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (strcmp(key, "absolute") != 0 && strcmp(key, "relative") != 0 &&
            strcmp(key, "fields") != 0) {
            return false;
        }
    }
    return true;
}

bool tolerance_json_read(const json_t *stage, struct wire_tolerances *out, const char **out_wrong)
{
    const json_t *own = json_object_get(stage, "tolerance");
    json_t *fields = json_object_get(own, "fields");
    const char *name;
    json_t *value;

    memset(out, 0, sizeof(*out));
    if (own == NULL || json_is_null(own)) {
        return true;
    }
    if (!json_is_object(own) ||
        (fields != NULL && !json_is_null(fields) && !json_is_object(fields)) || !keys_known(own)) {
        *out_wrong = "an object of \"absolute\", \"relative\" and \"fields\"";
        return false;
    }
    if (!read_two(own, &out->items[0], out_wrong)) {
        return false;
    }
    out->count = out->items[0].absolute > 0 || out->items[0].relative > 0 ? 1 : 0;
    json_object_foreach(fields, name, value)
    {
        if (!add_field(out, name, value, out_wrong)) {
            return false;
        }
    }
    if (!wire_tolerances_ok(out)) {
        *out_wrong = "a name has no quote, backslash or control character";
        return false;
    }
    return true;
}

static void print_two(const struct wire_tolerance *item)
{
    if (item->absolute == 0 && item->relative == 0) {
        printf(" exactly");
        return;
    }
    printf(" within");
    if (item->absolute > 0) {
        printf(" %g", item->absolute);
    }
    if (item->relative > 0) {
        printf("%s %g %%", item->absolute > 0 ? " or" : "", item->relative * 100);
    }
}

void tolerance_json_print(const json_t *stage)
{
    struct wire_tolerances tolerances;
    const char *wrong = NULL;

    if (!tolerance_json_read(stage, &tolerances, &wrong)) {
        return;
    }
    for (uint32_t i = 0; i < tolerances.count; ++i) {
        const struct wire_tolerance *item = &tolerances.items[i];
        if (item->field_size == 0) {
            printf("; numbers");
        } else {
            printf("; those in \"%.*s\"", (int)item->field_size, item->field);
        }
        print_two(item);
    }
}
