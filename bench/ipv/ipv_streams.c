// What of the item-page-view feature stream functions can say: one declared stream over the page
// visit window, whose answers are compared with the feature of the same visit, and its time.
//
//   ipv_streams SEED FIRST DEVICES SESSIONS
//
// Prints one line of JSON; exit status 1 when an answer differs. One thread.
#include "ipv_book.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"
#include "pipeline/stream/event_predicate.h"
#include "pipeline/stream/event_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// `position + visible_ms * 0` has a value where both are: of exposures alone.
static const struct dev_aggregate_spec AGGREGATES[] = {
    {.name = BASE_STR("events"), .kind = DEV_AGGREGATE_COUNT},
    {.name = BASE_STR("scrolls"), .kind = DEV_AGGREGATE_COUNT, .value = BASE_STR("dy")},
    {.name = BASE_STR("moved_px"), .kind = DEV_AGGREGATE_SUM, .value = BASE_STR("dy")},
    {.name = BASE_STR("max_pct"), .kind = DEV_AGGREGATE_MAX, .value = BASE_STR("depth")},
    {.name = BASE_STR("shows"), .kind = DEV_AGGREGATE_COUNT, .value = BASE_STR("visible_ms")},
    {.name = BASE_STR("seen_ms"), .kind = DEV_AGGREGATE_SUM, .value = BASE_STR("visible_ms")},
    {.name = BASE_STR("max_position"),
     .kind = DEV_AGGREGATE_MAX,
     .value = BASE_STR("position + visible_ms * 0")},
    {.name = BASE_STR("favourite"),
     .kind = DEV_AGGREGATE_SUM,
     .value = BASE_STR("target == \"favourite\"")},
    {.name = BASE_STR("cart"), .kind = DEV_AGGREGATE_SUM, .value = BASE_STR("target == \"cart\"")},
    {.name = BASE_STR("share"),
     .kind = DEV_AGGREGATE_SUM,
     .value = BASE_STR("target == \"share\"")},
    {.name = BASE_STR("review"),
     .kind = DEV_AGGREGATE_SUM,
     .value = BASE_STR("target == \"review\"")},
    {.name = BASE_STR("buy"), .kind = DEV_AGGREGATE_SUM, .value = BASE_STR("target == \"buy\"")},
    {.name = BASE_STR("clicks"),
     .kind = DEV_AGGREGATE_LAST,
     .value = BASE_STR("target"),
     .size = IPV_CLICKS},
};
enum { EVENTS, SCROLLS, MOVED, MAX_PCT, SHOWS, SEEN, MAX_POSITION, ACTIONS, CLICKS = 12, COUNT };

static const struct base_str FILTER = BASE_STR("page == \"" IPV_PAGE "\"");
static const struct dev_stream_spec SPEC = {
    .name = BASE_STR("ipv"),
    .window = {.kind = DEV_WINDOW_PAGE},
    .aggregates = AGGREGATES,
    .aggregate_count = COUNT,
};

struct answers {
    uint32_t visit; // of the last complete answer; 0: none since the last event
    int64_t numbers[CLICKS];
    uint32_t click_count;
    struct ipv_text clicks[IPV_CLICKS];
};

static void take(void *ctx, const struct dev_stream_result *result)
{
    struct answers *answers = ctx;
    if (!result->complete) {
        return; // of a visit that never ended
    }
    answers->visit = (uint32_t)result->start;
    for (uint32_t i = 0; i < CLICKS; i++) {
        struct dev_value value = dev_stream_answer(result, i);
        answers->numbers[i] = value.type == DEV_VALUE_INTEGER ? value.integer : 0;
    }
    const void *last = dev_stream_answer_state(result, CLICKS);
    answers->click_count = dev_aggregate_last_count(last);
    for (uint32_t i = 0; i < answers->click_count && i < IPV_CLICKS; i++) {
        struct dev_value value = dev_aggregate_last(last, i);
        struct ipv_text *click = &answers->clicks[i];
        click->size = (uint8_t)(value.text.size < IPV_TEXT ? value.text.size : IPV_TEXT);
        memcpy(click->bytes, value.text.data, click->size);
    }
}

static bool clicks_equal(const struct answers *answers, const struct ipv_feature *feature)
{
    uint32_t count = feature->presses < IPV_CLICKS ? feature->presses : IPV_CLICKS;
    bool equal = answers->click_count == count;
    for (uint32_t i = 0; equal && i < count; i++) {
        const struct ipv_text *ours = &answers->clicks[i];
        const struct ipv_text *theirs =
            &feature->last[(feature->presses - count + i) % IPV_CLICKS].target;
        equal = ours->size == theirs->size && memcmp(ours->bytes, theirs->bytes, ours->size) == 0;
    }
    return equal;
}

static bool equal(const struct answers *answers, const struct ipv_feature *feature)
{
    const int64_t *got = answers->numbers;
    bool actions = true;
    for (uint32_t i = 0; i < IPV_ACTIONS; i++) {
        actions = actions && got[ACTIONS + i] == feature->actions[i];
    }
    return actions && got[EVENTS] == feature->events && got[SCROLLS] == feature->scrolls &&
           got[MOVED] == feature->down_px - feature->up_px && got[MAX_PCT] == feature->max_depth &&
           got[SHOWS] == feature->shows && got[SEEN] == (int64_t)feature->seen_ms &&
           got[MAX_POSITION] == feature->max_position && clicks_equal(answers, feature);
}

static uint64_t play(const struct ipv_span *span, void *memory, size_t bytes,
                     struct ipv_times *times)
{
    static struct ipv_device device;
    static struct ipv_book book;
    static uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
    uint64_t visit_ns[IPV_BOOK_VISITS * 4] = {0};
    uint64_t differing = 0;
    uint8_t filter[DEV_PREDICATE_BYTES_MAX];
    struct dev_predicate_program program = {.bytes = filter, .capacity = sizeof(filter)};
    ipv_need(dev_predicate_compile(FILTER, DEV_PREDICATE_TRUTH, &program, NULL) == BASE_OK,
             "the filter does not compile");
    for (uint64_t i = 0; i < span->devices; i++) {
        struct dev_event event;
        struct dev_stream *stream = NULL;
        struct answers answers = {0};
        struct base_error error = {0};
        ipv_device_init(&device, span->seed, span->first + i, span->sessions);
        ipv_book_init(&book);
        ipv_need(dev_stream_init((struct dev_stream_block){memory, bytes}, &SPEC,
                                 (struct dev_stream_sink){take, &answers}, &stream,
                                 &error) == BASE_OK,
                 error.text);
        while (ipv_device_next(&device, &event)) {
            ipv_cut_down(&device, &event, attrs);
            answers.visit = 0;
            uint64_t start = ipv_now_ns();
            uint32_t sides = dev_predicate_test(filter, &event) ? DEV_STREAM_OWN : 0;
            dev_stream_feed(stream, &event, sides);
            uint64_t took = ipv_now_ns() - start;
            const struct ipv_feature *feature = ipv_book_event(&book, &event);
            ipv_times_event(times, visit_ns, sizeof(visit_ns) / sizeof(visit_ns[0]), &event, took,
                            feature != NULL);
            if (feature != NULL) {
                times->events_of_features += feature->events;
                differing += answers.visit != event.visit || !equal(&answers, feature);
            }
        }
    }
    return differing;
}

int main(int argc, char **argv)
{
    struct ipv_span span;
    struct ipv_times times = {0};
    struct base_error error = {0};
    size_t bytes = 0;
    ipv_need(argc == 5 && ipv_span_parse(&span, argv + 1),
             "usage: ipv_streams SEED FIRST DEVICES SESSIONS");
    ipv_need(dev_stream_bytes(&SPEC, &bytes, &error) == BASE_OK, error.text);
    void *memory = aligned_alloc(8, bytes);
    ipv_need(memory != NULL, "no memory");
    uint64_t differing = play(&span, memory, bytes, &times);
    (void)printf("{\"differing\":%" PRIu64 ",\"stream_bytes\":%zu,\"times\":", differing, bytes);
    ipv_times_print(&times);
    (void)printf("}\n");
    free(memory);
    ipv_times_done(&times);
    return differing == 0 && fflush(stdout) == 0 ? 0 : 1;
}
