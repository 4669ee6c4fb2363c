// Server-sent events, line by line (WHATWG HTML, "server-sent events"): of the fields only `event`
// and `data` matter here. Called by device_hints.c for each chunk of the hint stream, on the
// runtime's thread; pure. Lines end with CR, LF or both, also across chunks. A feed stops behind a
// hint and says how many bytes it took, so that the caller acts on each one before it goes on. A
// line that was cut is never a hint.
#include "core/control/sse.h"

#include "base/check.h"
#include "base/str.h"

#include <string.h>

void dev_sse_init(struct dev_sse *sse)
{
    memset(sse, 0, sizeof(*sse));
}

// {"spread_ms":1200} gives 1200 for the key "spread_ms":. Anything else gives 0: react at once.
static uint32_t number_of(struct base_str data, struct base_str key)
{
    for (size_t at = 0; at + key.size < data.size; at++) {
        if (memcmp(data.data + at, key.data, key.size) != 0) {
            continue;
        }
        uint32_t value = 0;
        for (at += key.size; at < data.size; at++) {
            char c = data.data[at];
            if (c < '0' || c > '9') {
                break;
            }
            value = value * 10 + (uint32_t)(c - '0');
            if (value > DEV_SSE_SPREAD_MS_MAX) {
                return DEV_SSE_SPREAD_MS_MAX;
            }
        }
        return value;
    }
    return 0;
}

// The value behind "name:" and one optional space, when the line has that name.
static bool field_of(struct base_str line, struct base_str name, struct base_str *out_value)
{
    if (!base_str_starts(line, name) || line.size == name.size || line.data[name.size] != ':') {
        return false;
    }
    size_t skip = name.size + 1;
    if (skip < line.size && line.data[skip] == ' ') {
        skip++;
    }
    *out_value = (struct base_str){line.data + skip, line.size - skip};
    return true;
}

// True when the line, being empty, ended a hint.
static bool line_end(struct dev_sse *sse, uint32_t *out_spread_ms)
{
    struct base_str line = {sse->line, sse->line_size};
    struct base_str value = {0};
    bool cut = sse->line_cut;
    sse->line_size = 0;
    sse->line_cut = false;
    if (line.size == 0 && !cut) {
        bool hint = sse->is_hint;
        *out_spread_ms = sse->spread_ms;
        sse->is_hint = false;
        sse->spread_ms = 0;
        sse->after_ms = hint ? sse->after_ms : 0;
        return hint;
    }
    if (field_of(line, BASE_STR("event"), &value)) {
        sse->is_hint = !cut && base_str_equal(value, BASE_STR("hint"));
    } else if (field_of(line, BASE_STR("data"), &value)) {
        sse->spread_ms = number_of(value, BASE_STR("\"spread_ms\":"));
        sse->after_ms = number_of(value, BASE_STR("\"after_ms\":"));
    }
    return false;
}

size_t dev_sse_feed(struct dev_sse *sse, const uint8_t *bytes, size_t size, bool *out_hint,
                    uint32_t *out_spread_ms)
{
    *out_hint = false;
    base_check(sse->line_size <= DEV_SSE_LINE_MAX);
    for (size_t at = 0; at < size; at++) {
        char c = (char)bytes[at];
        bool skip = c == '\n' && sse->after_cr;
        sse->after_cr = c == '\r';
        if (skip) {
            continue;
        }
        if (c == '\n' || c == '\r') {
            if (line_end(sse, out_spread_ms)) {
                *out_hint = true;
                return at + 1;
            }
        } else if (sse->line_size < DEV_SSE_LINE_MAX) {
            sse->line[sse->line_size++] = c;
        } else {
            sse->line_cut = true;
        }
    }
    return size;
}
