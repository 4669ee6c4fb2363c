// Accessors of nodes and attributes (graph.h). Called by lowering and by tools on any thread: pure
// reads of a graph that is immutable once it is loaded. An attribute that is missing, or of another
// kind than asked, is the caller's default; handlers decide whether that is an error, and
// eng_node_error writes one that names the node.
#include "model/graph.h"

#include "base/check.h"
#include "model/model_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct eng_attr *eng_node_attr(const struct eng_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->attr_count; i++) {
        if (strcmp(node->attrs[i].name, name) == 0) {
            return &node->attrs[i];
        }
    }
    return NULL;
}

static const struct eng_attr *attr_of_kind(const struct eng_node *node, const char *name,
                                           enum eng_attr_kind kind)
{
    const struct eng_attr *attr = eng_node_attr(node, name);
    return attr != NULL && attr->kind == kind ? attr : NULL;
}

int64_t eng_node_int(const struct eng_node *node, const char *name, int64_t otherwise)
{
    const struct eng_attr *attr = attr_of_kind(node, name, ENG_ATTR_INT);
    return attr != NULL ? attr->u.i : otherwise;
}

float eng_node_float(const struct eng_node *node, const char *name, float otherwise)
{
    const struct eng_attr *attr = attr_of_kind(node, name, ENG_ATTR_FLOAT);
    return attr != NULL ? attr->u.f : otherwise;
}

struct eng_string eng_node_string(const struct eng_node *node, const char *name,
                                  const char *otherwise)
{
    const struct eng_attr *attr = attr_of_kind(node, name, ENG_ATTR_STRING);
    if (attr != NULL) {
        return attr->u.s;
    }
    return (struct eng_string){otherwise, otherwise != NULL ? strlen(otherwise) : 0};
}

bool eng_string_is(struct eng_string string, const char *text)
{
    size_t size = strlen(text);
    return string.size == size && (size == 0 || memcmp(string.at, text, size) == 0);
}

const int64_t *eng_node_ints(const struct eng_node *node, const char *name, uint32_t *out_count)
{
    const struct eng_attr *attr = attr_of_kind(node, name, ENG_ATTR_INTS);
    *out_count = attr != NULL ? attr->count : 0;
    return attr != NULL ? attr->u.ints : NULL;
}

const float *eng_node_floats(const struct eng_node *node, const char *name, uint32_t *out_count)
{
    const struct eng_attr *attr = attr_of_kind(node, name, ENG_ATTR_FLOATS);
    *out_count = attr != NULL ? attr->count : 0;
    return attr != NULL ? attr->u.floats : NULL;
}

const struct eng_graph *eng_node_graph(const struct eng_node *node, const char *name)
{
    const struct eng_attr *attr = attr_of_kind(node, name, ENG_ATTR_GRAPH);
    return attr != NULL ? attr->u.graph : NULL;
}

enum base_status eng_node_error(const struct eng_node *node, struct base_error *error,
                                enum base_status status, const char *format, ...)
{
    char text[BASE_ERROR_TEXT_MAX];
    base_assert(status != BASE_OK);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return base_error_set(error, status, "node '%.48s' (%.40s, opset %d): %s", node->name, node->op,
                          node->opset, text);
}

void eng_model_release_pages(struct eng_model *model, const void *data, size_t bytes)
{
    eng_mappings_release(model->mappings, data, bytes);
}
