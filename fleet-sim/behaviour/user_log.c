// A recorded log in memory: its text, where its lines are, and where sessions may begin. Read and
// checked on the coordinator's thread before the shards run; after that it does not change. A line
// is parsed again whenever it is played, so a large log costs its own size and 16 bytes a line.
#include "behaviour/user_session.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/os/regular_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct log_line {
    uint32_t at; // in the text
    uint32_t size;
    enum dev_event_kind kind;
    uint64_t wall_ms; // 0: not said
};

struct sim_log {
    struct base_buffer text;
    struct log_line *lines;
    uint32_t count;
    uint32_t capacity;
    uint32_t *pieces; // first lines; one more than there are pieces
    uint32_t piece_count;
};

static enum base_status read_all(const char *path, struct base_buffer *out,
                                 struct base_error *error)
{
    struct base_error inner = {0};
    FILE *file = NULL;
    enum base_status status = base_regular_stream(path, &file, &inner);
    if (status != BASE_OK) {
        return base_error_set(error, status, "--behaviour %s", inner.text);
    }
    uint8_t chunk[16384];
    size_t size;
    while (status == BASE_OK && (size = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        status = base_buffer_add(out, chunk, size);
    }
    status = status == BASE_OK && ferror(file) != 0 ? BASE_ERR_IO : status;
    (void)fclose(file);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "--behaviour %.200s: %s", path,
                                              base_status_text(status));
}

static enum base_status line_room(struct sim_log *log)
{
    if (log->count < log->capacity) {
        return BASE_OK;
    }
    uint32_t capacity = log->capacity > 0 ? log->capacity * 2 : 256;
    struct log_line *lines = realloc(log->lines, sizeof(*lines) * capacity);
    if (lines == NULL) {
        return BASE_ERR_NOMEM;
    }
    log->lines = lines;
    log->capacity = capacity;
    return BASE_OK;
}

// Is it an event that a recorder takes?
static enum base_status line_check(const struct dev_recording *recording, struct base_error *error)
{
    uint8_t encoded[DEV_EVENT_ATTRS_BYTES];
    size_t size = 0;
    if (recording->page.size == 0 || recording->page.size > DEV_EVENT_PAGE_MAX ||
        recording->item.size > DEV_EVENT_ITEM_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "its page or item is missing or too long");
    }
    enum base_status status = dev_event_attrs_encode(recording->attrs, recording->attr_count,
                                                     encoded, sizeof(encoded), &size);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "its attributes: %s", base_status_text(status));
}

static enum base_status line_add(struct sim_log *log, uint32_t at, uint32_t size,
                                 struct base_error *error)
{
    struct event_line *parsed = NULL;
    struct dev_recording recording;
    struct base_str text = {(const char *)log->text.data + at, size};
    if (log->count == SIM_LOG_LINES_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "more than %u lines", SIM_LOG_LINES_MAX);
    }
    if (line_room(log) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    BASE_TRY(event_line_parse(text, &parsed, &recording, error));
    enum base_status status = line_check(&recording, error);
    log->lines[log->count++] = (struct log_line){
        .at = at, .size = size, .kind = recording.kind, .wall_ms = recording.wall_ms};
    event_line_free(parsed);
    return status;
}

static enum base_status lines_add(struct sim_log *log, const char *path, struct base_error *error)
{
    const char *text = (const char *)log->text.data;
    uint32_t end = (uint32_t)log->text.size;
    uint32_t at = 0;
    for (uint32_t number = 1; at < end; number++) {
        const char *stop = memchr(text + at, '\n', end - at);
        uint32_t size = stop != NULL ? (uint32_t)(stop - text) - at : end - at;
        struct base_error inner = {.status = BASE_OK};
        if (size > 0 && line_add(log, at, size, &inner) != BASE_OK) {
            return base_error_set(error, inner.status, "--behaviour %.80s, line %u: %.60s", path,
                                  number, inner.text);
        }
        at += size + 1;
    }
    return log->count > 0 ? BASE_OK
                          : base_error_set(error, BASE_ERR_INVALID,
                                           "--behaviour %.100s: no event in it", path);
}

// A piece ends where the last open page is left, and where it would be too long.
static enum base_status pieces_cut(struct sim_log *log)
{
    log->pieces = malloc(sizeof(uint32_t) * ((size_t)log->count + 1));
    if (log->pieces == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint32_t open = 0;
    uint32_t first = 0;
    for (uint32_t i = 0; i < log->count; i++) {
        enum dev_event_kind kind = log->lines[i].kind;
        open += kind == DEV_EVENT_ENTER ? 1 : 0;
        open -= kind == DEV_EVENT_EXIT && open > 0 ? 1 : 0;
        bool full = i + 1 - first == SIM_SESSION_EVENTS_MAX;
        if (open == 0 || full || i + 1 == log->count) {
            log->pieces[log->piece_count++] = first;
            first = i + 1;
            open = 0;
        }
    }
    log->pieces[log->piece_count] = log->count;
    return BASE_OK;
}

enum base_status sim_log_read(const char *path, struct sim_log **out, struct base_error *error)
{
    struct sim_log *log = calloc(1, sizeof(*log));
    if (log == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    base_buffer_init(&log->text, base_alloc_heap(), SIM_LOG_BYTES_MAX);
    enum base_status status = read_all(path, &log->text, error);
    if (status == BASE_OK) {
        status = lines_add(log, path, error);
    }
    if (status == BASE_OK && pieces_cut(log) != BASE_OK) {
        status = base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    if (status != BASE_OK) {
        sim_log_free(log);
        return status;
    }
    *out = log;
    return BASE_OK;
}

void sim_log_free(struct sim_log *log)
{
    if (log == NULL) {
        return;
    }
    base_buffer_done(&log->text);
    free(log->lines);
    free(log->pieces);
    free(log);
}

uint32_t sim_log_pieces(const struct sim_log *log)
{
    return log->piece_count;
}

void sim_log_piece(const struct sim_log *log, uint32_t piece, uint32_t *out_first,
                   uint32_t *out_end)
{
    *out_first = log->pieces[piece];
    *out_end = log->pieces[piece + 1];
}

enum base_status sim_log_line(const struct sim_log *log, uint32_t line,
                              struct event_line **out_parsed, struct dev_recording *out,
                              uint32_t *out_gap_ms)
{
    const struct log_line *found = &log->lines[line];
    struct base_str text = {(const char *)log->text.data + found->at, found->size};
    struct base_error error = {.status = BASE_OK};
    uint64_t before = line > 0 ? log->lines[line - 1].wall_ms : 0;
    *out_gap_ms = SIM_SESSION_GAP_MS;
    if (found->wall_ms > 0 && before > 0) {
        uint64_t gap = found->wall_ms > before ? found->wall_ms - before : 0;
        *out_gap_ms = gap < SIM_SESSION_GAP_MS_MAX ? (uint32_t)gap : SIM_SESSION_GAP_MS_MAX;
    }
    return event_line_parse(text, out_parsed, out, &error);
}
