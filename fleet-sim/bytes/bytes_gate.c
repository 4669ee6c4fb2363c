// The gateway's transport, run by hand in virtual time. virtual/core_gateway.c calls it as its
// door, on the core's thread; bytes_lines.c is the other end.
//
// A connection has a pair of sockets: one end is the worker's, the other is read and written here.
// Between two moments of virtual time the worker is run until it writes nothing more. What it asks
// the core and hears is seen through its tap, where requests and claims meet.
#include "bytes/bytes_gate.h"

#include "base/check.h"
#include "http/hand/hand_worker.h"

#include <stdlib.h>
#include <unistd.h>

#define IDLE_TURNS 3 // of the worker, one after another: then nothing is left

// A request that a device has made, until it is answered.
struct wanted {
    struct wanted *next;
    struct sim_claim claim;
    uint64_t asked_us; // the core has it since
};

struct sim_gate_line {
    struct sim_gate_line *next;
    struct sim_bytes_gate *gate;
    struct sim_bytes_way way;
    uint64_t number;
    int fd;
    int worker_fd; // the worker's end, by which the tap names a connection
    struct wanted *wanted;
};

static uint64_t now_us(const struct sim_bytes_gate *gate)
{
    return gate->options.clock.mono_us(gate->options.clock.ctx);
}

static struct sim_bytes_lines *shard_of(const struct sim_bytes_gate *gate, uint32_t shard)
{
    base_assert(shard < gate->options.line_count);
    return gate->options.lines[shard];
}

static void mismatch(struct sim_gate_line *line)
{
    struct sim_bytes_tally *tally = &line->gate->tally;
    tally->mismatches++;
    tally->mismatched = line->way.index;
    base_log_error(line->gate->options.log, "fleet",
                   "device %llu: a request is not what the device asked",
                   (unsigned long long)line->way.index);
}

// ---- Chunks

static void post(struct sim_bytes_gate *gate, struct sim_chunk *chunk)
{
    struct sim_post *down = NULL;
    if (chunk != NULL) {
        chunk->flight.when.sequence = gate->sequence++;
        down = &shard_of(gate, chunk->flight.when.shard)->down[*gate->options.window & 1];
    }
    if (chunk == NULL || sim_post_add(down, &chunk->flight) != BASE_OK) {
        base_log_error(gate->options.log, "fleet", "out of memory: bytes for a device are lost");
        free(chunk);
    }
}

static void send_chunk(struct sim_gate_line *line, enum sim_chunk_kind kind, struct base_span bytes)
{
    post(line->gate, sim_chunk_new(&line->way, kind, now_us(line->gate), bytes));
}

static void line_free(struct sim_gate_line *line)
{
    struct sim_gate_line **link = &line->gate->lines;
    while (*link != line) {
        link = &(*link)->next;
    }
    *link = line->next;
    while (line->wanted != NULL) {
        struct wanted *next = line->wanted->next;
        free(line->wanted);
        line->wanted = next;
    }
    (void)close(line->fd);
    free(line);
}

// What the worker has written goes on its way. Returns how much that was.
static size_t pump(struct sim_gate_line *line)
{
    uint8_t room[SIM_CHUNK_ROOM];
    size_t pumped = 0;
    for (;;) {
        size_t size = 0;
        enum base_status status = sim_bytes_read(line->fd, room, sizeof(room), &size);
        if (status == BASE_ERR_BUSY) {
            return pumped;
        }
        pumped += size + 1;
        if (status != BASE_OK) {
            send_chunk(line, SIM_CHUNK_END, (struct base_span){NULL, 0});
            line_free(line);
            return pumped;
        }
        send_chunk(line, SIM_CHUNK_BYTES, (struct base_span){room, size});
    }
}

static void settle(struct sim_bytes_gate *gate)
{
    for (int idle = 0; idle < IDLE_TURNS;) {
        size_t pumped = 0;
        struct sim_gate_line *next = NULL;
        gw_hand_run(gate->hand);
        for (struct sim_gate_line *line = gate->lines; line != NULL; line = next) {
            next = line->next;
            pumped += pump(line);
        }
        idle = pumped > 0 || gw_hand_waits(gate->hand) ? 0 : idle + 1;
    }
}

// ---- What the worker tells

static struct sim_gate_line *line_at(const struct sim_bytes_gate *gate, int worker_fd)
{
    struct sim_gate_line *line = gate->lines;
    while (line != NULL && line->worker_fd != worker_fd) {
        line = line->next;
    }
    return line;
}

static struct wanted *wanted_of(struct sim_gate_line *line, int32_t stream)
{
    struct wanted *wanted = line != NULL ? line->wanted : NULL;
    while (wanted != NULL && wanted->claim.stream != stream) {
        wanted = wanted->next;
    }
    return wanted;
}

static void forget(struct sim_gate_line *line, struct wanted *wanted)
{
    struct wanted **link = &line->wanted;
    while (*link != wanted) {
        link = &(*link)->next;
    }
    *link = wanted->next;
    free(wanted);
}

static void note(struct sim_gate_line *line, enum sim_event_kind kind, uint64_t value)
{
    const struct sim_event event = {.index = line->way.index, .value = value, .kind = kind};
    sim_recorder_take(line->gate->options.recorder, now_us(line->gate), &event);
}

static void on_asked(void *ctx, const struct gw_exchange *exchange,
                     const struct gw_http_place *place)
{
    struct sim_bytes_gate *gate = ctx;
    struct sim_gate_line *line = line_at(gate, place->fd);
    struct wanted *wanted = wanted_of(line, place->stream);
    uint64_t hash = sim_bytes_request_hash(&exchange->request);
    if (line == NULL) { // the device is gone
        return;
    }
    note(line, SIM_EVENT_HANDLED, hash);
    if (wanted == NULL || wanted->claim.hash != hash) {
        mismatch(line);
    }
    if (wanted != NULL) {
        wanted->asked_us = now_us(gate);
    }
}

static uint64_t body_hash(const struct gw_reply *reply)
{
    uint64_t hash = SIM_BYTES_HASH;
    uint64_t end = reply->blob_from + reply->blob_bytes;
    if (reply->kind == GW_REPLY_BYTES) {
        return sim_bytes_hash(hash, reply->body, reply->body_bytes);
    }
    for (uint64_t at = reply->blob_from; reply->kind == GW_REPLY_BLOB && at < end;) {
        size_t size = 0;
        const uint8_t *bytes = gw_blob_bytes(reply->blob, at, &size);
        base_check(bytes != NULL && size > 0);
        size = size < end - at ? size : (size_t)(end - at);
        hash = sim_bytes_hash(hash, bytes, size);
        at += size;
    }
    return hash;
}

// How long an ordinary device's answer would be on its way (virtual/core_link.c).
static uint64_t modelled_way_us(const struct sim_gate_line *line, const struct wanted *wanted,
                                const struct gw_reply *reply)
{
    const struct sim_message message = {
        .device = line->way.index,
        .at_us = now_us(line->gate) - line->gate->start_us,
        .bytes = sim_core_link_body_bytes(reply),
        .count = wanted->claim.count,
    };
    return sim_delay_us(&line->gate->options.delay, &message);
}

static void on_answered(void *ctx, const struct gw_exchange *exchange,
                        const struct gw_http_place *place)
{
    struct sim_bytes_gate *gate = ctx;
    const struct gw_reply *reply = &exchange->reply;
    struct sim_gate_line *line = line_at(gate, place->fd);
    struct wanted *wanted = wanted_of(line, place->stream);
    if (wanted == NULL) {
        return; // the device is gone, or what it asked was no request of its own
    }
    const struct dev_response_head head = sim_core_link_head(reply);
    uint64_t hash = sim_bytes_answer_hash(&head, body_hash(reply));
    note(line, SIM_EVENT_REPLIED, hash);
    struct sim_chunk *claim =
        sim_chunk_new(&line->way, SIM_CHUNK_CLAIM, now_us(gate), (struct base_span){NULL, 0});
    if (claim != NULL) {
        claim->claim = (struct sim_claim){
            .stream = place->stream,
            .hash = hash,
            .core_us = now_us(gate) - wanted->asked_us,
            .way_us = modelled_way_us(line, wanted, reply),
            .body_bytes = sim_core_link_body_bytes(reply),
        };
    }
    post(gate, claim);
    forget(line, wanted);
}

// ---- Chunks that come

static void want(struct sim_gate_line *line, const struct sim_claim *claim)
{
    struct wanted *wanted = calloc(1, sizeof(*wanted));
    if (wanted == NULL) {
        base_log_error(line->gate->options.log, "fleet", "out of memory: a request is not checked");
        return;
    }
    wanted->claim = *claim;
    wanted->next = line->wanted;
    line->wanted = wanted;
}

// False: there is none to be had, and the device hears that.
static bool take_line(struct sim_gate_line *line, uint32_t peer)
{
    int ends[2];
    if (sim_bytes_pair(ends) != BASE_OK) {
        return false;
    }
    line->fd = ends[0];
    line->worker_fd = ends[1];
    if (gw_hand_take(line->gate->hand, ends[1], peer) != BASE_OK) {
        (void)close(ends[0]);
        return false;
    }
    return true;
}

static void open_line(struct sim_bytes_gate *gate, const struct sim_chunk *chunk, bool up)
{
    struct sim_gate_line *line = calloc(1, sizeof(*line));
    if (line == NULL) {
        base_log_error(gate->options.log, "fleet", "out of memory: a connection is lost");
        return;
    }
    line->gate = gate;
    line->number = chunk->line;
    line->way = (struct sim_bytes_way){
        .delay = gate->options.delay,
        .start_us = gate->start_us,
        .index = chunk->flight.index,
        .line = chunk->line,
        .shard = chunk->flight.when.shard,
        .device = chunk->flight.when.device,
    };
    bool taken = up && take_line(line, chunk->peer);
    send_chunk(line, taken ? SIM_CHUNK_OPENED : SIM_CHUNK_END, (struct base_span){NULL, 0});
    if (!taken) {
        free(line);
        return;
    }
    line->next = gate->lines;
    gate->lines = line;
}

static void deliver(struct sim_bytes_gate *gate, const struct sim_chunk *chunk, bool up)
{
    struct sim_gate_line *line = gate->lines;
    while (line != NULL &&
           (line->number != chunk->line || line->way.shard != chunk->flight.when.shard)) {
        line = line->next;
    }
    if (chunk->kind == SIM_CHUNK_OPEN) {
        open_line(gate, chunk, up);
    } else if (line == NULL) {
        return; // it has ended, and its device was told
    } else if (chunk->kind == SIM_CHUNK_CLAIM) {
        want(line, &chunk->claim);
    } else if (chunk->kind == SIM_CHUNK_END) {
        line_free(line);
    } else {
        // A worker that has ended reads no more: the next look at the socket says so.
        (void)!sim_bytes_write(line->fd, chunk->bytes, chunk->size);
    }
}

// ---- The door

static enum base_status gate_open(void *ctx, struct gw_core *core, const char *dir,
                                  struct base_error *error)
{
    struct sim_bytes_gate *gate = ctx;
    const struct gw_hand_options options = {
        .core = core,
        .clock = gate->options.clock,
        .dir = dir,
        .tap = {gate, on_asked, on_answered},
        .log = gate->options.log,
    };
    return gw_hand_new(&options, &gate->hand, error);
}

static void gate_shut(void *ctx)
{
    struct sim_bytes_gate *gate = ctx;
    while (gate->lines != NULL) {
        send_chunk(gate->lines, SIM_CHUNK_END, (struct base_span){NULL, 0});
        line_free(gate->lines);
    }
    if (gate->hand != NULL) {
        gw_hand_hang_up(gate->hand);
        gw_hand_run(gate->hand);
    }
}

static void gate_close(void *ctx)
{
    struct sim_bytes_gate *gate = ctx;
    gw_hand_free(gate->hand);
    gate->hand = NULL;
}

static void gate_collect(void *ctx)
{
    struct sim_bytes_gate *gate = ctx;
    for (uint32_t i = 0; i < gate->options.line_count; i++) {
        struct sim_post *up = &gate->options.lines[i]->up[(*gate->options.window & 1) ^ 1];
        if (sim_post_take(up, &gate->coming) != BASE_OK) {
            base_log_error(gate->options.log, "fleet", "out of memory: bytes of devices are lost");
        }
    }
}

static uint64_t gate_due_us(const void *ctx)
{
    const struct sim_bytes_gate *gate = ctx;
    uint64_t due = sim_flight_queue_due_us(&gate->coming);
    uint64_t hand = gate->hand != NULL ? gw_hand_due_us(gate->hand) : UINT64_MAX;
    return hand < due ? hand : due;
}

static void gate_step(void *ctx, bool up)
{
    struct sim_bytes_gate *gate = ctx;
    uint64_t now = now_us(gate);
    bool due = gate_due_us(gate) <= now;
    while (sim_flight_queue_due_us(&gate->coming) <= now) {
        struct sim_chunk *chunk = (struct sim_chunk *)(void *)sim_flight_queue_take(&gate->coming);
        deliver(gate, chunk, up);
        free(chunk);
        settle(gate);
    }
    if (due || gw_hand_waits(gate->hand)) {
        settle(gate);
    }
}

struct sim_core_door sim_bytes_gate_door(struct sim_bytes_gate *gate)
{
    return (struct sim_core_door){
        .ctx = gate,
        .open = gate_open,
        .shut = gate_shut,
        .close = gate_close,
        .collect = gate_collect,
        .step = gate_step,
        .due_us = gate_due_us,
    };
}

void sim_bytes_gate_init(struct sim_bytes_gate *gate, const struct sim_bytes_gate_options *options)
{
    *gate = (struct sim_bytes_gate){.options = *options};
    gate->start_us = now_us(gate);
}

void sim_bytes_gate_done(struct sim_bytes_gate *gate)
{
    base_assert(gate->hand == NULL && gate->lines == NULL);
    sim_chunks_drop(&gate->coming);
    sim_flight_queue_done(&gate->coming);
}
