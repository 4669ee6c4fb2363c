// Attributes as the agent's command line has them. Called by device_agent.c while arguments are
// parsed, on its main thread. A value gets the type it looks like, but for the attributes that are
// always text (os_version, model ...): --attr os_version=15 must not become a number that no target
// compares with a text. Names and sizes are checked by the encoder of wire/attrs.h itself, on a
// list of one.
#include "attr_option.h"

#include <string.h>

static bool is_text_attr(struct base_str name)
{
    static const char *const text[] = {"app_version", "channel",    "locale", "model",  "network",
                                       "os",          "os_version", "region", "runtime"};
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        if (base_str_equal(name, base_str_of(text[i]))) {
            return true;
        }
    }
    return false;
}

static void take_value(struct base_str value, struct wire_attr *attr)
{
    if (is_text_attr(attr->name)) {
        attr->type = WIRE_ATTR_STRING;
        attr->text = value;
    } else if (base_str_equal(value, BASE_STR("true")) ||
               base_str_equal(value, BASE_STR("false"))) {
        attr->type = WIRE_ATTR_BOOLEAN;
        attr->integer = value.data[0] == 't';
    } else if (base_str_i64(value, &attr->integer) == BASE_OK) {
        attr->type = WIRE_ATTR_INTEGER;
    } else {
        attr->type = WIRE_ATTR_STRING;
        attr->text = value;
    }
}

enum base_status attr_option_add(const char *text, struct wire_attrs *attrs,
                                 struct base_error *error)
{
    const char *equals = strchr(text, '=');
    uint8_t bytes[WIRE_ATTRS_BYTES_MAX];
    struct base_writer writer;
    if (equals == NULL || equals == text) {
        return base_error_set(error, BASE_ERR_INVALID, "'%.100s' is not NAME=VALUE", text);
    }
    if (attrs->count == WIRE_ATTRS_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "more than %d attributes", WIRE_ATTRS_MAX);
    }
    struct wire_attrs one = {.count = 1};
    one.items[0].name = (struct base_str){text, (size_t)(equals - text)};
    take_value(base_str_of(equals + 1), &one.items[0]);
    attrs->items[attrs->count++] = one.items[0];
    base_writer_init(&writer, bytes, sizeof(bytes));
    wire_attrs_write(&writer, &one);
    return writer.status == BASE_OK
               ? BASE_OK
               : base_error_set(error, BASE_ERR_INVALID,
                                "'%.40s': a name is [a-z][a-z0-9_.]* of at most %d characters, a "
                                "text has at most %d bytes, no control character",
                                text, WIRE_ATTR_NAME_MAX, WIRE_ATTR_STRING_MAX);
}
