// The rig of the tunnel's tests: a device's ports, the oracle gateway, and the ledger.
//
// One thread, no clock: the test's. The gateway keeps every row and checks numbers, sequences,
// hashes and links of everything it takes; what is wrong fails the test there and then.
#include "tunnel_device_rig.h"

#include "base/prng.h"

#define PIPE  (512u * 1024)
#define TOKEN 8u

// ---- A codec: runs of equal bytes. The "dictionary" is another way to write them.

static size_t runs_encode(const uint8_t *in, size_t size, uint8_t mask, uint8_t *out,
                          size_t capacity)
{
    size_t used = 0;
    for (size_t at = 0; at < size;) {
        size_t run = 1;
        while (at + run < size && in[at + run] == in[at] && run < 255) {
            run++;
        }
        if (used + 2 > capacity) {
            return 0;
        }
        out[used++] = (uint8_t)run;
        out[used++] = in[at] ^ mask;
        at += run;
    }
    return used;
}

static void runs_decode(const uint8_t *in, size_t size, uint8_t mask, uint8_t *out, size_t wanted)
{
    size_t used = 0;
    assert_int_equal(size % 2, 0);
    for (size_t at = 0; at < size; at += 2) {
        assert_true(used + in[at] <= wanted);
        memset(out + used, in[at + 1] ^ mask, in[at]);
        used += in[at];
    }
    assert_int_equal(used, wanted);
}

static enum base_status codec_compress(void *ctx, const struct dev_tunnel_compression *what,
                                       size_t *out_size)
{
    const struct rig_device *device = ctx;
    if (device->no_codec || (what->dict != 0 && what->dict != RIG_DICT)) {
        return BASE_ERR_NOT_FOUND;
    }
    uint8_t key = what->dict != 0 ? 0x55 : 0;
    size_t size = runs_encode(what->in, what->in_size, key, what->out, what->capacity);
    if (size == 0) {
        return BASE_ERR_TOO_LARGE;
    }
    *out_size = size;
    return BASE_OK;
}

static uint32_t codec_dicts(void *ctx, uint32_t out[WIRE_TUNNEL_DICTS_MAX])
{
    (void)ctx;
    out[0] = RIG_DICT;
    return 1;
}

// ---- Transport

static bool call(struct rig_device *device)
{
    device->calls++;
    if (device->kill_at != 0 && device->calls == device->kill_at) {
        device->killed = true;
        device->kv.killed = true;
    }
    return !device->killed && !device->kv.killed;
}

static enum base_status port_open(void *ctx, uint32_t stream, uint8_t class_id)
{
    struct rig_device *device = ctx;
    (void)class_id;
    if (!call(device) || device->offline) {
        return BASE_ERR_CLOSED;
    }
    assert_true(stream < WIRE_TUNNEL_CLASSES);
    assert_false(device->streams[stream].open);
    device->opens++;
    struct rig_stream *s = &device->streams[stream];
    s->open = true;
    s->announced = false;
    s->welcomed = false;
    s->classes = 0;
    s->ended = false;
    s->up_size = 0;
    s->down_size = 0;
    return BASE_OK;
}

static enum base_status port_send(void *ctx, uint32_t stream, const uint8_t *bytes, size_t size,
                                  bool early)
{
    struct rig_device *device = ctx;
    struct rig_stream *s = &device->streams[stream];
    if (!call(device)) {
        return BASE_ERR_CLOSED;
    }
    assert_true(s->open);
    if (device->choked || (device->up_max > 0 && s->up_size + size > device->up_max)) {
        return BASE_ERR_BUSY;
    }
    assert_true(s->up_size + size <= PIPE);
    memcpy(s->up + s->up_size, bytes, size);
    s->up_size += size;
    device->gateway->early_bytes += early ? size : 0;
    return BASE_OK;
}

static void port_close(void *ctx, uint32_t stream)
{
    struct rig_device *device = ctx;
    (void)call(device);
    device->streams[stream].open = false;
}

static uint64_t port_random(void *ctx)
{
    struct rig_device *device = ctx;
    return base_prng_next(&device->prng);
}

// ---- Gateway

void rig_gateway_init(struct rig_gateway *gateway)
{
    *gateway = (struct rig_gateway){.credit_bytes = 256 * 1024, .credit_records = 16384};
    gateway->rows = calloc(RIG_ROWS_MAX, sizeof(*gateway->rows));
    assert_non_null(gateway->rows);
}

void rig_gateway_done(struct rig_gateway *gateway)
{
    free(gateway->rows);
}

static struct rig_mark *mark_of(struct rig_gateway *gateway, uint8_t class_id, uint32_t epoch)
{
    for (uint32_t i = 0; i < gateway->mark_count; i++) {
        if (gateway->marks[i].class_id == class_id && gateway->marks[i].epoch == epoch) {
            return &gateway->marks[i];
        }
    }
    assert_true(gateway->mark_count < RIG_MARKS_MAX);
    struct rig_mark *mark = &gateway->marks[gateway->mark_count++];
    *mark = (struct rig_mark){.class_id = class_id,
                              .epoch = epoch,
                              .hash = wire_tunnel_chain_first(RIG_DEVICE, class_id, epoch)};
    return mark;
}

void rig_say(struct rig_device *device, uint32_t stream, const uint8_t *frame, size_t size)
{
    struct rig_stream *s = &device->streams[stream];
    assert_true(s->down_size + size <= PIPE);
    memcpy(s->down + s->down_size, frame, size);
    s->down_size += size;
}

static void say_fork(struct rig_device *device, uint32_t stream, const struct rig_mark *mark)
{
    uint8_t frame[64];
    size_t size = 0;
    const struct wire_tunnel_fork fork = {mark->class_id, mark->epoch, mark->next, mark->hash};
    device->gateway->forks++;
    assert_int_equal(wire_tunnel_fork_encode(&fork, frame, sizeof frame, &size), BASE_OK);
    rig_say(device, stream, frame, size);
}

static void say_ack(struct rig_device *device, uint32_t stream, struct rig_mark *mark)
{
    uint8_t frame[64];
    size_t size = 0;
    if (device->gateway->silent) {
        return;
    }
    const struct wire_tunnel_ack ack = {mark->class_id, WIRE_TUNNEL_DURABLE, mark->epoch,
                                        mark->next, 0};
    mark->durable = mark->next;
    assert_int_equal(wire_tunnel_ack_encode(&ack, frame, sizeof frame, &size), BASE_OK);
    rig_say(device, stream, frame, size);
}

static void give_credit(struct rig_device *device, uint32_t stream, uint8_t class_id,
                        uint32_t bytes, uint32_t records)
{
    uint8_t frame[64];
    size_t size = 0;
    if (device->gateway->no_credit_back) {
        return;
    }
    const struct wire_tunnel_credit credit = {class_id, bytes, records};
    assert_int_equal(wire_tunnel_credit_encode(&credit, frame, sizeof frame, &size), BASE_OK);
    rig_say(device, stream, frame, size);
}

static void on_hello(struct rig_device *device, uint32_t stream,
                     const struct wire_tunnel_hello *hello)
{
    struct rig_gateway *gateway = device->gateway;
    struct wire_tunnel_welcome welcome = {.wall_ms = 1, .dict = gateway->dict};
    struct rig_stream *s = &device->streams[stream];
    assert_true(hello->device == RIG_DEVICE);
    gateway->hellos++;
    for (uint32_t i = 0; i < hello->class_count; i++) {
        struct rig_mark *mark =
            mark_of(gateway, hello->classes[i].class_id, hello->classes[i].epoch);
        if (mark->owner != NULL && mark->owner != device) { // what it sends is not taken any more
            struct rig_device *old = mark->owner;
            for (unsigned k = 0; k < WIRE_TUNNEL_CLASSES; k++) {
                old->streams[k].ended |= (old->streams[k].classes & 1u << mark->class_id) != 0;
            }
        }
        mark->owner = device;
        s->classes |= (uint8_t)(1u << mark->class_id);
        welcome.classes[welcome.class_count++] = (struct wire_tunnel_welcome_class){
            .class_id = mark->class_id,
            .epoch = mark->epoch,
            .high_water = mark->next,
            .hash = mark->hash,
            .credit_bytes = gateway->credit_bytes,
            .credit_records = gateway->credit_records,
        };
        if (s->partial_size > 0 && s->partial.class_id == mark->class_id &&
            s->partial.epoch == mark->epoch && s->partial.number == mark->next) {
            welcome.classes[welcome.class_count - 1].partial_batch = mark->next;
            welcome.classes[welcome.class_count - 1].partial_bytes = s->partial_size;
        }
    }
    uint8_t frame[512];
    size_t size = 0;
    s->welcomed = true;
    assert_int_equal(wire_tunnel_welcome_encode(&welcome, frame, sizeof frame, &size), BASE_OK);
    rig_say(device, stream, frame, size);
}

static void add_row(struct rig_gateway *gateway, struct rig_mark *mark, uint64_t token,
                    uint8_t reason)
{
    assert_true(gateway->row_count < RIG_ROWS_MAX);
    gateway->rows[gateway->row_count++] = (struct rig_row){
        .class_id = mark->class_id,
        .epoch = mark->epoch,
        .seq = mark->next_seq++,
        .token = token,
        .reason = reason,
    };
}

static uint64_t token_of(const struct wire_record *record)
{
    uint64_t token = 0;
    assert_true(record->size >= TOKEN);
    memcpy(&token, record->bytes, TOKEN);
    return token;
}

// The records the gateway refuses, of the first 64: a bit each.
static uint64_t find_bad(const struct rig_gateway *gateway, struct wire_batch batch)
{
    struct wire_record record;
    uint64_t bad = 0;
    for (unsigned i = 0; i < 64 && wire_batch_next(&batch, &record); i++) {
        if ((gateway->bad_token != 0 && token_of(&record) == gateway->bad_token) ||
            (gateway->bad_size != 0 && record.size == gateway->bad_size)) {
            bad |= UINT64_C(1) << i;
        }
    }
    return bad;
}

static bool refused(struct rig_device *device, uint32_t stream,
                    const struct wire_tunnel_batch *frame, const struct wire_batch *batch)
{
    struct rig_gateway *gateway = device->gateway;
    uint8_t bytes[64];
    size_t size = 0;
    uint64_t bad = find_bad(gateway, *batch);
    if (bad == 0) {
        return false;
    }
    unsigned first = (unsigned)__builtin_ctzll(bad);
    struct wire_tunnel_reject reject = {
        .class_id = frame->class_id,
        .number = frame->number,
        .record = WIRE_TUNNEL_NO_RECORD,
        .status = BASE_ERR_INVALID,
    };
    if (!gateway->reject_nameless) {
        reject.record = first;
        reject.more = first < 63 ? bad >> (first + 1) : 0;
    }
    assert_int_equal(wire_tunnel_reject_encode(&reject, bytes, sizeof bytes, &size), BASE_OK);
    rig_say(device, stream, bytes, size);
    return true;
}

// The whole batch is there, as sent.
static void take_batch(struct rig_device *device, uint32_t stream,
                       const struct wire_tunnel_batch *frame, const uint8_t *sent)
{
    static uint8_t raw[WIRE_TUNNEL_RAW_MAX];
    struct rig_gateway *gateway = device->gateway;
    struct rig_mark *mark = mark_of(gateway, frame->class_id, frame->epoch);
    give_credit(device, stream, frame->class_id, frame->sent_bytes, frame->count);
    bool behind = frame->number > mark->next;
    if (mark->owner != device || (behind && frame->number != mark->looked_end)) {
        return; // superseded, or behind a gap
    }
    mark->looked_end += behind;
    if (frame->number < mark->next) {
        gateway->resent++;
        return;
    }
    if (!behind && frame->prev_hash != mark->hash) {
        say_fork(device, stream, mark);
        return;
    }
    if (frame->codec == WIRE_TUNNEL_ZSTD_DICT && gateway->unknown_dict && behind) {
        return;
    }
    if (frame->codec == WIRE_TUNNEL_ZSTD_DICT && gateway->unknown_dict) {
        uint8_t bytes[64];
        size_t size = 0;
        const struct wire_tunnel_needfull needfull = {frame->class_id, frame->number};
        assert_int_equal(wire_tunnel_needfull_encode(&needfull, bytes, sizeof bytes, &size),
                         BASE_OK);
        rig_say(device, stream, bytes, size);
        return;
    }
    if (frame->codec == WIRE_TUNNEL_PLAIN) {
        memcpy(raw, sent, frame->raw_bytes);
    } else {
        runs_decode(sent, frame->sent_bytes, frame->dict != 0 ? 0x55 : 0, raw, frame->raw_bytes);
        gateway->compressed++;
        gateway->with_dict += frame->dict != 0;
    }
    assert_true(frame->hash == wire_tunnel_chain(frame->prev_hash, raw, frame->raw_bytes));
    struct wire_batch batch;
    uint32_t bad = 0;
    assert_int_equal(wire_batch_parse(raw, frame->raw_bytes, &batch, &bad), BASE_OK);
    assert_int_equal(batch.record_count, frame->count);
    if (refused(device, stream, frame, &batch) || behind) {
        mark->looked_end = frame->number >= mark->looked_end ? frame->number + 1 : mark->looked_end;
        return;
    }
    assert_true(frame->first_seq == mark->next_seq);
    struct wire_record record;
    while (wire_batch_next(&batch, &record)) {
        add_row(gateway, mark, token_of(&record), 0);
    }
    gateway->batches++;
    if (gateway->order_count < sizeof(gateway->order)) {
        gateway->order[gateway->order_count++] = frame->class_id;
    }
    mark->next++;
    mark->hash = frame->hash;
    say_ack(device, stream, mark);
}

static void take_loss(struct rig_device *device, uint32_t stream,
                      const struct wire_tunnel_loss_frame *loss)
{
    struct rig_mark *mark = mark_of(device->gateway, loss->class_id, loss->epoch);
    if (mark->owner != device || loss->number != mark->next) {
        return;
    }
    if (loss->prev_hash != mark->hash) {
        say_fork(device, stream, mark);
        return;
    }
    assert_true(loss->hash == wire_tunnel_chain_loss(loss));
    assert_true(loss->first_seq == mark->next_seq);
    for (uint64_t i = 0; i < loss->count; i++) {
        add_row(device->gateway, mark, 0, loss->reason);
    }
    mark->next += loss->numbers;
    mark->hash = loss->hash;
    say_ack(device, stream, mark);
}

static void on_batch(struct rig_device *device, uint32_t stream,
                     const struct wire_tunnel_batch *frame)
{
    struct rig_stream *s = &device->streams[stream];
    if (frame->part_bytes == frame->sent_bytes) {
        take_batch(device, stream, frame, frame->bytes);
        return;
    }
    memcpy(s->batch, frame->bytes, frame->part_bytes);
    s->partial = *frame;
    s->partial_size = frame->part_bytes;
}

static void on_chunk(struct rig_device *device, uint32_t stream,
                     const struct wire_tunnel_chunk *chunk)
{
    struct rig_stream *s = &device->streams[stream];
    device->gateway->chunks++;
    if (s->partial_size == 0 || s->partial.number != chunk->number) {
        return;
    }
    assert_int_equal(s->partial_size, chunk->offset);
    memcpy(s->batch + chunk->offset, chunk->bytes, chunk->size);
    s->partial_size += chunk->size;
    if (s->partial_size == s->partial.sent_bytes) {
        s->partial_size = 0;
        take_batch(device, stream, &s->partial, s->batch);
    } else {
        give_credit(device, stream, chunk->class_id, chunk->size, 0);
    }
}

static void on_frame(struct rig_device *device, uint32_t stream, enum wire_tunnel_type type,
                     const uint8_t *payload, size_t size)
{
    struct wire_tunnel_hello hello;
    struct wire_tunnel_batch batch;
    struct wire_tunnel_chunk chunk;
    struct wire_tunnel_loss_frame loss;
    uint64_t value = 0;
    uint8_t frame[16];
    size_t frame_size = 0;
    assert_true(type == WIRE_TUNNEL_HELLO || device->streams[stream].welcomed);
    switch ((int)type) {
    case WIRE_TUNNEL_HELLO:
        assert_int_equal(wire_tunnel_hello_parse(payload, size, &hello), BASE_OK);
        on_hello(device, stream, &hello);
        break;
    case WIRE_TUNNEL_BATCH:
        assert_int_equal(wire_tunnel_batch_parse(payload, size, &batch), BASE_OK);
        on_batch(device, stream, &batch);
        break;
    case WIRE_TUNNEL_CHUNK:
        assert_int_equal(wire_tunnel_chunk_parse(payload, size, &chunk), BASE_OK);
        on_chunk(device, stream, &chunk);
        break;
    case WIRE_TUNNEL_LOSS:
        assert_int_equal(wire_tunnel_loss_parse(payload, size, &loss), BASE_OK);
        take_loss(device, stream, &loss);
        break;
    case WIRE_TUNNEL_PING:
        assert_int_equal(wire_tunnel_ping_parse(payload, size, &value), BASE_OK);
        assert_int_equal(
            wire_tunnel_ping_encode(WIRE_TUNNEL_PONG, value, frame, sizeof frame, &frame_size),
            BASE_OK);
        rig_say(device, stream, frame, frame_size);
        break;
    default:
        fail_msg("a device said frame type %d", (int)type);
    }
}

void rig_deliver_up(struct rig_device *device)
{
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES && !device->gateway->mute; i++) {
        struct rig_stream *s = &device->streams[i];
        size_t at = 0;
        while (s->open && at < s->up_size) {
            enum wire_tunnel_type type;
            size_t size = 0;
            assert_int_equal(wire_tunnel_head(s->up + at, s->up_size - at, &type, &size), BASE_OK);
            assert_true(at + WIRE_TUNNEL_HEAD + size <= s->up_size);
            on_frame(device, i, type, s->up + at + WIRE_TUNNEL_HEAD, size);
            at += WIRE_TUNNEL_HEAD + size;
        }
        s->up_size = 0;
    }
}

void rig_deliver_down(struct rig_device *device)
{
    static uint8_t bytes[PIPE];
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        struct rig_stream *s = &device->streams[i];
        if (!s->open || device->killed || device->kv.killed) {
            continue;
        }
        if (!s->announced && !device->gateway->mute) {
            s->announced = true;
            dev_tunnel_on_open(device->tunnel, i, device->now_us);
        }
        if (s->ended) {
            s->open = false;
            dev_tunnel_on_closed(device->tunnel, i, device->now_us, BASE_OK, 0);
            continue;
        }
        size_t size = s->down_size;
        memcpy(bytes, s->down, size);
        s->down_size = 0;
        size_t at = 0;
        while (at < size && s->open && !device->killed && !device->kv.killed) {
            size_t piece = 1 + (size_t)base_prng_below(&device->prng, 40);
            piece = piece < size - at ? piece : size - at;
            dev_tunnel_on_bytes(device->tunnel, i, device->now_us, bytes + at, piece);
            at += piece;
        }
        if (s->open && !device->choked) {
            dev_tunnel_on_writable(device->tunnel, i, device->now_us);
        }
    }
}

// ---- Device

void rig_device_init(struct rig_device *device, struct rig_gateway *gateway)
{
    *device = (struct rig_device){.gateway = gateway, .now_us = 1000000};
    mem_kv_init(&device->kv);
    base_prng_seed(&device->prng, 7);
    device->config = (struct dev_tunnel_config){
        .device_id = RIG_DEVICE, .app = BASE_STR("1.0"), .os = BASE_STR("test")};
    device->collect_memory = malloc(dev_collect_bytes());
    assert_non_null(device->collect_memory);
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        device->tokens[i] = calloc(RIG_ROWS_MAX, sizeof(uint64_t));
        device->streams[i].up = malloc(PIPE);
        device->streams[i].down = malloc(PIPE);
        device->streams[i].batch = malloc(PIPE);
        assert_non_null(device->streams[i].batch);
    }
}

void rig_device_done(struct rig_device *device)
{
    mem_kv_done(&device->kv);
    free(device->collect_memory);
    free(device->tunnel_memory);
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        free(device->tokens[i]);
        free(device->streams[i].up);
        free(device->streams[i].down);
        free(device->streams[i].batch);
    }
}

static uint64_t accounted(struct rig_device *device, uint8_t class_id)
{
    struct dev_tunnel_stats stats;
    dev_tunnel_stats(device->tunnel, &stats);
    return stats.classes[class_id].produced;
}

void rig_boot(struct rig_device *device)
{
    const struct dev_kv_port port = mem_kv_port(&device->kv);
    struct dev_tunnel_ports ports = {
        .random = {device, port_random},
        .transport = {device, port_open, port_send, port_close},
        .codec = {device, codec_compress, codec_dicts},
    };
    mem_kv_revive(&device->kv);
    device->killed = false;
    device->kill_at = 0;
    size_t size = dev_tunnel_bytes(&device->config);
    assert_true(size > 0);
    free(device->tunnel_memory);
    device->tunnel_memory = malloc(size);
    assert_non_null(device->tunnel_memory);
    memset(device->tunnel_memory, 0xa5, size);
    assert_int_equal(
        dev_collect_init(device->collect_memory, dev_collect_bytes(), &port, &device->collect),
        BASE_OK);
    assert_int_equal(dev_collect_boot(device->collect, device->now_us), BASE_OK);
    ports.collect = device->collect;
    assert_int_equal(
        dev_tunnel_init(device->tunnel_memory, size, &device->config, &ports, &device->tunnel),
        BASE_OK);
    assert_int_equal(dev_tunnel_boot(device->tunnel, device->now_us), BASE_OK);
    assert_true(dev_tunnel_validate(device->tunnel));
    for (uint8_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        if ((device->config.classes == 0 || (device->config.classes & 1u << i) != 0)) {
            uint64_t known = accounted(device, i);
            assert_true(known <= device->token_count[i]);
            device->forgotten[i] = device->token_count[i] - known;
        }
    }
}

void rig_kill(struct rig_device *device)
{
    device->killed = true;
    device->kv.killed = true;
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        device->streams[i].open = false;
        device->streams[i].up_size = 0;
        device->streams[i].down_size = 0;
    }
}

void rig_clone(struct rig_device *to, struct rig_device *from)
{
    rig_kill(to);
    mem_kv_revive(&to->kv);
    mem_kv_copy(&to->kv, &from->kv);
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        memcpy(to->tokens[i], from->tokens[i], from->token_count[i] * sizeof(uint64_t));
        to->token_count[i] = from->token_count[i];
        to->forgotten[i] = 0;
    }
    to->config = from->config;
    to->now_us = from->now_us;
    rig_boot(to);
}

void rig_offer(struct rig_device *device, uint8_t class_id, uint32_t size)
{
    static uint8_t body[WIRE_RECORD_BYTES_MAX];
    static uint64_t tokens = 1000;
    uint64_t token = ++tokens;
    size = size < TOKEN ? TOKEN : size;
    memset(body, (int)(token & 0x7f), size);
    memcpy(body, &token, TOKEN);
    const struct wire_upload_record record = {
        .class_id = class_id,
        .key = {BASE_STR("ipv"), BASE_STR("feature"), (uint16_t)(token % 3)},
        .format = WIRE_RECORD_BYTES,
        .wall_ms = device->now_us / 1000,
        .bytes = body,
        .size = size,
    };
    if (device->killed || device->kv.killed) {
        return;
    }
    assert_int_equal(dev_tunnel_offer(device->tunnel, device->now_us, &record, NULL), BASE_OK);
    assert_true(device->token_count[class_id] < RIG_ROWS_MAX);
    device->tokens[class_id][device->token_count[class_id]++] = token;
    assert_true(dev_tunnel_validate(device->tunnel));
}

void rig_unmade(struct rig_device *device, uint8_t class_id, uint32_t count)
{
    if (device->killed || device->kv.killed) {
        return;
    }
    assert_int_equal(dev_tunnel_unmade(device->tunnel, class_id, count), BASE_OK);
    assert_true(device->token_count[class_id] + count <= RIG_ROWS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        device->tokens[class_id][device->token_count[class_id]++] = 1; // in no row
    }
    assert_true(dev_tunnel_validate(device->tunnel));
}

void rig_step_only(struct rig_device *device)
{
    if (!device->killed && !device->kv.killed) {
        (void)dev_tunnel_step(device->tunnel, device->now_us);
        assert_true(dev_tunnel_validate(device->tunnel));
    }
}

uint64_t rig_turn(struct rig_device *device)
{
    uint64_t next = UINT64_MAX;
    if (!device->killed && !device->kv.killed) {
        next = dev_tunnel_step(device->tunnel, device->now_us);
        assert_true(dev_tunnel_validate(device->tunnel));
    }
    rig_deliver_up(device);
    rig_deliver_down(device);
    if (!device->killed && !device->kv.killed) {
        assert_true(dev_tunnel_validate(device->tunnel));
    }
    return next;
}

void rig_cut(struct rig_device *device)
{
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        struct rig_stream *s = &device->streams[i];
        if (!s->open) {
            continue;
        }
        s->open = false;
        s->up_size = 0;
        s->down_size = 0;
        if (!device->killed && !device->kv.killed) {
            dev_tunnel_on_closed(device->tunnel, i, device->now_us, BASE_ERR_CLOSED, 0);
            assert_true(dev_tunnel_validate(device->tunnel));
        }
    }
}

void rig_pass(struct rig_device *device, uint64_t ms)
{
    uint64_t end = device->now_us + ms * 1000;
    for (unsigned turns = 0; device->now_us < end && turns < 100000; turns++) {
        uint64_t next = rig_turn(device);
        next = next > device->now_us ? next : device->now_us + 1000;
        device->now_us = next < end ? next : end;
    }
    (void)rig_turn(device);
}

void rig_drain(struct rig_device *device, uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        uint64_t next = rig_turn(device);
        if (device->killed || device->kv.killed || dev_tunnel_is_idle(device->tunnel)) {
            return;
        }
        uint64_t soon = device->now_us + 20000;
        device->now_us = next > soon && next != UINT64_MAX ? next : soon;
    }
    struct dev_tunnel_stats stats;
    dev_tunnel_stats(device->tunnel, &stats);
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        printf("class %u: queued %llu, tail %llu, next %llu\n", i,
               (unsigned long long)stats.classes[i].queued,
               (unsigned long long)stats.classes[i].tail,
               (unsigned long long)stats.classes[i].next);
    }
    fail_msg("not idle after %u turns", (unsigned)turns);
}

uint32_t rig_rows_of(const struct rig_gateway *gateway, uint64_t token)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gateway->row_count; i++) {
        count += gateway->rows[i].token == token;
    }
    return count;
}

struct dev_tunnel_stats rig_figures(const struct rig_device *device)
{
    struct dev_tunnel_stats stats;
    dev_tunnel_stats(device->tunnel, &stats);
    return stats;
}

uint64_t rig_lost(struct rig_device *device, uint8_t class_id)
{
    struct dev_tunnel_stats stats;
    uint64_t lost = 0;
    dev_tunnel_stats(device->tunnel, &stats);
    for (unsigned reason = 0; reason < WIRE_TUNNEL_LOSS_END; reason++) {
        lost += stats.classes[class_id].lost[reason];
    }
    return lost;
}

// No two rows have one identity.
static void check_identities(const struct rig_gateway *gateway)
{
    for (uint32_t m = 0; m < gateway->mark_count; m++) {
        const struct rig_mark *mark = &gateway->marks[m];
        uint64_t seen = 0;
        for (uint32_t i = 0; i < gateway->row_count; i++) {
            const struct rig_row *row = &gateway->rows[i];
            if (row->class_id == mark->class_id && row->epoch == mark->epoch) {
                assert_true(row->seq == seen);
                seen++;
            }
        }
        assert_true(seen == mark->next_seq);
    }
}

void rig_check(struct rig_device *device)
{
    struct dev_tunnel_stats stats;
    dev_tunnel_stats(device->tunnel, &stats);
    check_identities(device->gateway);
    for (uint8_t class_id = 0; class_id < WIRE_TUNNEL_CLASSES; class_id++) {
        const struct dev_tunnel_class_stats *class_stats = &stats.classes[class_id];
        uint64_t there = 0;
        for (uint32_t i = 0; i < device->token_count[class_id]; i++) {
            uint32_t rows = rig_rows_of(device->gateway, device->tokens[class_id][i]);
            if (rows > 1) {
                fail_msg("token %u of class %u is in %u rows", (unsigned)i, class_id,
                         (unsigned)rows);
            }
            there += rows;
        }
        uint64_t lost = rig_lost(device, class_id);
        if (class_stats->durable != there ||
            there + lost + class_stats->queued + device->forgotten[class_id] !=
                device->token_count[class_id]) {
            fail_msg("class %u: %u offered, %llu there, durable %llu, lost %llu, queued %llu, "
                     "forgotten %llu",
                     class_id, (unsigned)device->token_count[class_id], (unsigned long long)there,
                     (unsigned long long)class_stats->durable, (unsigned long long)lost,
                     (unsigned long long)class_stats->queued,
                     (unsigned long long)device->forgotten[class_id]);
        }
    }
}
