// What triggers cost per event: the worker of bench/trigger_bench.py. One thread.
//
//   trigger_worker ours|sessions|linear|hyperscan PATTERNS EVENTS MIX   MIX: usual | gaps
//
// All make the same patterns and events from one seed. Patterns have 2 to 4 steps on 5 kinds and
// 200 pages; popular pages are popular in patterns and events (Zipf); an event comes each second, a
// pattern with `*` holds within a minute (mix gaps: all have `*`, none a time). ours: the engine,
// all events in a row; sessions: the same, and every 32 events all is forgotten. linear: a list of
// matchers, one bit-parallel automaton per pattern, each asked for each event. hyperscan: a stream
// of Hyperscan, fed the three bytes of an event as it comes, fresh for every 32 events. Each prints
// p50 and p99 of the nanoseconds per event, and a hash of all that matched: `checked` is that of
// ours for the same question, so a wrong answer is seen.
#include "pipeline/trigger/trigger.h"

#include "base/hash.h"
#include "base/prng.h"
#include "trigger_hyperscan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define SECRET      7
#define SEED        20261121u
#define KINDS       5u
#define PAGES       200u
#define STEPS_MAX   4u
#define TEXT_MAX    256u
#define SESSION     32u
#define LATENCY_MAX (1u << 22)
#define EVENT_CODE  3u // bytes of an event for Hyperscan
#define LONG_NS     2000u
#define WITHIN_S    60u // of patterns with `*`; an event comes each second

struct step {
    uint8_t kind; // KINDS: any
    uint8_t page; // PAGES: any
    uint8_t ones;
    bool star;
};

struct pattern {
    struct step steps[STEPS_MAX];
    uint32_t count;
    bool within;
};

struct happened {
    uint8_t kind;
    uint8_t page;
};

struct bench {
    uint32_t pattern_count;
    uint32_t event_count;
    bool gaps_only;
    struct pattern *patterns;
    struct happened *events;
    double popular[PAGES]; // sums
    uint64_t page_hashes[PAGES];
    char page_names[PAGES][8];
    uint32_t *latencies;
    uint32_t latency_count;
    uint64_t matches;
    uint64_t hash;        // of all (event, pattern) that matched, in any order
    uint64_t switches;    // of this thread, when last asked
    uint64_t interrupted; // events left out of the measurement
    uint64_t allocations; // while events were taken in
    struct dev_trigger_certificate certificate;
    const struct dev_trigger_set *set;
    struct dev_trigger_engine *engine;
    void *state_memory;
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "trigger_worker: %s\n", what);
        exit(1);
    }
}

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    must(memory != NULL, "no memory");
    return memory;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint8_t draw_page(struct bench *bench, struct base_prng *prng)
{
    double at = base_prng_unit(prng) * bench->popular[PAGES - 1];
    uint32_t low = 0;
    uint32_t high = PAGES - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (bench->popular[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (uint8_t)low;
}

static struct pattern draw_pattern(struct bench *bench, struct base_prng *prng)
{
    struct pattern pattern = {.count = 2 + (uint32_t)base_prng_below(prng, 3)};
    for (uint32_t i = 0; i < pattern.count; i++) {
        struct step *step = &pattern.steps[i];
        step->kind = (uint8_t)base_prng_below(prng, KINDS);
        step->page = draw_page(bench, prng);
        uint32_t wild = (uint32_t)base_prng_below(prng, 100);
        if (wild < 5) {
            step->kind = KINDS;
        }
        uint32_t gap = (uint32_t)base_prng_below(prng, 100);
        step->star = i > 0 && (bench->gaps_only || gap < 30);
        step->ones = !bench->gaps_only && i > 0 && gap >= 90;
        pattern.within = pattern.within || (step->star && !bench->gaps_only);
    }
    return pattern;
}

static void make_world(struct bench *bench)
{
    struct base_prng prng;
    base_prng_seed(&prng, SEED);
    double sum = 0;
    for (uint32_t i = 0; i < PAGES; i++) {
        sum += 1 / (double)(i + 10);
        bench->popular[i] = sum;
        int size = snprintf(bench->page_names[i], sizeof bench->page_names[i], "page%u", i);
        bench->page_hashes[i] =
            dev_event_hash(SECRET, (struct base_str){bench->page_names[i], (size_t)size});
    }
    bench->patterns = room(bench->pattern_count, sizeof *bench->patterns);
    bench->events = room(bench->event_count, sizeof *bench->events);
    bench->latencies = room(LATENCY_MAX, sizeof *bench->latencies);
    for (uint32_t i = 0; i < bench->pattern_count; i++) {
        bench->patterns[i] = draw_pattern(bench, &prng);
    }
    base_prng_seed(&prng, SEED + 1); // events do not depend on how many patterns there are
    for (uint32_t i = 0; i < bench->event_count; i++) {
        bench->events[i] =
            (struct happened){(uint8_t)base_prng_below(&prng, KINDS), draw_page(bench, &prng)};
    }
}

static uint64_t switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nivcsw + (uint64_t)usage.ru_nvcsw;
}

// An event in which the machine did something else is no measurement. Only long ones are asked.
static void took(struct bench *bench, uint64_t ns)
{
    if (ns > LONG_NS) {
        uint64_t now = switches();
        bool interrupted = now != bench->switches;
        bench->switches = now;
        if (interrupted) {
            bench->interrupted++;
            return;
        }
    }
    if (bench->latency_count < LATENCY_MAX) {
        bench->latencies[bench->latency_count++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    }
}

static void matched(struct bench *bench, uint32_t event, uint32_t pattern)
{
    bench->matches++;
    bench->hash += base_mix64((uint64_t)event << 32 | pattern);
}

// ---- Ours

static void pattern_text(const struct bench *bench, const struct pattern *pattern, char *out)
{
    out[0] = '\0';
    for (uint32_t i = 0; i < pattern->count; i++) {
        const struct step *step = &pattern->steps[i];
        size_t used = strlen(out);
        snprintf(out + used, TEXT_MAX - used, "%s%s%s%s(%s)", i > 0 ? " " : "",
                 step->ones > 0 ? "? " : "", step->star ? "* " : "",
                 step->kind == KINDS ? "any"
                                     : dev_event_kind_name((enum dev_event_kind)(step->kind + 1)),
                 bench->page_names[step->page]);
    }
    size_t used = strlen(out);
    snprintf(out + used, TEXT_MAX - used, "%s", pattern->within ? " within 60s" : "");
}

static void compile_ours(struct bench *bench)
{
    struct dev_trigger_source *sources = room(bench->pattern_count, sizeof *sources);
    char *texts = room(bench->pattern_count, TEXT_MAX);
    for (uint32_t i = 0; i < bench->pattern_count; i++) {
        char *text = texts + (size_t)i * TEXT_MAX;
        pattern_text(bench, &bench->patterns[i], text);
        sources[i] = (struct dev_trigger_source){i + 1, base_str_of(text)};
    }
    const struct dev_trigger_options options = {.secret = SECRET, .work_max = UINT32_MAX};
    const struct dev_trigger_sources all = {sources, bench->pattern_count};
    struct dev_trigger_scratch scratch;
    must(dev_trigger_scratch_bytes(&all, &scratch.bytes, NULL) == BASE_OK, "patterns are refused");
    scratch.memory = room(scratch.bytes, 1);
    must(dev_trigger_certify(&all, &options, scratch, &bench->certificate, NULL) == BASE_OK,
         "no certificate");
    void *memory = room(bench->certificate.set_bytes, 1);
    must(dev_trigger_compile(scratch.memory, memory, bench->certificate.set_bytes, &bench->set) ==
             BASE_OK,
         "does not compile");
    bench->state_memory = room(bench->certificate.state_bytes, 1);
    free(scratch.memory);
    free(texts);
    free(sources);
}

static void fresh_engine(struct bench *bench)
{
    must(dev_trigger_init(bench->set, bench->state_memory, bench->certificate.state_bytes,
                          &bench->engine) == BASE_OK,
         "no engine");
}

static struct dev_event view(const struct bench *bench, uint32_t index)
{
    const struct happened *event = &bench->events[index];
    return (struct dev_event){
        .seq = index + 1,
        .mono_us = (uint64_t)index * 1000000,
        .kind = (enum dev_event_kind)(event->kind + 1),
        .page = {bench->page_names[event->page], strlen(bench->page_names[event->page])},
        .page_hash = bench->page_hashes[event->page],
    };
}

// Every call of the allocator in this program is counted on its way.
static uint64_t allocator_calls;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
    allocator_calls++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocator_calls++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    allocator_calls++;
    return __real_realloc(memory, size);
}

// With `session`, all is forgotten after so many events.
static void run_ours(struct bench *bench, uint32_t session)
{
    fresh_engine(bench);
    uint64_t calls = allocator_calls;
    for (uint32_t i = 0; i < bench->event_count; i++) {
        if (session != 0 && i % session == 0) {
            fresh_engine(bench);
        }
        struct dev_event event = view(bench, i);
        uint32_t count;
        uint64_t start = now_ns();
        const struct dev_trigger_fired *fired = dev_trigger_on_event(bench->engine, &event, &count);
        took(bench, now_ns() - start);
        for (uint32_t k = 0; k < count; k++) {
            matched(bench, i, fired[k].source);
        }
    }
    bench->allocations = allocator_calls - calls;
}

// ---- A list of matchers

struct matcher {
    uint32_t live;  // bit j: step j was the last event
    uint32_t stays; // bit j: step j was some event, and a gap follows
    uint32_t gaps;  // steps that a gap follows
    uint32_t end;
    bool within;
    uint32_t count;
    struct step steps[2 * STEPS_MAX]; // with a step of its own for each `?`
    uint32_t starts[2 * STEPS_MAX];   // in seconds
};

static struct matcher matcher_of(const struct pattern *pattern)
{
    struct matcher matcher = {.within = pattern->within};
    for (uint32_t i = 0; i < pattern->count; i++) {
        const struct step *step = &pattern->steps[i];
        if (step->ones > 0) {
            matcher.steps[matcher.count++] = (struct step){.kind = KINDS, .page = PAGES};
        }
        if (step->star) {
            matcher.gaps |= 1u << (matcher.count - 1);
        }
        matcher.steps[matcher.count++] = *step;
    }
    matcher.end = 1u << (matcher.count - 1);
    return matcher;
}

static bool matcher_takes(struct matcher *matcher, struct happened event, uint32_t now)
{
    uint32_t is = 0;
    for (uint32_t j = 0; j < matcher->count; j++) {
        const struct step *step = &matcher->steps[j];
        is |= (uint32_t)((step->kind == KINDS || step->kind == event.kind) &&
                         (step->page == PAGES || step->page == event.page))
              << j;
    }
    uint32_t next = (((matcher->live & ~matcher->gaps) | matcher->stays) << 1 | 1) & is;
    matcher->stays |= next & matcher->gaps;
    matcher->live = next;
    for (uint32_t j = matcher->count; next != 0 && j-- > 0;) {
        if ((next >> j & 1) != 0) {
            matcher->starts[j] = j == 0 ? now : matcher->starts[j - 1];
        }
    }
    return (next & matcher->end) != 0 &&
           (!matcher->within || now - matcher->starts[matcher->count - 1] <= WITHIN_S);
}

static void run_linear(struct bench *bench)
{
    struct matcher *matchers = room(bench->pattern_count, sizeof *matchers);
    uint32_t *found = room(bench->pattern_count, sizeof *found);
    for (uint32_t i = 0; i < bench->pattern_count; i++) {
        matchers[i] = matcher_of(&bench->patterns[i]);
    }
    for (uint32_t i = 0; i < bench->event_count; i++) {
        uint32_t count = 0;
        uint64_t start = now_ns();
        for (uint32_t k = 0; k < bench->pattern_count; k++) {
            if (matcher_takes(&matchers[k], bench->events[i], i)) {
                found[count++] = k;
            }
        }
        took(bench, now_ns() - start);
        for (uint32_t k = 0; k < count; k++) {
            matched(bench, i, found[k]);
        }
    }
    free(matchers);
    free(found);
}

// ---- Hyperscan

#ifdef BENCH_HYPERSCAN
static void encode(struct happened event, char *out)
{
    out[0] = (char)('a' + event.kind); // never where a page stands: matches keep step
    out[1] = (char)('0' + event.page / 16);
    out[2] = (char)('0' + event.page % 16);
}

static void expression(const struct pattern *pattern, char *out)
{
    out[0] = '\0';
    for (uint32_t i = 0; i < pattern->count; i++) {
        const struct step *step = &pattern->steps[i];
        char code[EVENT_CODE + 1] = {0};
        encode((struct happened){step->kind, step->page}, code);
        size_t used = strlen(out);
        snprintf(out + used, TEXT_MAX - used, "%s%s%.*s\\x%02x\\x%02x", step->ones > 0 ? "..." : "",
                 step->star ? ".*" : "", step->kind == KINDS ? 5 : 1,
                 step->kind == KINDS ? "[a-e]" : code, code[1], code[2]);
    }
}

static struct trigger_stream *compile_hyperscan(const struct bench *bench)
{
    const char **expressions = room(bench->pattern_count, sizeof *expressions);
    char *texts = room(bench->pattern_count, TEXT_MAX);
    for (uint32_t i = 0; i < bench->pattern_count; i++) {
        expressions[i] = texts + (size_t)i * TEXT_MAX;
        expression(&bench->patterns[i], texts + (size_t)i * TEXT_MAX);
    }
    struct trigger_stream *stream = trigger_stream_new(expressions, bench->pattern_count);
    must(stream != NULL, "Hyperscan refuses an expression");
    free(texts);
    free(expressions);
    return stream;
}

// As ours, it is given one event after the other, and keeps what it needs of those before.
static void run_hyperscan(struct bench *bench, double *out_compile_s)
{
    uint64_t start = now_ns();
    struct trigger_stream *stream = compile_hyperscan(bench);
    *out_compile_s = (double)(now_ns() - start) / 1e9;
    for (uint32_t i = 0; i < bench->event_count; i++) {
        char code[EVENT_CODE];
        const uint32_t *found;
        uint32_t count;
        if (i % SESSION == 0) {
            must(trigger_stream_reset(stream), "Hyperscan: no fresh stream");
        }
        encode(bench->events[i], code);
        start = now_ns();
        bool fed = trigger_stream_feed(stream, code, EVENT_CODE, &found, &count);
        took(bench, now_ns() - start);
        must(fed, "Hyperscan failed");
        for (uint32_t k = 0; k < count; k++) {
            matched(bench, i, found[k]);
        }
    }
    bench->certificate.set_bytes = trigger_stream_set_bytes(stream);
    bench->certificate.state_bytes = trigger_stream_state_bytes(stream);
    trigger_stream_free(stream);
}
#endif

// ---- Results

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static double quantile(const struct bench *bench, double q)
{
    uint32_t at = (uint32_t)(q * (double)bench->latency_count);
    return bench->latency_count == 0
               ? 0
               : bench->latencies[at < bench->latency_count ? at : bench->latency_count - 1];
}

static double clock_ns(void)
{
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < 100000; i++) {
        (void)now_ns();
    }
    return (double)(now_ns() - start) / 100000;
}

static void report(struct bench *bench, const char *how, bool able, uint64_t checked,
                   double compile_s)
{
    qsort(bench->latencies, bench->latency_count, sizeof *bench->latencies, by_value);
    double sum = 0;
    for (uint32_t i = 0; i < bench->latency_count; i++) {
        sum += bench->latencies[i];
    }
    struct dev_trigger_stats stats = {0};
    if (bench->engine != NULL) {
        dev_trigger_stats(bench->engine, &stats);
    }
    const struct dev_trigger_certificate *certificate = &bench->certificate;
    printf("{\"how\": \"%s\", \"able\": %s, \"patterns\": %u, \"events\": %u, \"p50\": %.0f, "
           "\"p99\": %.0f, \"p999\": %.0f, \"mean\": %.1f, \"clock_ns\": %.1f, "
           "\"matches\": %llu, \"hash\": \"%016llx\", \"checked\": \"%016llx\", "
           "\"compile_s\": %.3f, \"set_bytes\": %zu, \"state_bytes\": %zu, \"nodes\": %u, "
           "\"slots\": %u, \"literals\": %u, \"certified_work\": %llu, \"work_max\": %llu, "
           "\"sticky\": %u, \"lost\": %llu, \"allocations\": %llu, "
           "\"interrupted\": %llu}\n",
           how, able ? "true" : "false", bench->pattern_count, bench->event_count,
           quantile(bench, 0.5), quantile(bench, 0.99), quantile(bench, 0.999),
           bench->latency_count == 0 ? 0 : sum / bench->latency_count, clock_ns(),
           (unsigned long long)bench->matches, (unsigned long long)bench->hash,
           (unsigned long long)checked, compile_s, certificate->set_bytes, certificate->state_bytes,
           certificate->nodes, certificate->slots, certificate->literals,
           (unsigned long long)certificate->work, (unsigned long long)stats.work_seen_max,
           stats.live_sticky, (unsigned long long)stats.lost_partials,
           (unsigned long long)bench->allocations, (unsigned long long)bench->interrupted);
}

// What ours says to the same question, outside the measurement.
static uint64_t ask_ours(struct bench *bench, uint32_t session)
{
    struct bench other = *bench;
    other.matches = other.hash = 0;
    other.latency_count = LATENCY_MAX; // takes no times
    compile_ours(&other);
    run_ours(&other, session);
    return other.hash;
}

static uint32_t number(const char *text)
{
    uint64_t value = 0;
    must(base_str_u64(base_str_of(text), &value) == BASE_OK && value > 0 && value < 1u << 24,
         "a number from 1 to 2^24");
    return (uint32_t)value;
}

int main(int argc, char **argv)
{
    must(argc == 5,
         "usage: trigger_worker ours|sessions|linear|hyperscan PATTERNS EVENTS usual|gaps");
    struct bench bench = {.pattern_count = number(argv[2]),
                          .event_count = number(argv[3]),
                          .gaps_only = strcmp(argv[4], "gaps") == 0};
    double compile_s = 0;
    make_world(&bench);
    if (strcmp(argv[1], "ours") == 0 || strcmp(argv[1], "sessions") == 0) {
        uint64_t start = now_ns();
        compile_ours(&bench);
        compile_s = (double)(now_ns() - start) / 1e9;
        run_ours(&bench, strcmp(argv[1], "sessions") == 0 ? SESSION : 0);
        report(&bench, argv[1], true, bench.hash, compile_s);
    } else if (strcmp(argv[1], "linear") == 0) {
        run_linear(&bench);
        report(&bench, "linear", true, ask_ours(&bench, 0), 0);
    } else {
        bool able = false;
#ifdef BENCH_HYPERSCAN
        able = true;
        run_hyperscan(&bench, &compile_s);
#endif
        report(&bench, "hyperscan", able, able ? ask_ours(&bench, SESSION) : 0, compile_s);
    }
    return 0;
}
