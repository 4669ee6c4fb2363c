// Frames of the tunnel: layout, limits, round trips, every byte damaged and truncated.
#include "base/hash.h"
#include "wire_check_tunnel.h"
#include "wire_damage.h"
#include "wire_samples.h"

#define FRAME (WIRE_TUNNEL_HEAD + WIRE_TUNNEL_FRAME_MAX)

static uint8_t frame[FRAME];
static uint8_t body[WIRE_TUNNEL_RAW_MAX];

static void batch_is_as_documented(void **state)
{
    (void)state;
    struct wire_tunnel_batch batch = {.class_id = 1,
                                      .epoch = 0x00010203,
                                      .number = 7,
                                      .first_seq = 300,
                                      .count = 2,
                                      .prev_hash = 0x0807060504030201,
                                      .hash = 0x100f0e0d0c0b0a09,
                                      .codec = WIRE_TUNNEL_ZSTD_DICT,
                                      .dict = 5,
                                      .raw_bytes = 200,
                                      .sent_bytes = 3,
                                      .bytes = (const uint8_t *)"abc",
                                      .part_bytes = 3};
    static const uint8_t wanted[] = {2,  36, 0,    0, 1, 3, 2, 1, 0,  7,   0xac, 2,  2,  1,
                                     2,  3,  4,    5, 6, 7, 8, 9, 10, 11,  12,   13, 14, 15,
                                     16, 2,  0xc8, 1, 3, 5, 0, 0, 0,  'a', 'b',  'c'};
    size_t size = 0;
    assert_int_equal(wire_tunnel_batch_encode(&batch, frame, sizeof frame, &size), BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(frame, wanted, sizeof wanted);
    assert_int_equal(wire_tunnel_batch_encode(&batch, frame, size - 1, &size), BASE_ERR_TOO_LARGE);
    struct wire_tunnel_batch out;
    assert_int_equal(wire_tunnel_batch_parse(wanted + 4, sizeof wanted - 4, &out), BASE_OK);
    assert_true(out.number == 7 && out.first_seq == 300 && out.count == 2 && out.dict == 5);
    assert_true(out.prev_hash == batch.prev_hash && out.hash == batch.hash);
    assert_true(out.raw_bytes == 200 && out.sent_bytes == 3 && out.part_bytes == 3);
    assert_memory_equal(out.bytes, "abc", 3);
}

static void heads(void **state)
{
    (void)state;
    enum wire_tunnel_type type;
    size_t size;
    static const struct {
        uint8_t bytes[4];
        enum base_status status;
    } rows[] = {
        {{1, 0, 0, 0}, BASE_OK},
        {{5, 0, 0x20, 1}, BASE_OK},               // exactly WIRE_TUNNEL_FRAME_MAX
        {{5, 1, 0x20, 1}, BASE_ERR_TOO_LARGE},    // one more
        {{5, 255, 255, 255}, BASE_ERR_TOO_LARGE}, // the most a head can say
        {{0, 0, 0, 0}, BASE_ERR_UNSUPPORTED},
        {{6, 0, 0, 0}, BASE_ERR_UNSUPPORTED},
        {{15, 0, 0, 0}, BASE_ERR_UNSUPPORTED},
        {{24, 0, 0, 0}, BASE_OK},
        {{25, 0, 0, 0}, BASE_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_int_equal(wire_tunnel_head(rows[i].bytes, 4, &type, &size), rows[i].status);
    }
    assert_int_equal(wire_tunnel_head(rows[0].bytes, 3, &type, &size), BASE_ERR_TRUNCATED);
}

static void batch_limits(void **state)
{
    (void)state;
    struct wire_tunnel_batch good = {.number = 1,
                                     .count = 1,
                                     .raw_bytes = 10,
                                     .sent_bytes = 10,
                                     .bytes = body,
                                     .part_bytes = 10};
    size_t size = 0;
    assert_int_equal(wire_tunnel_batch_encode(&good, frame, sizeof frame, &size), BASE_OK);
    struct wire_tunnel_batch rows[12];
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        rows[i] = good;
    }
    rows[0].class_id = WIRE_TUNNEL_CLASSES;
    rows[1].count = 0;
    rows[2].count = WIRE_TUNNEL_RECORDS_MAX + 1;
    rows[3].number = WIRE_TUNNEL_NUMBER_MAX;
    rows[4].first_seq = WIRE_TUNNEL_NUMBER_MAX;
    rows[5].sent_bytes = rows[5].part_bytes = 9; // plain, but another size
    rows[6].codec = WIRE_TUNNEL_CODEC_END;
    rows[7].codec = WIRE_TUNNEL_ZSTD_DICT; // without a dictionary
    rows[8].dict = 3;                      // without using it
    rows[9].raw_bytes = WIRE_TUNNEL_RAW_MAX + 1;
    rows[10].part_bytes = 9;
    rows[11].codec = WIRE_TUNNEL_ZSTD;
    rows[11].sent_bytes = rows[11].part_bytes = 11; // compression that grows
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        if (wire_tunnel_batch_encode(&rows[i], frame, sizeof frame, &size) != BASE_ERR_INVALID) {
            fail_msg("row %zu was encoded", i);
        }
    }
    // A batch larger than its frame: the part alone travels in it.
    struct wire_tunnel_batch large = good;
    large.raw_bytes = large.sent_bytes = WIRE_TUNNEL_RAW_MAX;
    large.part_bytes = WIRE_TUNNEL_PART_MAX;
    assert_int_equal(wire_tunnel_batch_encode(&large, frame, sizeof frame, &size), BASE_OK);
    assert_int_equal(wire_check_tunnel_frame(frame, size), BASE_OK);
}

static void loss_and_chunk_limits(void **state)
{
    (void)state;
    size_t size = 0;
    struct wire_tunnel_loss_frame good = {.numbers = 1, .count = 1, .reason = 1};
    struct wire_tunnel_loss_frame loss[6];
    for (size_t i = 0; i < TEST_COUNT(loss); i++) {
        loss[i] = good;
    }
    assert_int_equal(wire_tunnel_loss_encode(&good, frame, sizeof frame, &size), BASE_OK);
    loss[0].numbers = 0;
    loss[1].count = 0;
    loss[2].reason = 0;
    loss[3].reason = WIRE_TUNNEL_LOSS_END;
    loss[4].number = WIRE_TUNNEL_NUMBER_MAX;
    loss[5].first_seq = WIRE_TUNNEL_NUMBER_MAX;
    for (size_t i = 0; i < TEST_COUNT(loss); i++) {
        assert_int_equal(wire_tunnel_loss_encode(&loss[i], frame, sizeof frame, &size),
                         BASE_ERR_INVALID);
    }
    struct wire_tunnel_chunk chunk = {.offset = WIRE_TUNNEL_RAW_MAX - WIRE_TUNNEL_CHUNK_MAX,
                                      .bytes = body,
                                      .size = WIRE_TUNNEL_CHUNK_MAX};
    assert_int_equal(wire_tunnel_chunk_encode(&chunk, frame, sizeof frame, &size), BASE_OK);
    assert_int_equal(wire_check_tunnel_frame(frame, size), BASE_OK);
    chunk.offset++;
    assert_int_equal(wire_tunnel_chunk_encode(&chunk, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
    chunk.offset = 0;
    chunk.size = 0;
    assert_int_equal(wire_tunnel_chunk_encode(&chunk, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
}

static void hello_limits(void **state)
{
    (void)state;
    size_t size = 0;
    struct wire_tunnel_hello good = {.class_count = 2, .dict_count = 2, .dicts = {9, 3}};
    good.classes[1].class_id = 1;
    assert_int_equal(wire_tunnel_hello_encode(&good, frame, sizeof frame, &size), BASE_OK);
    struct wire_tunnel_hello rows[8];
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        rows[i] = good;
    }
    rows[0].class_count = 0;
    rows[1].classes[0].class_id = 1; // not ascending
    rows[2].dicts[0] = 0;
    rows[3].dicts[0] = 3; // twice
    rows[4].classes[0].tail = 1;
    rows[5].classes[0].next = WIRE_TUNNEL_NUMBER_MAX + 1;
    rows[6].app = BASE_STR("a\nb");
    rows[7].dict_count = WIRE_TUNNEL_DICTS_MAX + 1;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        if (wire_tunnel_hello_encode(&rows[i], frame, sizeof frame, &size) != BASE_ERR_INVALID) {
            fail_msg("row %zu was encoded", i);
        }
    }
    frame[4] = WIRE_TUNNEL_VERSION + 1;
    struct wire_tunnel_hello out;
    assert_int_equal(wire_tunnel_hello_parse(frame + 4, 40, &out), BASE_ERR_UNSUPPORTED);
}

static void answers_limits(void **state)
{
    (void)state;
    size_t size = 0;
    struct wire_tunnel_ack ack = {.level = WIRE_TUNNEL_DURABLE, .sack = 2};
    assert_int_equal(wire_tunnel_ack_encode(&ack, frame, sizeof frame, &size), BASE_OK);
    ack.sack = 1; // the high water itself
    assert_int_equal(wire_tunnel_ack_encode(&ack, frame, sizeof frame, &size), BASE_ERR_INVALID);
    ack = (struct wire_tunnel_ack){.level = 3};
    assert_int_equal(wire_tunnel_ack_encode(&ack, frame, sizeof frame, &size), BASE_ERR_INVALID);
    struct wire_tunnel_credit credit = {.bytes = WIRE_TUNNEL_CREDIT_MAX + 1};
    assert_int_equal(wire_tunnel_credit_encode(&credit, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
    struct wire_tunnel_throttle throttle = {.class_mask = 0x10};
    assert_int_equal(wire_tunnel_throttle_encode(&throttle, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
    throttle = (struct wire_tunnel_throttle){.class_mask = 1,
                                             .not_before_ms = WIRE_TUNNEL_DELAY_MS_MAX + 1};
    assert_int_equal(wire_tunnel_throttle_encode(&throttle, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
    struct wire_tunnel_reject reject = {.record = WIRE_TUNNEL_RECORDS_MAX, .status = -100};
    assert_int_equal(wire_tunnel_reject_encode(&reject, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
    reject =
        (struct wire_tunnel_reject){.record = WIRE_TUNNEL_NO_RECORD, .status = -100, .more = 1};
    assert_int_equal(wire_tunnel_reject_encode(&reject, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
    reject = (struct wire_tunnel_reject){.status = 0};
    assert_int_equal(wire_tunnel_reject_encode(&reject, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
    struct wire_tunnel_drain drain = {.spread_ms = WIRE_TUNNEL_DELAY_MS_MAX + 1};
    assert_int_equal(wire_tunnel_drain_encode(&drain, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
    assert_int_equal(wire_tunnel_ping_encode(WIRE_TUNNEL_ACK, 1, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
    struct wire_tunnel_welcome welcome = {.class_count = 1};
    welcome.classes[0].partial_batch = 1; // of no bytes
    assert_int_equal(wire_tunnel_welcome_encode(&welcome, frame, sizeof frame, &size),
                     BASE_ERR_INVALID);
}

static void chains(void **state)
{
    (void)state;
    uint64_t first = wire_tunnel_chain_first(0x4d2, 1, 0x00010203);
    assert_true(first != wire_tunnel_chain_first(0x4d2, 2, 0x00010203));
    assert_true(first != wire_tunnel_chain_first(0x4d3, 1, 0x00010203));
    assert_true(first != wire_tunnel_chain_first(0x4d2, 1, 0x00010204));
    uint64_t second = wire_tunnel_chain(first, (const uint8_t *)"abc", 3);
    assert_true(second == base_hash64_seed("abc", 3, first));
    assert_true(second != wire_tunnel_chain(second, (const uint8_t *)"abc", 3));
    struct wire_tunnel_loss_frame loss = {
        .number = 1, .numbers = 2, .first_seq = 3, .count = 4, .reason = 5, .prev_hash = 6};
    uint64_t hash = wire_tunnel_chain_loss(&loss);
    struct wire_tunnel_loss_frame rows[6] = {loss, loss, loss, loss, loss, loss};
    rows[0].number++;
    rows[1].numbers++;
    rows[2].first_seq++;
    rows[3].count++;
    rows[4].reason++;
    rows[5].prev_hash++;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_true(wire_tunnel_chain_loss(&rows[i]) != hash);
    }
}

static uint64_t below(struct base_prng *prng, uint64_t bound)
{
    return base_prng_below(prng, bound);
}

static size_t sample_hello(struct base_prng *prng)
{
    struct wire_sample_text text[2];
    struct wire_tunnel_hello hello = {.device = base_prng_next(prng),
                                      .wall_ms = wire_sample_u64(prng)};
    hello.app = wire_sample_str(prng, &text[0], "012.", below(prng, WIRE_TUNNEL_TEXT_MAX + 1));
    hello.os = wire_sample_str(prng, &text[1], "abc ", below(prng, WIRE_TUNNEL_TEXT_MAX + 1));
    hello.dict_count = (uint32_t)below(prng, WIRE_TUNNEL_DICTS_MAX + 1);
    for (uint32_t i = 0; i < hello.dict_count; i++) {
        hello.dicts[i] = (uint32_t)(below(prng, 1000) * WIRE_TUNNEL_DICTS_MAX + i + 1);
    }
    hello.class_count = 1 + (uint32_t)below(prng, WIRE_TUNNEL_CLASSES);
    for (uint32_t i = 0; i < hello.class_count; i++) {
        uint64_t next = below(prng, WIRE_TUNNEL_NUMBER_MAX + 1);
        hello.classes[i] = (struct wire_tunnel_hello_class){.class_id = (uint8_t)i,
                                                            .epoch = (uint32_t)base_prng_next(prng),
                                                            .tail = below(prng, next + 1),
                                                            .next = next,
                                                            .tail_hash = base_prng_next(prng)};
    }
    size_t size = 0;
    assert_int_equal(wire_tunnel_hello_encode(&hello, frame, sizeof frame, &size), BASE_OK);
    return size;
}

static size_t sample_welcome(struct base_prng *prng)
{
    struct wire_tunnel_welcome welcome = {.wall_ms = base_prng_next(prng), .dict = 3};
    welcome.class_count = 1 + (uint32_t)below(prng, WIRE_TUNNEL_CLASSES);
    for (uint32_t i = 0; i < welcome.class_count; i++) {
        uint32_t partial = (uint32_t)(below(prng, 2) * below(prng, WIRE_TUNNEL_RAW_MAX));
        welcome.classes[i] = (struct wire_tunnel_welcome_class){
            .class_id = (uint8_t)i,
            .epoch = (uint32_t)base_prng_next(prng),
            .high_water = below(prng, WIRE_TUNNEL_NUMBER_MAX),
            .sack = base_prng_next(prng) & ~UINT64_C(1),
            .hash = base_prng_next(prng),
            .credit_bytes = (uint32_t)below(prng, WIRE_TUNNEL_CREDIT_MAX + 1),
            .credit_records = (uint32_t)below(prng, 5000),
            .partial_batch = partial > 0 ? below(prng, 100) : 0,
            .partial_bytes = partial};
    }
    size_t size = 0;
    assert_int_equal(wire_tunnel_welcome_encode(&welcome, frame, sizeof frame, &size), BASE_OK);
    return size;
}

static size_t sample_batch(struct base_prng *prng)
{
    uint32_t raw = 1 + (uint32_t)below(prng, 300);
    uint8_t codec = (uint8_t)below(prng, WIRE_TUNNEL_CODEC_END);
    uint32_t sent = codec == WIRE_TUNNEL_PLAIN ? raw : 1 + (uint32_t)below(prng, raw);
    struct wire_tunnel_batch batch = {.class_id = (uint8_t)below(prng, 4),
                                      .epoch = (uint32_t)base_prng_next(prng),
                                      .number = below(prng, WIRE_TUNNEL_NUMBER_MAX),
                                      .first_seq = below(prng, 1000000),
                                      .count = 1 + (uint32_t)below(prng, WIRE_TUNNEL_RECORDS_MAX),
                                      .prev_hash = base_prng_next(prng),
                                      .hash = base_prng_next(prng),
                                      .codec = codec,
                                      .dict = codec == WIRE_TUNNEL_ZSTD_DICT ? 77 : 0,
                                      .raw_bytes = raw,
                                      .sent_bytes = sent,
                                      .bytes = body,
                                      .part_bytes = sent};
    size_t size = 0;
    assert_int_equal(wire_tunnel_batch_encode(&batch, frame, sizeof frame, &size), BASE_OK);
    return size;
}

static size_t sample_small(struct base_prng *prng, enum wire_tunnel_type type)
{
    uint8_t class_id = (uint8_t)below(prng, WIRE_TUNNEL_CLASSES);
    uint64_t number = below(prng, WIRE_TUNNEL_NUMBER_MAX - 10);
    uint32_t small = (uint32_t)below(prng, 1000);
    struct wire_tunnel_chunk chunk = {class_id, number, small, body, 1 + small % 200};
    struct wire_tunnel_loss_frame loss = {.class_id = class_id,
                                          .epoch = small,
                                          .number = number,
                                          .numbers = 1 + small % 9,
                                          .first_seq = small,
                                          .count = 1 + below(prng, 1u << 30),
                                          .reason = (uint8_t)(1 + small % 6),
                                          .prev_hash = base_prng_next(prng),
                                          .hash = base_prng_next(prng)};
    struct wire_tunnel_ack ack = {class_id, (uint8_t)(1 + small % 2), small, number, small & ~1u};
    struct wire_tunnel_credit credit = {class_id, small * 1000, small};
    struct wire_tunnel_throttle throttle = {(uint8_t)(1 + small % 15), small, small, small};
    struct wire_tunnel_reject reject = {class_id, number,
                                        small % 2 == 0 ? small : WIRE_TUNNEL_NO_RECORD,
                                        -100 - (int)small % 900, small % 4 == 0 ? number : 0};
    struct wire_tunnel_needfull needfull = {class_id, number};
    struct wire_tunnel_fork fork = {class_id, small, number, base_prng_next(prng)};
    struct wire_tunnel_drain drain = {small, small};
    size_t size = 0;
    enum base_status status = BASE_ERR_BUG;
    switch (type) {
    case WIRE_TUNNEL_HELLO:
        return sample_hello(prng);
    case WIRE_TUNNEL_WELCOME:
        return sample_welcome(prng);
    case WIRE_TUNNEL_BATCH:
        return sample_batch(prng);
    case WIRE_TUNNEL_CHUNK:
        status = wire_tunnel_chunk_encode(&chunk, frame, sizeof frame, &size);
        break;
    case WIRE_TUNNEL_LOSS:
        status = wire_tunnel_loss_encode(&loss, frame, sizeof frame, &size);
        break;
    case WIRE_TUNNEL_PING:
    case WIRE_TUNNEL_PONG:
        status = wire_tunnel_ping_encode(type, number, frame, sizeof frame, &size);
        break;
    case WIRE_TUNNEL_ACK:
        status = wire_tunnel_ack_encode(&ack, frame, sizeof frame, &size);
        break;
    case WIRE_TUNNEL_CREDIT:
        status = wire_tunnel_credit_encode(&credit, frame, sizeof frame, &size);
        break;
    case WIRE_TUNNEL_THROTTLE:
        status = wire_tunnel_throttle_encode(&throttle, frame, sizeof frame, &size);
        break;
    case WIRE_TUNNEL_REJECT:
        status = wire_tunnel_reject_encode(&reject, frame, sizeof frame, &size);
        break;
    case WIRE_TUNNEL_NEEDFULL:
        status = wire_tunnel_needfull_encode(&needfull, frame, sizeof frame, &size);
        break;
    case WIRE_TUNNEL_FORK:
        status = wire_tunnel_fork_encode(&fork, frame, sizeof frame, &size);
        break;
    case WIRE_TUNNEL_DRAIN:
        status = wire_tunnel_drain_encode(&drain, frame, sizeof frame, &size);
        break;
    }
    assert_int_equal(status, BASE_OK);
    return size;
}

static void random_frames_round_trip_and_survive_damage(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (uint8_t)base_prng_next(&prng);
    }
    for (unsigned type = WIRE_TUNNEL_HELLO; type <= WIRE_TUNNEL_PONG; type++) {
        if (type > WIRE_TUNNEL_PING && type < WIRE_TUNNEL_WELCOME) {
            continue;
        }
        for (unsigned round = 0; round < 100; round++) {
            size_t size = sample_small(&prng, (enum wire_tunnel_type)type);
            assert_int_equal(frame[0], type);
            static uint8_t copy[FRAME];
            memcpy(copy, frame, size);
            assert_int_equal(wire_check_tunnel_frame(copy, size), BASE_OK);
            if (round < 4) {
                wire_damage(&prng, copy, size, wire_check_tunnel_frame);
            }
        }
    }
}

// Truncation is also tried with a head that agrees with what is left: the frame's own parser has
// to see it.
static void payloads_cut_short_are_refused(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned type = WIRE_TUNNEL_HELLO; type <= WIRE_TUNNEL_PONG; type++) {
        // A chunk's bytes end where the frame ends, so a shorter one is another chunk.
        if ((type > WIRE_TUNNEL_PING && type < WIRE_TUNNEL_WELCOME) || type == WIRE_TUNNEL_CHUNK) {
            continue;
        }
        size_t size = sample_small(&prng, (enum wire_tunnel_type)type);
        for (size_t cut = 0; cut < size - WIRE_TUNNEL_HEAD; cut++) {
            uint8_t *exact = test_exact(frame, WIRE_TUNNEL_HEAD + cut);
            exact[1] = (uint8_t)cut;
            exact[2] = (uint8_t)(cut >> 8);
            if (wire_check_tunnel_frame(exact, WIRE_TUNNEL_HEAD + cut) == BASE_OK) {
                fail_msg("type %u cut to %zu of %zu was accepted", type, cut, size);
            }
            free(exact);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_is_as_documented),
        cmocka_unit_test(heads),
        cmocka_unit_test(batch_limits),
        cmocka_unit_test(loss_and_chunk_limits),
        cmocka_unit_test(hello_limits),
        cmocka_unit_test(answers_limits),
        cmocka_unit_test(chains),
        cmocka_unit_test(random_frames_round_trip_and_survive_damage),
        cmocka_unit_test(payloads_cut_short_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
