// What the trigger engine promises at its edges: refusals that name the source, memory of exactly
// the size it said, which events it wants, stored bytes it does not take.
#include "test_kit.h"

#include "trigger_rig.h"

static const struct dev_trigger_options options = {.secret = RIG_SECRET};

static void refusals_name_the_source(void **state)
{
    (void)state;
    struct trig_rig rig;
    struct dev_trigger_fault fault = {0};
    struct dev_trigger_source sources[] = {
        {1, BASE_STR("click")}, {2, BASE_STR("click *")}, {3, BASE_STR("click\n(a == )")}};
    assert_int_equal(trig_rig_try(&rig, sources, 3, &options, &fault), BASE_ERR_INVALID);
    assert_int_equal(fault.source, 2);
    assert_int_equal(fault.error.line, 2);
    assert_int_equal(fault.error.column, 7);
    sources[2] = (struct dev_trigger_source){1, BASE_STR("exit")};
    assert_int_equal(trig_rig_try(&rig, sources, 3, &options, &fault), BASE_ERR_INVALID);
    assert_int_equal(fault.source, 2);
    assert_int_equal(trig_rig_try(&rig, sources, 3, &options, NULL), BASE_ERR_INVALID);
    assert_int_equal(trig_rig_try(&rig, sources, DEV_TRIGGER_SOURCES_MAX + 1, &options, &fault),
                     BASE_ERR_TOO_LARGE);
    const struct dev_trigger_options many = {.keys_max = DEV_TRIGGER_KEYS_MAX + 1};
    assert_int_equal(trig_rig_try(&rig, sources, 2, &many, &fault), BASE_ERR_TOO_LARGE);
    const struct dev_trigger_options little = {.work_max = 3};
    assert_int_equal(trig_rig_try(&rig, sources, 2, &little, &fault), BASE_ERR_LIMIT);
    assert_int_equal(fault.source, 0);
    assert_int_equal(trig_rig_try(&rig, sources, 0, &options, &fault), BASE_OK);
    struct dev_event event = {.kind = DEV_EVENT_CLICK, .seq = 1};
    uint32_t count;
    bool seen = true;
    (void)dev_trigger_on_event(rig.engine, &event, &count);
    assert_int_equal(count, 0);
    event.seq++;
    (void)dev_trigger_on_wanted(rig.engine, &event, &count, &seen);
    assert_false(seen);
    trig_rig_done(&rig);
}

static void memory_is_of_exactly_the_size(void **state)
{
    (void)state;
    static const struct dev_trigger_source sources[] = {
        {1, BASE_STR("click(a, price > 3) *{0,3} exit same(item) * any same(item) page")},
        {2, BASE_STR("? ? every-event")},
        {3, BASE_STR("scroll not exit before next click reset max 3/day")}};
    const struct dev_trigger_sources set_sources = {sources, 3};
    size_t bytes;
    assert_int_equal(dev_trigger_scratch_bytes(&set_sources, &bytes, NULL), BASE_OK);
    void *scratch = malloc(bytes);
    struct dev_trigger_scratch small = {scratch, bytes - 1};
    struct dev_trigger_scratch enough = {scratch, bytes};
    struct dev_trigger_certificate certificate;
    const struct dev_trigger_set *set;
    struct dev_trigger_engine *engine;
    assert_int_equal(dev_trigger_certify(&set_sources, &options, small, &certificate, NULL),
                     BASE_ERR_NOMEM);
    assert_int_equal(dev_trigger_certify(&set_sources, &options, enough, &certificate, NULL),
                     BASE_OK);
    void *memory = malloc(certificate.set_bytes);
    assert_int_equal(dev_trigger_compile(scratch, memory, certificate.set_bytes - 1, &set),
                     BASE_ERR_NOMEM);
    assert_int_equal(dev_trigger_compile(scratch, memory, certificate.set_bytes, &set), BASE_OK);
    assert_int_equal(dev_trigger_compile(scratch, memory, certificate.set_bytes, &set),
                     BASE_ERR_CONFLICT);
    free(scratch);
    void *state_memory = malloc(certificate.state_bytes);
    assert_int_equal(dev_trigger_init(set, state_memory, certificate.state_bytes - 1, &engine),
                     BASE_ERR_NOMEM);
    assert_int_equal(dev_trigger_init(set, state_memory, certificate.state_bytes, &engine),
                     BASE_OK);
    assert_true(dev_trigger_validate(engine));
    free(memory);
    free(state_memory);
}

static bool wants(const struct trig_rig *rig, struct rig_event event)
{
    struct rig_event_memory memory;
    struct dev_event view = rig_event_view(&event, &memory);
    uint32_t count;
    bool seen;
    (void)dev_trigger_on_wanted(rig->engine, &view, &count, &seen);
    return seen;
}

// Events that nobody wants may be left out: the matches are the same.
static void unwanted_events_change_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "click(a) exit(b) within 3ms", "scroll(item=1) * click page",
        "custom:n(c) * any(b, price > 1) same(item) * exit same(item)"};
    struct trig_rig rigs[2];
    trig_rig_init(&rigs[0], texts, 3);
    trig_rig_init(&rigs[1], texts, 3);
    struct trig_rig asked;
    trig_rig_init(&asked, texts, 3);
    assert_true(wants(&asked, (struct rig_event){.kind = DEV_EVENT_CLICK, .page = 3}));
    assert_true(wants(&asked, (struct rig_event){.kind = DEV_EVENT_ENTER, .page = 2}));
    assert_false(wants(&asked, (struct rig_event){.kind = DEV_EVENT_ENTER, .page = 1}));
    assert_false(wants(&asked, (struct rig_event){.kind = DEV_EVENT_SCROLL, .page = 1, .item = 2}));
    assert_false(wants(&asked, (struct rig_event){.kind = DEV_EVENT_CUSTOM, .page = 1}));
    trig_rig_done(&asked);
    struct base_prng prng;
    test_seed(&prng);
    uint32_t fired = 0;
    uint32_t left_out = 0;
    for (uint32_t n = 1; n <= 50000; n++) {
        struct rig_event event = {.seq = n,
                                  .mono_us = n * 700,
                                  .kind = (uint8_t)(1 + base_prng_below(&prng, 6)),
                                  .page = (uint8_t)(1 + base_prng_below(&prng, 4)),
                                  .item = (uint8_t)base_prng_below(&prng, 3),
                                  .price = (uint8_t)base_prng_below(&prng, 3),
                                  .visit = n / 50 + 1};
        struct rig_event_memory memory;
        struct dev_event view = rig_event_view(&event, &memory);
        uint32_t counts[2] = {0};
        const struct dev_trigger_fired *all =
            dev_trigger_on_event(rigs[0].engine, &view, &counts[0]);
        bool seen;
        const struct dev_trigger_fired *some =
            dev_trigger_on_wanted(rigs[1].engine, &view, &counts[1], &seen);
        left_out += !seen;
        assert_int_equal(counts[0], counts[1]);
        for (uint32_t i = 0; i < counts[0]; i++) {
            assert_int_equal(all[i].source, some[i].source);
            fired++;
        }
    }
    assert_true(fired > 100);
    assert_true(left_out > 1000);
    static const char *const any[] = {"click ? exit"};
    trig_rig_done(&rigs[0]);
    trig_rig_init(&rigs[0], any, 1);
    assert_true(wants(&rigs[0], (struct rig_event){.kind = DEV_EVENT_ENTER, .page = 1}));
    trig_rig_done(&rigs[0]);
    trig_rig_done(&rigs[1]);
}

static uint32_t give(struct trig_rig *rig, uint64_t seq, uint8_t kind, uint32_t boot)
{
    struct rig_event_memory memory;
    struct rig_event event = {.seq = seq,
                              .kind = kind,
                              .page = 1,
                              .item = 1,
                              .visit = 1,
                              .boot = boot,
                              .mono_us = seq * 1000,
                              .wall_ms = seq};
    struct dev_event view = rig_event_view(&event, &memory);
    uint32_t count;
    (void)dev_trigger_on_event(rig->engine, &view, &count);
    return count;
}

static void stored_state_of_other_sets_and_damage(void **state)
{
    (void)state;
    static const char *const texts[] = {"click * exit", "click same(item) * scroll same(item)",
                                        "enter cooldown 1h", "click exit", "exposure ? click page"};
    static const char *const others[] = {"click * exit", "scroll", "enter cooldown 1h"};
    struct trig_rig rig;
    struct trig_rig other;
    trig_rig_init(&rig, texts, TEST_COUNT(texts));
    trig_rig_init(&other, others, TEST_COUNT(others));
    assert_int_equal(give(&rig, 1, DEV_EVENT_ENTER, 1), 1);
    assert_int_equal(give(&rig, 2, DEV_EVENT_EXPOSURE, 1), 0);
    assert_int_equal(give(&rig, 3, DEV_EVENT_CLICK, 1), 0);
    uint8_t bytes[512];
    size_t size;
    assert_int_equal(dev_trigger_encode(rig.engine, bytes, sizeof bytes, &size), BASE_OK);
    assert_true(size <= dev_trigger_encoded_max(rig.engine));
    for (size_t i = 0; i < size; i++) {
        uint8_t less[512];
        size_t used;
        assert_int_equal(dev_trigger_encode(rig.engine, less, i, &used), BASE_ERR_TOO_LARGE);
        uint8_t *cut = test_exact(bytes, i);
        trig_rig_fresh(&rig);
        assert_int_equal(dev_trigger_decode(rig.engine, cut, i), BASE_ERR_TRUNCATED);
        assert_int_equal(give(&rig, 4, DEV_EVENT_EXIT, 1), 0); // as fresh as before
        free(cut);
        trig_rig_fresh(&rig);
        assert_int_equal(dev_trigger_decode(rig.engine, bytes, size), BASE_OK);
    }
    assert_int_equal(dev_trigger_decode(other.engine, bytes, size), BASE_OK);
    struct dev_trigger_stats stats;
    dev_trigger_stats(other.engine, &stats);
    assert_int_equal(stats.lost_partials, 4); // click *, same(item), click, exposure ?
    assert_int_equal(give(&other, 3, DEV_EVENT_ENTER, 1), 0); // the seq is known,
    assert_int_equal(give(&other, 4, DEV_EVENT_ENTER, 1), 0); // and the cooldown
    assert_int_equal(give(&other, 5, DEV_EVENT_EXIT, 1), 0);
    assert_int_equal(give(&rig, 4, DEV_EVENT_EXIT, 1), 2);
    bytes[size] = 0;
    trig_rig_fresh(&rig);
    assert_int_equal(dev_trigger_decode(rig.engine, bytes, size + 1), BASE_ERR_INVALID);
    bytes[0]++;
    assert_int_equal(dev_trigger_decode(rig.engine, bytes, size), BASE_ERR_UNSUPPORTED);
    trig_rig_done(&rig);
    trig_rig_done(&other);
}

static enum base_status no_past(void *ctx, uint64_t before, struct dev_event *out)
{
    (void)before;
    (void)out;
    return *(enum base_status *)ctx;
}

static enum base_status same_again(void *ctx, uint64_t before, struct dev_event *out)
{
    (void)ctx;
    out->seq = before;
    return BASE_OK;
}

static void embeddings_whose_events_are_gone(void **state)
{
    (void)state;
    static const char *const texts[] = {"click * exit"};
    struct trig_rig rig;
    trig_rig_init(&rig, texts, 1);
    assert_int_equal(give(&rig, 1, DEV_EVENT_CLICK, 1), 0);
    struct dev_event last = {.seq = 9, .kind = DEV_EVENT_EXIT};
    uint32_t count;
    const struct dev_trigger_fired *fired = dev_trigger_on_event(rig.engine, &last, &count);
    assert_int_equal(count, 1);
    struct dev_trigger_embedding made;
    enum base_status status = BASE_ERR_NOT_FOUND;
    const struct dev_trigger_past none = {no_past, &status};
    const struct dev_trigger_past same = {same_again, NULL};
    assert_int_equal(dev_trigger_embed(rig.set, fired, &last, none, &made), BASE_ERR_NOT_FOUND);
    status = BASE_ERR_IO;
    assert_int_equal(dev_trigger_embed(rig.set, fired, &last, none, &made), BASE_ERR_IO);
    assert_int_equal(dev_trigger_embed(rig.set, fired, &last, same, &made), BASE_ERR_INVALID);
    struct dev_trigger_fired wrong = *fired;
    wrong.node = 0;
    assert_int_equal(dev_trigger_embed(rig.set, &wrong, &last, none, &made), BASE_ERR_INVALID);
    wrong.node = UINT32_MAX;
    assert_int_equal(dev_trigger_embed(rig.set, &wrong, &last, none, &made), BASE_ERR_INVALID);
    trig_rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_the_source),
        cmocka_unit_test(memory_is_of_exactly_the_size),
        cmocka_unit_test(unwanted_events_change_nothing),
        cmocka_unit_test(stored_state_of_other_sets_and_damage),
        cmocka_unit_test(embeddings_whose_events_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
