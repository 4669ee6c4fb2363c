// Chunks of the devices that speak real bytes: who they are, how long a chunk is on its way, and
// the hashes by which bytes and model are compared.
#include "test_kit.h"

#include "bytes/bytes_chunk.h"
#include "bytes/bytes_tally.h"
#include "ports/sim_delay_network.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void who_speaks_bytes_is_drawn_once_each(void **state)
{
    (void)state;
    static const struct {
        uint32_t devices, wanted, count;
    } table[] = {{1000, 8, 8}, {1000, 0, 0},    {5, 8, 5},
                 {1, 1, 1},    {256, 256, 256}, {300, 299, 256}};
    uint32_t chosen[SIM_BYTE_DEVICES_MAX];
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        uint32_t count = sim_bytes_choose(7, table[i].devices, table[i].wanted, chosen);
        if (count != table[i].count) {
            fail_msg("row %zu: %u, not %u", i, count, table[i].count);
        }
        for (uint32_t d = 0; d < count; d++) {
            assert_true(chosen[d] < table[i].devices);
            assert_true(d == 0 || chosen[d - 1] < chosen[d]);
        }
    }
    uint32_t others[SIM_BYTE_DEVICES_MAX];
    uint32_t same = sim_bytes_choose(7, 1000, 8, chosen);
    assert_int_equal(sim_bytes_choose(7, 1000, 8, others), same);
    assert_memory_equal(chosen, others, same * sizeof(chosen[0]));
    assert_int_equal(sim_bytes_choose(8, 1000, 8, others), same);
    assert_memory_not_equal(chosen, others, same * sizeof(chosen[0]));
}

// When a chunk of so many bytes arrives that is sent then; its copy is as it was.
static uint64_t due_us(struct sim_bytes_way *way, enum sim_chunk_kind kind, uint64_t at_us,
                       size_t size)
{
    static uint8_t bytes[SIM_CHUNK_ROOM];
    memset(bytes, (int)size, size);
    struct sim_chunk *chunk = sim_chunk_new(way, kind, at_us, (struct base_span){bytes, size});
    assert_non_null(chunk);
    uint64_t due = chunk->flight.when.due_us;
    assert_int_equal(chunk->size, size);
    assert_memory_equal(chunk->bytes, bytes, size);
    assert_int_equal(chunk->line, way->line);
    free(chunk);
    return due;
}

static struct sim_people *people_of(const char *network)
{
    char text[400];
    struct base_error error = {.text = ""};
    struct sim_people *people = NULL;
    (void)snprintf(text, sizeof(text), "table network\n1 link\nnetwork link %s\n", network);
    if (sim_people_parse("file", base_str_of(text), &people, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return people;
}

static void bytes_leave_one_after_another(void **state)
{
    (void)state;
    struct sim_people *people = people_of("delay_ms=30 up_kbps=1000 down_kbps=8000");
    const struct sim_population population = {.seed = 3, .people = people};
    struct sim_bytes_way way = {.delay = sim_delay_network(&population), .line = 1, .up = true};
    // 1000 kbit/s: 10,000 bytes take 80 ms, and the next ones wait for them.
    assert_int_equal(due_us(&way, SIM_CHUNK_BYTES, 1000, 10000), 1000 + 30000 + 80000);
    assert_int_equal(due_us(&way, SIM_CHUNK_BYTES, 1000, 10000), 1000 + 30000 + 160000);
    assert_int_equal(due_us(&way, SIM_CHUNK_END, 2000, 0), 1000 + 30000 + 160000);
    // A claim keeps its place in the row, and makes nobody wait.
    assert_int_equal(due_us(&way, SIM_CHUNK_CLAIM, 2000, 0), 1000 + 30000 + 160000);
    assert_int_equal(due_us(&way, SIM_CHUNK_CLAIM, 500000, 0), 500000 + SIM_DELAY_LEAST_US);
    // The link has rested.
    assert_int_equal(due_us(&way, SIM_CHUNK_BYTES, 1000000, 10000), 1000000 + 30000 + 80000);
    sim_people_free(people);
}

static void nothing_overtakes_on_a_connection(void **state)
{
    (void)state;
    struct sim_people *people = people_of("delay_ms=30 jitter_ms=40 loss=20%");
    const struct sim_population population = {.seed = 3, .people = people};
    struct sim_bytes_way way = {.delay = sim_delay_network(&population), .line = 1};
    uint64_t last = 0;
    uint32_t caught_up = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        uint64_t due = due_us(&way, SIM_CHUNK_BYTES, i * UINT64_C(1000), 100);
        assert_true(due >= last);
        assert_true(due >= i * UINT64_C(1000) + SIM_DELAY_LEAST_US);
        caught_up += due == last; // it waited for one that was lost
        last = due;
    }
    assert_true(caught_up > 100);
    sim_people_free(people);
}

static void a_hash_does_not_see_pieces(void **state)
{
    (void)state;
    uint64_t whole = sim_bytes_hash(SIM_BYTES_HASH, "abcdef", 6);
    uint64_t pieces = sim_bytes_hash(sim_bytes_hash(SIM_BYTES_HASH, "ab", 2), "cdef", 4);
    assert_true(whole == pieces);
    assert_true(whole != sim_bytes_hash(SIM_BYTES_HASH, "abcdeg", 6));
}

// The model has path and query in one, the transport parts them; anything else that differs shows.
static void requests_are_compared_by_all_they_say(void **state)
{
    (void)state;
    struct gw_request one = {.method = GW_METHOD_GET, .path = BASE_STR("/v1/x?a=b")};
    struct gw_request two = one;
    two.path = BASE_STR("/v1/x");
    two.query = BASE_STR("a=b");
    assert_true(sim_bytes_request_hash(&one) == sim_bytes_request_hash(&two));
    struct base_str *texts[] = {&two.device,    &two.profile,       &two.nonce, &two.credential,
                                &two.enrol_key, &two.authorization, &two.range, &two.path};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct base_str before = *texts[i];
        *texts[i] = BASE_STR("other");
        if (sim_bytes_request_hash(&one) == sim_bytes_request_hash(&two)) {
            fail_msg("text %zu is not looked at", i);
        }
        *texts[i] = before;
    }
    two.body = (const uint8_t *)"x";
    two.body_bytes = 1;
    assert_true(sim_bytes_request_hash(&one) != sim_bytes_request_hash(&two));
    two.body_bytes = 0;
    two.method = GW_METHOD_POST;
    assert_true(sim_bytes_request_hash(&one) != sim_bytes_request_hash(&two));
    two.method = GW_METHOD_GET;
    two.secure = true;
    assert_true(sim_bytes_request_hash(&one) != sim_bytes_request_hash(&two));
}

static void answers_are_compared_by_all_they_say(void **state)
{
    (void)state;
    const struct dev_response_head head = {.status = 200, .content_bytes = 5};
    struct dev_response_head other[5] = {head, head, head, head, head};
    other[0].status = 206;
    other[1].content_bytes = 6;
    other[2].range_from = 1;
    other[3].retry_after_s = 1;
    other[4].encoding = DEV_ENCODING_OTHER;
    uint64_t hash = sim_bytes_answer_hash(&head, 1);
    assert_true(hash == sim_bytes_answer_hash(&head, 1));
    assert_true(hash != sim_bytes_answer_hash(&head, 2));
    for (size_t i = 0; i < TEST_COUNT(other); i++) {
        if (hash == sim_bytes_answer_hash(&other[i], 1)) {
            fail_msg("member %zu is not looked at", i);
        }
    }
}

static void a_pair_carries_bytes_and_its_end(void **state)
{
    (void)state;
    int ends[2];
    uint8_t room[8];
    size_t size = 0;
    assert_int_equal(sim_bytes_pair(ends), BASE_OK);
    assert_int_equal(sim_bytes_read(ends[0], room, sizeof(room), &size), BASE_ERR_BUSY);
    assert_int_equal(sim_bytes_write(ends[1], (const uint8_t *)"abc", 3), BASE_OK);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(sim_bytes_read(ends[0], room, sizeof(room), &size), BASE_OK);
    assert_int_equal(size, 3);
    assert_memory_equal(room, "abc", 3);
    assert_int_equal(sim_bytes_read(ends[0], room, sizeof(room), &size), BASE_ERR_CLOSED);
    assert_int_equal(sim_bytes_write(ends[0], room, 1), BASE_ERR_IO);
    assert_int_equal(close(ends[0]), 0);
}

static void tallies_are_summed(void **state)
{
    (void)state;
    struct sim_bytes_tally all = {.answers = 1, .up = {.wire = 10}};
    const struct sim_bytes_tally one = {.devices = 2,
                                        .connections = 3,
                                        .handshakes = 4,
                                        .answers = 5,
                                        .cut = 6,
                                        .mismatches = 1,
                                        .mismatched = 77,
                                        .us = 8,
                                        .modelled_us = 9,
                                        .up = {1, 2, 3, 4},
                                        .down = {5, 6, 7, 8}};
    sim_bytes_tally_add(&all, &one);
    sim_bytes_tally_add(&all, &(struct sim_bytes_tally){.mismatched = 5});
    const struct sim_bytes_tally want = {.devices = 2,
                                         .connections = 3,
                                         .handshakes = 4,
                                         .answers = 6,
                                         .cut = 6,
                                         .mismatches = 1,
                                         .mismatched = 77,
                                         .us = 8,
                                         .modelled_us = 9,
                                         .up = {11, 2, 3, 4},
                                         .down = {5, 6, 7, 8}};
    assert_memory_equal(&all, &want, sizeof(all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_speaks_bytes_is_drawn_once_each),
        cmocka_unit_test(bytes_leave_one_after_another),
        cmocka_unit_test(nothing_overtakes_on_a_connection),
        cmocka_unit_test(a_hash_does_not_see_pieces),
        cmocka_unit_test(requests_are_compared_by_all_they_say),
        cmocka_unit_test(answers_are_compared_by_all_they_say),
        cmocka_unit_test(a_pair_carries_bytes_and_its_end),
        cmocka_unit_test(tallies_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
