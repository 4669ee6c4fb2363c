// Any bytes as what the data pipeline finds in its store at a start: the recorder's numbers, the
// account of gaps, a block of events, a feature's row. No crash; afterwards it records, numbers
// ascend, and everything can be read.
//
// Input: u8 which (bit 0: the numbers' hash is made right), then three pieces with u16 sizes:
// numbers, account, block; the rest is the key of a feature's row.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "mem/mem_kv.h"
#include "pipeline/storage/feature_store.h"
#include "pipeline/record/sequence.h"
#include "wire/event_attrs.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_MAX 4096

struct pipeline {
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_sequence *sequence;
    struct dev_feature_store *features;
    uint64_t next;
};

static void *block(size_t bytes)
{
    static uint8_t arena[1 << 20] __attribute__((aligned(16)));
    static size_t used;
    used = bytes == 0 ? 0 : used;
    void *memory = arena + used;
    used += (bytes + 15) & ~(size_t)15;
    base_check(used <= sizeof(arena));
    return memory;
}

static void put(struct mem_kv *kv, enum dev_space space, const void *key, size_t key_size,
                const uint8_t *value, size_t value_size)
{
    const struct dev_kv_port port = mem_kv_port(kv);
    const struct dev_kv_change change = {
        .space = space,
        .key = key,
        .key_size = (uint32_t)key_size,
        .value = value,
        .value_size = (uint32_t)value_size,
    };
    base_check(port.commit(port.ctx, &change, 1) == BASE_OK);
}

static void fill(struct mem_kv *kv, struct base_reader *input)
{
    uint8_t bytes[PIECE_MAX + 8];
    uint8_t which = base_reader_u8(input);
    for (unsigned piece = 0; piece < 3; piece++) {
        size_t size = base_reader_u16(input) % PIECE_MAX;
        size = size < base_reader_left(input) ? size : base_reader_left(input);
        base_reader_copy(input, bytes, size);
        if (piece == 0) {
            uint64_t hash = base_hash64(bytes, size);
            memcpy(bytes + size, &hash, sizeof(hash));
            size += (which & 1) != 0 ? sizeof(hash) : 0;
            put(kv, DEV_SPACE_STATE, "recorder", 8, bytes, size);
        } else if (piece == 1) {
            put(kv, DEV_SPACE_STATE, "sequence", 8, bytes, size);
        } else {
            static const uint8_t key[16] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 99};
            put(kv, DEV_SPACE_EVENTS, key, sizeof(key), bytes, size);
        }
    }
    size_t left = base_reader_left(input);
    left = left < DEV_COLLECT_KEY_MAX ? left : DEV_COLLECT_KEY_MAX;
    const uint8_t *key = left > 0 ? base_reader_bytes(input, left) : NULL;
    if (key != NULL) {
        put(kv, DEV_SPACE_FEATURES, key, left, (const uint8_t *)"row", 3);
    }
}

static void on_event(void *ctx, const struct dev_event *event)
{
    struct pipeline *pipeline = ctx;
    base_check(event->seq >= pipeline->next);
    pipeline->next = event->seq + 1;
    dev_sequence_on_event(pipeline->sequence, 0, event);
}

static void on_gap(void *ctx, const struct dev_gap *gap)
{
    struct pipeline *pipeline = ctx;
    base_check(gap->count > 0);
    pipeline->next = gap->first + gap->count;
    dev_sequence_on_gap(pipeline->sequence, gap);
}

static bool see_event(void *ctx, const struct dev_event *event)
{
    uint32_t *count = ctx;
    base_check(wire_event_attrs_check(event->attrs, event->attrs_bytes, event->attr_count) ==
               BASE_OK);
    *count += 1;
    return true;
}

static bool see_row(void *ctx, const struct dev_feature_row *row)
{
    uint32_t *count = ctx;
    *count += row->value_size > 0 ? 1 : 0;
    return true;
}

static void start(struct pipeline *pipeline, const struct dev_kv_port *port)
{
    (void)block(0);
    base_check(dev_collect_init(block(dev_collect_bytes()), dev_collect_bytes(), port,
                                &pipeline->collect) == BASE_OK);
    const struct dev_recorder_options recorder = {
        .entropy = 1, .boot_id = 2, .collect = pipeline->collect};
    base_check(dev_recorder_init(block(dev_recorder_bytes(&recorder)),
                                 dev_recorder_bytes(&recorder), &recorder,
                                 &pipeline->recorder) == BASE_OK);
    const struct dev_sequence_options sequence = {.collect = pipeline->collect,
                                                  .recorder = pipeline->recorder};
    base_check(dev_sequence_init(block(dev_sequence_bytes(&sequence)),
                                 dev_sequence_bytes(&sequence), &sequence,
                                 &pipeline->sequence) == BASE_OK);
    base_check(dev_feature_store_init(block(dev_feature_store_bytes()), dev_feature_store_bytes(),
                                      pipeline->collect, &pipeline->features) == BASE_OK);
}

static void live(struct pipeline *pipeline)
{
    const struct dev_recorder_sink sink = {.ctx = pipeline, .on_event = on_event, .on_gap = on_gap};
    uint32_t count = 0;
    base_check(dev_collect_boot(pipeline->collect, 0) == BASE_OK);
    base_check(dev_sequence_boot(pipeline->sequence, 0) == BASE_OK);
    base_check(dev_feature_store_boot(pipeline->features, 0) == BASE_OK);
    // Numbers that end at 2^64 cannot be reserved: the start says so.
    if (dev_recorder_boot(pipeline->recorder, 0, 0, &sink) != BASE_OK) {
        return;
    }
    for (unsigned i = 0; i < 6; i++) {
        const struct dev_recording recording = {
            .kind = i % 3 == 0 ? DEV_EVENT_ENTER : DEV_EVENT_CLICK, .page = BASE_STR("p")};
        base_check(dev_record(pipeline->recorder, &recording) == BASE_OK);
    }
    (void)dev_recorder_drain(pipeline->recorder, 0, 0, &sink);
    base_check(dev_sequence_validate(pipeline->sequence));
    base_check(dev_sequence_flush(pipeline->sequence, 0) == BASE_OK);
    const struct dev_sequence_part all = {.to_seq = UINT64_MAX};
    base_check(dev_sequence_each(pipeline->sequence, 0, &all, see_event, &count) == BASE_OK);
    base_check(count >= 6);
    const struct dev_feature_query query = {
        .feature = BASE_STR("f"), .every_key = true, .to_ms = UINT64_MAX};
    base_check(dev_feature_find(pipeline->features, 0, &query, see_row, &count) == BASE_OK);
    base_check(dev_collect_validate(pipeline->collect));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mem_kv kv;
    struct pipeline pipeline = {0};
    struct base_reader input;
    base_reader_init(&input, data, size);
    mem_kv_init(&kv);
    fill(&kv, &input);
    const struct dev_kv_port port = mem_kv_port(&kv);
    start(&pipeline, &port);
    live(&pipeline);
    mem_kv_done(&kv);
    return 0;
}
