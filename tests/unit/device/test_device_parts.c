// The small pure parts of the runtime: back-off, the hint stream's parser, the streaming reader of
// answers, the queue of outcomes, and the stored record.
#include "core/base/runtime.h"
#include "core/control/sse.h"
#include "core/device_state.h"
#include "core/offer/offers_stream.h"
#include "device_rig.h"

#include "base/hash.h"
#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// ---- Back-off

static void test_backoff_stays_in_bounds(void **state)
{
    (void)state;
    struct dev_backoff backoff;
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    dev_backoff_init(&backoff, 100, 5000);
    uint32_t longest = 0;
    for (int i = 0; i < 10000; i++) {
        uint32_t last = backoff.last_ms > 100 ? backoff.last_ms : 100;
        uint32_t wait = dev_backoff_next(&backoff, base_prng_next(&prng), 0);
        assert_in_range(wait, 100, 5000);
        assert_true(wait <= 3 * last);
        longest = wait > longest ? wait : longest;
    }
    assert_true(longest > 4000);
    dev_backoff_reset(&backoff);
    assert_in_range(dev_backoff_next(&backoff, base_prng_next(&prng), 0), 100, 300);
}

static void test_backoff_honours_retry_after(void **state)
{
    (void)state;
    struct dev_backoff backoff;
    dev_backoff_init(&backoff, 100, 5000);
    assert_in_range(dev_backoff_next(&backoff, 12345, 60), 60100, 65000);
    assert_in_range(dev_backoff_next(&backoff, 12345, UINT32_MAX),
                    DEV_BACKOFF_RETRY_AFTER_MAX_S * 1000u,
                    DEV_BACKOFF_RETRY_AFTER_MAX_S * 1000u + 5000);
    dev_backoff_init(&backoff, 0, 0); // repaired, not divided by
    assert_in_range(dev_backoff_next(&backoff, UINT64_MAX, 0), 1, 1);
    dev_backoff_init(&backoff, UINT32_MAX, UINT32_MAX);
    assert_int_equal(dev_backoff_next(&backoff, UINT64_MAX, 0), UINT32_MAX);
}

// ---- Server-sent events

static int hints_in(const char *text, size_t chunk, uint32_t *out_spread_ms)
{
    struct dev_sse sse;
    int hints = 0;
    size_t size = strlen(text);
    dev_sse_init(&sse);
    for (size_t at = 0; at < size; at += chunk) {
        size_t step = chunk < size - at ? chunk : size - at;
        for (size_t done = 0; done < step;) {
            bool hint = false;
            size_t taken = dev_sse_feed(&sse, (const uint8_t *)text + at + done, step - done, &hint,
                                        out_spread_ms);
            assert_in_range(taken, 1, step - done);
            done += taken;
            hints += hint ? 1 : 0;
        }
    }
    return hints;
}

static void test_sse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int hints;
        uint32_t spread_ms; // of the last
    } cases[] = {
        {"event: hint\ndata: {\"spread_ms\":1500}\n\n", 1, 1500},
        {"event:hint\ndata:{\"spread_ms\":7}\n\n", 1, 7},
        {"event: hint\r\ndata: {\"spread_ms\":9}\r\n\r\n", 1, 9},
        {"event: hint\rdata: {\"spread_ms\":9}\r\r", 1, 9},
        {"event: hint\n\n", 1, 0},
        {"event: hint\ndata: {\"spread_ms\":99999999999}\n\n", 1, DEV_SSE_SPREAD_MS_MAX},
        {"event: hint\ndata: {\"spread_ms\":-5}\n\n", 1, 0},
        {"event: hint\ndata: {\"other\":1, \"spread_ms\":12}\n\n", 1, 12},
        {"event: hint\ndata: {\"after_ms\":70,\"spread_ms\":13}\n\n", 1, 13},
        {"event: hello\ndata: {\"spread_ms\":5}\n\n", 0, 0},
        {"data: {\"spread_ms\":5}\n\n", 0, 0},
        {": keep alive\n\nevent: hint\n: comment\ndata: {\"spread_ms\":3}\n\n", 1, 3},
        {"event: hint\ndata: {\"spread_ms\":1}\n\nevent: hint\ndata: {\"spread_ms\":2}\n\n", 2, 2},
        {"event: hint", 0, 0},
        {"event: hintx\n\n", 0, 0},
        {"events: hint\n\n", 0, 0},
        {"\n\n\n\n", 0, 0},
        {"event: hint\nevent: hello\n\n", 0, 0},
        {"event: hint and a very long line that goes on far beyond what the parser keeps of a "
         "line, which is some hundred bytes\n\n",
         0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t chunk = 1; chunk <= 64; chunk *= 4) {
            uint32_t spread_ms = 0;
            int hints = hints_in(cases[i].text, chunk, &spread_ms);
            if (hints != cases[i].hints || (hints > 0 && spread_ms != cases[i].spread_ms)) {
                fail_msg("case %zu in pieces of %zu: %d hints, spread %u", i, chunk, hints,
                         spread_ms);
            }
        }
    }
}

// ---- The streaming reader against the whole reader of the wire

static void test_offers_stream_agrees_with_the_wire(void **state)
{
    (void)state;
    static uint8_t body[8192];
    static uint8_t envelopes[4][600];
    struct wire_offers offers = {.flags = 2, .next_checkin_s = 300, .count = 4};
    size_t size = 0;
    for (uint32_t i = 0; i < 4; i++) {
        memset(envelopes[i], (int)i + 1, sizeof(envelopes[i]));
        offers.items[i].envelope = envelopes[i];
        offers.items[i].envelope_bytes = 100 + 150 * i;
    }
    offers.again_count = 2;
    offers.again[0] = (struct wire_again){3, 4, 5};
    offers.again[1] = (struct wire_again){6, 7, 8};
    offers.metadata = (struct base_span){(const uint8_t *)"what comes next", 15};
    assert_int_equal(wire_offers_encode(&offers, body, sizeof(body), &size), BASE_OK);
    for (size_t chunk = 1; chunk <= size; chunk = chunk * 3 + 1) {
        struct dev_offers_stream stream;
        uint32_t seen = 0;
        char next[16] = {0};
        dev_offers_start(&stream);
        for (size_t at = 0; at < size; at += chunk) {
            size_t step = chunk < size - at ? chunk : size - at;
            for (size_t done = 0; done < step;) {
                bool ready = false;
                bool metadata = dev_offers_is_metadata(&stream);
                const uint8_t *from = body + at + done;
                size_t taken = dev_offers_feed(&stream, from, step - done, &ready);
                done += taken;
                assert_false(metadata && (ready || taken > 15 - strlen(next)));
                (void)strncat(next, (const char *)from, metadata ? taken : 0);
                if (ready) {
                    assert_int_equal(stream.size, offers.items[seen].envelope_bytes);
                    assert_memory_equal(stream.bytes, envelopes[seen], stream.size);
                    seen++;
                }
            }
        }
        assert_int_equal(seen, 4);
        assert_true(dev_offers_complete(&stream));
        assert_string_equal(next, "what comes next");
        assert_int_equal(stream.flags, 2 | WIRE_OFFER_FLAG_AGAIN | WIRE_OFFER_FLAG_METADATA);
        struct wire_again marks[WIRE_AGAIN_MAX];
        assert_int_equal(dev_offers_again(&stream, marks), 2);
        assert_true(marks[0].task_id == 3 && marks[0].rollout_id == 4 && marks[0].attempt == 5);
        assert_true(marks[1].task_id == 6 && marks[1].rollout_id == 7 && marks[1].attempt == 8);
        assert_int_equal(stream.next_checkin_s, 300);
        bool ready = false;
        (void)dev_offers_feed(&stream, body, 1, &ready); // something behind the end
        assert_false(dev_offers_complete(&stream));
    }
}

static bool offers_complete(const uint8_t *bytes, size_t size)
{
    struct dev_offers_stream stream;
    dev_offers_start(&stream);
    for (size_t at = 0; at < size;) {
        bool ready = false;
        at += dev_offers_feed(&stream, bytes + at, size - at, &ready);
    }
    return dev_offers_complete(&stream);
}

// Both readers take the same answers, whatever was done to one: bytes changed, cut, repeated.
static void test_both_readers_take_the_same_answers(void **state)
{
    (void)state;
    static uint8_t envelopes[WIRE_OFFERS_MAX][DEV_OFFERS_ENVELOPE_MAX];
    static uint8_t body[WIRE_OFFERS_BYTES_MAX + DEV_OFFERS_ENVELOPE_MAX];
    struct base_prng prng;
    uint32_t taken = 0;
    uint32_t refused = 0;
    base_prng_seed(&prng, 20261123);
    for (uint32_t round = 0; round < 20000; round++) {
        struct wire_offers offers = {.count = (uint32_t)base_prng_below(&prng, 4),
                                     .flags = (uint8_t)base_prng_below(&prng, 32)};
        struct wire_offers parsed;
        size_t size = 0;
        offers.next_checkin_s = (uint32_t)base_prng_next(&prng) >> base_prng_below(&prng, 32);
        for (uint32_t i = 0; i < offers.count; i++) {
            offers.items[i].envelope = envelopes[i];
            offers.items[i].envelope_bytes = 1 + (size_t)base_prng_below(&prng, 200);
        }
        offers.again_count = (uint32_t)base_prng_below(&prng, 3);
        for (uint32_t i = 0; i < offers.again_count; i++) {
            offers.again[i] = (struct wire_again){i, 1 + base_prng_below(&prng, 9), 1};
        }
        offers.metadata = (struct base_span){envelopes[0], (size_t)base_prng_below(&prng, 3) * 40};
        assert_int_equal(wire_offers_encode(&offers, body, sizeof(body), &size), BASE_OK);
        for (uint64_t changes = base_prng_below(&prng, 3); changes > 0; changes--) {
            size_t head = size < 12 || base_prng_below(&prng, 4) == 0 ? size : 12;
            body[base_prng_below(&prng, head)] = (uint8_t)base_prng_next(&prng);
        }
        size -= base_prng_below(&prng, 8) == 0 ? (size_t)base_prng_below(&prng, size) : 0;
        bool takes = wire_offers_parse(body, size, &parsed) == BASE_OK;
        if (offers_complete(body, size) != takes) {
            fail_msg("round %u: %s by the wire alone", round, takes ? "taken" : "refused");
        }
        taken += takes;
        refused += !takes;
    }
    assert_true(taken > 5000 && refused > 5000);
    // The longest answer, and one byte more.
    const uint32_t most = (WIRE_OFFERS_BYTES_MAX - 4) / (DEV_OFFERS_ENVELOPE_MAX + 2) + 1;
    struct wire_offers parsed;
    assert_in_range(most, 1, WIRE_OFFERS_MAX);
    size_t size = 4;
    body[0] = WIRE_OFFER_VERSION;
    body[1] = 0;
    body[2] = 0;
    body[3] = (uint8_t)most;
    for (uint32_t i = 0; i < most; i++) {
        size_t left = WIRE_OFFERS_BYTES_MAX - size - 2;
        size_t bytes = left < DEV_OFFERS_ENVELOPE_MAX ? left : DEV_OFFERS_ENVELOPE_MAX;
        body[size++] = (uint8_t)(0x80 | (bytes & 0x7f));
        body[size++] = (uint8_t)(bytes >> 7);
        memset(body + size, 7, bytes);
        size += bytes;
    }
    assert_int_equal(size, WIRE_OFFERS_BYTES_MAX);
    assert_int_equal(wire_offers_parse(body, size, &parsed), BASE_OK);
    assert_true(offers_complete(body, size));
    size_t last = size - (WIRE_OFFERS_BYTES_MAX - 4) % (DEV_OFFERS_ENVELOPE_MAX + 2);
    body[last]++;
    body[size++] = 7;
    assert_int_equal(wire_offers_parse(body, size, &parsed), BASE_ERR_TOO_LARGE);
    assert_false(offers_complete(body, size));
}

static void test_offers_stream_limits(void **state)
{
    (void)state;
    static const uint8_t empty[] = {1, 0, 0, 0};
    static const uint8_t wrong_version[] = {2, 0, 0, 0};
    static const uint8_t too_many[] = {1, 0, 0, WIRE_OFFERS_MAX + 1};
    static const uint8_t empty_envelope[] = {1, 0, 0, 1, 0};
    static const uint8_t huge_envelope[] = {1, 0, 0, 1, 0xff, 0xff, 0x7f};
    static const uint8_t long_number[] = {1, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    static const uint8_t padded_number[] = {1, 0, 0x80, 0x00, 0};
    assert_true(offers_complete(empty, sizeof(empty)));
    assert_false(offers_complete(empty, 3));
    assert_false(offers_complete(wrong_version, sizeof(wrong_version)));
    assert_false(offers_complete(too_many, sizeof(too_many)));
    assert_false(offers_complete(empty_envelope, sizeof(empty_envelope)));
    assert_false(offers_complete(huge_envelope, sizeof(huge_envelope)));
    assert_false(offers_complete(long_number, sizeof(long_number)));
    assert_false(offers_complete(padded_number, sizeof(padded_number)));
}

// ---- The queue of outcomes

static void test_outcome_queue(void **state)
{
    (void)state;
    static uint8_t memory[4096];
    struct dev_outcome_queue queue;
    assert_true(dev_outcomes_bytes(4) <= sizeof(memory));
    dev_outcomes_init(&queue, memory, 4);
    for (uint64_t i = 1; i <= 6; i++) {
        struct wire_outcome outcome = {
            .kind = WIRE_OUTCOME_RAN,
            .task_id = i,
            .version_id = i * 2,
            .rollout_id = i * 3,
            .figures = {.heap_peak_bytes = i == 5 ? 0 : i * 4096},
        };
        assert_int_equal(dev_outcomes_add(&queue, &outcome), i > 4 ? 1 : 0);
    }
    assert_int_equal(queue.first_seq, 3);
    assert_int_equal(dev_outcomes_ack(&queue, 4), 2);
    assert_int_equal(dev_outcomes_ack(&queue, 4), 0);
    struct base_reader reader;
    struct wire_outcome outcome;
    dev_outcomes_reader(&queue, &reader);
    assert_int_equal(dev_outcomes_next(&reader, &outcome), BASE_OK);
    assert_int_equal(outcome.task_id, 5);
    assert_int_equal(outcome.rollout_id, 15);
    assert_int_equal(outcome.figures.heap_peak_bytes, 0);
    assert_int_equal(dev_outcomes_next(&reader, &outcome), BASE_OK);
    assert_int_equal(outcome.figures.heap_peak_bytes, 6 * 4096);
    assert_int_equal(outcome.detail.size, 0);
    assert_int_equal(dev_outcomes_next(&reader, &outcome), BASE_ERR_NOT_FOUND);
}

static void test_outcome_details_are_cut_between_characters(void **state)
{
    (void)state;
    static uint8_t memory[4096];
    char text[WIRE_REPORT_DETAIL_MAX + 40];
    struct dev_outcome_queue queue;
    dev_outcomes_init(&queue, memory, 4);
    for (size_t i = 0; i + 1 < sizeof(text); i += 2) {
        memcpy(text + i, "\xc3\xa4", 2); // two bytes each
    }
    struct wire_outcome outcome = {.kind = WIRE_OUTCOME_FAIL_LOAD,
                                   .detail = {text + 1, sizeof(text) - 1}};
    outcome.detail = (struct base_str){text, sizeof(text) - 1};
    // Long details use up the bytes before the count is reached: then the oldest goes as well.
    uint32_t dropped = 0;
    for (int i = 0; i < 4; i++) {
        dropped += dev_outcomes_add(&queue, &outcome);
    }
    assert_true(dropped > 0);
    struct base_reader reader;
    dev_outcomes_reader(&queue, &reader);
    assert_int_equal(dev_outcomes_next(&reader, &outcome), BASE_OK);
    assert_int_equal(outcome.detail.size, WIRE_REPORT_DETAIL_MAX);
}

// ---- The stored record

static struct rig rig;

static void record_make(void)
{
    rig_init(&rig);
    rig_version_add(&rig, "demo/score", 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, "demo/score", 1, 200, WIRE_RUNTIME_ABI, 60);
    rig_boot(&rig);
    rig.report_status = 503; // outcomes stay in the record
    for (uint32_t i = 0; i < 2; i++) {
        struct rig_statement statement = {
            .task = "demo/score", .version = i, .counter = i + 1, .rollout_id = 7};
        rig_offer(&rig, &statement);
        rig_checkin(&rig);
    }
}

static void test_record_is_small_and_comes_back(void **state)
{
    (void)state;
    record_make();
    uint8_t first[4096];
    uint8_t second[4096];
    size_t first_size = 0;
    size_t second_size = 0;
    assert_int_equal(dev_state_encode(rig.runtime, first, sizeof(first), &first_size), BASE_OK);
    print_message("record of one task and %u outcomes: %zu bytes\n", rig.runtime->outcomes.count,
                  first_size);
    assert_true(first_size < 700);
    rig_kill(&rig);
    rig_boot(&rig);
    assert_int_equal(dev_state_decode(rig.runtime, first, first_size), BASE_OK);
    assert_int_equal(dev_state_encode(rig.runtime, second, sizeof(second), &second_size), BASE_OK);
    assert_int_equal(first_size, second_size);
    assert_memory_equal(first, second, first_size);
    assert_int_equal(dev_state_encode(rig.runtime, second, first_size - 1, &second_size),
                     BASE_ERR_TOO_LARGE);
    rig_done(&rig);
}

// Appends the checksum that the record is to have.
static size_t seal(uint8_t *bytes, size_t size)
{
    struct base_writer writer;
    base_writer_init(&writer, bytes + size, sizeof(uint64_t));
    base_writer_u64(&writer, base_hash64(bytes, size));
    return size + sizeof(uint64_t);
}

// Marks come back; a record from before there were any has none.
static void test_marks_are_in_the_record(void **state)
{
    (void)state;
    record_make();
    uint8_t plain[4096];
    uint8_t marked[4096];
    uint8_t other[4096];
    size_t plain_size = 0;
    size_t marked_size = 0;
    size_t size = 0;
    struct dev_task *task = &rig.runtime->tasks[0];
    assert_int_equal(dev_state_encode(rig.runtime, plain, sizeof(plain), &plain_size), BASE_OK);
    task->slots.again = (struct dev_again){.rollout_id = 0x1122, .attempt = 3};
    task->slots.placebo = true;
    assert_int_equal(dev_state_encode(rig.runtime, marked, sizeof(marked), &marked_size), BASE_OK);
    assert_int_equal(marked_size, plain_size + 9);
    task->slots.again = (struct dev_again){0};
    task->slots.placebo = false;
    assert_int_equal(dev_state_decode(rig.runtime, marked, marked_size), BASE_OK);
    assert_true(task->slots.again.rollout_id == 0x1122 && task->slots.again.attempt == 3 &&
                task->slots.placebo);

    size_t at = 0;
    while (plain[at] == marked[at]) {
        at++;
    }
    for (uint8_t flags = 1; flags < 16; flags++) { // each with what it needs, and no others
        memcpy(other, marked, marked_size);
        other[at] = flags;
        size = seal(other, marked_size - sizeof(uint64_t));
        enum base_status wanted =
            flags == 1 || flags == 3 || flags == 4 ? BASE_OK : BASE_ERR_CORRUPT;
        assert_int_equal(dev_state_decode(rig.runtime, other, size), wanted);
        if (flags == 4) {
            assert_true(task->slots.again.rollout_id == 0 &&
                        task->offer.again.rollout_id == 0x1122);
            assert_true((task->content.unproven & DEV_UNPROVEN_ACTIVE) != 0);
        }
    }
    memcpy(other, plain, plain_size);
    memmove(other + at, other + at + 1, plain_size - at - 1);
    other[3] = '9';
    size = seal(other, plain_size - 1 - sizeof(uint64_t));
    assert_int_equal(dev_state_decode(rig.runtime, other, size), BASE_OK);
    assert_true(task->slots.again.rollout_id == 0 && !task->slots.placebo);
    assert_int_equal(dev_state_encode(rig.runtime, other, sizeof(other), &size), BASE_OK);
    assert_int_equal(size, plain_size);
    assert_memory_equal(other + 24, plain + 24, size - 24 - sizeof(uint64_t)); // but for the times
    static const uint8_t letters[] = {'5', ':', '@', 'D', 'a', 0};
    for (size_t i = 0; i < sizeof(letters); i++) {
        other[3] = letters[i];
        size = seal(other, plain_size - sizeof(uint64_t));
        assert_int_equal(dev_state_decode(rig.runtime, other, size), BASE_ERR_CORRUPT);
    }
    rig_done(&rig);
}

static void test_damaged_records_start_anew(void **state)
{
    (void)state;
    record_make();
    static uint8_t good[4096];
    size_t size = rig.port.storage.state_bytes;
    memcpy(good, rig.port.storage.state, size);
    for (size_t cut = 0; cut < size; cut++) {
        rig.port.storage.state_bytes = cut;
        rig.port.storage.has_before = false; // with it: test_device_integrity.c
        rig_kill(&rig);
        rig_boot(&rig);
        assert_int_equal(dev_task_count(rig.runtime), 0);
        memcpy(rig.port.storage.state, good, size);
    }
    for (size_t bit = 0; bit < size * 8; bit += 3) {
        memcpy(rig.port.storage.state, good, size);
        rig.port.storage.state_bytes = size;
        rig.port.storage.state[bit / 8] ^= (uint8_t)(1u << bit % 8);
        rig.port.storage.has_before = false;
        rig_kill(&rig);
        rig_boot(&rig);
        assert_int_equal(dev_task_count(rig.runtime), 0);
    }
    memcpy(rig.port.storage.state, good, size);
    rig.port.storage.state_bytes = size;
    rig_kill(&rig);
    rig_boot(&rig);
    assert_int_equal(dev_task_count(rig.runtime), 1);
    rig_done(&rig);
}

// ---- What parts hear of

static void no_blob(void *ctx, const struct wire_sha256 *name)
{
    (void)name;
    ++*(uint32_t *)ctx;
}

// Of kinds that a part says it does not hear of, it does nothing where it is told all the same: a
// kind that it does something for is not left out. The device has an active version, and a run
// under way.
static void test_parts_hear_of_what_they_act_on(void **state)
{
    (void)state;
    static const struct dev_response_head head = {.status = 200};
    static const struct wire_outcome outcome = {.kind = WIRE_OUTCOME_FAIL_CRASH};
    uint32_t needed = 0;
    const struct dev_need need = {no_blob, &needed};
    uint32_t heard = 0;
    rig_init(&rig);
    rig_version_add(&rig, "demo/score", 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_boot(&rig);
    rig.hold_runs = true;
    rig_offer(&rig, &(struct rig_statement){.task = "demo/score", .counter = 1});
    rig_checkin(&rig);
    struct dev_runtime *runtime = rig.runtime;
    assert_int_equal(dev_task_count(runtime), 1);
    assert_true(runtime->tasks[0].runs.running);
    runtime->tasks[0].offer.again.rollout_id = 1;
    runtime->tasks[0].runs.count = 5;
    size_t bytes = dev_runtime_bytes(&rig.config);
    uint8_t *before = malloc(bytes);
    assert_non_null(before);
    for (const struct dev_part *const *part = runtime->parts; *part != NULL; part++) {
        assert_true(((*part)->hears != 0) == ((*part)->on_event != NULL));
        assert_true((*part)->hears >> DEV_PART_EVENT_COUNT == 0);
        heard |= (*part)->hears;
        for (uint32_t kind = 0; (*part)->hears != 0 && kind < DEV_PART_EVENT_COUNT; kind++) {
            struct dev_part_event event = {.kind = (enum dev_part_event_kind)kind};
            bool brought = kind >= DEV_PART_EVENT_HEAD && kind <= DEV_PART_EVENT_END;
            event.exchange = brought ? UINT32_MAX : 0;
            event.task = runtime->tasks;
            event.head = kind == DEV_PART_EVENT_HEAD ? &head : event.head;
            event.outcome = kind == DEV_PART_EVENT_OUTCOME ? &outcome : event.outcome;
            event.need = kind == DEV_PART_EVENT_NEEDED ? &need : event.need;
            if (((*part)->hears >> kind & 1) != 0) {
                continue;
            }
            memcpy(before, rig.memory, bytes);
            if ((*part)->on_event(runtime, &event) || needed > 0 ||
                memcmp(before, rig.memory, bytes) != 0) {
                fail_msg("%s acts on events of kind %u", (*part)->name, kind);
            }
        }
    }
    free(before);
    // Each kind is heard of by somebody.
    assert_int_equal(heard, UINT32_MAX >> (32 - DEV_PART_EVENT_COUNT));
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backoff_stays_in_bounds),
        cmocka_unit_test(test_backoff_honours_retry_after),
        cmocka_unit_test(test_sse),
        cmocka_unit_test(test_offers_stream_agrees_with_the_wire),
        cmocka_unit_test(test_both_readers_take_the_same_answers),
        cmocka_unit_test(test_offers_stream_limits),
        cmocka_unit_test(test_outcome_queue),
        cmocka_unit_test(test_outcome_details_are_cut_between_characters),
        cmocka_unit_test(test_record_is_small_and_comes_back),
        cmocka_unit_test(test_marks_are_in_the_record),
        cmocka_unit_test(test_damaged_records_start_anew),
        cmocka_unit_test(test_parts_hear_of_what_they_act_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
