// Bounded JSON on jansson: what the handlers parse with and answer with. Worker and control
// threads. Callers are the handlers, the parsers of bodies beside this file, and ddi/ddi_json.c.
// Depth is counted before the library sees the text, since its parser recurses. Each field is
// checked for type and range where it is taken, and the error names it by its path.
#include "api/api_json.h"

#include "api/api.h"
#include "base/check.h"
#include "base/text/likeness.h"
#include "wire/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE_MAX 9007199254740992.0 // 2^53: from there on a double skips numbers

static void release_document(void *ctx)
{
    json_decref(ctx);
}

// Depth is bounded before the library sees the text: its parser recurses.
static enum base_status check_depth(const uint8_t *bytes, size_t size, struct base_error *error)
{
    uint32_t depth = 0;
    uint32_t line = 1;
    size_t line_start = 0;
    bool in_string = false;

    for (size_t i = 0; i < size; ++i) {
        uint8_t c = bytes[i];
        if (c == '\n') {
            line++;
            line_start = i + 1;
        }
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > GW_API_DEPTH_MAX) {
                (void)base_error_set(error, BASE_ERR_INVALID,
                                     "line %u, column %zu: more than %u nested levels", line,
                                     i - line_start + 1, GW_API_DEPTH_MAX);
                if (error != NULL) {
                    error->line = line;
                    error->column = (uint32_t)(i - line_start + 1);
                }
                return BASE_ERR_INVALID;
            }
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return BASE_OK;
}

enum base_status gw_json_parse(const uint8_t *bytes, size_t size, struct base_arena *arena,
                               struct gw_json_at *out_root, struct base_error *error)
{
    json_error_t where;

    if (size > GW_API_BODY_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "body of %zu bytes; at most %u", size,
                              GW_API_BODY_MAX);
    }
    BASE_TRY(check_depth(bytes, size, error));
    json_t *root =
        json_loadb(bytes != NULL ? (const char *)bytes : "", size, JSON_REJECT_DUPLICATES, &where);
    // Some failures to allocate leave no code and no text.
    if (root == NULL &&
        (where.text[0] == '\0' || json_error_code(&where) == json_error_out_of_memory)) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    if (root == NULL) {
        (void)base_error_set(error, BASE_ERR_INVALID, "line %d, column %d: %s", where.line,
                             where.column, where.text);
        if (error != NULL) {
            error->line = where.line > 0 ? (uint32_t)where.line : 0;
            error->column = where.column > 0 ? (uint32_t)where.column : 0;
        }
        return BASE_ERR_INVALID;
    }
    if (base_arena_on_done(arena, release_document, root) != BASE_OK) {
        json_decref(root);
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    if (!json_is_object(root)) {
        return base_error_set(error, BASE_ERR_INVALID, "line 1: the body is not an object");
    }
    out_root->object = root;
    out_root->path[0] = '\0';
    return BASE_OK;
}

enum base_status gw_json_enter(const struct gw_json_at *parent, const char *key, size_t index,
                               struct gw_json_at *out, struct base_error *error)
{
    const json_t *value = json_array_get(json_object_get(parent->object, key), index);
    struct gw_json_at at = {.object = value};

    // Cut at GW_API_WHERE_MAX: paths of the known documents are far shorter.
    (void)snprintf(at.path, sizeof(at.path), "%.64s%s[%zu].", parent->path, key, index);
    if (!json_is_object(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "%.64s%s[%zu]: not an object", parent->path,
                              key, index);
    }
    *out = at;
    return BASE_OK;
}

enum base_status gw_json_inside(const struct gw_json_at *parent, const char *key,
                                struct gw_json_at *out, struct base_error *error)
{
    const json_t *value = json_object_get(parent->object, key);

    out->object = json_is_null(value) ? NULL : value;
    if (out->object != NULL && !json_is_object(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not an object", parent->path, key);
    }
    (void)snprintf(out->path, sizeof(out->path), "%.60s%.30s.", parent->path, key);
    return BASE_OK;
}

static const char *nearest_of(const char *const *names, const char *key)
{
    struct base_nearest nearest = base_nearest_to(base_str_of(key));

    for (; *names != NULL; ++names) {
        base_nearest_offer(&nearest, *names);
    }
    return nearest.found;
}

enum base_status gw_json_only(const struct gw_json_at *at, const char *const *names,
                              struct base_error *error)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)at->object, key, value)
    {
        const char *const *name = names;
        while (*name != NULL && strcmp(*name, key) != 0) {
            name++;
        }
        if (*name == NULL) {
            const char *meant = nearest_of(names, key);
            return base_error_set(error, BASE_ERR_INVALID, "%s%.40s: unknown field%s%s%s", at->path,
                                  key, meant != NULL ? ", did you mean " : "",
                                  meant != NULL ? meant : "", meant != NULL ? "?" : "");
        }
    }
    return BASE_OK;
}

// The field's value, NULL when absent or null; a missing required field is said in `error`.
static enum base_status value_of(const struct gw_json_at *at, struct pol_field field,
                                 const json_t **out, struct base_error *error)
{
    const json_t *value = json_object_get(at->object, field.name);

    if (value == NULL || json_is_null(value)) {
        *out = NULL;
        return field.required
                   ? base_error_set(error, BASE_ERR_INVALID, "%s%s: missing", at->path, field.name)
                   : BASE_OK;
    }
    *out = value;
    return BASE_OK;
}

enum base_status gw_json_text(const struct gw_json_at *at, struct pol_field field,
                              struct base_str *out, struct base_error *error)
{
    const json_t *value;

    BASE_TRY(value_of(at, field, &value, error));
    if (value == NULL) {
        return BASE_OK;
    }
    if (!json_is_string(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not a text", at->path, field.name);
    }
    size_t size = json_string_length(value);
    if (size > (size_t)field.max) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%s%s: %zu bytes; at most %.0f", at->path,
                              field.name, size, field.max);
    }
    *out = (struct base_str){json_string_value(value), size};
    return BASE_OK;
}

enum base_status gw_json_reason(const struct gw_json_at *at, bool required, size_t max,
                                struct base_str *out, struct base_error *error)
{
    size_t said = 0;
    struct pol_field field = {"reason", .required = required, .max = (double)max};
    BASE_TRY(gw_json_text(at, field, out, error));
    while (said < out->size && strchr(" \t\r\n", out->data[said]) != NULL) {
        said++;
    }
    if (said == out->size) {
        out->size = 0;
    }
    return required && out->size == 0
               ? base_error_set(error, BASE_ERR_INVALID, "%sreason: says nothing", at->path)
               : BASE_OK;
}

enum base_status gw_json_u64(const struct gw_json_at *at, struct pol_field field, uint64_t *out,
                             struct base_error *error)
{
    const json_t *value;

    base_assert(field.min == 0 && field.max >= 0 && field.max < WHOLE_MAX);
    BASE_TRY(value_of(at, field, &value, error));
    if (value == NULL) {
        return BASE_OK;
    }
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number > (uint64_t)field.max) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not a whole number from 0 to %.0f",
                              at->path, field.name, field.max);
    }
    *out = (uint64_t)number;
    return BASE_OK;
}

enum base_status gw_json_real(const struct gw_json_at *at, struct pol_field field, double *out,
                              struct base_error *error)
{
    const json_t *value;

    base_assert(field.min <= field.max);
    BASE_TRY(value_of(at, field, &value, error));
    if (value == NULL) {
        return BASE_OK;
    }
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= field.min && number <= field.max)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not a number from %g to %g", at->path,
                              field.name, field.min, field.max);
    }
    *out = number;
    return BASE_OK;
}

enum base_status gw_json_word(const struct gw_json_at *at, struct pol_field field, unsigned *out,
                              struct base_error *error)
{
    struct base_str text = {NULL, 0};
    const char *refusal = pol_words_refusal(field.words);

    BASE_TRY(gw_json_text(at, field, &text, error));
    if (text.data == NULL || pol_words_find(field.words, text.data, text.size, out)) {
        return BASE_OK;
    }
    return strncmp(refusal, "is ", 3) == 0
               ? base_error_set(error, BASE_ERR_INVALID, "%s%s: '%.*s' %s", at->path, field.name,
                                (int)text.size, text.data, refusal)
               : base_error_set(error, BASE_ERR_INVALID, "%s%s: %s", at->path, field.name, refusal);
}

enum base_status gw_json_bool(const struct gw_json_at *at, const char *key, bool *out,
                              struct base_error *error)
{
    const json_t *value;

    BASE_TRY(value_of(at, gw_json_optional(key, 0), &value, error));
    if (value == NULL) {
        return BASE_OK;
    }
    if (!json_is_boolean(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not true or false", at->path, key);
    }
    *out = json_is_true(value);
    return BASE_OK;
}

// What is kept of one field.
static enum base_status kept_of(const struct gw_json_at *at, const struct pol_field *field,
                                uint64_t *out, struct base_error *error)
{
    double value = field->fallback;
    uint64_t whole = POL_FIELD_UNSAID;
    unsigned place = (unsigned)(field->fallback > 0 ? field->fallback : 0);
    bool flag = field->fallback > 0;

    switch (field->kind) {
    case POL_FIELD_REAL:
        BASE_TRY(gw_json_real(at, *field, &value, error));
        break;
    case POL_FIELD_WHOLE:
        BASE_TRY(gw_json_u64(at, *field, &whole, error));
        value = whole != POL_FIELD_UNSAID ? (double)whole : value;
        break;
    case POL_FIELD_WORD:
        BASE_TRY(gw_json_word(at, *field, &place, error));
        value = place;
        break;
    case POL_FIELD_FLAG:
        BASE_TRY(gw_json_bool(at, field->name, &flag, error));
        value = flag ? 1 : 0;
        break;
    case POL_FIELD_TEXT:
    case POL_FIELD_NESTED:
    case POL_FIELD_KIND_COUNT:
        value = 0;
        break;
    }
    *out = pol_field_kept(field, value);
    return BASE_OK;
}

enum base_status gw_json_fields(const struct gw_json_at *at, const struct pol_field *fields,
                                unsigned count, uint64_t *out_kept, struct base_error *error)
{
    for (unsigned i = 0; i < count; ++i) {
        BASE_TRY(kept_of(at, &fields[i], &out_kept[i], error));
    }
    return BASE_OK;
}

enum base_status gw_json_id(const struct gw_json_at *at, const char *key, uint64_t *out,
                            struct base_error *error)
{
    struct base_str text = {NULL, 0};
    uint64_t id = 0;

    BASE_TRY(gw_json_text(at, gw_json_required(key, WIRE_DEVICE_HEX), &text, error));
    if (wire_device_parse(text, &id) != BASE_OK || id == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not 16 lower-case hex digits above 0",
                              at->path, key);
    }
    *out = id;
    return BASE_OK;
}

enum base_status gw_json_array(const struct gw_json_at *at, struct pol_field field,
                               const json_t **out, struct base_error *error)
{
    const json_t *value;

    BASE_TRY(value_of(at, field, &value, error));
    if (value != NULL && !json_is_array(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not a list", at->path, field.name);
    }
    if (value != NULL && json_array_size(value) > (size_t)field.max) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%s%s: %zu items; at most %.0f", at->path,
                              field.name, json_array_size(value), field.max);
    }
    *out = value;
    return BASE_OK;
}

json_t *gw_json_hex(uint64_t id)
{
    char text[WIRE_DEVICE_HEX + 1];

    wire_device_hex(id, text);
    return json_string(text);
}
