// Records against schemas, while the JSON is read once: a level for each open object and list.
// Worker's thread.
#include "tunnel/schema.h"

#include "tunnel/json_scan.h"
#include "tunnel/schema_private.h"

struct level {
    uint16_t node; // NO_NODE: any
    uint32_t count;
    uint64_t seen;
};

struct check {
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

// A value that begins with `token`, where the schema wants `number`.
static enum base_status begin_value(struct check *check, enum gw_json_token token, uint16_t number)
{
    if (token == GW_JSON_OBJECT || token == GW_JSON_LIST) {
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
            return BASE_ERR_TOO_LARGE;
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
    return fits ? BASE_OK : BASE_ERR_INVALID;
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
            return again ? BASE_ERR_INVALID : BASE_OK;
        }
    }
    return node->extra ? BASE_OK : BASE_ERR_INVALID;
}

static enum base_status end_level(struct check *check)
{
    const struct level *level = &check->levels[--check->depth];
    if (level->node == GW_SCHEMA_NO_NODE) {
        return BASE_OK;
    }
    uint64_t required = check->schema->nodes[level->node].required;
    return (level->seen & required) == required ? BASE_OK : BASE_ERR_INVALID;
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
        return BASE_ERR_TOO_LARGE;
    }
    return begin_value(check, token, node->items);
}

enum base_status gw_schema_check(const struct gw_schema *schema, struct base_str record)
{
    struct check check = {.schema = schema};
    enum gw_json_token token;
    gw_scan_init(&check.scan, record);
    BASE_TRY(gw_scan_next(&check.scan, &token));
    BASE_TRY(begin_value(&check, token, 0));
    for (;;) {
        BASE_TRY(gw_scan_next(&check.scan, &token));
        if (token == GW_JSON_END) {
            return BASE_OK;
        }
        if (token == GW_JSON_OBJECT_END || token == GW_JSON_LIST_END) {
            BASE_TRY(end_level(&check));
        } else if (token == GW_JSON_KEY) {
            uint16_t node;
            BASE_TRY(find_field(&check, &check.levels[check.depth - 1], &node));
            BASE_TRY(gw_scan_next(&check.scan, &token));
            BASE_TRY(begin_value(&check, token, node));
        } else {
            BASE_TRY(item(&check, token));
        }
    }
}
