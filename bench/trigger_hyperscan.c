// See trigger_hyperscan.h. Called by trigger_worker only.
#include "trigger_hyperscan.h"

#include <hs.h>

#include <stdlib.h>

struct trigger_stream {
    hs_database_t *database;
    hs_scratch_t *scratch;
    hs_stream_t *stream;
    uint32_t *found; // room for each expression
    uint32_t count;  // found by the feed under way
    uint32_t count_max;
};

// The database of the expressions, each numbered by its place; NULL: one of them is refused.
static hs_database_t *compile(const char *const *expressions, uint32_t count)
{
    unsigned *flags = calloc(count, sizeof(*flags));
    unsigned *numbers = calloc(count, sizeof(*numbers));
    hs_database_t *database = NULL;
    hs_compile_error_t *error = NULL;
    if (flags != NULL && numbers != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            flags[i] = HS_FLAG_DOTALL;
            numbers[i] = i;
        }
        if (hs_compile_multi(expressions, flags, numbers, count, HS_MODE_STREAM, NULL, &database,
                             &error) != HS_SUCCESS) {
            database = NULL;
        }
        (void)hs_free_compile_error(error);
    }
    free(flags);
    free(numbers);
    return database;
}

struct trigger_stream *trigger_stream_new(const char *const *expressions, uint32_t count)
{
    struct trigger_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    stream->count_max = count;
    stream->found = calloc(count, sizeof(*stream->found));
    stream->database = compile(expressions, count);
    if (stream->found == NULL || stream->database == NULL ||
        hs_alloc_scratch(stream->database, &stream->scratch) != HS_SUCCESS ||
        hs_open_stream(stream->database, 0, &stream->stream) != HS_SUCCESS) {
        trigger_stream_free(stream);
        return NULL;
    }
    return stream;
}

void trigger_stream_free(struct trigger_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (stream->stream != NULL) {
        (void)hs_close_stream(stream->stream, NULL, NULL, NULL);
    }
    (void)hs_free_scratch(stream->scratch);
    (void)hs_free_database(stream->database);
    free(stream->found);
    free(stream);
}

bool trigger_stream_reset(struct trigger_stream *stream)
{
    return hs_reset_stream(stream->stream, 0, NULL, NULL, NULL) == HS_SUCCESS;
}

static int on_match(unsigned number, unsigned long long from, unsigned long long to, unsigned flags,
                    void *context)
{
    struct trigger_stream *stream = context;
    (void)from;
    (void)to;
    (void)flags;
    if (stream->count == stream->count_max) {
        return 1;
    }
    stream->found[stream->count++] = number;
    return 0;
}

bool trigger_stream_feed(struct trigger_stream *stream, const char *bytes, size_t size,
                         const uint32_t **out_found, uint32_t *out_count)
{
    stream->count = 0;
    if (hs_scan_stream(stream->stream, bytes, (unsigned)size, 0, stream->scratch, on_match,
                       stream) != HS_SUCCESS) {
        return false;
    }
    *out_found = stream->found;
    *out_count = stream->count;
    return true;
}

size_t trigger_stream_set_bytes(const struct trigger_stream *stream)
{
    size_t bytes = 0;
    return hs_database_size(stream->database, &bytes) == HS_SUCCESS ? bytes : 0;
}

size_t trigger_stream_state_bytes(const struct trigger_stream *stream)
{
    size_t bytes = 0;
    return hs_stream_size(stream->database, &bytes) == HS_SUCCESS ? bytes : 0;
}
