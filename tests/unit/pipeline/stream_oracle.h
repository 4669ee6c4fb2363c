// An independent evaluation of windows for tests: it keeps every element ever accepted and looks at
// all of them again for each answer.
#ifndef STREAM_ORACLE_H
#define STREAM_ORACLE_H

#include "event_maker.h"

#include "base/prng.h"
#include "pipeline/stream/event_stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ORACLE_ELEMENTS_MAX 4096
#define ORACLE_RESULTS_MAX  65536
#define ORACLE_LAST         3
#define ORACLE_BINS         4

// One answer, ours or the oracle's.
struct answer {
    uint64_t at; // the event (or tick) that brought it
    int64_t key;
    uint32_t epoch;
    uint64_t start;
    uint64_t end;
    uint64_t revision;
    uint64_t first_seq;
    uint64_t last_seq;
    uint64_t events;
    bool complete;
    int64_t count;
    int64_t sum;  // of price
    double reals; // sum of rate
    bool numbers;
    double min;
    double max;
    double mean;
    uint32_t last_count;
    int64_t last[ORACLE_LAST];
    uint64_t bins[ORACLE_BINS + 2];
    double median; // exact in the oracle's, estimated in ours
    double median_error;
    int64_t distinct;
};

struct answers {
    uint64_t at; // set before each event
    uint32_t count;
    struct answer items[ORACLE_RESULTS_MAX];
};

static const struct dev_aggregate_spec oracle_aggregates[] = {
    {.name = {"n", 1}, .kind = DEV_AGGREGATE_COUNT},
    {.name = {"total", 5}, .kind = DEV_AGGREGATE_SUM, .value = {"price", 5}},
    {.name = {"reals", 5}, .kind = DEV_AGGREGATE_SUM, .value = {"rate", 4}},
    {.name = {"low", 3}, .kind = DEV_AGGREGATE_MIN, .value = {"price", 5}},
    {.name = {"high", 4}, .kind = DEV_AGGREGATE_MAX, .value = {"price", 5}},
    {.name = {"mean", 4}, .kind = DEV_AGGREGATE_MEAN, .value = {"price", 5}},
    {.name = {"newest", 6}, .kind = DEV_AGGREGATE_LAST, .value = {"price", 5}, .size = ORACLE_LAST},
    {.name = {"bins", 4},
     .kind = DEV_AGGREGATE_HISTOGRAM,
     .value = {"price", 5},
     .size = ORACLE_BINS,
     .low = 0,
     .high = 40},
    {.name = {"spread", 6}, .kind = DEV_AGGREGATE_QUANTILES, .value = {"price", 5}, .size = 16},
    {.name = {"kinds", 5}, .kind = DEV_AGGREGATE_DISTINCT, .value = {"price", 5}, .size = 10},
};
#define ORACLE_AGGREGATES 10

static inline int64_t answer_integer(const struct dev_stream_result *result, uint32_t index)
{
    struct dev_value value = dev_stream_answer(result, index);
    assert_int_equal(value.type, DEV_VALUE_INTEGER);
    return value.integer;
}

static inline double answer_real(const struct dev_stream_result *result, uint32_t index)
{
    struct dev_value value = dev_stream_answer(result, index);
    return dev_value_is_number(value) ? dev_value_as_real(value) : NAN;
}

static inline void answers_take(void *ctx, const struct dev_stream_result *result)
{
    struct answers *answers = ctx;
    assert_true(answers->count < ORACLE_RESULTS_MAX);
    struct answer *answer = &answers->items[answers->count++];
    memset(answer, 0, sizeof(*answer));
    answer->at = answers->at;
    answer->key = result->key.type == DEV_VALUE_INTEGER ? result->key.integer : -1;
    answer->epoch = result->epoch;
    answer->start = result->start;
    answer->end = result->end;
    answer->revision = result->revision;
    answer->first_seq = result->first_seq;
    answer->last_seq = result->last_seq;
    answer->events = result->events;
    answer->complete = result->complete;
    answer->count = answer_integer(result, 0);
    answer->sum = answer_integer(result, 1);
    answer->reals = answer_real(result, 2);
    answer->numbers = dev_stream_answer(result, 3).type != DEV_VALUE_NONE;
    answer->min = answer_real(result, 3);
    answer->max = answer_real(result, 4);
    answer->mean = answer_real(result, 5);
    const void *last = dev_stream_answer_state(result, 6);
    answer->last_count = dev_aggregate_last_count(last);
    for (uint32_t i = 0; i < answer->last_count; i++) {
        answer->last[i] = dev_aggregate_last(last, i).integer;
    }
    for (uint32_t i = 0; i < ORACLE_BINS + 2; i++) {
        answer->bins[i] = dev_aggregate_bin(dev_stream_answer_state(result, 7), i);
    }
    const void *sketch = dev_stream_answer_state(result, 8);
    answer->median = answer_real(result, 8);
    answer->median_error = dev_aggregate_quantile_error(sketch);
    answer->distinct = answer_integer(result, 9);
}

// --- the oracle's own

struct oracle_element {
    uint64_t time;
    uint64_t seq;
    uint64_t number;
    uint32_t visit;
    int64_t key;
    bool priced;
    int64_t price;
    double rate;
    bool gone; // answered for good (SESSION, COUNT, PAGE), or of an earlier epoch
};

struct oracle {
    struct dev_window_spec window;
    bool seen;
    uint64_t last_seq;
    uint64_t time_max;
    uint64_t watermark;
    uint32_t epoch;
    uint64_t numbers;
    uint32_t count;
    struct oracle_element elements[ORACLE_ELEMENTS_MAX];
    struct answers *answers;
};

static inline int by_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// The answer over the elements that are marked, by seq.
static inline void oracle_answer(struct oracle *oracle, const bool *chosen, int64_t key,
                                 uint64_t start, uint64_t end, bool complete)
{
    static int64_t prices[ORACLE_ELEMENTS_MAX];
    struct answer answer = {.at = oracle->answers->at,
                            .key = key,
                            .epoch = oracle->epoch,
                            .start = start,
                            .end = end,
                            .revision = oracle->last_seq,
                            .complete = complete,
                            .min = NAN,
                            .max = NAN,
                            .mean = NAN,
                            .median = NAN};
    uint32_t priced = 0;
    for (uint32_t i = 0; i < oracle->count; i++) { // elements lie by seq
        const struct oracle_element *element = &oracle->elements[i];
        if (!chosen[i]) {
            continue;
        }
        answer.first_seq = answer.events == 0 ? element->seq : answer.first_seq;
        answer.last_seq = element->seq;
        answer.events++;
        answer.count++;
        answer.reals += element->rate;
        if (!element->priced) {
            continue;
        }
        answer.sum += element->price;
        prices[priced++] = element->price;
        int bin = element->price < 0     ? ORACLE_BINS
                  : element->price >= 40 ? ORACLE_BINS + 1
                                         : (int)(element->price / 10);
        answer.bins[bin]++;
        if (answer.last_count == ORACLE_LAST) {
            memmove(answer.last, answer.last + 1, (ORACLE_LAST - 1) * sizeof(answer.last[0]));
            answer.last_count--;
        }
        answer.last[answer.last_count++] = element->price;
    }
    if (answer.events == 0) {
        return;
    }
    if (priced > 0) {
        qsort(prices, priced, sizeof(prices[0]), by_i64);
        answer.numbers = true;
        answer.min = (double)prices[0];
        answer.max = (double)prices[priced - 1];
        answer.mean = (double)answer.sum / priced;
        answer.median = (double)prices[(priced - 1) / 2];
        for (uint32_t i = 0; i < priced; i++) {
            answer.distinct += i == 0 || prices[i] != prices[i - 1];
        }
    }
    assert_true(oracle->answers->count < ORACLE_RESULTS_MAX);
    oracle->answers->items[oracle->answers->count++] = answer;
}

#define ORACLE_KEYS 6

static inline bool oracle_is_paned(const struct oracle *oracle)
{
    return oracle->window.kind == DEV_WINDOW_TUMBLING || oracle->window.kind == DEV_WINDOW_HOPPING;
}

static inline void oracle_paned_window(struct oracle *oracle, int64_t key, uint64_t end,
                                       bool complete)
{
    static bool chosen[ORACLE_ELEMENTS_MAX];
    for (uint32_t i = 0; i < oracle->count; i++) {
        const struct oracle_element *element = &oracle->elements[i];
        chosen[i] = !element->gone && element->key == key && element->time < end &&
                    element->time + oracle->window.size_ms >= end;
    }
    oracle_answer(oracle, chosen, key, end - oracle->window.size_ms, end, complete);
}

// All windows of panes that end in (from, to], by end.
static inline void oracle_paned_until(struct oracle *oracle, uint64_t from, uint64_t to,
                                      bool complete)
{
    uint64_t hop = oracle->window.hop_ms != 0 ? oracle->window.hop_ms : oracle->window.size_ms;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (uint32_t i = 0; i < oracle->count; i++) {
        const struct oracle_element *element = &oracle->elements[i];
        if (!element->gone) {
            least = element->time < least ? element->time : least;
            most = element->time > most ? element->time : most;
        }
    }
    if (least == UINT64_MAX) {
        return;
    }
    uint64_t first = least - least % hop + hop;
    uint64_t last = most + oracle->window.size_ms;
    for (uint64_t end = first; end <= last && end <= to; end += hop) {
        for (int64_t key = 0; end > from && key < ORACLE_KEYS; key++) {
            oracle_paned_window(oracle, key, end, complete);
        }
    }
}

// Open elements of a key, by time; the sessions among them that end by `to` are answered.
static inline void oracle_sessions_until(struct oracle *oracle, int64_t key, uint64_t to,
                                         bool complete)
{
    static bool chosen[ORACLE_ELEMENTS_MAX];
    for (;;) {
        memset(chosen, 0, sizeof(chosen));
        uint64_t start = UINT64_MAX;
        uint32_t first = 0;
        for (uint32_t i = 0; i < oracle->count; i++) {
            const struct oracle_element *element = &oracle->elements[i];
            if (!element->gone && element->key == key && element->time < start) {
                start = element->time;
                first = i;
            }
        }
        if (start == UINT64_MAX) {
            return;
        }
        chosen[first] = true;
        uint64_t end = start;
        for (bool grown = true; grown;) {
            grown = false;
            for (uint32_t i = 0; i < oracle->count; i++) {
                const struct oracle_element *element = &oracle->elements[i];
                if (!element->gone && !chosen[i] && element->key == key &&
                    element->time < end + oracle->window.gap_ms) {
                    chosen[i] = true;
                    end = element->time > end ? element->time : end;
                    grown = true;
                }
            }
        }
        if (complete && end + oracle->window.gap_ms > to) {
            return;
        }
        oracle_answer(oracle, chosen, key, start, end + oracle->window.gap_ms, complete);
        for (uint32_t i = 0; i < oracle->count; i++) {
            oracle->elements[i].gone = oracle->elements[i].gone || chosen[i];
        }
    }
}

static inline void oracle_watermark(struct oracle *oracle, uint64_t watermark)
{
    if (watermark <= oracle->watermark) {
        return;
    }
    uint64_t from = oracle->watermark;
    oracle->watermark = watermark;
    if (oracle_is_paned(oracle)) {
        oracle_paned_until(oracle, from, watermark, true);
    } else if (oracle->window.kind == DEV_WINDOW_SESSION) {
        for (int64_t key = 0; key < ORACLE_KEYS; key++) {
            oracle_sessions_until(oracle, key, watermark, true);
        }
    }
}

static inline void oracle_step_back(struct oracle *oracle, uint64_t time)
{
    if (oracle_is_paned(oracle)) {
        oracle_paned_until(oracle, oracle->watermark, UINT64_MAX, false);
    } else if (oracle->window.kind == DEV_WINDOW_SESSION) {
        for (int64_t key = 0; key < ORACLE_KEYS; key++) {
            oracle_sessions_until(oracle, key, 0, false);
        }
    }
    if (oracle_is_paned(oracle) || oracle->window.kind == DEV_WINDOW_SESSION ||
        oracle->window.kind == DEV_WINDOW_SLIDING) {
        oracle->epoch++;
        for (uint32_t i = 0; i < oracle->count; i++) {
            oracle->elements[i].gone = true;
        }
    }
    oracle->time_max = time;
    oracle->watermark = time - oracle->window.lateness_ms;
}

static inline void oracle_counts(struct oracle *oracle, const struct oracle_element *added)
{
    static bool chosen[ORACLE_ELEMENTS_MAX];
    uint32_t own = 0;
    for (uint32_t i = 0; i < oracle->count; i++) {
        own += oracle->elements[i].key == added->key && !oracle->elements[i].gone;
    }
    uint32_t hop = oracle->window.hop_count;
    uint32_t count = oracle->window.count;
    bool answers = hop == 0 || hop == count ? own % count == 0 : own % hop == 0;
    if (!answers) {
        return;
    }
    uint32_t skip = own > count ? own - count : 0;
    uint64_t start = 0;
    memset(chosen, 0, sizeof(chosen));
    for (uint32_t i = 0, at = 0; i < oracle->count; i++) {
        if (oracle->elements[i].key == added->key && !oracle->elements[i].gone && at++ >= skip) {
            start = start == 0 ? oracle->elements[i].number : start;
            chosen[i] = true;
        }
    }
    oracle_answer(oracle, chosen, added->key, start, added->number, true);
}

static inline void oracle_slide(struct oracle *oracle, const struct oracle_element *added)
{
    static bool chosen[ORACLE_ELEMENTS_MAX];
    uint64_t size = oracle->window.size_ms;
    for (uint32_t i = 0; i < oracle->count; i++) {
        const struct oracle_element *element = &oracle->elements[i];
        chosen[i] = !element->gone && element->key == added->key && element->time <= added->time &&
                    element->time + size > added->time;
    }
    oracle_answer(oracle, chosen, added->key, added->time - size, added->time, true);
}

static inline bool oracle_accepts(const struct oracle *oracle, const struct oracle_element *added)
{
    const struct dev_window_spec *window = &oracle->window;
    uint64_t hop = window->hop_ms != 0 ? window->hop_ms : window->size_ms;
    switch (window->kind) {
    case DEV_WINDOW_TUMBLING:
    case DEV_WINDOW_HOPPING:
        return added->time - added->time % hop + window->size_ms + window->allowed_ms >
               oracle->watermark;
    case DEV_WINDOW_SLIDING:
        return added->time >= oracle->watermark;
    case DEV_WINDOW_SESSION:
        for (uint32_t i = 0; i < oracle->count; i++) {
            const struct oracle_element *element = &oracle->elements[i];
            uint64_t a = element->time;
            uint64_t b = added->time;
            if (!element->gone && element->key == added->key &&
                (a > b ? a - b : b - a) < window->gap_ms) {
                return true;
            }
        }
        return added->time + window->gap_ms > oracle->watermark;
    case DEV_WINDOW_PAGE:
        return added->visit != 0;
    default:
        return true;
    }
}

static inline void oracle_again(struct oracle *oracle, const struct oracle_element *added)
{
    const struct dev_window_spec *window = &oracle->window;
    uint64_t hop = window->hop_ms != 0 ? window->hop_ms : window->size_ms;
    uint64_t first = added->time - added->time % hop + hop;
    for (uint64_t end = first; end <= added->time - added->time % hop + window->size_ms;
         end += hop) {
        if (end <= oracle->watermark && end + window->allowed_ms > oracle->watermark) {
            oracle_paned_window(oracle, added->key, end, true);
        }
    }
}

static inline void oracle_element(struct oracle *oracle, struct oracle_element added)
{
    static bool chosen[ORACLE_ELEMENTS_MAX];
    added.number = ++oracle->numbers;
    if (!oracle_accepts(oracle, &added)) {
        return;
    }
    assert_true(oracle->count < ORACLE_ELEMENTS_MAX);
    oracle->elements[oracle->count++] = added;
    if (oracle_is_paned(oracle)) {
        oracle_again(oracle, &added);
    } else if (oracle->window.kind == DEV_WINDOW_COUNT) {
        oracle_counts(oracle, &added);
    } else if (oracle->window.kind == DEV_WINDOW_SLIDING) {
        oracle_slide(oracle, &added);
    } else if (oracle->window.kind == DEV_WINDOW_EACH) {
        memset(chosen, 0, sizeof(chosen));
        chosen[oracle->count - 1] = true;
        oracle_answer(oracle, chosen, added.key, added.number, added.number, true);
    }
}

static inline void oracle_visit_end(struct oracle *oracle, uint32_t visit)
{
    static bool chosen[ORACLE_ELEMENTS_MAX];
    for (int64_t key = 0; oracle->window.kind == DEV_WINDOW_PAGE && key < ORACLE_KEYS; key++) {
        for (uint32_t i = 0; i < oracle->count; i++) {
            chosen[i] = !oracle->elements[i].gone && oracle->elements[i].key == key &&
                        oracle->elements[i].visit == visit;
        }
        oracle_answer(oracle, chosen, key, visit, visit, true);
        for (uint32_t i = 0; i < oracle->count; i++) {
            oracle->elements[i].gone = oracle->elements[i].gone || chosen[i];
        }
    }
}

// `selected`: it passes the filter. `step`: how far back a clock may go.
static inline void oracle_event(struct oracle *oracle, struct oracle_element element, bool selected,
                                bool exits)
{
    oracle->last_seq = element.seq;
    uint64_t slack = oracle->window.lateness_ms + oracle->window.allowed_ms;
    if (element.time + slack + DEV_STREAM_STEP_MS <= oracle->time_max) {
        oracle_step_back(oracle, element.time);
    }
    oracle->time_max = element.time > oracle->time_max ? element.time : oracle->time_max;
    oracle_watermark(oracle, oracle->time_max - oracle->window.lateness_ms);
    if (selected) {
        oracle_element(oracle, element);
    }
    if (exits) {
        oracle_visit_end(oracle, element.visit);
    }
}

// --- comparison

static inline int by_answer(const void *a, const void *b)
{
    const struct answer *x = a;
    const struct answer *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    if (x->start != y->start) {
        return x->start < y->start ? -1 : 1;
    }
    return (x->events > y->events) - (x->events < y->events);
}

static inline bool near_real(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * (1 + fabs(b));
}

static inline bool answer_equal(const struct answer *got, const struct answer *want, bool estimates)
{
    bool head = got->at == want->at && got->key == want->key && got->epoch == want->epoch &&
                got->start == want->start && got->end == want->end &&
                got->revision == want->revision && got->first_seq == want->first_seq &&
                got->last_seq == want->last_seq && got->events == want->events &&
                got->complete == want->complete;
    bool body = got->count == want->count && got->sum == want->sum &&
                near_real(got->reals, want->reals) && got->numbers == want->numbers &&
                near_real(got->min, want->min) && near_real(got->max, want->max) &&
                near_real(got->mean, want->mean) && got->last_count == want->last_count &&
                memcmp(got->last, want->last, sizeof(got->last)) == 0 &&
                memcmp(got->bins, want->bins, sizeof(got->bins)) == 0;
    if (!head || !body) {
        return false;
    }
    if (!estimates) {
        return near_real(got->median, want->median) && got->distinct == want->distinct;
    }
    bool median = isnan(want->median) ? isnan(got->median)
                                      : fabs(got->median - want->median) <=
                                            got->median_error * fabs(want->median) + 1e-9;
    return median && llabs(got->distinct - want->distinct) <= 1 + want->distinct / 5;
}

static inline void answer_print(const char *who, const struct answer *answer)
{
    print_message("%s: at %llu key %lld epoch %u [%llu, %llu) rev %llu seqs %llu..%llu events %llu "
                  "complete %d sum %lld reals %g min %g max %g median %g (%g) distinct %lld\n",
                  who, (unsigned long long)answer->at, (long long)answer->key, answer->epoch,
                  (unsigned long long)answer->start, (unsigned long long)answer->end,
                  (unsigned long long)answer->revision, (unsigned long long)answer->first_seq,
                  (unsigned long long)answer->last_seq, (unsigned long long)answer->events,
                  answer->complete, (long long)answer->sum, answer->reals, answer->min, answer->max,
                  answer->median, answer->median_error, (long long)answer->distinct);
}

// `estimates`: want is exact where got estimates.
static inline void answers_compare(struct answers *got, struct answers *want, bool estimates)
{
    qsort(got->items, got->count, sizeof(got->items[0]), by_answer);
    qsort(want->items, want->count, sizeof(want->items[0]), by_answer);
    for (uint32_t i = 0; i < got->count || i < want->count; i++) {
        if (i >= got->count || i >= want->count ||
            !answer_equal(&got->items[i], &want->items[i], estimates)) {
            if (i < got->count) {
                answer_print("got ", &got->items[i]);
            }
            if (i < want->count) {
                answer_print("want", &want->items[i]);
            }
            fail_msg("answer %u of %u and %u differs", i, got->count, want->count);
        }
    }
}

#endif
