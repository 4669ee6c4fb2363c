// What compression makes of behaviour events on their way to the gateway, by batch size: as JSON
// records and as event blocks in columns, and of item-page-view features: alone and with a
// dictionary trained on other people's. Beside it zlib with and without the same dictionary. Prints
// one line of JSON a batch size and form: sizes against the raw JSON lines, and times of ours.
//
//   ipv_compress SEED BATCHES
//
// One thread; bench/pipeline_compress.py drives it.
#include "ipv_book.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"
#include "wire/batch.h"
#include "wire/event_block.h"
#include "zstd/codec_zstd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zdict.h>
#include <zlib.h>

#define EVENTS_MAX    100
#define PAYLOAD_MAX   (EVENTS_MAX * IPV_RAW_LINE_MAX)
#define SAMPLES       6000
#define SAMPLES_BYTES ((size_t)96 * 1024 * 1024)
#define DICT_BYTES    (32 * 1024)
#define TRAIN_FIRST   0 // devices to learn from; those measured begin far behind
#define HELD_FIRST    1000000

static const uint32_t EVENT_COUNTS[] = {1, 5, 20, 100};
#define COUNTS (sizeof(EVENT_COUNTS) / sizeof(EVENT_COUNTS[0]))

enum form { FORM_JSON, FORM_BLOCK, FORM_FEATURE, FORM_COUNT };
static const char *const FORM_NAMES[FORM_COUNT] = {"json", "block", "feature"};

// The dictionary trained last.
static struct {
    uint8_t bytes[DICT_BYTES];
    size_t size;
} trained;

// zlib as the peer: the same payloads at two levels, without and with the trained dictionary.
enum flate { FLATE_6, FLATE_6_DICT, FLATE_9, FLATE_9_DICT, FLATE_COUNT };
static const char *const FLATE_NAMES[FLATE_COUNT] = {"zlib6", "zlib6_dict", "zlib9", "zlib9_dict"};
static z_stream flates[FLATE_COUNT];

// Consecutive events of one device after the other, with all they point to copied.
struct source {
    struct ipv_device device;
    uint64_t seed, next;
    bool begun;
    uint32_t count;
    uint32_t boot;
    struct wire_event events[EVENTS_MAX];
    char *json; // the raw lines, one behind the other
    size_t json_sizes[EVENTS_MAX];
    uint8_t *copies;
    size_t copied;
};

static struct base_str copy_text(struct source *source, struct base_str text)
{
    char *at = (char *)source->copies + source->copied;
    if (text.size > 0) {
        memcpy(at, text.data, text.size);
    }
    source->copied += text.size;
    return (struct base_str){at, text.size};
}

static bool event_next(struct source *source, struct dev_event *event)
{
    while (!source->begun || !ipv_device_next(&source->device, event)) {
        if (source->begun && source->count > 0) {
            source->begun = false;
            return false; // a batch is of one device
        }
        ipv_device_init(&source->device, source->seed, source->next++, 3);
        source->begun = true;
    }
    return true;
}

// The next `count` events of one device and boot; false: these are not enough, take the next.
static bool fill(struct source *source, uint32_t count, size_t *out_raw)
{
    size_t raw = 0;
    source->count = 0;
    source->copied = 0;
    while (source->count < count) {
        struct dev_event event;
        if (!event_next(source, &event) || (source->count > 0 && event.boot != source->boot)) {
            return false;
        }
        source->boot = event.boot;
        size_t size = ipv_raw_json(source->device.id, &event, source->json + raw, IPV_RAW_LINE_MAX);
        struct base_str attrs =
            copy_text(source, (struct base_str){(const char *)event.attrs, event.attrs_bytes});
        source->events[source->count] = (struct wire_event){
            .seq = event.seq,
            .wall_ms = event.wall_ms,
            .mono_us = event.mono_us,
            .visit = event.visit,
            .instance = event.instance,
            .kind = (uint8_t)event.kind,
            .name = copy_text(source, event.name),
            .page = copy_text(source, event.page),
            .item = copy_text(source, event.item),
            .attrs = (const uint8_t *)attrs.data,
            .attrs_bytes = event.attrs_bytes,
            .attr_count = event.attr_count,
        };
        source->json_sizes[source->count++] = size;
        raw += size;
    }
    *out_raw = raw;
    return true;
}

// The next `count` features, of whichever devices.
static bool fill_features(struct source *source, uint32_t count, size_t *out_raw)
{
    static struct ipv_book book;
    size_t raw = 0;
    source->count = 0;
    while (source->count < count) {
        struct dev_event event;
        if (!source->begun || !ipv_device_next(&source->device, &event)) {
            ipv_device_init(&source->device, source->seed, source->next++, 3);
            ipv_book_init(&book);
            source->begun = true;
            continue;
        }
        const struct ipv_feature *feature = ipv_book_event(&book, &event);
        if (feature != NULL) {
            size_t size = ipv_feature_json(feature, source->json + raw, IPV_FEATURE_MAX);
            source->events[source->count].wall_ms = event.wall_ms;
            source->json_sizes[source->count++] = size;
            raw += size;
        }
    }
    *out_raw = raw;
    return true;
}

static bool fill_form(struct source *source, enum form form, uint32_t count, size_t *out_raw)
{
    return form == FORM_FEATURE ? fill_features(source, count, out_raw)
                                : fill(source, count, out_raw);
}

// The payload of a tunnel batch that carries the events.
static size_t payload_make(const struct source *source, enum form form, uint8_t *out)
{
    static uint8_t block[WIRE_EVENT_BLOCK_BYTES_MAX];
    static struct wire_record records[EVENTS_MAX];
    struct wire_upload_key upload = {BASE_STR("shop/behaviour"), BASE_STR("events"), 1};
    uint32_t count = 1;
    size_t size = 0;
    if (form == FORM_BLOCK) {
        ipv_need(wire_event_block_encode(
                     &(struct wire_event_list){source->events, source->count, source->boot}, block,
                     sizeof(block), &size) == BASE_OK,
                 "a block does not encode");
        records[0] = (struct wire_record){0, WIRE_RECORD_EVENTS, source->events[0].wall_ms, block,
                                          (uint32_t)size};
    } else {
        const uint8_t *at = (const uint8_t *)source->json;
        for (count = 0; count < source->count; count++) {
            records[count] =
                (struct wire_record){0, WIRE_RECORD_JSON, source->events[count].wall_ms, at,
                                     (uint32_t)source->json_sizes[count]};
            at += source->json_sizes[count];
        }
    }
    ipv_need(wire_batch_encode(&(struct wire_batch_content){&upload, 1, records, count}, out,
                               PAYLOAD_MAX, &size) == BASE_OK,
             "a batch does not encode");
    return size;
}

static struct wire_sha256 dict_train(struct source *source, enum form form, struct dev_codec *codec)
{
    static size_t sizes[SAMPLES];
    uint8_t *samples = malloc(SAMPLES_BYTES + PAYLOAD_MAX);
    size_t total = 0;
    uint32_t count = 0;
    ipv_need(samples != NULL, "no memory");
    source->next = TRAIN_FIRST;
    source->begun = false;
    while (count < SAMPLES && total < SAMPLES_BYTES) {
        size_t raw;
        // Mostly small batches: those are what a dictionary is for.
        if (fill_form(source, form, count % 4 == 3 ? 5 : 1, &raw)) {
            sizes[count] = payload_make(source, form, samples + total);
            total += sizes[count++];
        }
    }
    trained.size =
        ZDICT_trainFromBuffer(trained.bytes, sizeof(trained.bytes), samples, sizes, count);
    ipv_need(!ZDICT_isError(trained.size), "no dictionary");
    free(samples);
    struct wire_sha256 digest = {{(uint8_t)(form + 1)}};
    ipv_need(dev_codec_dict_add(codec, &digest, trained.bytes, trained.size) == BASE_OK,
             "no dictionary");
    return digest;
}

static void flates_init(void)
{
    for (int flate = 0; flate < FLATE_COUNT; flate++) {
        int level = flate < FLATE_9 ? 6 : 9;
        ipv_need(deflateInit2(&flates[flate], level, Z_DEFLATED, MAX_WBITS, MAX_MEM_LEVEL,
                              Z_DEFAULT_STRATEGY) == Z_OK,
                 "no memory");
    }
}

// Bytes of the payload in zlib's format (RFC 1950, which names a dictionary; gzip's cannot). Of the
// dictionary zlib takes what zstd matches against; the statistics before that are zstd's own.
static size_t deflate_payload(enum flate flate, uint8_t *payload, size_t size, uint8_t *out,
                              size_t capacity)
{
    z_stream *stream = &flates[flate];
    size_t head = ZDICT_getDictHeaderSize(trained.bytes, trained.size);
    ipv_need(deflateReset(stream) == Z_OK && !ZDICT_isError(head), "zlib failed");
    if (flate == FLATE_6_DICT || flate == FLATE_9_DICT) {
        ipv_need(deflateSetDictionary(stream, trained.bytes + head,
                                      (unsigned)(trained.size - head)) == Z_OK,
                 "zlib takes no dictionary");
    }
    stream->next_in = payload;
    stream->avail_in = (unsigned)size;
    stream->next_out = out;
    stream->avail_out = (unsigned)capacity;
    ipv_need(deflate(stream, Z_FINISH) == Z_STREAM_END, "zlib does not compress");
    return capacity - stream->avail_out;
}

static void measure(struct source *source, struct dev_codec *codec, enum form form, uint32_t dict,
                    uint32_t events, uint32_t batches)
{
    static uint8_t payload[PAYLOAD_MAX];
    static uint8_t packed[PAYLOAD_MAX + 4096];
    struct dev_tunnel_codec port = dev_codec_port(codec);
    struct ipv_times times = {0};
    uint64_t raw_bytes = 0;
    uint64_t payload_bytes = 0;
    uint64_t packed_bytes[2] = {0, 0}; // without, with
    uint64_t flate_bytes[FLATE_COUNT] = {0};
    source->next = HELD_FIRST;
    source->begun = false;
    for (uint32_t i = 0; i < batches;) {
        size_t raw;
        if (!fill_form(source, form, events, &raw)) {
            continue;
        }
        i++;
        size_t size = payload_make(source, form, payload);
        raw_bytes += raw;
        payload_bytes += size;
        for (int with = 0; with < 2; with++) {
            size_t wrote = 0;
            uint64_t start = ipv_now_ns();
            ipv_need(port.compress(port.ctx,
                                   &(struct dev_tunnel_compression){with == 1 ? dict : 0, payload,
                                                                    size, packed, sizeof(packed)},
                                   &wrote) == BASE_OK,
                     "does not compress");
            ipv_samples_add(with == 1 ? &times.visit : &times.exit, ipv_now_ns() - start);
            packed_bytes[with] += wrote;
        }
        for (int flate = 0; flate < FLATE_COUNT; flate++) {
            flate_bytes[flate] +=
                deflate_payload((enum flate)flate, payload, size, packed, sizeof(packed));
        }
    }
    (void)printf("{\"form\":\"%s\",\"events\":%" PRIu32 ",\"raw_bytes\":%.1f,\"payload_bytes\":%.1f"
                 ",\"plain_bytes\":%.1f,\"dict_bytes\":%.1f,\"codec_memory\":%zu",
                 FORM_NAMES[form], events, (double)raw_bytes / batches,
                 (double)payload_bytes / batches, (double)packed_bytes[0] / batches,
                 (double)packed_bytes[1] / batches, dev_codec_memory(codec));
    for (int flate = 0; flate < FLATE_COUNT; flate++) {
        (void)printf(",\"%s_bytes\":%.1f", FLATE_NAMES[flate],
                     (double)flate_bytes[flate] / batches);
    }
    (void)printf(",\"times\":");
    ipv_times_print(&times); // "visit": with the dictionary, "exit": without
    (void)printf("}\n");
    ipv_times_done(&times);
}

int main(int argc, char **argv)
{
    static struct source source;
    struct dev_codec *codec = NULL;
    uint64_t batches = 0;
    ipv_need(argc == 3 && base_str_u64(base_str_of(argv[1]), &source.seed) == BASE_OK &&
                 base_str_u64(base_str_of(argv[2]), &batches) == BASE_OK && batches > 0 &&
                 batches < UINT32_MAX,
             "usage: ipv_compress SEED BATCHES");
    source.json = malloc(PAYLOAD_MAX);
    source.copies = malloc(PAYLOAD_MAX);
    ipv_need(source.json != NULL && source.copies != NULL && dev_codec_new(0, &codec) == BASE_OK,
             "no memory");
    flates_init();
    for (int form = 0; form < FORM_COUNT; form++) {
        struct wire_sha256 digest = dict_train(&source, (enum form)form, codec);
        for (size_t i = 0; i < COUNTS; i++) {
            measure(&source, codec, (enum form)form, wire_tunnel_dict_id(&digest), EVENT_COUNTS[i],
                    (uint32_t)batches);
        }
    }
    for (int flate = 0; flate < FLATE_COUNT; flate++) {
        (void)deflateEnd(&flates[flate]); // between two payloads: says so, and frees all the same
    }
    dev_codec_free(codec);
    free(source.json);
    free(source.copies);
    return fflush(stdout) == 0 ? 0 : 1;
}
