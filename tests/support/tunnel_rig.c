// The rig of tunnel_rig.h. Test threads.
#include "tunnel_rig.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t rig_mono(void *ctx)
{
    return ((struct tunnel_rig *)ctx)->mono_us;
}

static uint64_t rig_wall(void *ctx)
{
    return ((struct tunnel_rig *)ctx)->wall_us;
}

void tunnel_rig_init(struct tunnel_rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    rig->mono_us = 1000000;
    rig->wall_us = UINT64_C(1795000000000000);
    rig->options.clock = (struct base_clock_port){rig, rig_mono, rig_wall};
    rig->options.device_batches_per_s = 1000000;
}

static void rig_post(void *ctx, struct gw_message *message)
{
    struct tunnel_rig_worker *worker = ctx;
    pthread_mutex_lock(&worker->lock);
    message->next = NULL;
    *worker->last = message;
    worker->last = &message->next;
    pthread_cond_signal(&worker->posted);
    pthread_mutex_unlock(&worker->lock);
}

static enum base_status rig_submit(void *ctx, struct gw_sink_batch *batch)
{
    struct tunnel_rig_sink *sink = ctx;
    pthread_mutex_lock(&sink->lock);
    enum base_status status = sink->refuse;
    if (status == BASE_OK) {
        batch->next = NULL;
        *sink->last = batch;
        sink->last = &batch->next;
        sink->waiting++;
    }
    pthread_mutex_unlock(&sink->lock);
    return status;
}

void tunnel_rig_start(struct tunnel_rig *rig, bool on_disk)
{
    struct base_error error = {0};
    if (on_disk && rig->dir[0] == '\0') {
        (void)snprintf(rig->dir, sizeof(rig->dir), "/tmp/walle-tunnel-XXXXXX");
        base_check(mkdtemp(rig->dir) != NULL);
    }
    pthread_mutex_init(&rig->sink.lock, NULL);
    rig->sink.last = &rig->sink.first;
    rig->options.dir = on_disk ? rig->dir : NULL;
    rig->options.sink = (struct gw_sink_port){&rig->sink, rig_submit};
    enum base_status status = gw_tunnel_new(&rig->options, &rig->tunnel, &error);
    if (status != BASE_OK) {
        fprintf(stderr, "gw_tunnel_new: %s\n", error.text);
    }
    base_check(status == BASE_OK);
    for (uint32_t i = 0; i < RIG_WORKERS; i++) {
        struct tunnel_rig_worker *worker = &rig->workers[i];
        pthread_mutex_init(&worker->lock, NULL);
        pthread_cond_init(&worker->posted, NULL);
        worker->first = NULL;
        worker->last = &worker->first;
        base_check(gw_tunnel_worker_new(rig->tunnel, worker, rig_post, &worker->worker) == BASE_OK);
    }
}

void tunnel_rig_stop(struct tunnel_rig *rig)
{
    if (rig->tunnel == NULL) {
        return;
    }
    (void)tunnel_rig_land(rig, UINT32_MAX, BASE_OK);
    for (uint32_t i = 0; i < RIG_WORKERS; i++) {
        while (tunnel_rig_pump(rig, i)) {
        }
        gw_tunnel_worker_free(rig->workers[i].worker);
    }
    gw_tunnel_free(rig->tunnel);
    rig->tunnel = NULL;
    for (uint32_t i = 0; i < RIG_WORKERS; i++) {
        pthread_mutex_destroy(&rig->workers[i].lock);
        pthread_cond_destroy(&rig->workers[i].posted);
    }
    pthread_mutex_destroy(&rig->sink.lock);
}

void tunnel_rig_done(struct tunnel_rig *rig)
{
    tunnel_rig_stop(rig);
    if (rig->dir[0] != '\0') {
        char command[128];
        (void)snprintf(command, sizeof(command), "rm -rf '%s'", rig->dir);
        base_check(system(command) == 0);
        rig->dir[0] = '\0';
    }
}

static struct gw_message *take_messages(struct tunnel_rig_worker *worker, bool wait)
{
    pthread_mutex_lock(&worker->lock);
    while (wait && worker->first == NULL) {
        pthread_cond_wait(&worker->posted, &worker->lock);
    }
    struct gw_message *first = worker->first;
    worker->first = NULL;
    worker->last = &worker->first;
    pthread_mutex_unlock(&worker->lock);
    return first;
}

static bool run_messages(struct gw_message *message)
{
    bool any = message != NULL;
    while (message != NULL) {
        struct gw_message *next = message->next;
        message->run(message);
        message = next;
    }
    return any;
}

bool tunnel_rig_pump(struct tunnel_rig *rig, uint32_t worker)
{
    return run_messages(take_messages(&rig->workers[worker], false));
}

void tunnel_rig_wait(struct tunnel_rig *rig, uint32_t worker)
{
    (void)run_messages(take_messages(&rig->workers[worker], true));
}

uint32_t tunnel_rig_land(struct tunnel_rig *rig, uint32_t count, enum base_status status)
{
    struct tunnel_rig_sink *sink = &rig->sink;
    uint32_t landed = 0;
    while (landed < count) {
        pthread_mutex_lock(&sink->lock);
        struct gw_sink_batch *batch = sink->first;
        if (batch != NULL) {
            sink->first = batch->next;
            sink->last = sink->first == NULL ? &sink->first : sink->last;
            sink->waiting--;
        }
        pthread_mutex_unlock(&sink->lock);
        if (batch == NULL) {
            break;
        }
        if (status == BASE_OK && sink->keep != NULL) {
            sink->keep(sink->ctx, batch);
        }
        batch->done(batch, status);
        landed++;
    }
    for (uint32_t i = 0; i < RIG_WORKERS; i++) {
        while (tunnel_rig_pump(rig, i)) {
        }
    }
    return landed;
}

// ---- Streams

static bool stream_write(void *ctx, const uint8_t *bytes, size_t size)
{
    struct tunnel_rig_stream *stream = ctx;
    size_t limit = stream->out_limit != 0 ? stream->out_limit : RIG_OUT_MAX;
    if (size > limit - stream->out_size) {
        return false;
    }
    memcpy(stream->out + stream->out_size, bytes, size);
    stream->out_size += size;
    return true;
}

static void stream_end(void *ctx, bool reset)
{
    struct tunnel_rig_stream *stream = ctx;
    base_check(!stream->ended);
    stream->ended = true;
    stream->reset = reset;
}

void tunnel_rig_open(struct tunnel_rig *rig, struct tunnel_rig_stream *stream, uint32_t worker,
                     uint64_t device)
{
    stream->rig = rig;
    stream->worker = worker;
    stream->out_size = 0;
    stream->out_limit = 0;
    stream->ended = false;
    stream->reset = false;
    stream->status = BASE_OK;
    const struct gw_session_port port = {
        .ctx = stream, .write = stream_write, .end = stream_end, .unproven = stream->unproven};
    base_check(gw_session_open(rig->workers[worker].worker, device, 7, &port, &stream->session) ==
               BASE_OK);
}

void tunnel_rig_close(struct tunnel_rig_stream *stream)
{
    gw_session_close(stream->session);
    stream->session = NULL;
}

void tunnel_rig_send(struct tunnel_rig_stream *stream, const uint8_t *bytes, size_t size)
{
    stream->status = gw_session_receive(stream->session, bytes, size);
    gw_tunnel_worker_flush(stream->rig->workers[stream->worker].worker);
}

bool tunnel_rig_next(struct tunnel_rig_stream *stream, enum wire_tunnel_type *out_type,
                     const uint8_t **out_payload, size_t *out_size)
{
    static _Thread_local uint8_t frame[RIG_FRAME_MAX];
    size_t size;
    if (stream->out_size == 0) {
        return false;
    }
    base_check(wire_tunnel_head(stream->out, stream->out_size, out_type, &size) == BASE_OK);
    size_t whole = WIRE_TUNNEL_HEAD + size;
    base_check(whole <= stream->out_size);
    memcpy(frame, stream->out, whole);
    stream->out_size -= whole;
    memmove(stream->out, stream->out + whole, stream->out_size);
    *out_payload = frame + WIRE_TUNNEL_HEAD;
    *out_size = size;
    return true;
}

// ---- Frames

void tunnel_rig_device(struct tunnel_rig_device *device, uint64_t id, uint8_t class_id,
                       uint32_t epoch)
{
    *device = (struct tunnel_rig_device){.device = id, .class_id = class_id, .epoch = epoch};
    device->next_hash = device->tail_hash = wire_tunnel_chain_first(id, class_id, epoch);
}

size_t tunnel_rig_hello(const struct tunnel_rig_device *device, uint8_t *out)
{
    const struct wire_tunnel_hello hello = {
        .device = device->device,
        .app = BASE_STR("1.0"),
        .os = BASE_STR("test"),
        .wall_ms = 1795000000000,
        .class_count = 1,
        .classes[0] = {.class_id = device->class_id,
                       .epoch = device->epoch,
                       .tail = device->tail,
                       .next = device->next,
                       .tail_hash = device->tail_hash},
        .single_reject = device->older,
    };
    size_t size = 0;
    base_check(wire_tunnel_hello_encode(&hello, out, RIG_FRAME_MAX, &size) == BASE_OK);
    return size;
}

size_t tunnel_rig_payload(uint32_t records, size_t body_bytes, uint64_t mark, uint8_t *out,
                          size_t capacity)
{
    struct wire_upload_key upload = {BASE_STR("shop.ipv"), BASE_STR("feature"), 1};
    struct wire_record *list = calloc(records, sizeof(*list));
    char *bodies = malloc(records * (body_bytes + 1));
    base_check(list != NULL && bodies != NULL && body_bytes >= 2);
    for (uint32_t i = 0; i < records; i++) {
        char *body = bodies + i * (body_bytes + 1);
        int size = snprintf(body, body_bytes + 1, "\"%016llx-%u", (unsigned long long)mark, i);
        for (size_t k = (size_t)size; k < body_bytes; k++) {
            body[k] = (char)('a' + (mark * 31 + k * 7 + i) % 26);
        }
        body[body_bytes - 1] = '"';
        list[i] = (struct wire_record){.format = WIRE_RECORD_JSON,
                                       .wall_ms = 1795000000000 + i,
                                       .bytes = (const uint8_t *)body,
                                       .size = (uint32_t)body_bytes};
    }
    size_t size = 0;
    base_check(wire_batch_encode(&(struct wire_batch_content){&upload, 1, list, records}, out,
                                 capacity, &size) == BASE_OK);
    free(list);
    free(bodies);
    return size;
}

static size_t add_chunks(const struct tunnel_rig_device *device, const uint8_t *payload,
                         size_t size, uint8_t *out, size_t capacity)
{
    size_t wrote = 0;
    for (size_t at = WIRE_TUNNEL_PART_MAX; at < size;) {
        size_t part = size - at < WIRE_TUNNEL_CHUNK_MAX ? size - at : WIRE_TUNNEL_CHUNK_MAX;
        const struct wire_tunnel_chunk chunk = {.class_id = device->class_id,
                                                .number = device->next,
                                                .offset = (uint32_t)at,
                                                .bytes = payload + at,
                                                .size = (uint32_t)part};
        size_t frame;
        base_check(wire_tunnel_chunk_encode(&chunk, out + wrote, capacity - wrote, &frame) ==
                   BASE_OK);
        wrote += frame;
        at += part;
    }
    return wrote;
}

size_t tunnel_rig_batch(struct tunnel_rig_device *device, const uint8_t *payload, size_t size,
                        uint32_t records, uint8_t *out, size_t capacity)
{
    const struct wire_tunnel_batch batch = {
        .class_id = device->class_id,
        .epoch = device->epoch,
        .number = device->next,
        .first_seq = device->next_seq,
        .count = records,
        .prev_hash = device->next_hash,
        .hash = wire_tunnel_chain(device->next_hash, payload, size),
        .codec = WIRE_TUNNEL_PLAIN,
        .raw_bytes = (uint32_t)size,
        .sent_bytes = (uint32_t)size,
        .bytes = payload,
        .part_bytes = (uint32_t)(size < WIRE_TUNNEL_PART_MAX ? size : WIRE_TUNNEL_PART_MAX),
    };
    size_t wrote = 0;
    base_check(wire_tunnel_batch_encode(&batch, out, capacity, &wrote) == BASE_OK);
    wrote += add_chunks(device, payload, size, out + wrote, capacity - wrote);
    device->next++;
    device->next_seq += records;
    device->next_hash = batch.hash;
    return wrote;
}

size_t tunnel_rig_loss(struct tunnel_rig_device *device, uint32_t numbers, uint32_t count,
                       uint8_t reason, uint8_t *out)
{
    struct wire_tunnel_loss_frame loss = {.class_id = device->class_id,
                                          .epoch = device->epoch,
                                          .number = device->next,
                                          .numbers = numbers,
                                          .first_seq = device->next_seq,
                                          .count = count,
                                          .reason = reason,
                                          .prev_hash = device->next_hash};
    loss.hash = wire_tunnel_chain_loss(&loss);
    size_t size = 0;
    base_check(wire_tunnel_loss_encode(&loss, out, RIG_FRAME_MAX, &size) == BASE_OK);
    device->next += numbers;
    device->next_seq += count;
    device->next_hash = loss.hash;
    return size;
}

void tunnel_rig_greet(struct tunnel_rig_stream *stream, const struct tunnel_rig_device *device,
                      struct wire_tunnel_welcome_class *out)
{
    uint8_t frame[512];
    enum wire_tunnel_type type;
    const uint8_t *payload;
    size_t size;
    struct wire_tunnel_welcome welcome;
    tunnel_rig_send(stream, frame, tunnel_rig_hello(device, frame));
    base_check(stream->status == BASE_OK);
    base_check(tunnel_rig_next(stream, &type, &payload, &size) && type == WIRE_TUNNEL_WELCOME);
    base_check(wire_tunnel_welcome_parse(payload, size, &welcome) == BASE_OK);
    *out = welcome.classes[0];
}

void tunnel_rig_send_batch(struct tunnel_rig_stream *stream, struct tunnel_rig_device *device,
                           uint64_t salt)
{
    uint8_t payload[1024];
    uint8_t frame[2048];
    size_t size =
        tunnel_rig_payload(2, 64, device->next * 1000003 + salt, payload, sizeof(payload));
    size = tunnel_rig_batch(device, payload, size, 2, frame, sizeof(frame));
    tunnel_rig_send(stream, frame, size);
}
