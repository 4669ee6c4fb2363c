// Random valid messages, for the round-trip and damage tests of device/wire. All texts live in the
// sample itself.
#ifndef WIRE_SAMPLES_H
#define WIRE_SAMPLES_H

#include "test_kit.h"
#include "wire/attrs.h"
#include "wire/manifest.h"
#include "wire/trust/offer.h"
#include "wire/profile.h"
#include "wire/report.h"
#include "wire/trust/statement.h"

struct wire_sample_text {
    char bytes[200];
};

static inline uint64_t wire_sample_u64(struct base_prng *prng)
{
    return base_prng_next(prng) >> base_prng_below(prng, 64);
}

// `size` characters of `alphabet`.
static inline struct base_str wire_sample_str(struct base_prng *prng, struct wire_sample_text *text,
                                              const char *alphabet, size_t size)
{
    assert_true(size <= sizeof text->bytes);
    size_t letters = strlen(alphabet);
    for (size_t i = 0; i < size; i++) {
        text->bytes[i] = alphabet[base_prng_below(prng, letters)];
    }
    return (struct base_str){text->bytes, size};
}

static inline struct wire_sha256 wire_sample_sha(struct base_prng *prng)
{
    struct wire_sha256 digest;
    for (size_t i = 0; i < WIRE_SHA256_BYTES; i++) {
        digest.bytes[i] = (uint8_t)base_prng_next(prng);
    }
    return digest;
}

struct wire_sample_attrs {
    struct wire_attrs attrs;
    struct wire_sample_text names[WIRE_ATTRS_MAX];
    struct wire_sample_text texts[WIRE_ATTRS_MAX];
};

// Up to `count` attributes, about half of them well known, names unique, not sorted.
static inline void wire_sample_attrs(struct base_prng *prng, struct wire_sample_attrs *sample,
                                     uint32_t count)
{
    static const char *const known[] = {"runtime", "app_version", "os",     "ram_mb", "region",
                                        "channel", "network",     "locale", "model",  "os_version"};
    sample->attrs.count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct wire_attr *attr = &sample->attrs.items[i];
        if (i % 2 == 0 && i / 2 < TEST_COUNT(known)) {
            attr->name = base_str_of(known[i / 2]);
        } else {
            // The prefix makes the name unique.
            struct wire_sample_text tail;
            struct base_str rest = wire_sample_str(prng, &tail, "abz019_.", 5);
            int size = snprintf(sample->names[i].bytes, sizeof sample->names[i].bytes, "x%u_%.*s",
                                (unsigned)i, (int)rest.size, rest.data);
            attr->name = (struct base_str){sample->names[i].bytes, (size_t)size};
        }
        attr->type = (enum wire_attr_type)base_prng_below(prng, WIRE_ATTR_TYPE_COUNT);
        attr->text = (struct base_str){NULL, 0};
        attr->integer = 0;
        if (attr->type == WIRE_ATTR_STRING) {
            size_t size = (size_t)base_prng_below(prng, 6);
            attr->text = wire_sample_str(prng, &sample->texts[i], "abcXYZ 0.9-", size);
        } else if (attr->type == WIRE_ATTR_BOOLEAN) {
            attr->integer = (int64_t)base_prng_below(prng, 2);
        } else {
            attr->integer = (int64_t)wire_sample_u64(prng) / 1000;
        }
    }
}

struct wire_sample_release {
    struct wire_release release;
    struct wire_sample_text name;
};

// A slash stands between two letters or digits; so no part of a name is empty, "." or "..".
static inline void wire_sample_parts(char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool apart = i > 0 && i + 1 < size && strchr("._/-", bytes[i - 1]) == NULL &&
                     strchr("._/-", bytes[i + 1]) == NULL;
        bytes[i] = bytes[i] == '/' && !apart ? 'a' : bytes[i];
    }
}

static inline void wire_sample_release(struct base_prng *prng, struct wire_sample_release *sample)
{
    size_t name_size = 1 + (size_t)base_prng_below(prng, WIRE_TASK_NAME_MAX);
    struct base_str name = wire_sample_str(prng, &sample->name, "abc019._/-", name_size);
    sample->name.bytes[0] = 't';
    wire_sample_parts(sample->name.bytes, name.size);
    sample->release = (struct wire_release){
        .task_name = name,
        .release_counter = 1 + wire_sample_u64(prng) / 2,
        .manifest = wire_sample_sha(prng),
        .manifest_bytes = 1 + base_prng_below(prng, WIRE_MANIFEST_BYTES_MAX),
        .rollout_id = base_prng_next(prng),
        .salt = base_prng_next(prng),
        .max_bucket = (uint16_t)(1 + base_prng_below(prng, 10000)),
        .stage_kind = (uint8_t)base_prng_below(prng, 4),
        .issued_s = wire_sample_u64(prng),
        .expires_s = wire_sample_u64(prng),
    };
    sample->release.floor = base_prng_below(prng, sample->release.release_counter) +
                            base_prng_below(prng, 2); // up to its own counter
    if (base_prng_below(prng, 2) == 0) {
        sample->release.arm_salt = sample->release.salt + 1 == 0 ? 1 : sample->release.salt + 1;
        sample->release.arm_from = (uint16_t)base_prng_below(prng, 9999);
        sample->release.arm_to = (uint16_t)(sample->release.arm_from + 1);
    }
    if (base_prng_below(prng, 3) == 0) {
        sample->release.stage_kind = WIRE_STAGE_SHADOW;
        sample->release.shadow_slow_percent = (uint16_t)(100 + base_prng_below(prng, 9901));
        sample->release.shadow_memory_percent =
            base_prng_below(prng, 2) == 0 ? 0 : (uint16_t)(100 + base_prng_below(prng, 9901));
        static const char *const fields[WIRE_TOLERANCES_MAX] = {"", "a", "a.b", "scores"};
        struct wire_tolerances *tolerances = &sample->release.tolerances;
        for (uint32_t i = 0; i < WIRE_TOLERANCES_MAX; i++) {
            if (base_prng_below(prng, 2) == 0) {
                struct wire_tolerance *item = &tolerances->items[tolerances->count++];
                item->absolute = (double)base_prng_below(prng, 1000) / 7;
                item->relative = (double)(1 + base_prng_below(prng, 1000)) / 1000;
                item->field_size = (uint8_t)strlen(fields[i]);
                memcpy(item->field, fields[i], item->field_size);
            }
        }
    }
}

// An envelope around a random release, encoded; returns its size.
static inline size_t wire_sample_envelope(struct base_prng *prng, uint8_t *out, size_t capacity,
                                          uint32_t signatures)
{
    struct wire_sample_release sample;
    wire_sample_release(prng, &sample);
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_RELEASE, .payload = payload};
    assert_int_equal(
        wire_release_encode(&sample.release, payload, sizeof payload, &envelope.payload_bytes),
        BASE_OK);
    envelope.signature_count = signatures;
    for (uint32_t i = 0; i < signatures; i++) {
        struct wire_sha256 key = wire_sample_sha(prng);
        memcpy(envelope.signatures[i].key_id, key.bytes, sizeof key.bytes);
        memset(envelope.signatures[i].bytes, (int)i, WIRE_SIGNATURE_BYTES);
    }
    size_t size = 0;
    assert_int_equal(wire_envelope_encode(&envelope, out, capacity, &size), BASE_OK);
    return size;
}

struct wire_sample_manifest {
    struct wire_manifest manifest;
    struct wire_sample_text names[WIRE_MANIFEST_FILES_MAX];
};

static inline void wire_sample_manifest(struct base_prng *prng, struct wire_sample_manifest *sample,
                                        uint32_t files)
{
    static const char *const endings[] = {"", "mpy", "onnx", "json"};
    sample->manifest = (struct wire_manifest){
        .task_name = BASE_STR("shop/page-view"),
        .version = BASE_STR("1.2.3-rc.1+b7"),
        .runtime_abi = WIRE_RUNTIME_ABI,
        .entry = BASE_STR("f0"),
        .heap_kib = (uint32_t)wire_sample_u64(prng),
        .time_ms = (uint32_t)wire_sample_u64(prng),
        .every_s = (uint32_t)wire_sample_u64(prng),
        .config = BASE_STR("{\"k\":1}"),
        .file_count = files,
    };
    sample->manifest.exclusive = (enum wire_exclusive)base_prng_below(prng, WIRE_EXCLUSIVE_COUNT);
    if (sample->manifest.exclusive != WIRE_EXCLUSIVE_NONE) {
        sample->manifest.exclusive_root = wire_sample_sha(prng);
    }
    if (base_prng_below(prng, 2) == 0) { // a trigger "?", no events, nothing sent
        sample->manifest.declaration = BASE_STR("\x01\x01\x01?\x00\x00\x00\x00\x00\xff");
    }
    for (uint32_t i = 0; i < files; i++) {
        struct wire_manifest_file *file = &sample->manifest.files[i];
        file->kind =
            i == 0 ? WIRE_FILE_SCRIPT : (enum wire_file_kind)(1 + base_prng_below(prng, 3));
        int size =
            snprintf(sample->names[i].bytes, sizeof sample->names[i].bytes, "%sf%u.%s",
                     i > 0 && i % 3 == 0 ? "dir/sub-1/" : "", (unsigned)i, endings[file->kind]);
        file->name = (struct base_str){sample->names[i].bytes, (size_t)size};
        file->bytes = base_prng_below(prng, WIRE_FILE_BYTES_MAX + 1);
        file->digest = wire_sample_sha(prng);
    }
}

struct wire_sample_report {
    struct wire_report report;
    struct wire_sample_text details[WIRE_REPORT_MAX];
};

static inline void wire_sample_report(struct base_prng *prng, struct wire_sample_report *sample,
                                      uint32_t count)
{
    static const uint8_t kinds[] = {1, 2, 3, 4, 5, 6, 16, 17, 18, 19, 20, 21, 22, 23};
    sample->report = (struct wire_report){
        .device_id = base_prng_next(prng),
        .epoch = (uint32_t)base_prng_next(prng),
        .first_seq = 1 + wire_sample_u64(prng) / 2,
        .count = count,
    };
    for (uint32_t i = 0; i < count; i++) {
        size_t size = (size_t)base_prng_below(prng, 20);
        sample->report.outcomes[i] = (struct wire_outcome){
            .kind = (enum wire_outcome_kind)kinds[base_prng_below(prng, TEST_COUNT(kinds))],
            .task_id = base_prng_next(prng),
            .version_id = base_prng_next(prng),
            .rollout_id = base_prng_next(prng),
            .duration_us = wire_sample_u64(prng),
            .fingerprint = base_prng_next(prng),
            .figures = {.heap_peak_bytes = i % 2 * wire_sample_u64(prng)},
            .detail = wire_sample_str(prng, &sample->details[i], "abc :\n0", size),
        };
    }
}

#endif
