// Members of documents, held against a table of fields. Called by stage_check.c and
// audience_check.c; one thread. Words and paths are the gateway's (api/api_json.c), so that a
// person reads the same before and after a document was sent.
#include "cli/stages/check_place.h"

#include "cli/base/cli_json.h"

#include "base/text/likeness.h"

#include <stdio.h>
#include <string.h>

enum cli_exit check_refuse(const struct check_place *at, const char *name, const char *why)
{
    return cli_fail(CLI_EXIT_USAGE, "%s%s: %s", at->path, name, why);
}

enum cli_exit check_only(const struct check_place *at, const char *const *names)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)at->object, key, value)
    {
        struct base_nearest nearest = base_nearest_to(base_str_of(key));
        size_t i = 0;
        while (names[i] != NULL && strcmp(names[i], key) != 0) {
            base_nearest_offer(&nearest, names[i++]);
        }
        if (names[i] == NULL) {
            return cli_fail(CLI_EXIT_USAGE, "%s%.40s: unknown field%s%s%s", at->path,
                            cli_shown(key), nearest.found != NULL ? ", did you mean " : "",
                            nearest.found != NULL ? nearest.found : "",
                            nearest.found != NULL ? "?" : "");
        }
    }
    return CLI_EXIT_OK;
}

static enum cli_exit check_number(const struct check_place *at, const struct pol_field *field,
                                  const json_t *value)
{
    double number = json_number_value(value);
    bool whole = field->kind == POL_FIELD_WHOLE;

    if ((whole ? json_is_integer(value) : json_is_number(value)) && number >= field->min &&
        number <= field->max) {
        return CLI_EXIT_OK;
    }
    return whole ? cli_fail(CLI_EXIT_USAGE, "%s%s: not a whole number from 0 to %.0f", at->path,
                            field->name, field->max)
                 : cli_fail(CLI_EXIT_USAGE, "%s%s: not a number from %g to %g", at->path,
                            field->name, field->min, field->max);
}

static enum cli_exit check_text(const struct check_place *at, const struct pol_field *field,
                                const json_t *value)
{
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);

    if (text == NULL) {
        return check_refuse(at, field->name, "not a text");
    }
    if (size > (size_t)field->max) {
        return cli_fail(CLI_EXIT_USAGE, "%s%s: %zu bytes; at most %.0f", at->path, field->name,
                        size, field->max);
    }
    unsigned place = 0;
    if (field->kind == POL_FIELD_TEXT || pol_words_find(field->words, text, size, &place)) {
        return CLI_EXIT_OK;
    }
    const char *refusal = pol_words_refusal(field->words);
    return strncmp(refusal, "is ", 3) == 0 ? cli_fail(CLI_EXIT_USAGE, "%s%s: '%s' %s", at->path,
                                                      field->name, cli_shown(text), refusal)
                                           : check_refuse(at, field->name, refusal);
}

static enum cli_exit check_field(const struct check_place *at, const struct pol_field *field)
{
    const json_t *value = json_object_get(at->object, field->name);

    if (value == NULL || json_is_null(value)) {
        return field->required && !field->is_filled ? check_refuse(at, field->name, "missing")
                                                    : CLI_EXIT_OK;
    }
    switch (field->kind) {
    case POL_FIELD_REAL:
    case POL_FIELD_WHOLE:
        return check_number(at, field, value);
    case POL_FIELD_FLAG:
        return json_is_boolean(value) ? CLI_EXIT_OK
                                      : check_refuse(at, field->name, "not true or false");
    case POL_FIELD_TEXT:
    case POL_FIELD_WORD:
        return check_text(at, field, value);
    case POL_FIELD_NESTED:
    case POL_FIELD_KIND_COUNT:
        break;
    }
    return CLI_EXIT_OK;
}

enum cli_exit check_fields(const struct check_place *at, const struct pol_field *fields,
                           size_t count)
{
    enum cli_exit code = CLI_EXIT_OK;

    for (size_t i = 0; code == CLI_EXIT_OK && i < count; ++i) {
        code = check_field(at, &fields[i]);
    }
    return code;
}

enum cli_exit check_enter(const struct check_place *at, const char *key, struct check_place *out)
{
    const json_t *value = json_object_get(at->object, key);

    out->object = json_is_null(value) ? NULL : value;
    (void)snprintf(out->path, sizeof(out->path), "%.60s%.30s.", at->path, key);
    return out->object == NULL || json_is_object(value) ? CLI_EXIT_OK
                                                        : check_refuse(at, key, "not an object");
}

enum cli_exit check_list(const struct check_place *at, const char *key, size_t max,
                         const json_t **out)
{
    const json_t *value = json_object_get(at->object, key);

    *out = json_is_null(value) ? NULL : value;
    if (*out != NULL && !json_is_array(value)) {
        return check_refuse(at, key, "not a list");
    }
    return json_array_size(*out) <= max ? CLI_EXIT_OK
                                        : cli_fail(CLI_EXIT_USAGE, "%s%s: %zu items; at most %zu",
                                                   at->path, key, json_array_size(*out), max);
}

enum cli_exit check_item(const struct check_place *at, const char *key, size_t index,
                         const json_t *item, struct check_place *out)
{
    out->object = item;
    (void)snprintf(out->path, sizeof(out->path), "%.60s%.20s[%zu].", at->path, key, index);
    return json_is_object(item)
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_USAGE, "%s%s[%zu]: not an object", at->path, key, index);
}
