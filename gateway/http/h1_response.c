// HTTP/1.1 response parser of the reverse proxy; see the header. Fuzzed by fuzz_h1_response.
#include "http/h1_response.h"

#include "base/check.h"

#include <string.h>

enum base_status gw_h1_response_init(struct gw_h1_response *response, struct base_arena *arena,
                                     bool to_head)
{
    memset(response, 0, sizeof(*response));
    response->arena = arena;
    response->to_head = to_head;
    response->head = base_arena_alloc(arena, GW_H1_HEAD_BYTES_MAX);
    response->fields = base_arena_alloc(arena, GW_H1_FIELDS_MAX * sizeof(*response->fields));
    return response->head != NULL && response->fields != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

static enum gw_h1_event bad(struct gw_h1_response *response)
{
    response->state = GW_H1_FAILED;
    return GW_H1_BAD;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_token(char c)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr(others, c) != NULL);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool equal_any_case(struct base_str a, struct base_str b)
{
    if (a.size != b.size) {
        return false;
    }
    for (size_t i = 0; i < a.size; i++) {
        if (lower(a.data[i]) != b.data[i]) {
            return false;
        }
    }
    return true;
}

// "HTTP/1.x SSS reason"
static bool parse_status(struct gw_h1_response *response, struct base_str line)
{
    const char *at = line.data;
    bool ok = line.size >= 12 && memcmp(at, "HTTP/1.", 7) == 0 && is_digit(at[7]) && at[8] == ' ' &&
              is_digit(at[9]) && is_digit(at[10]) && is_digit(at[11]) &&
              (line.size == 12 || at[12] == ' ');
    if (!ok) {
        return false;
    }
    response->status = (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
    response->keep_alive = at[7] != '0';
    response->field_count = 0;
    response->chunked = false;
    response->has_length = false;
    return response->status >= 100 && response->status <= 599;
}

// Fields that say where the body ends.
static bool note_framing(struct gw_h1_response *response, const struct gw_h1_field *field)
{
    if (base_str_equal(field->name, BASE_STR("content-length"))) {
        uint64_t length;
        if (base_str_u64(field->value, &length) != BASE_OK ||
            (response->has_length && response->left != length)) {
            return false;
        }
        response->has_length = true;
        response->left = length;
    } else if (base_str_equal(field->name, BASE_STR("transfer-encoding"))) {
        if (response->chunked || !equal_any_case(field->value, BASE_STR("chunked"))) {
            return false;
        }
        response->chunked = true;
    } else if (base_str_equal(field->name, BASE_STR("connection"))) {
        if (equal_any_case(field->value, BASE_STR("close"))) {
            response->keep_alive = false;
        }
    }
    return true;
}

static bool parse_field(struct gw_h1_response *response, char *line, size_t size)
{
    size_t name_size = 0;
    while (name_size < size && is_token(line[name_size])) {
        line[name_size] = lower(line[name_size]);
        name_size++;
    }
    if (name_size == 0 || name_size == size || line[name_size] != ':' ||
        response->field_count == GW_H1_FIELDS_MAX) {
        return false;
    }
    size_t from = name_size + 1;
    while (from < size && is_blank(line[from])) {
        from++;
    }
    while (size > from && is_blank(line[size - 1])) {
        size--;
    }
    for (size_t i = from; i < size; i++) {
        unsigned char c = (unsigned char)line[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    struct gw_h1_field *field = &response->fields[response->field_count++];
    field->name = (struct base_str){line, name_size};
    field->value = (struct base_str){line + from, size - from};
    return note_framing(response, field);
}

// The blank line behind the fields.
static enum gw_h1_event end_of_head(struct gw_h1_response *response)
{
    if (response->status < 200) {
        if (response->status == 101) {
            return bad(response);
        }
        response->state = GW_H1_STATUS_LINE;
        response->head_bytes = 0;
        response->line_at = 0;
        return GW_H1_MORE;
    }
    if (response->chunked && response->has_length) {
        return bad(response);
    }
    if (response->to_head || response->status == 204 || response->status == 304) {
        response->state = GW_H1_DONE;
    } else if (response->chunked) {
        response->state = GW_H1_CHUNK_SIZE;
    } else if (response->has_length) {
        response->state = response->left > 0 ? GW_H1_BODY_LENGTH : GW_H1_DONE;
    } else {
        response->state = GW_H1_BODY_CLOSE;
        response->keep_alive = false;
    }
    response->line_at = response->head_bytes; // chunk lines are read into the room behind
    return GW_H1_HEAD;
}

// Size of a chunk, in hex, perhaps with an extension that nobody uses.
static enum gw_h1_event parse_chunk_size(struct gw_h1_response *response, struct base_str line)
{
    uint64_t size = 0;
    size_t digits = 0;
    while (digits < line.size) {
        char c = lower(line.data[digits]);
        int digit = is_digit(c) ? c - '0' : (c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1);
        if (digit < 0) {
            break;
        }
        size = size * 16 + (uint64_t)digit;
        digits++;
    }
    if (digits == 0 || digits > 8 ||
        (digits < line.size && line.data[digits] != ';' && !is_blank(line.data[digits]))) {
        return bad(response);
    }
    response->left = size;
    response->state = size > 0 ? GW_H1_CHUNK_DATA : GW_H1_TRAILERS;
    return GW_H1_MORE;
}

static enum gw_h1_event on_line(struct gw_h1_response *response, char *line, size_t size)
{
    switch (response->state) {
    case GW_H1_STATUS_LINE:
        if (!parse_status(response, (struct base_str){line, size})) {
            return bad(response);
        }
        response->state = GW_H1_FIELDS;
        return GW_H1_MORE;
    case GW_H1_FIELDS:
        if (size == 0) {
            return end_of_head(response);
        }
        return parse_field(response, line, size) ? GW_H1_MORE : bad(response);
    case GW_H1_CHUNK_SIZE:
        return parse_chunk_size(response, (struct base_str){line, size});
    case GW_H1_CHUNK_END:
        response->state = GW_H1_CHUNK_SIZE;
        return size == 0 ? GW_H1_MORE : bad(response);
    case GW_H1_TRAILERS:
        if (size == 0) {
            response->state = GW_H1_DONE;
        }
        return GW_H1_MORE;
    default:
        return bad(response);
    }
}

// Collects one line; fields stay in the head's room, lines of the chunked coding are overwritten.
static enum gw_h1_event feed_line(struct gw_h1_response *response, const uint8_t *bytes,
                                  size_t size, size_t *out_used)
{
    const uint8_t *newline = memchr(bytes, '\n', size);
    size_t take = newline != NULL ? (size_t)(newline - bytes) + 1 : size;
    if (take > GW_H1_HEAD_BYTES_MAX - response->head_bytes) {
        return bad(response);
    }
    memcpy(response->head + response->head_bytes, bytes, take);
    response->head_bytes += take;
    *out_used = take;
    if (newline == NULL) {
        return GW_H1_MORE;
    }
    char *line = response->head + response->line_at;
    size_t line_size = response->head_bytes - response->line_at - 1;
    if (line_size == 0 || line[line_size - 1] != '\r') {
        return bad(response);
    }
    bool in_head = response->state == GW_H1_STATUS_LINE || response->state == GW_H1_FIELDS;
    if (in_head) {
        response->line_at = response->head_bytes;
    } else {
        response->head_bytes = response->line_at;
    }
    return on_line(response, line, line_size - 1);
}

static enum gw_h1_event feed_body(struct gw_h1_response *response, const uint8_t *bytes,
                                  size_t size, size_t *out_used, struct base_str *out_body)
{
    if (response->state != GW_H1_BODY_CLOSE && size > response->left) {
        size = (size_t)response->left;
    }
    *out_used = size;
    *out_body = (struct base_str){(const char *)bytes, size};
    if (response->state != GW_H1_BODY_CLOSE) {
        response->left -= size;
        if (response->left == 0) {
            response->state = response->state == GW_H1_CHUNK_DATA ? GW_H1_CHUNK_END : GW_H1_DONE;
        }
    }
    return GW_H1_BODY;
}

enum gw_h1_event gw_h1_response_feed(struct gw_h1_response *response, const uint8_t *bytes,
                                     size_t size, size_t *out_used, struct base_str *out_body)
{
    *out_used = 0;
    *out_body = (struct base_str){0};
    size_t used_total = 0;
    enum gw_h1_event event = GW_H1_MORE;
    while (event == GW_H1_MORE) {
        if (response->state == GW_H1_DONE) {
            event = GW_H1_END;
            break;
        }
        if (response->state == GW_H1_FAILED) {
            event = GW_H1_BAD;
            break;
        }
        if (used_total == size) {
            break;
        }
        size_t used = 0;
        bool body = response->state == GW_H1_BODY_LENGTH || response->state == GW_H1_BODY_CLOSE ||
                    response->state == GW_H1_CHUNK_DATA;
        event = body ? feed_body(response, bytes + used_total, size - used_total, &used, out_body)
                     : feed_line(response, bytes + used_total, size - used_total, &used);
        used_total += used;
    }
    *out_used = used_total;
    return event;
}

bool gw_h1_response_closed(struct gw_h1_response *response)
{
    if (response->state == GW_H1_BODY_CLOSE) {
        response->state = GW_H1_DONE;
    }
    return response->state == GW_H1_DONE;
}
