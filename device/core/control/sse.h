// The hint stream's parser: server-sent events (WHATWG HTML, "server-sent events"), of which only
// `hint` matters here. Bytes in, hints out; bounded: a line longer than DEV_SSE_LINE_MAX is cut.
#ifndef DEV_SSE_H
#define DEV_SSE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define DEV_SSE_LINE_MAX      96
#define DEV_SSE_SPREAD_MS_MAX 3600000u

struct dev_sse {
    uint32_t spread_ms; // of the event under way
    uint32_t after_ms;  // of the event under way; of the hint just found until the next feed
    uint8_t line_size;
    bool line_cut; // the line was longer than the buffer
    bool after_cr; // a LF now belongs to the line before
    bool is_hint;  // the event under way is named hint
    char line[DEV_SSE_LINE_MAX];
};

void dev_sse_init(struct dev_sse *sse);
// Takes bytes up to the end of the first complete hint and returns how many; *out_hint says whether
// there was one, and then *out_spread_ms the span to spread the reaction over, which begins
// sse->after_ms from now. Call again with what is left.
size_t dev_sse_feed(struct dev_sse *sse, const uint8_t *bytes, size_t size, bool *out_hint,
                    uint32_t *out_spread_ms);

#endif
