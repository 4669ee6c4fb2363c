// HTTP/1.1 parser of the reverse proxy (responses) and of h1_door.c (requests); see the header.
// Fuzzed by fuzz_h1_message. Callers are proxy.c and h1_door.c, on the worker's thread; sans-I/O,
// so the state between two pieces is all in the struct. What two parties could read differently is
// an error here (RFC 9112, 11.2).
#include "http/parse/h1_message.h"

#include "base/check.h"

#include <string.h>

enum base_status gw_h1_message_init(struct gw_h1_message *message, struct base_arena *arena,
                                    bool to_head)
{
    memset(message, 0, sizeof(*message));
    message->arena = arena;
    message->to_head = to_head;
    message->head = base_arena_alloc(arena, GW_H1_HEAD_BYTES_MAX);
    message->fields = base_arena_alloc(arena, GW_H1_FIELDS_MAX * sizeof(*message->fields));
    return message->head != NULL && message->fields != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

enum base_status gw_h1_request_init(struct gw_h1_message *message, struct base_arena *arena)
{
    BASE_TRY(gw_h1_message_init(message, arena, false));
    message->is_request = true;
    return BASE_OK;
}

static enum gw_h1_event bad(struct gw_h1_message *message)
{
    message->state = GW_H1_FAILED;
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
static bool parse_status(struct gw_h1_message *message, struct base_str line)
{
    const char *at = line.data;
    bool ok = line.size >= 12 && memcmp(at, "HTTP/1.", 7) == 0 && is_digit(at[7]) && at[8] == ' ' &&
              is_digit(at[9]) && is_digit(at[10]) && is_digit(at[11]) &&
              (line.size == 12 || at[12] == ' ');
    if (!ok) {
        return false;
    }
    message->status = (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
    message->old = at[7] == '0';
    return message->status >= 100 && message->status <= 599;
}

// "METHOD target HTTP/1.x", one blank between
static bool parse_request_line(struct gw_h1_message *message, struct base_str line)
{
    static const char version[] = " HTTP/1.";
    const size_t tail = sizeof(version); // with the digit behind it
    size_t method = 0;
    while (method < line.size && is_token(line.data[method])) {
        method++;
    }
    if (method == 0 || line.size < method + 1 + 1 + tail || line.data[method] != ' ' ||
        memcmp(line.data + line.size - tail, version, tail - 1) != 0 ||
        !is_digit(line.data[line.size - 1])) {
        return false;
    }
    message->method = (struct base_str){line.data, method};
    message->target = (struct base_str){line.data + method + 1, line.size - tail - method - 1};
    message->old = line.data[line.size - 1] == '0';
    for (size_t i = 0; i < message->target.size; i++) {
        unsigned char c = (unsigned char)message->target.data[i];
        if (c <= 0x20 || c >= 0x7f) {
            return false;
        }
    }
    return true;
}

static bool parse_first_line(struct gw_h1_message *message, struct base_str line)
{
    bool ok = message->is_request ? parse_request_line(message, line) : parse_status(message, line);
    message->keep_alive = !message->old;
    message->closes = false;
    message->field_count = 0;
    message->chunked = false;
    message->has_length = false;
    return ok;
}

// Fields that say where the body ends.
// A list of options (RFC 9110 section 7.6.1); close is the last word.
static void note_connection(struct gw_h1_message *message, struct base_str list)
{
    size_t at = 0;
    while (at < list.size) {
        size_t end = at;
        while (end < list.size && list.data[end] != ',') {
            end++;
        }
        struct base_str option = {list.data + at, end - at};
        while (option.size > 0 && is_blank(option.data[0])) {
            option.data++;
            option.size--;
        }
        while (option.size > 0 && is_blank(option.data[option.size - 1])) {
            option.size--;
        }
        message->closes = message->closes || equal_any_case(option, BASE_STR("close"));
        message->keep_alive = !message->closes && (message->keep_alive ||
                                                   equal_any_case(option, BASE_STR("keep-alive")));
        at = end + 1;
    }
}

static bool note_framing(struct gw_h1_message *message, const struct gw_h1_field *field)
{
    if (base_str_equal(field->name, BASE_STR("content-length"))) {
        uint64_t length;
        if (base_str_u64(field->value, &length) != BASE_OK ||
            (message->has_length && message->left != length)) {
            return false;
        }
        message->has_length = true;
        message->left = length;
    } else if (base_str_equal(field->name, BASE_STR("transfer-encoding"))) {
        if (message->chunked || !equal_any_case(field->value, BASE_STR("chunked"))) {
            return false;
        }
        message->chunked = true;
    } else if (base_str_equal(field->name, BASE_STR("connection"))) {
        note_connection(message, field->value);
    }
    return true;
}

static bool parse_field(struct gw_h1_message *message, char *line, size_t size)
{
    size_t name_size = 0;
    while (name_size < size && is_token(line[name_size])) {
        line[name_size] = lower(line[name_size]);
        name_size++;
    }
    if (message->field_count == GW_H1_FIELDS_MAX) {
        message->too_large = true;
        return false;
    }
    if (name_size == 0 || name_size == size || line[name_size] != ':') {
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
    struct gw_h1_field *field = &message->fields[message->field_count++];
    field->name = (struct base_str){line, name_size};
    field->value = (struct base_str){line + from, size - from};
    return note_framing(message, field);
}

// The blank line behind the fields.
static enum gw_h1_event end_of_head(struct gw_h1_message *message)
{
    if (message->is_request && message->old && message->chunked) {
        return bad(message);
    }
    if (!message->is_request && message->status < 200) {
        if (message->status == 101) {
            return bad(message);
        }
        message->state = GW_H1_FIRST_LINE;
        message->head_bytes = 0;
        message->line_at = 0;
        return GW_H1_MORE;
    }
    if (message->chunked && message->has_length) {
        return bad(message);
    }
    if (message->to_head || message->status == 204 || message->status == 304) {
        message->state = GW_H1_DONE;
    } else if (message->chunked) {
        message->state = GW_H1_CHUNK_SIZE;
    } else if (message->has_length) {
        message->state = message->left > 0 ? GW_H1_BODY_LENGTH : GW_H1_DONE;
    } else if (message->is_request) {
        message->state = GW_H1_DONE;
    } else {
        message->state = GW_H1_BODY_CLOSE;
        message->keep_alive = false;
    }
    message->line_at = message->head_bytes; // chunk lines are read into the room behind
    return GW_H1_HEAD;
}

// Size of a chunk, in hex, perhaps with an extension that nobody uses.
static enum gw_h1_event parse_chunk_size(struct gw_h1_message *message, struct base_str line)
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
        return bad(message);
    }
    message->left = size;
    message->state = size > 0 ? GW_H1_CHUNK_DATA : GW_H1_TRAILERS;
    return GW_H1_MORE;
}

static enum gw_h1_event on_line(struct gw_h1_message *message, char *line, size_t size)
{
    switch (message->state) {
    case GW_H1_FIRST_LINE:
        if (!parse_first_line(message, (struct base_str){line, size})) {
            return bad(message);
        }
        message->state = GW_H1_FIELDS;
        return GW_H1_MORE;
    case GW_H1_FIELDS:
        if (size == 0) {
            return end_of_head(message);
        }
        return parse_field(message, line, size) ? GW_H1_MORE : bad(message);
    case GW_H1_CHUNK_SIZE:
        return parse_chunk_size(message, (struct base_str){line, size});
    case GW_H1_CHUNK_END:
        message->state = GW_H1_CHUNK_SIZE;
        return size == 0 ? GW_H1_MORE : bad(message);
    case GW_H1_TRAILERS:
        if (size == 0) {
            message->state = GW_H1_DONE;
        }
        return GW_H1_MORE;
    default:
        return bad(message);
    }
}

// Collects one line; fields stay in the head's room, lines of the chunked coding are overwritten.
static enum gw_h1_event feed_line(struct gw_h1_message *message, const uint8_t *bytes, size_t size,
                                  size_t *out_used)
{
    const uint8_t *newline = memchr(bytes, '\n', size);
    size_t take = newline != NULL ? (size_t)(newline - bytes) + 1 : size;
    if (take > GW_H1_HEAD_BYTES_MAX - message->head_bytes) {
        message->too_large = true;
        return bad(message);
    }
    memcpy(message->head + message->head_bytes, bytes, take);
    message->head_bytes += take;
    *out_used = take;
    if (newline == NULL) {
        return GW_H1_MORE;
    }
    char *line = message->head + message->line_at;
    size_t line_size = message->head_bytes - message->line_at - 1;
    if (line_size == 0 || line[line_size - 1] != '\r') {
        return bad(message);
    }
    bool in_head = message->state == GW_H1_FIRST_LINE || message->state == GW_H1_FIELDS;
    if (in_head) {
        message->line_at = message->head_bytes;
    } else {
        message->head_bytes = message->line_at;
    }
    return on_line(message, line, line_size - 1);
}

static enum gw_h1_event feed_body(struct gw_h1_message *message, const uint8_t *bytes, size_t size,
                                  size_t *out_used, struct base_str *out_body)
{
    if (message->state != GW_H1_BODY_CLOSE && size > message->left) {
        size = (size_t)message->left;
    }
    *out_used = size;
    *out_body = (struct base_str){(const char *)bytes, size};
    if (message->state != GW_H1_BODY_CLOSE) {
        message->left -= size;
        if (message->left == 0) {
            message->state = message->state == GW_H1_CHUNK_DATA ? GW_H1_CHUNK_END : GW_H1_DONE;
        }
    }
    return GW_H1_BODY;
}

enum gw_h1_event gw_h1_message_feed(struct gw_h1_message *message, const uint8_t *bytes,
                                    size_t size, size_t *out_used, struct base_str *out_body)
{
    *out_used = 0;
    *out_body = (struct base_str){0};
    size_t used_total = 0;
    enum gw_h1_event event = GW_H1_MORE;
    while (event == GW_H1_MORE) {
        if (message->state == GW_H1_DONE) {
            event = GW_H1_END;
            break;
        }
        if (message->state == GW_H1_FAILED) {
            event = GW_H1_BAD;
            break;
        }
        if (used_total == size) {
            break;
        }
        size_t used = 0;
        bool body = message->state == GW_H1_BODY_LENGTH || message->state == GW_H1_BODY_CLOSE ||
                    message->state == GW_H1_CHUNK_DATA;
        event = body ? feed_body(message, bytes + used_total, size - used_total, &used, out_body)
                     : feed_line(message, bytes + used_total, size - used_total, &used);
        used_total += used;
    }
    *out_used = used_total;
    return event;
}

bool gw_h1_message_closed(struct gw_h1_message *message)
{
    if (message->state == GW_H1_BODY_CLOSE) {
        message->state = GW_H1_DONE;
    }
    return message->state == GW_H1_DONE;
}
