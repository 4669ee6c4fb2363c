// Any text as a traceparent: what is taken is written as a line that is taken again, the same
// trace.
#include "fuzz_target.h"

#include "base/check.h"
#include "infer/trace/trace_context.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_trace_context context = {.flags = 0};
    struct gw_trace_context again = {.flags = 0};
    char text[GW_TRACE_PARENT_BYTES + 1];
    if (gw_trace_context_read((struct base_str){(const char *)data, size}, &context) != BASE_OK) {
        return 0;
    }
    gw_trace_context_write(&context, 1, text);
    base_check(gw_trace_context_read(base_str_of(text), &again) == BASE_OK);
    base_check(strcmp(context.trace, again.trace) == 0);
    base_check((context.flags & 1) == again.flags);
    return 0;
}
