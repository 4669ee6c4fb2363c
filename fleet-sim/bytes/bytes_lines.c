// The device's HTTP/2 client and TLS for a few virtual devices of a shard. run/fleet_virtual.c
// steps it with the shard, beside core_link.c; bytes_gate.c is the other end.
//
// A client has one end of a pair of sockets, the line the other. What the client writes is read
// there and sent on as chunks; a chunk that arrives is written there. Between the two the client's
// loop is run until it has nothing left to do, so a moment of virtual time ends with every byte on
// its way.
#include "bytes/bytes_lines.h"

#include "base/check.h"
#include "h2/h2_client.h"
#include "posix/posix_request.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST           "gateway.walle.example"
#define PORT           443
#define HEADERS_MAX    (POSIX_REQUEST_HEADERS_MAX + 3)
#define IDLE_TURNS     3          // of the loop, one after another: then nothing is left
#define TIMEOUT_MS_MAX UINT32_MAX // the host's clock ends no connection

// A request under way.
struct asked {
    struct asked *next;
    struct sim_line *line;
    struct sim_exchange *exchange;
    int32_t stream;
    uint64_t began_us;
    uint64_t way_us; // an ordinary device's request would have been on its way
    uint64_t body;   // hash of the answer's so far
    uint64_t body_bytes;
    struct dev_response_head head;
    bool claimed;
    struct sim_claim claim;
};

struct sim_line {
    struct sim_line *next;
    struct sim_bytes_lines *set;
    struct h2_client *client; // NULL: its process is gone
    struct h2_tls *tls;       // of its own: a process that was killed knows no session
    struct asked *asked;
    struct sim_bytes_way way;
    uint32_t device;
    int fd;
    bool opened; // TCP's way there and back is done: what the client wrote may go
    bool dead;   // the client has ended by itself, and is to be freed
    bool ended;  // the other side was told, or has told us
    bool quiet;  // nobody is told any more
    uint64_t up_bytes;
    uint64_t down_bytes;
};

static uint64_t now_us(const struct sim_bytes_lines *lines)
{
    return lines->options.clock.mono_us(lines->options.clock.ctx);
}

static uint32_t parity(const struct sim_bytes_lines *lines)
{
    return *lines->options.window & 1;
}

// Place of the device among those of the shard that speak bytes; -1: it does not.
static int place_of(const struct sim_bytes_lines *lines, uint32_t device)
{
    for (uint32_t i = 0; i < lines->mine_count; i++) {
        if (lines->mine[i] == device) {
            return (int)i;
        }
    }
    return -1;
}

static void mismatch(struct sim_line *line, const char *what)
{
    struct sim_bytes_tally *tally = &line->set->tally;
    tally->mismatches++;
    tally->mismatched = line->way.index;
    base_log_error(line->set->options.log, "fleet", "device %llu: %s",
                   (unsigned long long)line->way.index, what);
}

// ---- Chunks

static void post(struct sim_line *line, struct sim_chunk *chunk)
{
    struct sim_bytes_lines *lines = line->set;
    if (chunk != NULL) {
        chunk->flight.when.sequence = lines->sequence++;
    }
    if (chunk == NULL || sim_post_add(&lines->up[parity(lines)], &chunk->flight) != BASE_OK) {
        base_log_error(lines->options.log, "fleet", "out of memory: bytes of a device are lost");
        free(chunk);
    }
}

static void send_chunk(struct sim_line *line, enum sim_chunk_kind kind, struct base_span bytes)
{
    post(line, sim_chunk_new(&line->way, kind, now_us(line->set), bytes));
    line->up_bytes += bytes.size;
    line->set->tally.up.wire += bytes.size;
}

// What the client has written goes on its way. Returns how much that was.
static size_t pump(struct sim_line *line)
{
    uint8_t room[SIM_CHUNK_ROOM];
    size_t pumped = 0;
    while (line->opened && !line->ended) {
        size_t size = 0;
        enum base_status status = sim_bytes_read(line->fd, room, sizeof(room), &size);
        if (status == BASE_ERR_BUSY) {
            break;
        }
        line->ended = status != BASE_OK;
        send_chunk(line, line->ended ? SIM_CHUNK_END : SIM_CHUNK_BYTES,
                   (struct base_span){room, size});
        pumped += size + 1;
    }
    return pumped;
}

// ---- A connection's life

static void forget_all(struct sim_line *line)
{
    while (line->asked != NULL) {
        struct asked *next = line->asked->next;
        free(line->asked);
        line->asked = next;
    }
}

static void line_free(struct sim_line *line)
{
    struct sim_line **link = &line->set->lines;
    while (*link != NULL && *link != line) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = line->next;
    }
    h2_client_free(line->client);
    h2_tls_free(line->tls);
    forget_all(line);
    if (line->fd >= 0) {
        (void)close(line->fd);
    }
    free(line);
}

static void reap(struct sim_bytes_lines *lines)
{
    struct sim_line *next = NULL;
    for (struct sim_line *line = lines->lines; line != NULL; line = next) {
        next = line->next;
        if (line->dead) {
            h2_client_free(line->client);
            line->client = NULL;
            line->dead = false;
            (void)pump(line);
        }
        // One that was never opened tells nobody: the gate's answer finds no line, and is dropped.
        if (line->client == NULL && (line->ended || !line->opened)) {
            if (!line->ended) {
                send_chunk(line, SIM_CHUNK_END, (struct base_span){NULL, 0});
            }
            line_free(line);
        }
    }
}

// Runs the clients until none of them has anything to do.
static void settle(struct sim_bytes_lines *lines)
{
    for (int idle = 0; idle < IDLE_TURNS;) {
        (void)event_base_loop(lines->base, EVLOOP_NONBLOCK);
        size_t pumped = 0;
        for (struct sim_line *line = lines->lines; line != NULL; line = line->next) {
            pumped += pump(line);
        }
        bool active = event_base_get_num_events(lines->base, EVENT_BASE_COUNT_ACTIVE) > 0;
        idle = pumped > 0 || active ? 0 : idle + 1;
    }
    reap(lines);
}

// ---- What the client tells

static void unlink_asked(struct asked *asked)
{
    struct asked **link = &asked->line->asked;
    while (*link != asked) {
        link = &(*link)->next;
    }
    *link = asked->next;
    free(asked);
}

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    struct sim_line *line = ctx;
    struct asked *asked = user;
    const struct sim_transport_events *events = &line->set->options.events;
    asked->head = (struct dev_response_head){
        .status = head->status,
        .encoding =
            head->encoding == H2_ENCODING_IDENTITY ? DEV_ENCODING_IDENTITY : DEV_ENCODING_OTHER,
        .content_bytes = head->content_bytes,
        .range_from = head->range_from,
        .retry_after_s = head->retry_after_s,
    };
    struct dev_response_head told = asked->head;
    told.reason = head->reason;
    events->head(events->ctx, asked->exchange, &told);
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    struct sim_line *line = ctx;
    struct asked *asked = user;
    const struct sim_transport_events *events = &line->set->options.events;
    asked->body = sim_bytes_hash(asked->body, bytes, size);
    asked->body_bytes += size;
    line->set->tally.down.body += size;
    events->body(events->ctx, asked->exchange, bytes, size);
}

// The answer is whole: it is to be what the core said, as the model would have brought it.
static void compare(struct asked *asked)
{
    struct sim_line *line = asked->line;
    struct sim_bytes_tally *tally = &line->set->tally;
    struct dev_response_head head = asked->head;
    if (head.content_bytes == UINT64_MAX) {
        head.content_bytes = asked->body_bytes; // it is not said of none
    }
    if (!asked->claimed || asked->claim.hash != sim_bytes_answer_hash(&head, asked->body)) {
        mismatch(line, "an answer is not what the core said");
    }
    tally->answers++;
    tally->us += now_us(line->set) - asked->began_us;
    tally->modelled_us += asked->way_us + asked->claim.core_us + asked->claim.way_us;
    tally->down.modelled += asked->claim.body_bytes;
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    struct sim_line *line = ctx;
    if (line->quiet) {
        return;
    }
    struct asked *asked = user;
    struct sim_exchange *exchange = asked->exchange;
    const struct sim_transport_events *events = &line->set->options.events;
    if (status == BASE_OK) {
        compare(asked);
    } else {
        line->set->tally.cut++;
    }
    unlink_asked(asked);
    events->end(events->ctx, exchange, status);
}

static void on_state(void *ctx, struct h2_client *client, enum base_status status)
{
    struct sim_line *line = ctx;
    struct sim_bytes_tally *tally = &line->set->tally;
    if (client != line->client) {
        return;
    }
    if (status == BASE_OK) { // what is written so far ends with the client's Finished
        (void)pump(line);
        tally->handshakes++;
        tally->up.handshake += line->up_bytes;
        tally->down.handshake += line->down_bytes;
    } else {
        line->dead = true;
    }
}

// ---- Requests

static struct sim_line *line_of(const struct sim_bytes_lines *lines, uint32_t device)
{
    struct sim_line *line = lines->lines;
    while (line != NULL && (line->device != device || line->client == NULL || line->dead ||
                            !h2_client_usable(line->client))) {
        line = line->next;
    }
    return line;
}

static enum base_status client_new(struct sim_line *line)
{
    int ends[2];
    BASE_TRY(sim_bytes_pair(ends));
    line->fd = ends[0];
    enum base_status status = h2_tls_new(NULL, &line->tls);
    if (status != BASE_OK) {
        (void)close(ends[1]);
        return status;
    }
    const struct h2_options options = {
        .host = BASE_STR(HOST),
        .port = PORT,
        .tls = line->tls,
        .connect_timeout_ms = TIMEOUT_MS_MAX,
        .connected = true,
        .fd = ends[1],
    };
    const struct h2_events events = {
        .head = on_head, .body = on_body, .end = on_end, .state = on_state, .ctx = line};
    return h2_client_new(line->set->base, &options, &events, &line->client);
}

static enum base_status line_new(struct sim_bytes_lines *lines, const struct sim_exchange *exchange,
                                 uint32_t peer, struct sim_line **out_line)
{
    const struct sim_bytes_lines_options *options = &lines->options;
    struct sim_line *line = calloc(1, sizeof(*line));
    if (line == NULL) {
        return BASE_ERR_NOMEM;
    }
    line->set = lines;
    line->fd = -1;
    line->device = exchange->device;
    line->way = (struct sim_bytes_way){
        .delay = options->delay,
        .start_us = lines->start_us,
        .index = exchange->index,
        .line = ++lines->made,
        .shard = options->shard,
        .device = exchange->device,
        .up = true,
    };
    enum base_status status = client_new(line);
    if (status != BASE_OK) {
        line_free(line);
        return status;
    }
    line->next = lines->lines;
    lines->lines = line;
    int place = place_of(lines, exchange->device);
    lines->tally.devices += lines->begun[place]++ == 0;
    lines->tally.connections++;
    struct sim_chunk *open =
        sim_chunk_new(&line->way, SIM_CHUNK_OPEN, now_us(lines), (struct base_span){NULL, 0});
    if (open != NULL) {
        open->peer = peer;
    }
    post(line, open);
    *out_line = line;
    return BASE_OK;
}

static uint32_t headers_of(const struct gw_request *model, const struct dev_request *request,
                           struct posix_request_text *text, struct h2_header *out)
{
    const struct h2_header who[] = {{BASE_STR("walle-device"), model->device},
                                    {BASE_STR("walle-credential"), model->credential},
                                    {BASE_STR("walle-enroll-key"), model->enrol_key},
                                    {BASE_STR("authorization"), model->authorization}};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof(who) / sizeof(who[0]); i++) {
        if (who[i].value.size > 0) {
            out[count++] = who[i];
        }
    }
    return count + posix_request_headers(request, text, out + count);
}

// What the gateway is to read in the bytes.
static void claim(struct sim_line *line, int32_t stream, const struct gw_request *model)
{
    struct sim_chunk *chunk =
        sim_chunk_new(&line->way, SIM_CHUNK_CLAIM, now_us(line->set), (struct base_span){NULL, 0});
    if (chunk != NULL) {
        chunk->claim = (struct sim_claim){.stream = stream,
                                          .hash = sim_bytes_request_hash(model),
                                          .count = 2 * line->asked->exchange->id + 1};
    }
    post(line, chunk);
}

static uint64_t modelled_way_us(const struct sim_bytes_lines *lines,
                                const struct sim_exchange *exchange, size_t bytes)
{
    const struct sim_message message = {
        .device = exchange->index,
        .at_us = now_us(lines) - lines->start_us,
        .bytes = (uint32_t)bytes,
        .count = 2 * exchange->id,
        .up = true,
    };
    return sim_delay_us(&lines->options.delay, &message);
}

static enum base_status ask(struct sim_line *line, struct sim_exchange *exchange,
                            const struct dev_request *request, const struct gw_request *model)
{
    struct h2_header headers[HEADERS_MAX + 1];
    struct posix_request_text text;
    struct asked *asked = calloc(1, sizeof(*asked));
    if (asked == NULL) {
        return BASE_ERR_NOMEM;
    }
    const struct h2_request translated = {
        .method = request->method == DEV_METHOD_POST ? BASE_STR("POST") : BASE_STR("GET"),
        .path = request->path,
        .headers = headers,
        .header_count = headers_of(model, request, &text, headers),
        .body = request->body,
        .body_bytes = request->body_bytes,
    };
    enum base_status status = h2_client_request(line->client, &translated, asked, &asked->stream);
    if (status != BASE_OK) {
        free(asked);
        return status;
    }
    asked->line = line;
    asked->exchange = exchange;
    asked->began_us = now_us(line->set);
    asked->way_us = modelled_way_us(line->set, exchange, request->body_bytes);
    asked->body = SIM_BYTES_HASH;
    asked->next = line->asked;
    line->asked = asked;
    line->set->tally.up.body += request->body_bytes;
    line->set->tally.up.modelled += request->body_bytes;
    claim(line, asked->stream, model);
    return BASE_OK;
}

static enum base_status start(void *ctx, struct sim_exchange *exchange,
                              const struct dev_request *request)
{
    struct sim_bytes_lines *lines = ctx;
    if (place_of(lines, exchange->device) < 0) {
        return lines->under.start(lines->under.ctx, exchange, request);
    }
    struct sim_flight *model = sim_core_link_ask(lines->options.link, exchange, request);
    if (model == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct sim_line *line = line_of(lines, exchange->device);
    enum base_status status = BASE_OK;
    if (line == NULL) {
        status = line_new(lines, exchange, (uint32_t)model->exchange.request.peer, &line);
    }
    if (status == BASE_OK) {
        status = ask(line, exchange, request, &model->exchange.request);
    }
    sim_core_link_forget(model);
    return status;
}

static struct asked *asked_by(const struct sim_bytes_lines *lines,
                              const struct sim_exchange *exchange)
{
    for (struct sim_line *line = lines->lines; line != NULL; line = line->next) {
        for (struct asked *asked = line->asked; asked != NULL; asked = asked->next) {
            if (asked->exchange == exchange) {
                return asked;
            }
        }
    }
    return NULL;
}

static void cancel(void *ctx, struct sim_exchange *exchange)
{
    struct sim_bytes_lines *lines = ctx;
    if (exchange->kind == SIM_EXCHANGE_TUNNEL || place_of(lines, exchange->device) < 0) {
        lines->under.cancel(lines->under.ctx, exchange);
        return;
    }
    struct asked *asked = asked_by(lines, exchange);
    if (asked != NULL) {
        if (asked->line->client != NULL) {
            h2_client_cancel(asked->line->client, asked->stream);
        }
        unlink_asked(asked);
    }
}

static enum base_status open_stream(void *ctx, struct sim_exchange *exchange,
                                    struct base_str device, uint8_t class_id)
{
    struct sim_bytes_lines *lines = ctx;
    return lines->under.open(lines->under.ctx, exchange, device, class_id);
}

static enum base_status write_stream(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes,
                                     size_t size)
{
    struct sim_bytes_lines *lines = ctx;
    return lines->under.write(lines->under.ctx, exchange, bytes, size);
}

struct sim_transport sim_bytes_lines_transport(struct sim_bytes_lines *lines,
                                               const struct sim_transport *under)
{
    lines->under = *under;
    return (struct sim_transport){
        .ctx = lines, .start = start, .cancel = cancel, .open = open_stream, .write = write_stream};
}

void sim_bytes_lines_left(struct sim_bytes_lines *lines, uint32_t device)
{
    if (lines == NULL || place_of(lines, device) < 0) {
        return;
    }
    for (struct sim_line *line = lines->lines; line != NULL; line = line->next) {
        if (line->device == device && line->client != NULL && !line->dead) {
            struct h2_client *client = line->client;
            line->client = NULL;
            h2_client_free(client);
        }
    }
}

// ---- Chunks that come

static void take_claim(struct sim_line *line, const struct sim_claim *claim)
{
    for (struct asked *asked = line->asked; asked != NULL; asked = asked->next) {
        if (asked->stream == claim->stream) {
            asked->claim = *claim;
            asked->claimed = true;
        }
    }
}

static void deliver(struct sim_line *line, const struct sim_chunk *chunk)
{
    switch (chunk->kind) {
    case SIM_CHUNK_OPENED:
        line->opened = true;
        break;
    case SIM_CHUNK_CLAIM:
        take_claim(line, &chunk->claim);
        break;
    case SIM_CHUNK_BYTES:
        line->down_bytes += chunk->size;
        line->set->tally.down.wire += chunk->size;
        // A client that has ended reads no more: the next look at the socket says so.
        (void)!sim_bytes_write(line->fd, chunk->bytes, chunk->size);
        break;
    default: // the connection's end: the client reads it behind all that came
        (void)close(line->fd);
        line->fd = -1;
        line->ended = true;
    }
}

void sim_bytes_lines_deliver(struct sim_bytes_lines *lines)
{
    uint64_t now = now_us(lines);
    bool any = false;
    while (sim_flight_queue_due_us(&lines->coming) <= now) {
        struct sim_chunk *chunk = (struct sim_chunk *)(void *)sim_flight_queue_take(&lines->coming);
        struct sim_line *line = lines->lines;
        while (line != NULL && line->way.line != chunk->line) {
            line = line->next;
        }
        if (line != NULL && line->fd >= 0) {
            deliver(line, chunk);
            settle(lines);
        }
        free(chunk);
        any = true;
    }
    if (any) {
        settle(lines);
    }
}

void sim_bytes_lines_send(struct sim_bytes_lines *lines)
{
    if (lines->lines != NULL) {
        settle(lines);
    }
}

void sim_bytes_lines_collect(struct sim_bytes_lines *lines)
{
    if (sim_post_take(&lines->down[parity(lines) ^ 1], &lines->coming) != BASE_OK) {
        base_log_error(lines->options.log, "fleet", "out of memory: bytes for devices are lost");
    }
}

uint64_t sim_bytes_lines_due_us(const struct sim_bytes_lines *lines)
{
    return sim_flight_queue_due_us(&lines->coming);
}

// ---- Beginning and end

bool sim_bytes_lines_any(const struct sim_bytes_lines *lines)
{
    return lines->mine_count > 0;
}

enum base_status sim_bytes_lines_init(struct sim_bytes_lines *lines,
                                      const struct sim_bytes_lines_options *options)
{
    uint32_t chosen[SIM_BYTE_DEVICES_MAX];
    memset(lines, 0, sizeof(*lines));
    lines->options = *options;
    lines->start_us = now_us(lines);
    for (uint32_t i = 0; i < 2; i++) {
        sim_post_init(&lines->up[i]);
        sim_post_init(&lines->down[i]);
    }
    uint32_t count = sim_bytes_choose(options->seed, options->devices, options->wanted, chosen);
    for (uint32_t i = 0; i < count; i++) {
        if (chosen[i] >= options->first && chosen[i] - options->first < options->count) {
            lines->mine[lines->mine_count++] = chosen[i] - options->first;
        }
    }
    if (lines->mine_count == 0) {
        return BASE_OK;
    }
    struct event_config *config = event_config_new();
    if (config != NULL) { // one thread at a time
        (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        lines->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    return lines->base != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

void sim_bytes_lines_done(struct sim_bytes_lines *lines)
{
    while (lines->lines != NULL) {
        struct sim_line *line = lines->lines;
        line->quiet = true;
        line_free(line);
    }
    sim_chunks_drop(&lines->coming);
    sim_flight_queue_done(&lines->coming);
    for (uint32_t i = 0; i < 2; i++) {
        sim_chunks_drop(&lines->up[i].sent);
        sim_chunks_drop(&lines->down[i].sent);
        sim_post_done(&lines->up[i]);
        sim_post_done(&lines->down[i]);
    }
    if (lines->base != NULL) {
        event_base_free(lines->base);
    }
}
