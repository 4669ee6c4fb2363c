// A cursor over JSON text (RFC 8259), for messages whose bulk is numbers: nothing is built, texts
// are borrowed from the input, or decoded into the arena where they have escapes.
//
// The first fault ends it: every function then returns false (or 0), and `error` says what and at
// which byte. Depth is bounded, there is no recursion. One thread.
#ifndef GW_JSON_IN_H
#define GW_JSON_IN_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>

#define GW_JSON_IN_DEPTH_MAX 64u // of what is skipped

struct gw_json_in {
    const char *start;
    const char *at;
    const char *end;
    struct base_arena *arena;
    struct base_error *error; // NULL: nobody asks
    enum base_status status;
};

void gw_json_in_init(struct gw_json_in *in, struct base_arena *arena, struct base_str text,
                     struct base_error *error);
// Notes the fault unless there is one; returns false. The text becomes "FORMAT (byte N)".
bool gw_json_fail(struct gw_json_in *in, enum base_status status, const char *format, ...)
    BASE_PRINTF(3, 4);

// The next character that is no space; 0: the end, or a fault.
char gw_json_peek(struct gw_json_in *in);
// Takes `c` if it is next.
bool gw_json_take(struct gw_json_in *in, char c);
// ... else it is a fault.
bool gw_json_expect(struct gw_json_in *in, char c);

// Steps of an object, from '{' (expected before) to behind '}': true with the next name, its value
// to be read. `*first` starts true.
bool gw_json_member(struct gw_json_in *in, bool *first, struct base_str *out_name);
// The same of an array, behind '['.
bool gw_json_element(struct gw_json_in *in, bool *first);

// Values. INVALID: of another kind or malformed; OVERFLOW; NOMEM.
bool gw_json_in_text(struct gw_json_in *in, struct base_str *out);
bool gw_json_in_bool(struct gw_json_in *in, bool *out);
bool gw_json_in_u64(struct gw_json_in *in, const char *what, uint64_t max, uint64_t *out);
// Any value, checked and passed over.
bool gw_json_skip(struct gw_json_in *in);
// Bytes of the well-formed UTF-8 sequence at `text`, which is before `end`; 0: it is none.
size_t gw_json_utf8(const char *text, const char *end);
// Nothing may follow.
bool gw_json_finish(struct gw_json_in *in);

#endif
