// Sessions: walks match the patterns they walk, by the real trigger engine; logs are cut where no
// page is open; one seed gives one session; what did not fire is explained.
#include "test_kit.h"

#include "behaviour/behaviour_tally.h"
#include "behaviour/user_session.h"
#include "pipeline/trigger/trigger.h"

#include <stdlib.h>
#include <unistd.h>

#define SECRET   7u
#define SESSIONS 40u
#define PAGES    16

// ---- An engine of one pattern, and the numbers a recorder gives

struct engine {
    void *scratch;
    void *set_memory;
    void *state_memory;
    const struct dev_trigger_set *set;
    struct dev_trigger_engine *engine;
    uint64_t seq;
    uint64_t us;
    uint32_t visits;
    struct {
        char page[DEV_EVENT_PAGE_MAX + 1];
        uint32_t visit;
    } open[PAGES];
    uint32_t open_count;
};

static void engine_init(struct engine *e, const char *pattern)
{
    const struct dev_trigger_source source = {.key = 1, .pattern = base_str_of(pattern)};
    const struct dev_trigger_options options = {.secret = SECRET};
    struct dev_trigger_certificate certificate;
    const struct dev_trigger_sources sources = {&source, 1};
    struct dev_trigger_scratch scratch = {0};
    *e = (struct engine){.seq = 0};
    assert_int_equal(dev_trigger_scratch_bytes(&sources, &scratch.bytes, NULL), BASE_OK);
    scratch.memory = malloc(scratch.bytes);
    e->scratch = scratch.memory;
    assert_int_equal(dev_trigger_certify(&sources, &options, scratch, &certificate, NULL), BASE_OK);
    e->set_memory = malloc(certificate.set_bytes);
    e->state_memory = malloc(certificate.state_bytes);
    assert_int_equal(dev_trigger_compile(e->scratch, e->set_memory, certificate.set_bytes, &e->set),
                     BASE_OK);
    assert_int_equal(dev_trigger_init(e->set, e->state_memory, certificate.state_bytes, &e->engine),
                     BASE_OK);
}

static void engine_done(struct engine *e)
{
    free(e->scratch);
    free(e->set_memory);
    free(e->state_memory);
}

static uint32_t visit_of(struct engine *e, const struct dev_recording *recording)
{
    uint32_t at = 0;
    while (at < e->open_count && !base_str_equal(base_str_of(e->open[at].page), recording->page)) {
        at++;
    }
    if (at == e->open_count) {
        if (recording->kind != DEV_EVENT_ENTER) {
            return 0;
        }
        assert_true(e->open_count < PAGES);
        (void)snprintf(e->open[at].page, sizeof(e->open[at].page), "%.*s",
                       (int)recording->page.size, recording->page.data);
        e->open_count++;
    }
    if (recording->kind == DEV_EVENT_ENTER) {
        e->open[at].visit = ++e->visits;
    }
    uint32_t visit = e->open[at].visit;
    if (recording->kind == DEV_EVENT_EXIT) {
        e->open[at] = e->open[--e->open_count];
    }
    return visit;
}

// Gives a recording to the engine as an event; the matches to start.
static uint32_t engine_give(struct engine *e, const struct dev_recording *recording,
                            uint64_t gap_us)
{
    uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
    size_t size = 0;
    uint32_t fired = 0;
    assert_true(recording->page.size > 0 && recording->page.size <= DEV_EVENT_PAGE_MAX);
    assert_int_equal(dev_event_attrs_encode(recording->attrs, recording->attr_count, attrs,
                                            sizeof(attrs), &size),
                     BASE_OK);
    e->us += gap_us;
    struct dev_event event = {
        .seq = ++e->seq,
        .wall_ms = e->us / 1000,
        .mono_us = e->us,
        .boot = 1,
        .visit = visit_of(e, recording),
        .kind = recording->kind,
        .name = recording->name,
        .page = recording->page,
        .item = recording->item,
        .name_hash = dev_event_hash(SECRET, recording->name),
        .page_hash = dev_event_hash(SECRET, recording->page),
        .item_hash = dev_event_hash(SECRET, recording->item),
        .attrs = attrs,
        .attrs_bytes = (uint32_t)size,
        .attr_count = recording->attr_count,
    };
    bool seen;
    (void)dev_trigger_on_wanted(e->engine, &event, &fired, &seen);
    return fired;
}

static void triggers_of(struct sim_triggers *out, const char *pattern)
{
    out->count = 1;
    out->size[0] = (uint16_t)strlen(pattern);
    memcpy(out->text[0], pattern, out->size[0]);
}

// ---- Walks

static void walks_match_what_they_walk(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "exit(item)",
        "enter(home) * click(home, \"buy\") within 30s page",
        "custom:like(item, *)",
        "click(cart, price > 3, price < 10)",
        "click(cart, name == \"x\", gift == true, ratio >= 0.5)",
        "enter(a) ? ? click(a)",
        "enter same(item) * click same(item) * exit same(item)",
        "click(list) click(list) click(list)",
        "enter(a) * enter(b) * exit(b) * exit(a)",
        "enter(shop) not exit(shop) before next click(pay)",
        "any(any)",
        "click(a) *{1,4} click(b) within 2s",
        "exposure(feed, colour != \"red\") * click(feed)",
        "scroll(list) each",
    };
    static struct sim_triggers triggers;
    static struct sim_session session;
    const struct sim_sessions sessions = {.kind = SIM_SESSIONS_TRIGGERS, .seed = 3};
    for (size_t p = 0; p < sizeof(patterns) / sizeof(patterns[0]); p++) {
        uint32_t matched = 0;
        triggers_of(&triggers, patterns[p]);
        for (uint32_t i = 0; i < SESSIONS; i++) {
            struct engine engine;
            struct dev_recording recording;
            uint64_t gap_us = 0;
            uint32_t fired = 0;
            engine_init(&engine, patterns[p]);
            sim_session_begin(&session, &sessions, 5, i, &triggers);
            while (sim_session_next(&session, &recording, &gap_us)) {
                fired += engine_give(&engine, &recording, gap_us);
            }
            sim_session_end(&session);
            matched += fired > 0 ? 1 : 0;
            engine_done(&engine);
        }
        if (matched < SESSIONS / 2) {
            fail_msg("%s: matched in %u of %u walks", patterns[p], matched, SESSIONS);
        }
    }
}

static void what_cannot_hold_is_walked_in_vain(void **state)
{
    (void)state;
    static struct sim_triggers triggers;
    static struct sim_session session;
    static struct sim_tally tally;
    const char *pattern = "enter(cart) * click(cart, price > 5, price < 3)";
    const struct sim_sessions sessions = {.kind = SIM_SESSIONS_TRIGGERS, .seed = 3};
    struct dev_recording recording;
    uint64_t gap_us = 0;
    struct engine engine;
    char miss[256];
    sim_tally_init(&tally);
    struct sim_trigger_tally *row = sim_tally_trigger(&tally, 9, 0, base_str_of(pattern));
    assert_non_null(row);
    assert_ptr_equal(sim_tally_trigger(&tally, 9, 0, base_str_of(pattern)), row);
    assert_true(sim_trigger_miss(row, miss, sizeof(miss)));
    assert_string_equal(miss, "no event matched step 1 of 2, enter(cart)");
    engine_init(&engine, pattern);
    triggers_of(&triggers, pattern);
    sim_session_begin(&session, &sessions, 1, 1, &triggers);
    while (sim_session_next(&session, &recording, &gap_us)) {
        assert_int_equal(engine_give(&engine, &recording, gap_us), 0);
        struct dev_event event = {.kind = recording.kind, .page = recording.page};
        for (uint32_t k = 0; k < row->step_count; k++) {
            row->step_events[k] +=
                sim_literal_matches(&row->pattern, &row->pattern.literals[k], &event) ? 1 : 0;
        }
    }
    sim_session_end(&session);
    engine_done(&engine);
    assert_true(sim_trigger_miss(row, miss, sizeof(miss)));
    assert_string_equal(miss, "1 events matched step 1, none matched step 2 of 2, click(cart) with "
                              "its tests");
    row->matches = 1;
    assert_false(sim_trigger_miss(row, miss, sizeof(miss)));
}

// ---- One seed, one session

static uint64_t digest_of(const struct sim_sessions *sessions, uint64_t index, uint32_t number,
                          const struct sim_triggers *triggers, uint32_t *out_events)
{
    static struct sim_session session;
    struct dev_recording recording;
    uint64_t gap_us = 0;
    uint64_t digest = 1;
    *out_events = 0;
    sim_session_begin(&session, sessions, index, number, triggers);
    while (sim_session_next(&session, &recording, &gap_us)) {
        uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
        size_t size = 0;
        assert_int_equal(dev_event_attrs_encode(recording.attrs, recording.attr_count, attrs,
                                                sizeof(attrs), &size),
                         BASE_OK);
        digest = base_mix64(digest ^ dev_event_hash(1, recording.page)) + gap_us;
        digest = base_mix64(digest ^ dev_event_hash(2, recording.item)) + recording.kind;
        digest = base_mix64(digest ^ dev_event_hash(3, (struct base_str){(char *)attrs, size}));
        ++*out_events;
    }
    sim_session_end(&session);
    return digest;
}

static void one_seed_gives_one_session(void **state)
{
    (void)state;
    static struct sim_triggers triggers;
    triggers_of(&triggers, "enter(home) * click(home)");
    for (int kind = SIM_SESSIONS_IPV; kind <= SIM_SESSIONS_TRIGGERS; kind++) {
        struct sim_sessions sessions = {.kind = (enum sim_sessions_kind)kind, .seed = 11};
        uint32_t events = 0;
        uint32_t same = 0;
        for (uint32_t number = 0; number < 20; number++) {
            uint64_t digest = digest_of(&sessions, 4, number, &triggers, &events);
            assert_true(events > 0 && events <= SIM_SESSION_EVENTS_MAX);
            assert_int_equal(digest_of(&sessions, 4, number, &triggers, &events), digest);
            same += digest_of(&sessions, 4, number + 1, &triggers, &events) == digest ? 1 : 0;
            same += digest_of(&sessions, 5, number, &triggers, &events) == digest ? 1 : 0;
            sessions.seed++;
            same += digest_of(&sessions, 4, number, &triggers, &events) == digest ? 1 : 0;
            sessions.seed--;
        }
        assert_int_equal(same, 0);
    }
}

// ---- Logs

static enum base_status log_of(const char *text, struct sim_sessions *out, struct base_error *error)
{
    char path[] = "/tmp/walle-log-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    enum base_status status = sim_sessions_load(path, 1, out, error);
    (void)unlink(path);
    return status;
}

static void logs_are_cut_where_no_page_is_open(void **state)
{
    (void)state;
    struct sim_sessions sessions;
    struct base_error error = {0};
    assert_int_equal(log_of("{\"kind\":\"enter\",\"page\":\"a\",\"t\":1000}\n"
                            "{\"kind\":\"enter\",\"page\":\"b\",\"t\":1200}\n"
                            "\n"
                            "{\"kind\":\"exit\",\"page\":\"b\"}\n"
                            "{\"kind\":\"exit\",\"page\":\"a\",\"t\":90000000}\n"
                            "{\"kind\":\"click\",\"page\":\"c\",\"t\":80000000}\n"
                            "{\"kind\":\"enter\",\"page\":\"d\",\"t\":99000000}",
                            &sessions, &error),
                     BASE_OK);
    static const uint32_t ends[] = {4, 5, 6};
    static const uint32_t gaps[] = {500, 200, 500, 500, 0, 3600000};
    assert_int_equal(sim_log_pieces(sessions.log), 3);
    uint32_t first = 0;
    uint32_t end = 0;
    for (uint32_t i = 0; i < 3; i++) {
        sim_log_piece(sessions.log, i, &first, &end);
        assert_int_equal(first, i > 0 ? ends[i - 1] : 0);
        assert_int_equal(end, ends[i]);
    }
    for (uint32_t i = 0; i < 6; i++) {
        struct event_line *parsed = NULL;
        struct dev_recording recording;
        uint32_t gap_ms = 0;
        assert_int_equal(sim_log_line(sessions.log, i, &parsed, &recording, &gap_ms), BASE_OK);
        assert_int_equal(gap_ms, gaps[i]);
        event_line_free(parsed);
    }
    static struct sim_session session;
    struct dev_recording recording;
    uint64_t gap_us = 0;
    sim_session_begin(&session, &sessions, 0, 0, NULL);
    assert_true(sim_session_next(&session, &recording, &gap_us));
    assert_int_equal(gap_us, 0);
    sim_session_end(&session); // in the middle
    sim_sessions_done(&sessions);
}

static void bad_logs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } table[] = {
        {"", "no event"},
        {"\n\n", "no event"},
        {"{\"kind\":\"click\"}\n", "line 1"},
        {"{\"kind\":\"click\",\"page\":\"a\"}\n{\"kind\":\"hop\",\"page\":\"a\"}\n", "line 2"},
        {"{\"kind\":\"click\",\"page\":\"a\",\"attrs\":{\"Bad\":1}}\n", "line 1"},
        {"{\"kind\":\"click\",\"page\":\"a\"", "line 1"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct sim_sessions sessions;
        struct base_error error = {0};
        assert_int_not_equal(log_of(table[i].text, &sessions, &error), BASE_OK);
        if (strstr(error.text, table[i].words) == NULL) {
            fail_msg("\"%s\" says \"%s\"", table[i].text, error.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_match_what_they_walk),
        cmocka_unit_test(what_cannot_hold_is_walked_in_vain),
        cmocka_unit_test(one_seed_gives_one_session),
        cmocka_unit_test(logs_are_cut_where_no_page_is_open),
        cmocka_unit_test(bad_logs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
