// Patterns: text to normal form. Called by the trigger compiler (trigger_build.c), by
// pipeline_tasks.c and timeouts.c on a device, and by the simulator; the task builder and the
// gateway come by way of declaration_check.c. Any thread, no state.
//
// Gaps, clauses and the limits of the whole are here; words and literals are read by
// pattern_scan.c. Tests of a literal are sorted and doubles dropped, so that two ways to write one
// pattern give one normal form and share their steps in a trie.
#include "pipeline/trigger/pattern.h"

#include "pipeline/trigger/pattern_parse.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

// What is read of one gap: sums, which the limits of the text keep small.
struct raw_gap {
    uint32_t ones;
    uint32_t spread;
    bool star;
    bool has_not;
    size_t at; // of its first sign
};

struct parse {
    struct pattern_scan scan;
    struct dev_pattern *out;
    struct raw_gap gap; // the one being read
    struct dev_pattern_literal nots[DEV_PATTERN_NOTS_MAX];
    uint8_t not_count;
    uint8_t pending_not; // 1 + index: of the gap being read
    unsigned clauses;    // bits of those seen
};

static enum base_status gap_range(struct parse *parse)
{
    struct pattern_scan *scan = &parse->scan;
    base_assert(scan->at > 0 && scan->text.data[scan->at - 1] == '{');
    size_t start = scan->at;
    uint32_t low = 0;
    uint32_t high = 0;
    pattern_skip_space(scan);
    BASE_TRY(pattern_number(scan, DEV_PATTERN_SPREAD_MAX, "m of *{m,n}", &low));
    pattern_skip_space(scan);
    if (!pattern_take(scan, BASE_STR(","))) {
        return pattern_fail(scan, scan->at, BASE_ERR_INVALID, "expected , in *{m,n}");
    }
    pattern_skip_space(scan);
    BASE_TRY(pattern_number(scan, DEV_PATTERN_SPREAD_MAX, "n of *{m,n}", &high));
    pattern_skip_space(scan);
    if (!pattern_take(scan, BASE_STR("}"))) {
        return pattern_fail(scan, scan->at, BASE_ERR_INVALID, "expected } after *{m,n");
    }
    if (low > high) {
        return pattern_fail(scan, start, BASE_ERR_INVALID, "m is above n in *{m,n}");
    }
    parse->gap.ones += low;
    parse->gap.spread += high - low;
    return BASE_OK;
}

static enum base_status gap_not(struct parse *parse)
{
    struct pattern_scan *scan = &parse->scan;
    size_t start = scan->at;
    struct dev_pattern *out = parse->out;
    (void)pattern_take(scan, BASE_STR("not"));
    base_assert(scan->at > start); // gap_sign saw the word
    if (out->step_count == 0) {
        return pattern_fail(scan, start, BASE_ERR_INVALID, "not .. before next follows a step");
    }
    if (parse->pending_not != 0) {
        return pattern_fail(scan, start, BASE_ERR_INVALID, "one not .. before next to a gap");
    }
    if (parse->not_count == DEV_PATTERN_NOTS_MAX) {
        return pattern_fail(scan, start, BASE_ERR_TOO_LARGE, "over %d not .. before next",
                            DEV_PATTERN_NOTS_MAX);
    }
    pattern_skip_space(scan);
    BASE_TRY(pattern_literal(scan, out, &parse->nots[parse->not_count]));
    pattern_skip_space(scan);
    struct base_str before;
    struct base_str next;
    bool ok = pattern_word(scan, &before) && base_str_equal(before, BASE_STR("before"));
    pattern_skip_space(scan);
    ok = ok && pattern_word(scan, &next) && base_str_equal(next, BASE_STR("next"));
    if (!ok) {
        return pattern_fail(scan, scan->at, BASE_ERR_INVALID, "expected: not STEP before next");
    }
    if (parse->nots[parse->not_count].marked && !out->has_marks) {
        return pattern_fail(scan, start, BASE_ERR_INVALID,
                            "same(item) of a not needs a step with same(item) before it");
    }
    parse->pending_not = ++parse->not_count;
    parse->gap.star = true;
    parse->gap.has_not = true;
    return BASE_OK;
}

// True: one sign of a gap was read.
static enum base_status gap_sign(struct parse *parse, bool *out_found)
{
    struct pattern_scan *scan = &parse->scan;
    size_t start = scan->at;
    struct base_str word;
    *out_found = true;
    if (parse->gap.ones == 0 && parse->gap.spread == 0 && !parse->gap.star) {
        parse->gap.at = start;
    }
    if (pattern_take(scan, BASE_STR("?"))) {
        parse->gap.ones++;
    } else if (pattern_take(scan, BASE_STR("*{"))) {
        return gap_range(parse);
    } else if (pattern_take(scan, BASE_STR("*"))) {
        parse->gap.star = true;
    } else if (pattern_peek_word(scan, &word) && base_str_equal(word, BASE_STR("not"))) {
        return gap_not(parse);
    } else {
        *out_found = false;
    }
    return BASE_OK;
}

static uint32_t gap_steps(const struct dev_pattern_gap *gap)
{
    return (uint32_t)gap->ones + gap->spread + gap->star;
}

static enum base_status too_long(const struct parse *parse)
{
    return pattern_fail(&parse->scan, parse->gap.at, BASE_ERR_TOO_LARGE,
                        "over %d steps in normal form", DEV_PATTERN_STEPS_MAX);
}

// Ends the gap before a literal (`last` false) or before the clauses.
static enum base_status close_gap(struct parse *parse, bool last, struct dev_pattern_gap *out)
{
    base_assert(parse->pending_not <= parse->not_count &&
                (parse->pending_not != 0) == parse->gap.has_not);
    struct raw_gap gap = parse->gap;
    if (gap.has_not && (last || gap.ones > 0 || gap.spread > 0)) {
        return pattern_fail(&parse->scan, gap.at, BASE_ERR_INVALID,
                            last ? "not .. before next has no next"
                                 : "a gap with not .. before next holds nothing else");
    }
    if (gap.ones > DEV_PATTERN_STEPS_MAX) {
        return too_long(parse);
    }
    if (last || parse->out->step_count == 0) { // a pattern may start anywhere, and ends at once
        gap.spread = 0;
        gap.star = false;
    }
    gap.spread = gap.star ? 0 : gap.spread;
    if (gap.spread > DEV_PATTERN_SPREAD_MAX) {
        return pattern_fail(&parse->scan, gap.at, BASE_ERR_TOO_LARGE,
                            "a gap varies by over %d events", DEV_PATTERN_SPREAD_MAX);
    }
    *out = (struct dev_pattern_gap){.ones = (uint8_t)gap.ones,
                                    .spread = (uint8_t)gap.spread,
                                    .star = gap.star,
                                    .not_literal = parse->pending_not};
    parse->gap = (struct raw_gap){0};
    parse->pending_not = 0;
    return BASE_OK;
}

static bool is_clause_word(struct base_str word)
{
    static const struct base_str words[] = {
        BASE_STR("within"), BASE_STR("page"),        BASE_STR("cooldown"),
        BASE_STR("max"),    BASE_STR("each"),        BASE_STR("reset"),
        BASE_STR("once"),   BASE_STR("every-event"), BASE_STR("or"),
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (base_str_equal(word, words[i])) {
            return true;
        }
    }
    return false;
}

static enum base_status steps(struct parse *parse)
{
    struct pattern_scan *scan = &parse->scan;
    struct dev_pattern *out = parse->out;
    struct dev_pattern_gap gap;
    base_assert(out->step_count == 0 && parse->not_count == 0 && parse->pending_not == 0);
    for (;;) {
        bool found = false;
        if (!pattern_at_end(scan)) {
            BASE_TRY(gap_sign(parse, &found));
        }
        if (found) {
            continue;
        }
        struct base_str word;
        if (pattern_at_end(scan) || (pattern_peek_word(scan, &word) && is_clause_word(word))) {
            break;
        }
        BASE_TRY(close_gap(parse, false, &gap));
        if (out->step_count == DEV_PATTERN_STEPS_MAX) {
            parse->gap.at = scan->at;
            return too_long(parse);
        }
        out->gaps[out->step_count] = gap;
        BASE_TRY(pattern_literal(scan, out, &out->literals[out->step_count]));
        out->has_marks = out->has_marks || out->literals[out->step_count].marked;
        out->step_count++;
    }
    BASE_TRY(close_gap(parse, true, &gap));
    out->tail = gap.ones;
    return BASE_OK;
}

static enum base_status duration(struct parse *parse, const char *what, uint32_t *out_ms)
{
    struct pattern_scan *scan = &parse->scan;
    static const struct {
        struct base_str unit;
        uint32_t ms;
    } units[] = {{BASE_STR("ms"), 1},
                 {BASE_STR("s"), 1000},
                 {BASE_STR("m"), 60 * 1000},
                 {BASE_STR("h"), 3600 * 1000},
                 {BASE_STR("d"), 24 * 3600 * 1000}};
    _Static_assert(DEV_PATTERN_WITHIN_MAX_MS <= INT32_MAX, "a pipeline keeps time-outs in 31 bits");
    pattern_skip_space(scan);
    size_t start = scan->at;
    uint32_t count = 0;
    BASE_TRY(pattern_number(scan, UINT32_MAX, what, &count));
    struct base_str word = {0};
    (void)pattern_word(scan, &word);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!base_str_equal(word, units[i].unit)) {
            continue;
        }
        if (count == 0) {
            return pattern_fail(scan, start, BASE_ERR_INVALID, "%s of nothing", what);
        }
        if (count > DEV_PATTERN_WITHIN_MAX_MS / units[i].ms) {
            return pattern_fail(scan, start, BASE_ERR_TOO_LARGE, "%s is above 7d", what);
        }
        *out_ms = count * units[i].ms;
        return BASE_OK;
    }
    return pattern_fail(scan, start, BASE_ERR_INVALID, "%s ends with ms, s, m, h or d", what);
}

static enum base_status word_follows(struct parse *parse, struct base_str second, const char *whole)
{
    struct base_str word = {0};
    pattern_skip_space(&parse->scan);
    bool ok = pattern_word(&parse->scan, &word) && base_str_equal(word, second);
    return ok ? BASE_OK
              : pattern_fail(&parse->scan, parse->scan.at, BASE_ERR_INVALID, "expected: %s", whole);
}

static enum base_status words_follow(struct parse *parse, struct base_str second,
                                     struct base_str third, const char *whole)
{
    struct base_str word = {0};
    pattern_skip_space(&parse->scan);
    bool ok = pattern_word(&parse->scan, &word) && base_str_equal(word, second);
    pattern_skip_space(&parse->scan);
    ok = ok && pattern_word(&parse->scan, &word) && base_str_equal(word, third);
    return ok ? BASE_OK
              : pattern_fail(&parse->scan, parse->scan.at, BASE_ERR_INVALID, "expected: %s", whole);
}

static enum base_status clause_max(struct parse *parse)
{
    struct pattern_scan *scan = &parse->scan;
    uint32_t count = 0;
    pattern_skip_space(scan);
    size_t start = scan->at;
    BASE_TRY(pattern_number(scan, DEV_PATTERN_DAY_MAX, "n of max n/day", &count));
    pattern_skip_space(scan);
    bool ok = pattern_take(scan, BASE_STR("/"));
    pattern_skip_space(scan);
    struct base_str word = {0};
    ok = ok && pattern_word(scan, &word) && base_str_equal(word, BASE_STR("day"));
    if (!ok || count == 0) {
        return pattern_fail(scan, start, BASE_ERR_INVALID, "expected: max N/day, N at least 1");
    }
    parse->out->per_day = (uint16_t)count;
    return BASE_OK;
}

enum {
    CLAUSE_WITHIN = 1,
    CLAUSE_PAGE = 2,
    CLAUSE_COOLDOWN = 4,
    CLAUSE_MAX = 8,
    CLAUSE_POLICY = 16,
    CLAUSE_EVERY = 32,
    CLAUSE_TIMEOUT = 64
};

static enum base_status clause_body(struct parse *parse, struct base_str word, unsigned *out_bit)
{
    base_assert(is_clause_word(word));
    struct dev_pattern *out = parse->out;
    if (base_str_equal(word, BASE_STR("within"))) {
        *out_bit = CLAUSE_WITHIN;
        return duration(parse, "within", &out->within_ms);
    }
    if (base_str_equal(word, BASE_STR("cooldown"))) {
        *out_bit = CLAUSE_COOLDOWN;
        return duration(parse, "cooldown", &out->cooldown_ms);
    }
    if (base_str_equal(word, BASE_STR("max"))) {
        *out_bit = CLAUSE_MAX;
        return clause_max(parse);
    }
    if (base_str_equal(word, BASE_STR("page"))) {
        *out_bit = CLAUSE_PAGE;
        out->page = true;
        return BASE_OK;
    }
    if (base_str_equal(word, BASE_STR("every-event"))) {
        *out_bit = CLAUSE_EVERY;
        out->every_event = true;
        return BASE_OK;
    }
    if (base_str_equal(word, BASE_STR("or"))) {
        *out_bit = CLAUSE_TIMEOUT;
        out->timeout = true;
        return word_follows(parse, BASE_STR("timeout"), "or timeout");
    }
    *out_bit = CLAUSE_POLICY;
    if (base_str_equal(word, BASE_STR("each"))) {
        out->policy = DEV_PATTERN_EACH;
        return BASE_OK;
    }
    if (base_str_equal(word, BASE_STR("reset"))) {
        out->policy = DEV_PATTERN_RESET;
        return BASE_OK;
    }
    out->policy = DEV_PATTERN_ONCE_PER_VISIT;
    return words_follow(parse, BASE_STR("per"), BASE_STR("visit"), "once per visit");
}

static enum base_status clauses(struct parse *parse)
{
    struct pattern_scan *scan = &parse->scan;
    while (!pattern_at_end(scan)) {
        size_t start = scan->at;
        struct base_str word = {0};
        if (!pattern_word(scan, &word) || !is_clause_word(word)) {
            return pattern_fail(scan, start, BASE_ERR_INVALID, "expected a clause or the end");
        }
        unsigned bit = 0;
        BASE_TRY(clause_body(parse, word, &bit));
        if ((parse->clauses & bit) != 0) {
            return pattern_fail(scan, start, BASE_ERR_INVALID, "a clause is given twice");
        }
        parse->clauses |= bit;
    }
    return BASE_OK;
}

static int compare_text(struct base_str a, struct base_str b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common > 0 ? memcmp(a.data, b.data, common) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_tests(const struct dev_pattern_test *a, const struct dev_pattern_test *b)
{
    int order = compare_text(a->attr, b->attr);
    order = order != 0 ? order : (int)a->op - (int)b->op;
    order = order != 0 ? order : (int)a->type - (int)b->type;
    order = order != 0 ? order : (int)a->scale - (int)b->scale;
    order = order != 0 ? order : (a->digits > b->digits) - (a->digits < b->digits);
    return order != 0 ? order : compare_text(a->text, b->text);
}

// Insertion sort, then the doubles go.
static void sort_tests(struct dev_pattern *pattern, struct dev_pattern_literal *literal)
{
    base_assert(literal->test_first + literal->test_count <= pattern->test_count);
    struct dev_pattern_test *tests = &pattern->tests[literal->test_first];
    for (unsigned i = 1; i < literal->test_count; i++) {
        struct dev_pattern_test moved = tests[i];
        unsigned at = i;
        for (; at > 0 && compare_tests(&tests[at - 1], &moved) > 0; at--) {
            tests[at] = tests[at - 1];
        }
        tests[at] = moved;
    }
    uint8_t kept = literal->test_count > 0 ? 1 : 0;
    for (unsigned i = 1; i < literal->test_count; i++) {
        if (compare_tests(&tests[i], &tests[kept - 1]) != 0) {
            tests[kept++] = tests[i];
        }
    }
    literal->test_count = kept;
}

static uint32_t marks_of(const struct dev_pattern *pattern)
{
    uint32_t marks = 0;
    for (uint32_t i = 0; i < pattern->literal_count; i++) {
        marks += pattern->literals[i].marked;
    }
    return marks;
}

static uint32_t steps_of(const struct dev_pattern *pattern)
{
    uint32_t total = (uint32_t)pattern->step_count + pattern->tail;
    for (uint32_t i = 0; i < pattern->step_count; i++) {
        total += gap_steps(&pattern->gaps[i]);
    }
    return total;
}

uint32_t dev_pattern_variants(const struct dev_pattern *pattern)
{
    uint32_t variants = 1;
    for (uint32_t i = 0; i < pattern->step_count && variants <= DEV_PATTERN_VARIANTS_MAX; i++) {
        variants *= 1u + pattern->gaps[i].spread;
    }
    return variants;
}

static enum base_status check_timeout(const struct parse *parse)
{
    const struct dev_pattern *out = parse->out;
    bool limited =
        out->cooldown_ms != 0 || out->per_day != 0 || out->policy == DEV_PATTERN_ONCE_PER_VISIT;
    const char *wrong = !out->timeout          ? NULL
                        : out->within_ms == 0  ? "or timeout needs within"
                        : steps_of(out) < 2    ? "or timeout needs a second step"
                        : out->step_count == 0 ? "or timeout needs a step that is not ?"
                        : limited ? "or timeout stands beside no cooldown, max or once per visit"
                                  : NULL;
    return wrong == NULL ? BASE_OK : pattern_fail(&parse->scan, 0, BASE_ERR_INVALID, "%s", wrong);
}

static enum base_status check_whole(const struct parse *parse)
{
    const struct pattern_scan *scan = &parse->scan;
    const struct dev_pattern *out = parse->out;
    base_assert(out->literal_count == out->step_count + parse->not_count);
    uint32_t total = steps_of(out);
    if (total == 0) {
        return pattern_fail(scan, 0, BASE_ERR_INVALID, "no step: * alone says nothing");
    }
    if (total > DEV_PATTERN_STEPS_MAX) {
        return pattern_fail(scan, 0, BASE_ERR_TOO_LARGE, "%u steps in normal form, at most %d",
                            total, DEV_PATTERN_STEPS_MAX);
    }
    if (dev_pattern_variants(out) > DEV_PATTERN_VARIANTS_MAX) {
        return pattern_fail(scan, 0, BASE_ERR_TOO_LARGE, "the *{m,n} can be chosen in over %d ways",
                            DEV_PATTERN_VARIANTS_MAX);
    }
    if (out->step_count == 0 && !out->every_event) {
        return pattern_fail(scan, 0, BASE_ERR_INVALID,
                            "only ? is a match at every event: say every-event if it is meant");
    }
    if (out->step_count == 0 && out->within_ms != 0) {
        return pattern_fail(scan, 0, BASE_ERR_INVALID, "within needs a step that is not ?");
    }
    if (out->has_marks && marks_of(out) < 2) {
        return pattern_fail(scan, 0, BASE_ERR_INVALID, "same(item) stands at two steps at least");
    }
    return check_timeout(parse);
}

enum base_status dev_pattern_parse(struct base_str text, struct dev_pattern *out,
                                   struct base_error *error)
{
    text.data = text.size > 0 ? text.data : "";
    struct parse parse = {.scan = {.text = text, .error = error}, .out = out};
    *out = (struct dev_pattern){0};
    if (text.size > DEV_PATTERN_TEXT_MAX) {
        return pattern_fail(&parse.scan, DEV_PATTERN_TEXT_MAX, BASE_ERR_TOO_LARGE,
                            "a pattern has at most %d bytes", DEV_PATTERN_TEXT_MAX);
    }
    BASE_TRY(steps(&parse));
    BASE_TRY(clauses(&parse));
    out->literal_count = (uint8_t)(out->step_count + parse.not_count);
    base_assert(out->literal_count <= DEV_PATTERN_LITERALS_MAX);
    for (uint8_t i = 0; i < out->step_count; i++) {
        uint8_t not_literal = out->gaps[i].not_literal;
        if (not_literal != 0) {
            out->gaps[i].not_literal = (uint8_t)(out->step_count + not_literal);
            out->literals[out->step_count + not_literal - 1] = parse.nots[not_literal - 1];
        }
    }
    for (uint8_t i = 0; i < out->literal_count; i++) {
        sort_tests(out, &out->literals[i]);
    }
    BASE_TRY(check_whole(&parse));
    out->every_event = out->step_count == 0; // says nothing beside a literal
    return BASE_OK;
}
