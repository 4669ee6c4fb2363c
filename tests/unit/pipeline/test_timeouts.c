// Pending starts: what ends them, what is over when, what is stored; against a list that is
// searched.
#include "test_kit.h"

#include "base/prng.h"
#include "pipeline/trigger/timeouts.h"

#include <stdlib.h>

#define WITHIN_MS 1000u
#define KEY       7u

static struct dev_timeouts timeouts;

static struct dev_event event_at(uint64_t seq, uint64_t wall_ms)
{
    return (struct dev_event){.seq = seq, .wall_ms = wall_ms, .kind = DEV_EVENT_CLICK};
}

// True: one gave way.
static bool open_at(uint64_t seq, uint64_t event_ms, uint64_t now_ms)
{
    const struct dev_event event = event_at(seq, event_ms);
    const struct dev_trigger_fired opening = {.key = dev_timeout_key(KEY), .seq = seq};
    const struct dev_timeout_ask ask = {.within_ms = WITHIN_MS};
    struct dev_timeout dropped;
    const struct dev_timeout start =
        dev_timeout_of(&event, &opening, &ask, (struct dev_timeout_now){now_ms * 1000, now_ms});
    return dev_timeouts_open(&timeouts, &start, &dropped);
}

static void match_at(uint64_t seq, uint64_t event_ms)
{
    const struct dev_event event = event_at(seq, event_ms);
    const struct dev_trigger_fired match = {.key = KEY, .seq = seq};
    dev_timeouts_match(&timeouts, &event, &match);
}

static int setup(void **state)
{
    (void)state;
    timeouts = (struct dev_timeouts){0};
    return 0;
}

static void what_a_pattern_asks_for(void **state)
{
    static const struct {
        const char *pattern;
        const char *opening;
        bool by_item;
    } cases[] = {
        {"click(cart, price > 3) * exit within 1s or timeout", "click(\"cart\", price > 3)", false},
        {"? click exit within 1s page or timeout", "click page", false},
        {"click same(item) * exit same(item) within 1s or timeout", "click(item=*)", true},
        {"click(p, \"i\") same(item) exit same(item) within 1s or timeout",
         "click(\"p\", item=\"i\")", true},
        {"click * exit(p, a == 1) * custom:b(c == 2) within 1s reset or timeout", "click", false},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char text[256];
        struct dev_timeout_ask ask;
        struct dev_pattern same;
        struct base_str pattern = base_str_of(cases[i].pattern);
        size_t room = DEV_TIMEOUT_TEXTS(pattern.size, 1);
        assert_int_equal(dev_timeout_ask(pattern, text, room, &ask), BASE_OK);
        assert_int_equal(ask.within_ms, 1000);
        assert_int_equal(ask.by_item, cases[i].by_item);
        assert_int_equal(dev_pattern_parse(ask.opening, &same, NULL), BASE_OK);
        text[ask.opening.size] = '\0';
        assert_string_equal(text, cases[i].opening);
        assert_int_equal(dev_timeout_ask(pattern, text, 3, &ask), BASE_ERR_NOMEM);
    }
    char text[64];
    struct dev_timeout_ask ask;
    assert_int_equal(dev_timeout_ask(BASE_STR("click * exit within 1s"), text, 64, &ask),
                     BASE_ERR_NOT_FOUND);
    assert_int_equal(dev_timeout_ask(BASE_STR("click *{"), text, 64, &ask), BASE_ERR_INVALID);
}

static void within_holds_to_its_end(void **state)
{
    struct dev_timeout over;
    (void)state;
    (void)open_at(1, 5000, 5000);
    assert_int_equal(dev_timeouts_due(&timeouts), 6001000);
    assert_false(dev_timeouts_over(&timeouts, 6000999, &over));
    match_at(2, 6000);
    assert_int_equal(timeouts.count, 0);
    (void)open_at(3, 5000, 5400); // seen later than it came
    assert_int_equal(dev_timeouts_due(&timeouts), 6001000);
    match_at(4, 6001); // too late
    assert_true(dev_timeouts_over(&timeouts, 6001000, &over));
    assert_int_equal(over.seq, 3);
    assert_int_equal(dev_timeouts_due(&timeouts), UINT64_MAX);
    (void)open_at(5, 5000, 90000); // over when it is seen
    assert_true(dev_timeouts_over(&timeouts, 90001000, &over));
}

static void the_clock_goes_back(void **state)
{
    struct dev_timeout over;
    uint8_t bytes[DEV_TIMEOUTS_BYTES_MAX];
    struct base_writer writer;
    struct base_reader reader;
    (void)state;
    (void)open_at(1, 5000, 5000);
    base_writer_init(&writer, bytes, sizeof(bytes));
    dev_timeouts_write(&timeouts, &writer);
    assert_int_equal(writer.status, BASE_OK);
    base_reader_init(&reader, bytes, base_writer_size(&writer));
    dev_timeouts_read(&timeouts, (struct dev_timeout_now){100, 1000}, &reader);
    assert_int_equal(base_reader_finish(&reader), BASE_OK);
    assert_int_equal(timeouts.count, 1);
    assert_int_equal(dev_timeouts_due(&timeouts), 100 + 1001000); // D again, not 5 s
    base_reader_init(&reader, bytes, base_writer_size(&writer));
    dev_timeouts_read(&timeouts, (struct dev_timeout_now){100, 5800}, &reader);
    assert_int_equal(dev_timeouts_due(&timeouts), 100 + 201000);
    base_reader_init(&reader, bytes, base_writer_size(&writer));
    dev_timeouts_read(&timeouts, (struct dev_timeout_now){100, 99999}, &reader);
    assert_true(dev_timeouts_over(&timeouts, 1100, &over));
    for (size_t cut = 0; cut < base_writer_size(&writer); cut++) {
        base_reader_init(&reader, bytes, cut);
        dev_timeouts_read(&timeouts, (struct dev_timeout_now){0, 0}, &reader);
        assert_int_not_equal(reader.status, BASE_OK);
        assert_int_equal(timeouts.count, 0);
    }
}

// A record that says more, or longer, than is ever written is refused whole.
static void what_is_stored_is_bounded(void **state)
{
    static const struct {
        uint64_t count;
        uint64_t within_ms;
        bool good;
    } cases[] = {
        {DEV_TIMEOUTS_MAX, DEV_PATTERN_WITHIN_MAX_MS, true},
        {DEV_TIMEOUTS_MAX + 1, 1, false},
        {1, DEV_PATTERN_WITHIN_MAX_MS + 1ull, false},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        static uint8_t bytes[2 * DEV_TIMEOUTS_BYTES_MAX];
        struct base_writer writer;
        struct base_reader reader;
        base_writer_init(&writer, bytes, sizeof(bytes));
        base_writer_varint(&writer, cases[i].count);
        for (uint64_t k = 0; k < cases[i].count; k++) {
            base_writer_u64(&writer, KEY);
            base_writer_u64(&writer, k + 1);
            base_writer_u64(&writer, 0);
            base_writer_varint(&writer, 5000);
            base_writer_varint(&writer, cases[i].within_ms);
            base_writer_varint(&writer, 0);
        }
        base_reader_init(&reader, bytes, base_writer_size(&writer));
        dev_timeouts_read(&timeouts, (struct dev_timeout_now){0, 0}, &reader);
        assert_int_equal(base_reader_finish(&reader) == BASE_OK, cases[i].good);
        assert_int_equal(timeouts.count, cases[i].good ? cases[i].count : 0);
    }
}

static void the_oldest_gives_way(void **state)
{
    (void)state;
    for (uint64_t seq = 1; seq <= DEV_TIMEOUTS_MAX; seq++) {
        assert_false(open_at(seq, 5000 + seq, 5000 + seq));
    }
    assert_true(open_at(99, 6000, 6000));
    assert_int_equal(timeouts.count, DEV_TIMEOUTS_MAX);
    assert_int_equal(timeouts.items[0].seq, 2);
    uint8_t bytes[DEV_TIMEOUTS_BYTES_MAX];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    dev_timeouts_write(&timeouts, &writer);
    assert_int_equal(writer.status, BASE_OK);
}

// A pattern that opens many starts takes the place of none of another's.
static void who_opens_most_gives_way(void **state)
{
    (void)state;
    (void)open_at(1, 5000, 5000);
    timeouts.items[0].key++; // of another pattern
    for (uint64_t seq = 2; seq <= 3 * DEV_TIMEOUTS_MAX; seq++) {
        assert_int_equal(open_at(seq, 5000 + seq, 5000 + seq), seq > DEV_TIMEOUTS_MAX);
    }
    assert_int_equal(timeouts.count, DEV_TIMEOUTS_MAX);
    assert_int_equal(timeouts.items[0].seq, 1);
    assert_int_equal(timeouts.items[1].seq, 2 * DEV_TIMEOUTS_MAX + 2);
}

static bool is_key(void *ctx, uint64_t key)
{
    return key == *(const uint64_t *)ctx;
}

static void those_whose_pattern_went_go(void **state)
{
    uint64_t key = dev_timeout_key(KEY);
    (void)state;
    (void)open_at(1, 5000, 5000);
    (void)open_at(2, 5001, 5001);
    timeouts.items[0].key++;
    dev_timeouts_keep(&timeouts, is_key, &key);
    assert_int_equal(timeouts.count, 1);
    assert_int_equal(timeouts.items[0].seq, 2);
}

// Random starts, matches and pauses of two patterns, with visits and items, beside a list in which
// each is looked for by itself.
static void as_a_list_says(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 41);
    struct {
        uint64_t seq, ms, item, key;
        uint32_t visit, within_ms;
        bool open;
    } starts[400];
    for (int round = 0; round < 200; round++) {
        timeouts = (struct dev_timeouts){0};
        bool page = base_prng_below(&prng, 2) == 1;
        bool by_item = base_prng_below(&prng, 2) == 1;
        uint64_t now_ms = 10000;
        uint32_t count = 0;
        for (uint64_t seq = 1; seq < 60; seq++) {
            now_ms += base_prng_below(&prng, 700);
            struct dev_event event = event_at(seq, now_ms);
            event.visit = (uint32_t)base_prng_below(&prng, 3) + 1;
            event.item_hash = base_prng_below(&prng, 2) + 1;
            struct dev_trigger_fired fired = {.seq = seq, .visit = page ? event.visit : 0};
            struct dev_timeout over;
            uint64_t before_ms = 0;
            while (dev_timeouts_over(&timeouts, now_ms * 1000, &over)) {
                uint32_t found = UINT32_MAX;
                for (uint32_t i = 0; i < count; i++) {
                    found = starts[i].open && starts[i].seq == over.seq ? i : found;
                }
                assert_int_not_equal(found, UINT32_MAX);
                uint64_t due_ms = starts[found].ms + starts[found].within_ms;
                assert_true(due_ms < now_ms);
                assert_true(due_ms >= before_ms); // in the order in which they are over
                before_ms = due_ms;
                starts[found].open = false;
            }
            uint64_t key = KEY + base_prng_below(&prng, 2);
            uint32_t within_ms = key == KEY ? WITHIN_MS : WITHIN_MS / 4;
            if (base_prng_below(&prng, 2) == 0) {
                const struct dev_timeout_ask ask = {.within_ms = within_ms, .by_item = by_item};
                fired.key = dev_timeout_key(key);
                const struct dev_timeout start = dev_timeout_of(
                    &event, &fired, &ask, (struct dev_timeout_now){now_ms * 1000, now_ms});
                assert_false(dev_timeouts_open(&timeouts, &start, &over));
                starts[count].seq = seq;
                starts[count].ms = now_ms;
                starts[count].item = event.item_hash;
                starts[count].key = key;
                starts[count].within_ms = within_ms;
                starts[count].visit = event.visit;
                starts[count++].open = true;
            } else {
                fired.key = key;
                fired.item_hash = by_item ? event.item_hash : 0;
                dev_timeouts_match(&timeouts, &event, &fired);
                for (uint32_t i = 0; i < count; i++) {
                    bool ends = starts[i].key == key && (!page || starts[i].visit == event.visit) &&
                                (!by_item || starts[i].item == event.item_hash) &&
                                now_ms - starts[i].ms <= within_ms;
                    starts[i].open = starts[i].open && !ends;
                }
            }
            uint32_t open = 0;
            for (uint32_t i = 0; i < count; i++) {
                open += starts[i].open;
            }
            assert_int_equal(timeouts.count, open);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_a_pattern_asks_for, setup),
        cmocka_unit_test_setup(within_holds_to_its_end, setup),
        cmocka_unit_test_setup(the_clock_goes_back, setup),
        cmocka_unit_test_setup(what_is_stored_is_bounded, setup),
        cmocka_unit_test_setup(the_oldest_gives_way, setup),
        cmocka_unit_test_setup(who_opens_most_gives_way, setup),
        cmocka_unit_test_setup(those_whose_pattern_went_go, setup),
        cmocka_unit_test_setup(as_a_list_says, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
