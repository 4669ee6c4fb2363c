// The memory port: clock, random numbers, scripted HTTP and scripted task runs. Storage is in
// mem_storage.c. Called by the runtime under test, on the test's thread, and by device_example.c;
// the simulator has ports of its own (fleet-sim/ports). Nothing happens by itself: time moves by
// mem_clock_advance, and an exchange is answered or ended by the test, which makes each order of
// events one that can be written down.
#include "mem/mem_internal.h"

#include "base/check.h"
#include "base/prng.h"

#include <string.h>

static uint64_t clock_mono(void *ctx)
{
    return ((struct mem_port *)ctx)->clock.mono_us;
}

static uint64_t clock_wall(void *ctx)
{
    return ((struct mem_port *)ctx)->clock.wall_us;
}

static uint64_t random_next(void *ctx)
{
    struct mem_port *port = ctx;
    return base_mix64(port->random_state++);
}

bool mem_port_alive(struct mem_port *port)
{
    port->calls++;
    if (port->kill_at > 0 && port->calls >= port->kill_at) {
        port->killed = true;
    }
    return !port->killed;
}

static struct mem_exchange *exchange_of(struct mem_port *port, uint32_t id)
{
    for (uint32_t i = 0; i < MEM_EXCHANGES_MAX; i++) {
        struct mem_exchange *exchange = &port->http.exchanges[i];
        if (exchange->state == MEM_EXCHANGE_OPEN && exchange->id == id) {
            return exchange;
        }
    }
    return NULL;
}

static void text_copy(char *out, size_t capacity, struct base_str text)
{
    base_check(text.size < capacity);
    if (text.size > 0) {
        memcpy(out, text.data, text.size);
    }
    out[text.size] = '\0';
}

static enum base_status http_start(void *ctx, uint32_t id, const struct dev_request *request)
{
    struct mem_port *port = ctx;
    if (!mem_port_alive(port)) {
        return BASE_ERR_IO;
    }
    if (port->http.refuse != BASE_OK) {
        return port->http.refuse;
    }
    base_check(exchange_of(port, id) == NULL);
    for (uint32_t i = 0; i < MEM_EXCHANGES_MAX; i++) {
        struct mem_exchange *exchange = &port->http.exchanges[i];
        if (exchange->state != MEM_EXCHANGE_FREE) {
            continue;
        }
        exchange->state = MEM_EXCHANGE_OPEN;
        exchange->id = id;
        exchange->method = request->method;
        exchange->range_from = request->range_from;
        exchange->stream = request->stream;
        exchange->dictionary =
            request->dictionary != NULL ? *request->dictionary : (struct wire_sha256){{0}};
        exchange->delta_codings = request->delta_codings;
        text_copy(exchange->path, sizeof(exchange->path), request->path);
        text_copy(exchange->device, sizeof(exchange->device), request->device);
        text_copy(exchange->profile, sizeof(exchange->profile), request->profile);
        text_copy(exchange->nonce, sizeof(exchange->nonce), request->nonce);
        text_copy(exchange->content_type, sizeof(exchange->content_type), request->content_type);
        text_copy(exchange->idempotency_key, sizeof(exchange->idempotency_key),
                  request->idempotency_key);
        exchange->urgent = request->urgent;
        base_check(request->body_bytes <= sizeof(exchange->body));
        if (request->body_bytes > 0) {
            memcpy(exchange->body, request->body, request->body_bytes);
        }
        exchange->body_bytes = request->body_bytes;
        port->http.started++;
        return BASE_OK;
    }
    return BASE_ERR_LIMIT;
}

static void http_cancel(void *ctx, uint32_t id)
{
    struct mem_port *port = ctx;
    struct mem_exchange *exchange = exchange_of(port, id);
    base_check(exchange != NULL); // the runtime cancels only what is under way
    exchange->state = MEM_EXCHANGE_FREE;
    port->http.cancelled++;
}

static bool file_verified(const struct dev_task_file *file)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    struct wire_sha256 digest;
    crypto->hash_begin(crypto->ctx, &state, &file->digest);
    crypto->hash_update(crypto->ctx, &state, file->bytes, file->size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return wire_sha256_equal(&digest, &file->digest);
}

static enum base_status task_start(void *ctx, uint32_t run, const struct dev_task_job *job)
{
    struct mem_port *port = ctx;
    if (!mem_port_alive(port)) {
        return BASE_ERR_BUSY;
    }
    if (port->task.refuse != BASE_OK) {
        return port->task.refuse;
    }
    base_check(port->task.current.run == 0);
    port->task.current = (struct mem_run){
        .run = run,
        .version = job->version,
        .run_index = job->run_index,
        .file_count = job->file_count,
        .shadow = job->shadow,
        .token = job->input != NULL ? job->input->token : 0,
        .all_verified = job->manifest->exclusive == WIRE_EXCLUSIVE_NONE
                            ? job->file_count == job->manifest->file_count
                            : job->file_count >= job->manifest->file_count,
    };
    if (job->file_count > 0) {
        port->task.current.last_file = job->files[job->file_count - 1].digest;
    }
    for (uint32_t i = 0; i < job->file_count; i++) {
        port->task.current.all_verified &= file_verified(&job->files[i]);
    }
    port->task.started++;
    return BASE_OK;
}

static void task_cancel(void *ctx, uint32_t run)
{
    struct mem_port *port = ctx;
    base_check(port->task.current.run == run);
    port->task.current.run = 0;
    port->task.cancelled++;
}

void mem_port_init(struct mem_port *port, uint64_t seed, struct dev_ports *out_ports)
{
    memset(port, 0, sizeof(*port));
    port->random_state = seed;
    port->clock.mono_us = 1000000;
    port->clock.wall_us = 1800000000ull * 1000000;
    *out_ports = (struct dev_ports){
        .clock = {port, clock_mono, clock_wall},
        .random = {port, random_next},
        .http = {port, http_start, http_cancel},
        .storage = mem_storage_port(port),
        .crypto = *dev_crypto_openssl(),
        .task = {port, task_start, task_cancel},
    };
    port->random = out_ports->random;
}

void mem_port_done(struct mem_port *port)
{
    mem_storage_done(&port->storage);
}

void mem_clock_advance(struct mem_port *port, uint64_t us)
{
    port->clock.mono_us += us;
    port->clock.wall_us += us;
}

void mem_port_crash(struct mem_port *port)
{
    memset(&port->http, 0, sizeof(port->http));
    memset(&port->task, 0, sizeof(port->task));
    port->killed = false;
    port->kill_at = 0;
    mem_storage_crash(&port->storage);
}

struct mem_exchange *mem_exchange_find(struct mem_port *port, const char *prefix)
{
    struct base_str start = base_str_of(prefix);
    for (uint32_t i = 0; i < MEM_EXCHANGES_MAX; i++) {
        struct mem_exchange *exchange = &port->http.exchanges[i];
        if (exchange->state == MEM_EXCHANGE_OPEN &&
            base_str_starts(base_str_of(exchange->path), start)) {
            return exchange;
        }
    }
    return NULL;
}

// The runtime may cancel the exchange from inside a callback; then nothing more may follow.
void mem_exchange_answer(struct mem_port *port, struct dev_runtime *runtime,
                         struct mem_exchange *exchange, const struct dev_response_head *head,
                         struct base_span body)
{
    uint32_t id = exchange->id;
    dev_on_head(runtime, id, head);
    if (body.size > 0 && exchange_of(port, id) != NULL) {
        dev_on_body(runtime, id, body.data, body.size);
    }
    exchange = exchange_of(port, id);
    if (exchange != NULL) {
        mem_exchange_end(port, runtime, exchange, BASE_OK);
    }
}

void mem_exchange_end(struct mem_port *port, struct dev_runtime *runtime,
                      struct mem_exchange *exchange, enum base_status status)
{
    (void)port;
    exchange->state = MEM_EXCHANGE_FREE;
    dev_on_end(runtime, exchange->id, status);
}
