// Patterns, one a line, a NUL, then stored state of an engine of these patterns, whose fingerprint
// is set right so that what is behind it is reached. What is refused leaves the engine fresh; what
// is accepted is whole, stays whole over a few events, and is stored again. The last bytes are the
// events.
#include "fuzz_target.h"

#include "base/check.h"
#include "pipeline/trigger/trigger.h"

#include <stdlib.h>
#include <string.h>

#define SOURCES_MAX 16
#define SECRET      3
#define EVENT_BYTES 3

static uint32_t read_sources(const char *text, size_t size, struct dev_trigger_source *out)
{
    uint32_t count = 0;
    size_t start = 0;
    for (size_t at = 0; at <= size && count < SOURCES_MAX; at++) {
        if (at < size && text[at] != '\n') {
            continue;
        }
        struct dev_pattern pattern;
        struct base_str line = {text + start, at - start};
        if (dev_pattern_parse(line, &pattern, NULL) == BASE_OK) {
            out[count] = (struct dev_trigger_source){count + 1, line};
            count++;
        }
        start = at + 1;
    }
    return count;
}

static void give_events(struct dev_trigger_engine *engine, const uint8_t *bytes, size_t size)
{
    struct dev_event event = {0};
    uint32_t count;
    for (; size >= EVENT_BYTES; bytes += EVENT_BYTES, size -= EVENT_BYTES) {
        char page = (char)('a' + bytes[1] % 4);
        char item = (char)('0' + bytes[1] / 4 % 4);
        event.seq += 1 + bytes[0] / 64;
        event.kind = (enum dev_event_kind)(DEV_EVENT_ENTER + bytes[0] % 6);
        event.page = (struct base_str){&page, 1};
        event.item = (struct base_str){&item, bytes[1] >= 128 ? 1 : 0};
        event.page_hash = dev_event_hash(SECRET, event.page);
        event.item_hash = dev_event_hash(SECRET, event.item);
        event.visit = bytes[2] % 4;
        event.boot += bytes[2] >= 250;
        event.mono_us += (uint64_t)(bytes[2] / 4) << bytes[2] % 32;
        event.wall_ms += bytes[2];
        const struct dev_trigger_fired *fired = dev_trigger_on_event(engine, &event, &count);
        for (uint32_t i = 1; i < count; i++) {
            base_check(fired[i - 1].source < fired[i].source);
        }
    }
}

static void run(const struct dev_trigger_set *set, size_t state_bytes, const uint8_t *bytes,
                size_t size)
{
    void *memory = malloc(state_bytes);
    struct dev_trigger_engine *engine;
    base_check(dev_trigger_init(set, memory, state_bytes, &engine) == BASE_OK);
    size_t stored_max = dev_trigger_encoded_max(engine);
    uint8_t *stored = malloc(stored_max);
    size_t stored_size;
    base_check(dev_trigger_encode(engine, stored, stored_max, &stored_size) == BASE_OK);
    uint8_t *state = malloc(size > 0 ? size : 1);
    memcpy(state, bytes, size);
    if (size >= 9) {
        memcpy(state + 1, stored + 1, 8); // the fingerprint
    }
    enum base_status status = dev_trigger_decode(engine, state, size);
    base_check(dev_trigger_validate(engine));
    if (status != BASE_OK) {
        size_t after;
        base_check(dev_trigger_encode(engine, stored, stored_max, &after) == BASE_OK);
        base_check(after == stored_size);
    }
    give_events(engine, bytes, size);
    base_check(dev_trigger_validate(engine));
    stored_max = dev_trigger_encoded_max(engine);
    stored = realloc(stored, stored_max);
    base_check(dev_trigger_encode(engine, stored, stored_max, &stored_size) == BASE_OK);
    base_check(dev_trigger_init(set, memory, state_bytes, &engine) == BASE_OK);
    base_check(dev_trigger_decode(engine, stored, stored_size) == BASE_OK);
    free(state);
    free(stored);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *nul = size > 0 ? memchr(text, 0, size) : NULL;
    size_t text_size = nul != NULL ? (size_t)(nul - text) : size;
    struct dev_trigger_source sources[SOURCES_MAX];
    uint32_t count = read_sources(text, text_size, sources);
    const struct dev_trigger_sources set_sources = {sources, count};
    struct dev_trigger_scratch scratch;
    base_check(dev_trigger_scratch_bytes(&set_sources, &scratch.bytes, NULL) == BASE_OK);
    scratch.memory = malloc(scratch.bytes);
    const struct dev_trigger_options options = {.secret = SECRET, .keys_max = 8};
    struct dev_trigger_certificate certificate;
    if (dev_trigger_certify(&set_sources, &options, scratch, &certificate, NULL) == BASE_OK) {
        const struct dev_trigger_set *set;
        void *memory = malloc(certificate.set_bytes);
        base_check(dev_trigger_compile(scratch.memory, memory, certificate.set_bytes, &set) ==
                   BASE_OK);
        free(scratch.memory);
        scratch.memory = NULL;
        run(set, certificate.state_bytes, data + text_size + (nul != NULL),
            size - text_size - (nul != NULL));
        free(memory);
    }
    free(scratch.memory);
    return 0;
}
