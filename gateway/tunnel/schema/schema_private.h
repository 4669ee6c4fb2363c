// A schema as it is kept: nodes and fields by number, names in the copied text.
#ifndef GW_SCHEMA_PRIVATE_H
#define GW_SCHEMA_PRIVATE_H

#include "tunnel/schema/schema.h"

#define GW_SCHEMA_NO_NODE UINT16_MAX

enum gw_schema_type {
    GW_SCHEMA_ANY,
    GW_SCHEMA_NULL,
    GW_SCHEMA_BOOLEAN,
    GW_SCHEMA_INTEGER,
    GW_SCHEMA_NUMBER,
    GW_SCHEMA_STRING,
    GW_SCHEMA_LIST,
    GW_SCHEMA_OBJECT,
    GW_SCHEMA_TYPE_COUNT
};

struct gw_schema_node {
    enum gw_schema_type type;
    bool extra; // of an object: other fields may be there
    bool has_min;
    bool has_max;
    uint8_t field_count;
    uint16_t first_field; // newest first
    uint16_t items;       // NO_NODE: any
    uint32_t max_size;    // bytes of a string, items of a list
    double min;
    double max;
    uint64_t required; // bits of fields
};

struct gw_schema_field {
    uint16_t name; // offset in the text
    uint16_t name_size;
    uint16_t node;
    uint16_t next;
    uint8_t bit;
};

struct gw_schema {
    uint16_t node_count;
    uint16_t field_count;
    struct gw_schema_node nodes[GW_SCHEMA_NODES_MAX];
    struct gw_schema_field fields[GW_SCHEMA_NODES_MAX];
    char text[GW_SCHEMA_BYTES_MAX];
};

static inline struct base_str gw_schema_name(const struct gw_schema *schema,
                                             const struct gw_schema_field *field)
{
    return (struct base_str){schema->text + field->name, field->name_size};
}

#endif
