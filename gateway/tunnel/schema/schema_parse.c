// Reading schemas: the JSON of json_scan.h into the flat nodes of schema_private.h, with a stack of
// what is open. Main and control thread. uploads.c calls it: at start for what the store has, later
// when a version is declared. A schema is bounded in fields and depth; the error says where it is
// wrong. It is read once and checked against millions of times, hence the flat form.
#include "tunnel/schema/schema.h"

#include "tunnel/schema/json_scan.h"
#include "tunnel/schema/schema_private.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_SHOWN_MAX 32u // bytes of a name in an error

static const struct {
    struct base_str name;
    enum gw_schema_type type;
} types[] = {
    {{"any", 3}, GW_SCHEMA_ANY},         {{"null", 4}, GW_SCHEMA_NULL},
    {{"boolean", 7}, GW_SCHEMA_BOOLEAN}, {{"integer", 7}, GW_SCHEMA_INTEGER},
    {{"number", 6}, GW_SCHEMA_NUMBER},   {{"string", 6}, GW_SCHEMA_STRING},
    {{"list", 4}, GW_SCHEMA_LIST},       {{"object", 6}, GW_SCHEMA_OBJECT},
};

enum open_kind { OPEN_TYPE, OPEN_FIELDS };

// What has been opened and not closed: the {...} of a type, or of its "fields".
struct open {
    enum open_kind kind;
    uint16_t node;
    bool has_type;
    bool has_min;
    bool has_max;
    bool has_items;
    bool has_fields;
    bool has_extra;
};

struct parse {
    struct gw_json_scan scan;
    struct gw_schema *schema;
    struct open stack[2 * GW_SCHEMA_DEPTH_MAX];
    uint32_t depth;
    struct base_error *error;
};

static enum base_status wrong(struct parse *parse, enum base_status status, const char *what)
{
    size_t at = (size_t)(parse->scan.at - parse->scan.start);
    return base_error_set(parse->error, status, "schema: byte %zu: %s", at, what);
}

static bool type_of(struct base_str name, enum gw_schema_type *out)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (base_str_equal(types[i].name, name)) {
            *out = types[i].type;
            return true;
        }
    }
    return false;
}

static bool is_shown(struct base_str name)
{
    bool shown = name.size <= FIELD_SHOWN_MAX;
    for (size_t i = 0; i < name.size && shown; i++) {
        shown = name.data[i] > ' ' && name.data[i] < 0x7f && name.data[i] != '"';
    }
    return shown;
}

// Which field a type is of, by way of the lists it is in. False: of none, or its name is not one to
// be shown.
static bool field_of(const struct gw_schema *schema, uint16_t node, struct base_str *out)
{
    for (uint16_t owner = node; owner-- > 0;) { // an owner is made before what it owns
        node = schema->nodes[owner].items == node ? owner : node;
    }
    for (uint16_t i = 0; i < schema->field_count; i++) {
        if (schema->fields[i].node == node) {
            *out = gw_schema_name(schema, &schema->fields[i]);
            return is_shown(*out);
        }
    }
    return false;
}

static enum base_status no_type(struct parse *parse, uint16_t node)
{
    static const char one_of[] = "any, null, boolean, integer, number, string, list or object";
    struct base_str field;
    if (!field_of(parse->schema, node, &field)) {
        char what[96];
        (void)snprintf(what, sizeof(what), "a type is %s", one_of);
        return wrong(parse, BASE_ERR_INVALID, what);
    }
    char what[128];
    (void)snprintf(what, sizeof(what), "the type of %.*s is %s", (int)field.size, field.data,
                   one_of);
    return wrong(parse, BASE_ERR_INVALID, what);
}

static enum base_status add_node(struct parse *parse, uint16_t *out)
{
    struct gw_schema *schema = parse->schema;
    if (schema->node_count == GW_SCHEMA_NODES_MAX) {
        return wrong(parse, BASE_ERR_TOO_LARGE, "too many types");
    }
    schema->nodes[schema->node_count] = (struct gw_schema_node){
        .first_field = GW_SCHEMA_NO_NODE, .items = GW_SCHEMA_NO_NODE, .max_size = UINT32_MAX};
    *out = schema->node_count++;
    return BASE_OK;
}

static enum base_status push(struct parse *parse, enum open_kind kind, uint16_t node)
{
    if (parse->depth == 2 * GW_SCHEMA_DEPTH_MAX) {
        return wrong(parse, BASE_ERR_TOO_LARGE, "too deep");
    }
    parse->stack[parse->depth++] = (struct open){.kind = kind, .node = node};
    return BASE_OK;
}

// A type begins with this token: its name alone, or {...}, which stays open.
static enum base_status begin_type(struct parse *parse, enum gw_json_token token, uint16_t node)
{
    if (token == GW_JSON_OBJECT) {
        return push(parse, OPEN_TYPE, node);
    }
    enum gw_schema_type type;
    if (token != GW_JSON_STRING || !type_of(parse->scan.text, &type)) {
        return no_type(parse, node);
    }
    parse->schema->nodes[node].type = type;
    parse->schema->nodes[node].extra = true; // an "object" without fields is any object
    return BASE_OK;
}

static enum base_status next(struct parse *parse, enum gw_json_token *out)
{
    enum base_status status = gw_scan_next(&parse->scan, out);
    return status == BASE_OK ? status : wrong(parse, status, "not well-formed");
}

// ---- Fields

static enum base_status add_field(struct parse *parse, uint16_t node)
{
    struct gw_schema *schema = parse->schema;
    struct gw_schema_node *object = &schema->nodes[node];
    struct base_str name = parse->scan.text;
    bool optional = name.size > 0 && name.data[name.size - 1] == '?';
    name.size -= optional;
    if (name.size == 0 || parse->scan.escaped) {
        return wrong(parse, BASE_ERR_INVALID, "a field's name is empty or has escapes");
    }
    if (object->field_count == GW_SCHEMA_FIELDS_MAX) {
        return wrong(parse, BASE_ERR_TOO_LARGE, "too many fields");
    }
    for (uint16_t i = object->first_field; i != GW_SCHEMA_NO_NODE; i = schema->fields[i].next) {
        if (base_str_equal(gw_schema_name(schema, &schema->fields[i]), name)) {
            return wrong(parse, BASE_ERR_INVALID, "a field twice");
        }
    }
    uint16_t type;
    BASE_TRY(add_node(parse, &type));
    // A field is a type, so there are never more of them.
    base_assert(schema->field_count < schema->node_count);
    struct gw_schema_field *field = &schema->fields[schema->field_count];
    *field = (struct gw_schema_field){.name = (uint16_t)(name.data - parse->scan.start),
                                      .name_size = (uint16_t)name.size,
                                      .node = type,
                                      .bit = object->field_count,
                                      .next = object->first_field};
    object->first_field = schema->field_count++;
    object->field_count++;
    object->required |= optional ? 0 : UINT64_C(1) << field->bit;
    enum gw_json_token token;
    BASE_TRY(next(parse, &token));
    return begin_type(parse, token, type);
}

// ---- Members of a type

static enum base_status set_bound(struct parse *parse, struct open *open, bool is_max)
{
    struct gw_schema_node *node = &parse->schema->nodes[open->node];
    enum gw_json_token token;
    BASE_TRY(next(parse, &token));
    bool *has = is_max ? &open->has_max : &open->has_min;
    if ((token != GW_JSON_INTEGER && token != GW_JSON_NUMBER) || *has) {
        return wrong(parse, BASE_ERR_INVALID, "no number, or twice");
    }
    *has = true;
    double value = gw_scan_real(parse->scan.text);
    *(is_max ? &node->max : &node->min) = value;
    if (is_max) {
        node->max_size = value >= 0 && value <= UINT32_MAX ? (uint32_t)value : UINT32_MAX;
    }
    return BASE_OK;
}

static enum base_status set_type(struct parse *parse, struct open *open)
{
    enum gw_json_token token;
    BASE_TRY(next(parse, &token));
    if (open->has_type) {
        return wrong(parse, BASE_ERR_INVALID, "type twice");
    }
    if (token != GW_JSON_STRING ||
        !type_of(parse->scan.text, &parse->schema->nodes[open->node].type)) {
        return no_type(parse, open->node);
    }
    open->has_type = true;
    return BASE_OK;
}

static enum base_status set_items(struct parse *parse, struct open *open)
{
    enum gw_json_token token;
    uint16_t items;
    if (open->has_items) {
        return wrong(parse, BASE_ERR_INVALID, "items twice");
    }
    open->has_items = true;
    uint16_t owner = open->node;
    BASE_TRY(add_node(parse, &items));
    parse->schema->nodes[owner].items = items;
    BASE_TRY(next(parse, &token));
    return begin_type(parse, token, items);
}

static enum base_status set_fields(struct parse *parse, struct open *open)
{
    enum gw_json_token token;
    BASE_TRY(next(parse, &token));
    if (token != GW_JSON_OBJECT || open->has_fields) {
        return wrong(parse, BASE_ERR_INVALID, "fields are no object, or twice");
    }
    open->has_fields = true;
    return push(parse, OPEN_FIELDS, open->node);
}

static enum base_status set_extra(struct parse *parse, struct open *open)
{
    enum gw_json_token token;
    BASE_TRY(next(parse, &token));
    if ((token != GW_JSON_TRUE && token != GW_JSON_FALSE) || open->has_extra) {
        return wrong(parse, BASE_ERR_INVALID, "extra is no boolean, or twice");
    }
    open->has_extra = true;
    parse->schema->nodes[open->node].extra = token == GW_JSON_TRUE;
    return BASE_OK;
}

static enum base_status member(struct parse *parse, struct open *open)
{
    struct base_str key = parse->scan.text;
    if (base_str_equal(key, BASE_STR("type"))) {
        return set_type(parse, open);
    }
    if (base_str_equal(key, BASE_STR("min")) || base_str_equal(key, BASE_STR("max"))) {
        return set_bound(parse, open, key.data[1] == 'a');
    }
    if (base_str_equal(key, BASE_STR("items"))) {
        return set_items(parse, open);
    }
    if (base_str_equal(key, BASE_STR("fields"))) {
        return set_fields(parse, open);
    }
    if (base_str_equal(key, BASE_STR("extra"))) {
        return set_extra(parse, open);
    }
    return wrong(parse, BASE_ERR_INVALID,
                 "a type has type, min, max, items, fields and extra, nothing else");
}

// A type without "type" is an object when it has fields. Each member must fit the type.
static enum base_status end_type(struct parse *parse, const struct open *open)
{
    base_assert(open->kind == OPEN_TYPE && open->node < parse->schema->node_count);
    struct gw_schema_node *node = &parse->schema->nodes[open->node];
    if (!open->has_type) {
        if (!open->has_fields) {
            return wrong(parse, BASE_ERR_INVALID, "a type has neither type nor fields");
        }
        node->type = GW_SCHEMA_OBJECT;
    }
    bool numeric = node->type == GW_SCHEMA_INTEGER || node->type == GW_SCHEMA_NUMBER;
    bool sized = node->type == GW_SCHEMA_STRING || node->type == GW_SCHEMA_LIST;
    bool is_object = node->type == GW_SCHEMA_OBJECT;
    if ((open->has_min && !numeric) || (open->has_max && !numeric && !sized) ||
        (open->has_items && node->type != GW_SCHEMA_LIST) ||
        ((open->has_fields || open->has_extra) && !is_object) ||
        (open->has_max && sized && !(node->max >= 0))) {
        return wrong(parse, BASE_ERR_INVALID, "a member that does not fit its type");
    }
    node->has_min = open->has_min && numeric;
    node->has_max = open->has_max && numeric;
    node->extra = node->extra || (is_object && !open->has_fields && !open->has_extra);
    return BASE_OK;
}

static enum base_status step(struct parse *parse)
{
    enum gw_json_token token;
    BASE_TRY(next(parse, &token));
    struct open *open = &parse->stack[parse->depth - 1];
    if (token == GW_JSON_OBJECT_END) {
        const struct open closed = *open;
        parse->depth--;
        return closed.kind == OPEN_TYPE ? end_type(parse, &closed) : BASE_OK;
    }
    return open->kind == OPEN_TYPE ? member(parse, open) : add_field(parse, open->node);
}

static enum base_status parse_all(struct parse *parse)
{
    uint16_t root;
    enum gw_json_token token;
    BASE_TRY(add_node(parse, &root));
    BASE_TRY(next(parse, &token));
    BASE_TRY(begin_type(parse, token, root));
    while (parse->depth > 0) {
        BASE_TRY(step(parse));
    }
    BASE_TRY(next(parse, &token));
    return token == GW_JSON_END ? BASE_OK : wrong(parse, BASE_ERR_INVALID, "more than one type");
}

enum base_status gw_schema_parse(struct base_str text, struct gw_schema **out,
                                 struct base_error *error)
{
    if (text.size > GW_SCHEMA_BYTES_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "schema: more than %u bytes",
                              GW_SCHEMA_BYTES_MAX);
    }
    struct gw_schema *schema = calloc(1, sizeof(*schema));
    if (schema == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "schema: no memory");
    }
    if (text.size > 0) {
        memcpy(schema->text, text.data, text.size);
    }
    struct parse parse = {.schema = schema, .error = error};
    gw_scan_init(&parse.scan, (struct base_str){schema->text, text.size});
    enum base_status status = parse_all(&parse);
    if (status != BASE_OK) {
        gw_schema_free(schema);
        return status;
    }
    base_assert(parse.depth == 0 && schema->node_count > 0);
    *out = schema;
    return BASE_OK;
}

void gw_schema_free(struct gw_schema *schema)
{
    free(schema);
}
