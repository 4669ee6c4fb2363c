// Operations as text. One thread.
#include "model_op.h"

#include <stdlib.h>
#include <string.h>

struct kind_row {
    const char *text;
    const char *args;
};

static const struct kind_row rows[MODEL_OP_COUNT] = {
#define ROW(name, text, args) {text, args},
    MODEL_OP_MAP(ROW)
#undef ROW
};

void model_ops_add(struct model_ops *ops, const struct model_op *op)
{
    if (ops->count == ops->capacity) {
        ops->capacity = ops->capacity == 0 ? 256 : ops->capacity * 2;
        ops->items = realloc(ops->items, ops->capacity * sizeof(*op));
        if (ops->items == NULL) {
            abort();
        }
    }
    ops->items[ops->count++] = *op;
}

void model_ops_done(struct model_ops *ops)
{
    free(ops->items);
    *ops = (struct model_ops){0};
}

// The next word of a list of names; its length, 0 at the end.
static size_t word(const char **at)
{
    while (**at == ' ') {
        (*at)++;
    }
    return strcspn(*at, " \n");
}

void model_op_print(const struct model_op *op, char *out)
{
    const char *names = rows[op->kind].args;
    int at = snprintf(out, MODEL_LINE_MAX, "%s", rows[op->kind].text);
    size_t size;
    for (uint32_t i = 0; (size = word(&names)) > 0; i++, names += size) {
        if (op->args[i] != 0 || i == 0) {
            at += snprintf(out + at, MODEL_LINE_MAX - (size_t)at, " %.*s=%lld", (int)size, names,
                           (long long)op->args[i]);
        }
    }
}

static bool parse_arg(const char *text, size_t size, struct model_op *out)
{
    const char *names = rows[out->kind].args;
    const char *equals = memchr(text, '=', size);
    size_t name_size = equals != NULL ? (size_t)(equals - text) : 0;
    size_t width;
    for (uint32_t i = 0; equals != NULL && (width = word(&names)) > 0; i++, names += width) {
        if (width == name_size && memcmp(names, text, width) == 0) {
            char *end = NULL;
            out->args[i] = strtoll(equals + 1, &end, 10);
            return end == text + size && end != equals + 1;
        }
    }
    return false;
}

bool model_op_parse(const char *line, struct model_op *out, const char **out_why)
{
    size_t size = word(&line);
    *out = (struct model_op){.kind = MODEL_OP_COUNT};
    for (uint32_t i = 0; i < MODEL_OP_COUNT; i++) {
        if (strlen(rows[i].text) == size && memcmp(rows[i].text, line, size) == 0) {
            out->kind = (enum model_op_kind)i;
        }
    }
    if (out->kind == MODEL_OP_COUNT) {
        *out_why = "no such operation";
        return false;
    }
    line += size;
    while ((size = word(&line)) > 0) {
        if (!parse_arg(line, size, out)) {
            *out_why = "an argument is no NAME=NUMBER of this operation";
            return false;
        }
        line += size;
    }
    return true;
}

static bool take_line(const char *line, uint32_t number, struct model_ops *out, char *why,
                      size_t capacity)
{
    struct model_op op;
    const char *wrong = NULL;
    size_t size = word(&line);
    if (size == 0 || *line == '#') {
        return true;
    }
    if (!model_op_parse(line, &op, &wrong)) {
        (void)snprintf(why, capacity, "line %u: %s: %.*s", number, wrong, (int)strcspn(line, "\n"),
                       line);
        return false;
    }
    model_ops_add(out, &op);
    return true;
}

bool model_ops_parse(const char *text, struct model_ops *out, char *why, size_t capacity)
{
    char line[MODEL_LINE_MAX];
    for (uint32_t number = 1; *text != '\0'; number++) {
        size_t size = strcspn(text, "\n");
        (void)snprintf(line, sizeof(line), "%.*s", (int)size, text);
        if (!take_line(line, number, out, why, capacity)) {
            return false;
        }
        text += size + (text[size] == '\n' ? 1 : 0);
    }
    return true;
}

bool model_ops_read(FILE *file, struct model_ops *out, char *why, size_t capacity)
{
    char line[MODEL_LINE_MAX];
    for (uint32_t number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        if (!take_line(line, number, out, why, capacity)) {
            return false;
        }
    }
    return true;
}

void model_ops_write(FILE *file, const struct model_ops *ops)
{
    char line[MODEL_LINE_MAX];
    for (uint32_t i = 0; i < ops->count; i++) {
        model_op_print(&ops->items[i], line);
        (void)fprintf(file, "    %s\n", line);
    }
}
