// Records against schemas, while the JSON is read once: a level for each open object and list. One
// that was refused is read once more, to say which field of it is why. Worker's thread.
// session_content.c calls both. A schema is never changed here, and the stack of levels has
// GW_JSON_DEPTH_MAX places in the call's own frame: no record makes it grow, and nothing is
// allocated.
#include "tunnel/schema/schema.h"

#include "tunnel/schema/json_scan.h"
#include "tunnel/schema/schema_private.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const type_names[GW_SCHEMA_TYPE_COUNT] = {
    [GW_SCHEMA_ANY] = "value",       [GW_SCHEMA_NULL] = "null",     [GW_SCHEMA_BOOLEAN] = "boolean",
    [GW_SCHEMA_INTEGER] = "integer", [GW_SCHEMA_NUMBER] = "number", [GW_SCHEMA_STRING] = "string",
    [GW_SCHEMA_LIST] = "list",       [GW_SCHEMA_OBJECT] = "object",
};

struct level {
    uint16_t node; // NO_NODE: any
    uint32_t count;
    uint64_t seen;
};

// Where a record that is explained stands, and what is wrong there.
struct trail {
    struct base_str keys[GW_JSON_DEPTH_MAX]; // of open objects; data NULL: a list, or none yet
    uint32_t depth;                          // of the path to what is wrong
    char what[64];
};

struct check {
    struct trail *trail; // NULL: only whether it fits
    const struct gw_schema *schema;
    struct gw_json_scan scan;
    struct level levels[GW_JSON_DEPTH_MAX];
    uint32_t depth;
};

static bool in_bounds(const struct gw_schema_node *node, struct base_str number)
{
    if (!node->has_min && !node->has_max) {
        return true;
    }
    double value = gw_scan_real(number);
    return !(node->has_min && value < node->min) && !(node->has_max && value > node->max);
}

// Notes what is wrong, and gives the status.
static enum base_status wrong(struct check *check, enum base_status status, uint32_t depth,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));
static enum base_status wrong(struct check *check, enum base_status status, uint32_t depth,
                              const char *format, ...)
{
    if (check->trail != NULL) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(check->trail->what, sizeof(check->trail->what), format, args);
        va_end(args);
        check->trail->depth = depth;
    }
    return status;
}

static bool is_number(const struct gw_schema_node *node, enum gw_json_token token)
{
    return token == GW_JSON_INTEGER || (token == GW_JSON_NUMBER && node->type == GW_SCHEMA_NUMBER);
}

// A value of another type, or a number out of its bounds.
static enum base_status unfit(struct check *check, const struct gw_schema_node *node,
                              enum gw_json_token token, uint32_t depth)
{
    bool numeric = node->type == GW_SCHEMA_INTEGER || node->type == GW_SCHEMA_NUMBER;
    if (numeric && is_number(node, token)) {
        return wrong(check, BASE_ERR_INVALID, depth, "is %.*s, out of bounds",
                     (int)(check->scan.text.size < 32 ? check->scan.text.size : 32),
                     check->scan.text.data);
    }
    return wrong(check, BASE_ERR_INVALID, depth, "is no %s", type_names[node->type]);
}

// A value that begins with `token`, where the schema wants `number`.
static enum base_status begin_value(struct check *check, enum gw_json_token token, uint16_t number)
{
    base_assert(number == GW_SCHEMA_NO_NODE || number < check->schema->node_count);
    uint32_t depth = check->depth;
    if ((token == GW_JSON_OBJECT || token == GW_JSON_LIST) && check->trail != NULL) {
        check->trail->keys[depth] = (struct base_str){NULL, 0};
    }
    if (token == GW_JSON_OBJECT || token == GW_JSON_LIST) {
        base_assert(check->depth < GW_JSON_DEPTH_MAX); // the scanner goes no deeper
        check->levels[check->depth++] = (struct level){.node = number};
    }
    if (number == GW_SCHEMA_NO_NODE) {
        return BASE_OK;
    }
    const struct gw_schema_node *node = &check->schema->nodes[number];
    bool fits = false;
    switch (node->type) {
    case GW_SCHEMA_ANY:
        if (token == GW_JSON_OBJECT || token == GW_JSON_LIST) {
            check->levels[check->depth - 1].node = GW_SCHEMA_NO_NODE;
        }
        fits = true;
        break;
    case GW_SCHEMA_NULL:
        fits = token == GW_JSON_NULL;
        break;
    case GW_SCHEMA_BOOLEAN:
        fits = token == GW_JSON_TRUE || token == GW_JSON_FALSE;
        break;
    case GW_SCHEMA_INTEGER:
        fits = token == GW_JSON_INTEGER && in_bounds(node, check->scan.text);
        break;
    case GW_SCHEMA_NUMBER:
        fits = (token == GW_JSON_INTEGER || token == GW_JSON_NUMBER) &&
               in_bounds(node, check->scan.text);
        break;
    case GW_SCHEMA_STRING:
        if (token == GW_JSON_STRING && check->scan.text.size > node->max_size) {
            return wrong(check, BASE_ERR_TOO_LARGE, depth, "is longer than %u bytes",
                         node->max_size);
        }
        fits = token == GW_JSON_STRING;
        break;
    case GW_SCHEMA_LIST:
        fits = token == GW_JSON_LIST;
        break;
    case GW_SCHEMA_OBJECT:
        fits = token == GW_JSON_OBJECT;
        break;
    case GW_SCHEMA_TYPE_COUNT:
        break;
    }
    return fits ? BASE_OK : unfit(check, node, token, depth);
}

// The node for the value behind a key; BAD when the field may not be there.
static enum base_status find_field(struct check *check, struct level *level, uint16_t *out)
{
    *out = GW_SCHEMA_NO_NODE;
    if (level->node == GW_SCHEMA_NO_NODE) {
        return BASE_OK;
    }
    const struct gw_schema *schema = check->schema;
    const struct gw_schema_node *node = &schema->nodes[level->node];
    for (uint16_t i = node->first_field; i != GW_SCHEMA_NO_NODE; i = schema->fields[i].next) {
        const struct gw_schema_field *field = &schema->fields[i];
        if (base_str_equal(gw_schema_name(schema, field), check->scan.text)) {
            uint64_t bit = UINT64_C(1) << field->bit;
            *out = field->node;
            bool again = (level->seen & bit) != 0;
            level->seen |= bit;
            return again ? wrong(check, BASE_ERR_INVALID, check->depth, "is there twice") : BASE_OK;
        }
    }
    return node->extra ? BASE_OK
                       : wrong(check, BASE_ERR_INVALID, check->depth, "is no field of the schema");
}

// The first field, as the schema has them, that should be there.
static enum base_status lacks(struct check *check, const struct level *level)
{
    const struct gw_schema *schema = check->schema;
    const struct gw_schema_node *node = &schema->nodes[level->node];
    const struct gw_schema_field *first = NULL;
    for (uint16_t i = node->first_field; i != GW_SCHEMA_NO_NODE; i = schema->fields[i].next) {
        const struct gw_schema_field *field = &schema->fields[i];
        if ((node->required & ~level->seen & UINT64_C(1) << field->bit) != 0) {
            first = field; // newest first
        }
    }
    base_check(first != NULL);
    struct base_str name = gw_schema_name(schema, first);
    return wrong(check, BASE_ERR_INVALID, check->depth, "lacks \"%.*s\"",
                 (int)(name.size < 40 ? name.size : 40), name.data);
}

static enum base_status end_level(struct check *check)
{
    const struct level *level = &check->levels[--check->depth];
    if (level->node == GW_SCHEMA_NO_NODE) {
        return BASE_OK;
    }
    uint64_t required = check->schema->nodes[level->node].required;
    return (level->seen & required) == required ? BASE_OK : lacks(check, level);
}

// A value in a list.
static enum base_status item(struct check *check, enum gw_json_token token)
{
    struct level *level = &check->levels[check->depth - 1];
    if (level->node == GW_SCHEMA_NO_NODE) {
        return begin_value(check, token, GW_SCHEMA_NO_NODE);
    }
    const struct gw_schema_node *node = &check->schema->nodes[level->node];
    if (level->count++ >= node->max_size) {
        return wrong(check, BASE_ERR_TOO_LARGE, check->depth - 1, "has more than %u items",
                     node->max_size);
    }
    return begin_value(check, token, node->items);
}

static enum base_status walk(struct check *check, struct base_str record)
{
    enum gw_json_token token;
    gw_scan_init(&check->scan, record);
    BASE_TRY(gw_scan_next(&check->scan, &token));
    BASE_TRY(begin_value(check, token, 0));
    for (;;) {
        BASE_TRY(gw_scan_next(&check->scan, &token));
        if (token == GW_JSON_END) {
            return BASE_OK;
        }
        if (token == GW_JSON_OBJECT_END || token == GW_JSON_LIST_END) {
            BASE_TRY(end_level(check));
        } else if (token == GW_JSON_KEY) {
            base_assert(check->depth > 0); // a key is of an open object
            uint16_t node;
            if (check->trail != NULL) {
                check->trail->keys[check->depth - 1] = check->scan.text;
            }
            BASE_TRY(find_field(check, &check->levels[check->depth - 1], &node));
            BASE_TRY(gw_scan_next(&check->scan, &token));
            BASE_TRY(begin_value(check, token, node));
        } else {
            BASE_TRY(item(check, token));
        }
    }
}

enum base_status gw_schema_check(const struct gw_schema *schema, struct base_str record)
{
    struct check check = {.schema = schema};
    return walk(&check, record);
}

// The path as in "order.items[3]", cut where it does not fit.
static size_t path_write(const struct check *check, char *out, size_t capacity)
{
    size_t used = 0;
    for (uint32_t i = 0; i < check->trail->depth && used + 1 < capacity; i++) {
        struct base_str key = check->trail->keys[i];
        int size = key.data != NULL
                       ? snprintf(out + used, capacity - used, "%s%.*s", used > 0 ? "." : "",
                                  (int)(key.size < 40 ? key.size : 40), key.data)
                       : snprintf(out + used, capacity - used, "[%u]", check->levels[i].count - 1);
        used += size > 0 ? (size_t)size : 0;
    }
    return used < capacity ? used : capacity - 1;
}

void gw_schema_explain(const struct gw_schema *schema, struct base_str record,
                       char out[GW_SCHEMA_WHY_MAX + 1])
{
    struct trail trail = {.depth = 0};
    struct check check = {.trail = &trail, .schema = schema};
    char path[GW_SCHEMA_WHY_MAX - sizeof(trail.what)];
    out[0] = 0;
    enum base_status status = walk(&check, record);
    if (status == BASE_OK) {
        return;
    }
    if (trail.what[0] == 0 && status == BASE_ERR_TOO_LARGE) {
        (void)snprintf(out, GW_SCHEMA_WHY_MAX + 1, "nested deeper than %u", GW_JSON_DEPTH_MAX);
        return;
    }
    if (trail.what[0] == 0) {
        (void)snprintf(out, GW_SCHEMA_WHY_MAX + 1, "no JSON from byte %zu on",
                       (size_t)(check.scan.at - check.scan.start));
        return;
    }
    base_assert(trail.depth <= GW_JSON_DEPTH_MAX);
    size_t size = path_write(&check, path, sizeof(path));
    (void)snprintf(out, GW_SCHEMA_WHY_MAX + 1, "%.*s %s", size > 0 ? (int)size : 10,
                   size > 0 ? path : "the record", trail.what);
}
