// Chunks, the time they take, and the hashes by which bytes and model are compared. Both ends call
// this: bytes_lines.c on the threads of shards, bytes_gate.c on that of the core. Nothing is drawn
// but through the delay port, so a run stays the same whatever its keys and nonces are: TLS draws
// those from the system, and only sizes are seen here, which do not depend on them.
#include "bytes/bytes_chunk.h"

#include "base/check.h"
#include "base/prng.h"
#include "bytes/bytes_tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FNV_PRIME   UINT64_C(0x100000001b3)
#define CHOOSE_SALT UINT64_C(0x62797465732d6f66)

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// What the link takes for the bytes, and slow start, keeps it from sending the next ones; the rest
// is the way. A connection on whose way nothing is begins slowly anew.
static uint64_t arrival_us(struct sim_bytes_way *way, uint64_t at_us, size_t size)
{
    uint64_t from_us = later(at_us, way->free_us);
    way->behind = at_us < way->last_us ? way->behind : 0;
    const struct sim_message message = {
        .device = way->index,
        .at_us = from_us - way->start_us,
        .bytes = (uint32_t)size,
        .count =
            SIM_CHUNK_NUMBERS | ((uint32_t)way->line & 0x3fffu) << 16 | (way->count++ & 0xffffu),
        .behind = way->behind,
        .up = way->up,
    };
    struct sim_delay delay = way->delay.of(way->delay.ctx, &message);
    way->behind += (uint32_t)size;
    way->free_us = from_us + delay.link_us + delay.wait_us;
    way->last_us =
        later(later(way->free_us + delay.way_us, from_us + way->delay.least_us), way->last_us);
    return way->last_us;
}

struct sim_chunk *sim_chunk_new(struct sim_bytes_way *way, enum sim_chunk_kind kind, uint64_t at_us,
                                struct base_span bytes)
{
    struct sim_chunk *chunk = calloc(1, sizeof(*chunk) + bytes.size);
    if (chunk == NULL) {
        return NULL;
    }
    uint64_t due_us = kind == SIM_CHUNK_CLAIM ? later(at_us + way->delay.least_us, way->last_us)
                                              : arrival_us(way, at_us, bytes.size);
    chunk->flight.when = (struct sim_when){due_us, way->shard, way->device, 0};
    chunk->flight.index = way->index;
    chunk->kind = kind;
    chunk->line = way->line;
    chunk->size = bytes.size;
    if (bytes.size > 0) {
        memcpy(chunk->bytes, bytes.data, bytes.size);
    }
    return chunk;
}

void sim_chunks_drop(struct sim_flight_queue *queue)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        free(queue->items[i].flight);
    }
    queue->count = 0;
}

// ---- Sockets

enum base_status sim_bytes_read(int fd, uint8_t *out, size_t room, size_t *out_size)
{
    ssize_t size = recv(fd, out, room, 0);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR ? BASE_ERR_BUSY : BASE_ERR_CLOSED;
    }
    *out_size = (size_t)size;
    return size > 0 ? BASE_OK : BASE_ERR_CLOSED;
}

enum base_status sim_bytes_write(int fd, const uint8_t *bytes, size_t size)
{
    return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size ? BASE_OK : BASE_ERR_IO;
}

enum base_status sim_bytes_pair(int out_ends[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, out_ends) != 0) {
        return errno == EMFILE || errno == ENFILE ? BASE_ERR_LIMIT : BASE_ERR_NOMEM;
    }
    return BASE_OK;
}

// ---- Hashes

uint64_t sim_bytes_hash(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ at[i]) * FNV_PRIME;
    }
    return hash;
}

// With its size, so that what ends one text does not begin the next.
static uint64_t hash_text(uint64_t hash, struct base_str text)
{
    uint64_t size = text.size;
    return sim_bytes_hash(sim_bytes_hash(hash, &size, sizeof(size)), text.data, text.size);
}

// The path as it was sent, behind whatever size: the model does not part it.
static uint64_t hash_path(uint64_t hash, const struct gw_request *request)
{
    hash = sim_bytes_hash(hash, request->path.data, request->path.size);
    if (request->query.size > 0) {
        hash = sim_bytes_hash(hash, "?", 1);
        hash = sim_bytes_hash(hash, request->query.data, request->query.size);
    }
    return hash;
}

uint64_t sim_bytes_request_hash(const struct gw_request *request)
{
    const uint8_t facts[] = {(uint8_t)request->method, request->secure};
    uint64_t hash = hash_path(sim_bytes_hash(SIM_BYTES_HASH, facts, sizeof(facts)), request);
    hash = hash_text(hash, request->device);
    hash = hash_text(hash, request->profile);
    hash = hash_text(hash, request->nonce);
    hash = hash_text(hash, request->credential);
    hash = hash_text(hash, request->enrol_key);
    hash = hash_text(hash, request->authorization);
    hash = hash_text(hash, request->range);
    return sim_bytes_hash(hash, request->body, request->body_bytes);
}

uint64_t sim_bytes_answer_hash(const struct dev_response_head *head, uint64_t body)
{
    const uint64_t facts[] = {(uint64_t)head->status, (uint64_t)head->encoding, head->content_bytes,
                              head->range_from,       head->retry_after_s,      body};
    return sim_bytes_hash(SIM_BYTES_HASH, facts, sizeof(facts));
}

// ---- Who, and how much

static bool has(const uint32_t *list, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == value) {
            return true;
        }
    }
    return false;
}

static void insert(uint32_t *list, uint32_t count, uint32_t value)
{
    uint32_t at = count;
    for (; at > 0 && list[at - 1] > value; at--) {
        list[at] = list[at - 1];
    }
    list[at] = value;
}

// Floyd's sampling: of the last `count` devices each stands for itself where its draw is taken.
uint32_t sim_bytes_choose(uint64_t seed, uint32_t devices, uint32_t count,
                          uint32_t out[SIM_BYTE_DEVICES_MAX])
{
    count = count < devices ? count : devices;
    count = count < SIM_BYTE_DEVICES_MAX ? count : SIM_BYTE_DEVICES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t last = devices - count + i;
        uint64_t draw = base_mix64(base_mix64(seed ^ CHOOSE_SALT) + i);
        uint32_t drawn = (uint32_t)(draw % ((uint64_t)last + 1));
        insert(out, i, has(out, i, drawn) ? last : drawn);
    }
    return count;
}

static void sum_add(struct sim_bytes_sum *into, const struct sim_bytes_sum *from)
{
    into->wire += from->wire;
    into->handshake += from->handshake;
    into->body += from->body;
    into->modelled += from->modelled;
}

void sim_bytes_tally_add(struct sim_bytes_tally *into, const struct sim_bytes_tally *from)
{
    into->mismatched = into->mismatches > 0 ? into->mismatched : from->mismatched;
    into->devices += from->devices;
    into->connections += from->connections;
    into->handshakes += from->handshakes;
    into->answers += from->answers;
    into->cut += from->cut;
    into->mismatches += from->mismatches;
    into->us += from->us;
    into->modelled_us += from->modelled_us;
    sum_add(&into->up, &from->up);
    sum_add(&into->down, &from->down);
}
