// Reads and writes the one line of trace_context.h. infer_trace.c calls, on a worker's thread, for
// the answers of models. Whoever sends nonsense has no trace, and nothing else changes for it: so
// the specification says.
#include "infer/trace/trace_context.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

#define TRACE_AT 3u // behind "00-"
#define SPAN_AT  36u
#define FLAGS_AT 53u

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// So many lower-case digits of hex; with `zero`, all may be 0.
static bool is_hex(const char *text, size_t size, bool zero)
{
    int all = 0;
    for (size_t i = 0; i < size; i++) {
        int value = digit(text[i]);
        if (value < 0) {
            return false;
        }
        all |= value;
    }
    return zero || all != 0;
}

enum base_status gw_trace_context_read(struct base_str traceparent, struct gw_trace_context *out)
{
    const char *text = traceparent.data;
    size_t size = traceparent.size;
    if (size < GW_TRACE_PARENT_BYTES || !is_hex(text, 2, true) || memcmp(text, "ff", 2) == 0 ||
        text[2] != '-' || text[SPAN_AT - 1] != '-' || text[FLAGS_AT - 1] != '-' ||
        !is_hex(text + TRACE_AT, 32, false) || !is_hex(text + SPAN_AT, 16, false) ||
        !is_hex(text + FLAGS_AT, 2, true)) {
        return BASE_ERR_INVALID;
    }
    bool first = memcmp(text, "00", 2) == 0;
    if (size > GW_TRACE_PARENT_BYTES && (first || text[GW_TRACE_PARENT_BYTES] != '-')) {
        return BASE_ERR_INVALID;
    }
    struct gw_trace_context context = {
        .flags = (uint8_t)(digit(text[FLAGS_AT]) << 4 | digit(text[FLAGS_AT + 1]))};
    memcpy(context.trace, text + TRACE_AT, 32);
    memcpy(context.span, text + SPAN_AT, 16);
    *out = context;
    return BASE_OK;
}

void gw_trace_context_write(const struct gw_trace_context *context, uint64_t span,
                            char out[GW_TRACE_PARENT_BYTES + 1])
{
    base_check(span != 0 && context->trace[0] != '\0');
    int size = snprintf(out, GW_TRACE_PARENT_BYTES + 1, "00-%s-%016llx-%02x", context->trace,
                        (unsigned long long)span, context->flags & 1u);
    base_check(size == (int)GW_TRACE_PARENT_BYTES);
}
