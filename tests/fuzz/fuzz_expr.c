// A text of the targeting language, a NUL, then attributes: one a line, NAME=VALUE, where VALUE is
// a number, true, false, or text. No crash; what is refused says where inside the text; what is
// accepted evaluates to one of three values, decided by one of its tests, and is true only where
// its anchor holds; its own text compiles again to a program that agrees.
#include "fuzz_target.h"

#include "base/check.h"
#include "policy/expr.h"

#include <string.h>

#define ATTRS_MAX 8

static uint64_t memory[2][POL_EXPR_BYTES_MAX / 8];

static struct pol_value value_of(const char *data, uint32_t size)
{
    struct pol_value value = {.type = POL_TYPE_STRING, .text = {data, size}};
    if (size == 4 && memcmp(data, "true", 4) == 0) {
        return (struct pol_value){.type = POL_TYPE_BOOLEAN, .boolean = true};
    }
    if (size > 0 && size < 10 && data[0] == '#') {
        value = (struct pol_value){.type = POL_TYPE_INTEGER};
        for (uint32_t i = 1; i < size; i++) {
            value.integer = value.integer * 10 + (data[i] - '0');
        }
    }
    return value;
}

static uint32_t read_attrs(const char *data, size_t size, struct pol_attr *items)
{
    uint32_t count = 0;
    size_t start = 0;
    for (size_t at = 0; at <= size && count < ATTRS_MAX; at++) {
        if (at < size && data[at] != '\n') {
            continue;
        }
        const char *line = data + start;
        size_t length = at - start;
        const char *equals = length > 0 ? memchr(line, '=', length) : NULL;
        if (equals != NULL && equals > line) {
            uint32_t name = (uint32_t)(equals - line);
            items[count].name = (struct pol_text){line, name};
            items[count++].value = value_of(equals + 1, (uint32_t)(length - name - 1));
        }
        start = at + 1;
    }
    return count;
}

static bool has_anchor_value(const struct pol_anchor *anchor, const struct pol_attrs *attrs)
{
    for (uint32_t i = 0; i < attrs->count; i++) {
        const struct pol_attr *attr = &attrs->items[i];
        if (attr->name.size != anchor->attr.size ||
            memcmp(attr->name.data, anchor->attr.data, attr->name.size) != 0) {
            continue;
        }
        for (uint32_t k = 0; k < anchor->value_count; k++) {
            const struct pol_value *value = &anchor->values[k];
            bool text_version =
                attr->value.type == POL_TYPE_STRING && value->type == POL_TYPE_INTEGER;
            bool same =
                value->type == attr->value.type &&
                (value->type == POL_TYPE_STRING
                     ? value->text.size == attr->value.text.size &&
                           (value->text.size == 0 ||
                            memcmp(value->text.data, attr->value.text.data, value->text.size) == 0)
                 : value->type == POL_TYPE_INTEGER ? value->integer == attr->value.integer
                                                   : value->boolean == attr->value.boolean);
            if (same || text_version) {
                return true;
            }
        }
        return false; // the first of a name counts
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *nul = size > 0 ? memchr(text, 0, size) : NULL;
    size_t text_size = nul != NULL ? (size_t)(nul - text) : size;
    struct pol_expr_error error = {0};
    const struct pol_expr *expr;
    size_t bytes;
    struct pol_text given = {text, (uint32_t)text_size};
    if (!pol_expr_compile(given, (struct pol_expr_space){memory[0], sizeof(memory[0])}, &expr,
                          &bytes, &error)) {
        base_check(error.offset <= text_size);
        base_check(error.line >= 1);
        base_check(error.column >= 1);
        base_check(error.message != NULL);
        return 0;
    }
    struct pol_attr items[ATTRS_MAX];
    struct pol_attrs attrs = {items, 0};
    if (nul != NULL) {
        attrs.count = read_attrs(nul + 1, size - text_size - 1, items);
    }
    uint32_t test = UINT32_MAX;
    enum pol_truth truth = pol_expr_eval(expr, &attrs, &test);
    base_check(pol_expr_test_text(expr, test).size > 0);
    struct pol_anchor anchor;
    if (truth == POL_TRUE && pol_expr_anchor(expr, &anchor)) {
        base_check(has_anchor_value(&anchor, &attrs));
    }
    const struct pol_expr *again;
    size_t again_bytes;
    base_check(pol_expr_compile(pol_expr_text(expr), (struct pol_expr_space){memory[1], bytes},
                                &again, &again_bytes, &error));
    base_check(again_bytes == bytes);
    base_check(pol_expr_eval(again, &attrs, NULL) == truth);
    return 0;
}
