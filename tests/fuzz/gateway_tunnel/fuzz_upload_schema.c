// Schemas of uploads and records, both from whoever: a schema's text, a NUL, a record. What fits a
// schema is well-formed, and "any" lets through exactly what is.
#include "fuzz_target.h"

#include "tunnel/schema/json_scan.h"
#include "tunnel/schema/schema.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gw_schema *any;
    const char *text = (const char *)data;
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    size_t first = end != NULL ? (size_t)(end - data) : size;
    struct base_str record = {text + first + (end != NULL), size - first - (end != NULL)};
    struct gw_schema *schema = NULL;
    struct base_error error = {0};
    if (any == NULL && gw_schema_parse(BASE_STR("\"any\""), &any, &error) != BASE_OK) {
        abort();
    }
    enum base_status form = gw_scan_check(record);
    if (gw_schema_check(any, record) != form) {
        abort();
    }
    if (gw_schema_parse((struct base_str){text, first}, &schema, &error) == BASE_OK) {
        if (gw_schema_check(schema, record) == BASE_OK && form != BASE_OK) {
            abort();
        }
        char why[GW_SCHEMA_WHY_MAX + 1]; // said of each that is refused, and of no other
        gw_schema_explain(schema, record, why);
        if ((why[0] == 0) != (gw_schema_check(schema, record) == BASE_OK)) {
            abort();
        }
        if (gw_scan_check((struct base_str){text, first}) != BASE_OK) {
            abort();
        }
        gw_schema_free(schema);
    } else if (error.text[0] == '\0') {
        abort();
    }
    return 0;
}
