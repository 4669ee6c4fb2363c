// The curve of arrivals. fleet_options.c makes it on the main thread; shards ask it for every
// arrival, delay_ideal.c for the curve of a gateway that loses no time. A curve is knots with a
// straight line between, counts with 16 bits after the point; what bends is cut into pieces.
#include "people/arrivals.h"

#include "base/alloc.h"
#include "base/check.h"
#include "people/people_lines.h"
#include "people/presence.h"
#include "people/sim_local_file.h"

#include <stdlib.h>
#include <string.h>

#define MILLION    UINT64_C(1000000)
#define COUNT_BITS 16
#define PIECES     64 // of what bends
#define DAY_S      86400u
#define DAY_STEPS  288u // of five minutes

struct knot {
    uint64_t at_us;
    uint64_t count; // << COUNT_BITS
};

struct sim_arrivals {
    struct knot *knots; // the first is 0, 0; the last has the whole fleet
    uint32_t count;
    uint32_t room;
    uint64_t whole; // devices << COUNT_BITS
    bool named;     // the knots are points that somebody named
};

static uint64_t scaled(uint64_t value, uint64_t up, uint64_t down)
{
    return (uint64_t)((unsigned __int128)value * up / down);
}

static enum base_status knot_add(struct sim_arrivals *arrivals, uint64_t at_us, uint64_t count)
{
    if (arrivals->count == arrivals->room) {
        uint32_t room = arrivals->room == 0 ? PIECES * 2 : arrivals->room * 2;
        struct knot *more = realloc(arrivals->knots, room * sizeof(*more));
        if (more == NULL) {
            return BASE_ERR_NOMEM;
        }
        arrivals->knots = more;
        arrivals->room = room;
    }
    arrivals->knots[arrivals->count++] = (struct knot){at_us, count};
    return BASE_OK;
}

// The curve goes on at this many millionths of a device a second until the fleet has come.
static enum base_status go_on(struct sim_arrivals *arrivals, uint64_t rate)
{
    struct knot last = arrivals->knots[arrivals->count - 1];
    if (last.count >= arrivals->whole) {
        return BASE_OK;
    }
    uint64_t left = arrivals->whole - last.count; // << COUNT_BITS, so the rate is too
    uint64_t us =
        (uint64_t)((unsigned __int128)left * MILLION * MILLION / ((unsigned __int128)rate << 16));
    return knot_add(arrivals, last.at_us + us, arrivals->whole);
}

// ---- Words

// Decimal number up to `max`, in millionths. False: it is none.
static bool take_millionths(struct base_str text, uint64_t max, uint64_t *out)
{
    const char *point = text.size > 0 ? memchr(text.data, '.', text.size) : NULL;
    size_t whole = point != NULL ? (size_t)(point - text.data) : text.size;
    struct base_str rest = {NULL, 0};
    uint64_t units = 0;
    uint64_t part = 0;
    if (point != NULL) {
        rest = (struct base_str){point + 1, text.size - whole - 1};
    }
    if (base_str_u64((struct base_str){text.data, whole}, &units) != BASE_OK || units > max ||
        rest.size > 6 || (point != NULL && base_str_u64(rest, &part) != BASE_OK)) {
        return false;
    }
    for (size_t i = rest.size; i < 6; i++) {
        part *= 10;
    }
    *out = units * MILLION + part;
    return *out <= max * MILLION;
}

// `count` numbers with colons between, nothing else.
static bool take_numbers(struct base_str text, uint64_t *out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct base_str word = text;
        struct base_str rest = {NULL, 0};
        bool more = sim_line_split(text, ':', &word, &rest);
        if (more != (i + 1 < count) || !take_millionths(word, SIM_ARRIVAL_RATE_MAX, &out[i])) {
            return false;
        }
        text = rest;
    }
    return true;
}

// ---- Shapes

static enum base_status steady(struct sim_arrivals *arrivals, struct base_str text,
                               struct base_error *error)
{
    uint64_t rate = 0;
    return take_numbers(text, &rate, 1) && rate > 0
               ? go_on(arrivals, rate)
               : base_error_set(error, BASE_ERR_INVALID,
                                "steady:R is expected, R devices a second, above 0");
}

static enum base_status ramp(struct sim_arrivals *arrivals, struct base_str text,
                             struct base_error *error)
{
    uint64_t n[3] = {0};
    if (!take_numbers(text, n, 3) || n[1] == 0 || n[2] == 0 ||
        n[2] > SIM_ARRIVAL_SECONDS * MILLION) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "ramp:A:B:S is expected: from A devices a second to B, above 0, in S "
                              "seconds, above 0");
    }
    uint64_t count = 0;
    for (uint64_t i = 1; i <= PIECES && count < arrivals->whole; i++) {
        // The mean rate of a piece is that of its middle, in millionths, times 2 * PIECES.
        uint64_t mean = n[0] * (2 * PIECES - 2 * i + 1) + n[1] * (2 * i - 1);
        unsigned __int128 more = (unsigned __int128)mean * n[2] << COUNT_BITS;
        count += (uint64_t)(more / ((unsigned __int128)MILLION * MILLION * 2 * PIECES * PIECES));
        uint64_t kept = count < arrivals->whole ? count : arrivals->whole;
        BASE_TRY(knot_add(arrivals, n[2] * i / PIECES, kept));
    }
    return go_on(arrivals, n[1]);
}

static uint64_t within(const struct sim_arrivals *arrivals, uint64_t rate, uint64_t us)
{
    unsigned __int128 count = ((unsigned __int128)rate * us << COUNT_BITS) / (MILLION * MILLION);
    return count < arrivals->whole ? (uint64_t)count : arrivals->whole;
}

static enum base_status spike(struct sim_arrivals *arrivals, struct base_str text,
                              struct base_error *error)
{
    uint64_t n[3] = {0};
    if (!take_numbers(text, n, 3) || n[0] == 0 || n[2] > SIM_ARRIVAL_SECONDS * MILLION) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "spike:R:N:S is expected: R devices a second, above 0, and N more "
                              "within the second that begins at S");
    }
    uint64_t before = within(arrivals, n[0], n[2]);
    uint64_t after = before + within(arrivals, n[0] + n[1], MILLION);
    BASE_TRY(knot_add(arrivals, n[2], before));
    BASE_TRY(knot_add(arrivals, n[2] + MILLION, after < arrivals->whole ? after : arrivals->whole));
    return go_on(arrivals, n[0]);
}

// "S N" of a curve that somebody wrote down; counts as they are written. NULL: it is good.
static const char *point_add(struct sim_arrivals *arrivals, struct base_str second,
                             struct base_str devices)
{
    uint64_t at_us = 0;
    uint64_t count = 0;
    struct knot last = arrivals->knots[arrivals->count - 1];
    if (!take_millionths(second, SIM_ARRIVAL_SECONDS, &at_us)) {
        return "a second is expected, 0 to 1000000";
    }
    if (base_str_u64(devices, &count) != BASE_OK || count > UINT32_MAX) {
        return "a number of devices is expected";
    }
    if (at_us < last.at_us || (at_us == last.at_us && arrivals->count > 1)) {
        return "the seconds go on: this one is no later than the one before";
    }
    if (count < last.count) {
        return "devices that have come do not get fewer";
    }
    if (arrivals->count > SIM_ARRIVAL_KNOTS_MAX) {
        return "too many points";
    }
    return knot_add(arrivals, at_us, count) == BASE_OK ? NULL : "out of memory";
}

// The last point is the fleet: the others are as much of it as of that. NULL: it is good.
static const char *points_end(struct sim_arrivals *arrivals)
{
    struct knot last = arrivals->knots[arrivals->count - 1];
    if (last.count == 0) {
        return "the last point has nobody: it stands for the whole fleet";
    }
    for (uint32_t i = 0; i < arrivals->count; i++) {
        arrivals->knots[i].count = scaled(arrivals->knots[i].count, arrivals->whole, last.count);
    }
    return NULL;
}

static enum base_status points(struct sim_arrivals *arrivals, struct base_str text,
                               struct base_error *error)
{
    const char *wrong = NULL;
    arrivals->named = true;
    for (bool more = true; more && wrong == NULL;) {
        struct base_str point = text;
        struct base_str second;
        struct base_str devices;
        more = sim_line_split(text, ',', &point, &text);
        wrong = sim_line_split(point, '=', &second, &devices)
                    ? point_add(arrivals, second, devices)
                    : "points:S=N,S=N is expected: N devices have come by second S";
    }
    wrong = wrong != NULL ? wrong : points_end(arrivals);
    return wrong == NULL ? BASE_OK : base_error_set(error, BASE_ERR_INVALID, "%s", wrong);
}

// Share of a day that has gone by after so many five minutes of local time, in parts of `out_of`.
static uint64_t day_share(uint32_t step, uint64_t *out_of)
{
    uint64_t sum = 0;
    uint64_t whole = 0;
    for (uint32_t i = 0; i < DAY_STEPS; i++) {
        uint64_t part = sim_day_hours[i * SIM_DAY_HOURS / DAY_STEPS];
        sum += i < step % DAY_STEPS ? part : 0;
        whole += part;
    }
    *out_of = whole;
    return sum + step / DAY_STEPS * whole;
}

static enum base_status diurnal(struct sim_arrivals *arrivals, struct base_str text,
                                const struct sim_arrival_fleet *fleet, struct base_error *error)
{
    uint64_t hour = 0;
    uint64_t people = 0;
    uint64_t day = 1;
    if (base_str_u64(text, &hour) != BASE_OK || hour >= SIM_DAY_HOURS) {
        return base_error_set(error, BASE_ERR_INVALID, "diurnal:H is expected, H from 0 to 23");
    }
    for (uint32_t zone = 0; zone < SIM_DAY_HOURS; zone++) {
        people += fleet->zone_weights[zone];
    }
    for (uint32_t step = 1; step <= DAY_STEPS; step++) {
        uint64_t come = 0;
        for (uint32_t zone = 0; zone < SIM_DAY_HOURS; zone++) {
            uint32_t from = ((uint32_t)hour + zone) * (DAY_STEPS / SIM_DAY_HOURS);
            uint64_t weight = people > 0 ? fleet->zone_weights[zone] : zone == 0;
            come += weight * (day_share(from + step, &day) - day_share(from, &day));
        }
        uint64_t all = (people > 0 ? people : 1) * day;
        BASE_TRY(knot_add(arrivals, (uint64_t)step * (DAY_S / DAY_STEPS) * MILLION,
                          scaled(come, arrivals->whole, all)));
    }
    return BASE_OK;
}

// ---- Life

static enum base_status arrivals_begin(const struct sim_arrival_fleet *fleet,
                                       struct sim_arrivals **out_arrivals)
{
    base_assert(fleet->devices > 0);
    struct sim_arrivals *arrivals = calloc(1, sizeof(*arrivals));
    if (arrivals == NULL) {
        return BASE_ERR_NOMEM;
    }
    arrivals->whole = (uint64_t)fleet->devices << COUNT_BITS;
    if (knot_add(arrivals, 0, 0) != BASE_OK) {
        free(arrivals);
        return BASE_ERR_NOMEM;
    }
    *out_arrivals = arrivals;
    return BASE_OK;
}

static enum base_status trace_read(const char *path, const struct sim_arrival_fleet *fleet,
                                   struct sim_arrivals **out_arrivals, struct base_error *error)
{
    struct base_buffer text;
    BASE_TRY(sim_local_read(path, SIM_PEOPLE_FILE_MAX, &text, error));
    enum base_status status = sim_arrivals_trace(
        path, (struct base_str){(const char *)text.data, text.size}, fleet, out_arrivals, error);
    base_buffer_done(&text);
    return status;
}

enum base_status sim_arrivals_trace(const char *name, struct base_str text,
                                    const struct sim_arrival_fleet *fleet,
                                    struct sim_arrivals **out_arrivals, struct base_error *error)
{
    struct sim_lines lines;
    struct base_str line;
    struct sim_arrivals *arrivals = NULL;
    const char *wrong = NULL;
    BASE_TRY(arrivals_begin(fleet, &arrivals));
    sim_lines_begin(&lines, name, text);
    while (wrong == NULL && sim_lines_next(&lines, &line)) {
        struct base_str second = sim_line_word(&line);
        struct base_str devices = sim_line_word(&line);
        wrong = sim_line_word(&line).size > 0 ? "two numbers are expected: SECOND DEVICES"
                                              : point_add(arrivals, second, devices);
    }
    wrong = wrong != NULL ? wrong : points_end(arrivals);
    if (wrong != NULL) {
        sim_arrivals_free(arrivals);
        return sim_lines_refuse(&lines, error, wrong);
    }
    *out_arrivals = arrivals;
    return BASE_OK;
}

static enum base_status shape_make(struct sim_arrivals *arrivals, struct base_str shape,
                                   const struct sim_arrival_fleet *fleet, struct base_error *error)
{
    struct base_str name = shape;
    struct base_str text = {NULL, 0};
    (void)sim_line_split(shape, ':', &name, &text);
    if (base_str_equal(name, BASE_STR("steady"))) {
        return steady(arrivals, text, error);
    }
    if (base_str_equal(name, BASE_STR("ramp"))) {
        return ramp(arrivals, text, error);
    }
    if (base_str_equal(name, BASE_STR("spike"))) {
        return spike(arrivals, text, error);
    }
    if (base_str_equal(name, BASE_STR("points"))) {
        return points(arrivals, text, error);
    }
    if (base_str_equal(name, BASE_STR("diurnal"))) {
        return diurnal(arrivals, text, fleet, error);
    }
    return base_error_set(error, BASE_ERR_INVALID,
                          "steady:R, ramp:A:B:S, spike:R:N:S, points:S=N,S=N, trace:FILE or "
                          "diurnal:H is expected");
}

enum base_status sim_arrivals_new(const char *shape, const struct sim_arrival_fleet *fleet,
                                  struct sim_arrivals **out_arrivals, struct base_error *error)
{
    struct sim_arrivals *arrivals = NULL;
    if (base_str_starts(base_str_of(shape), BASE_STR("trace:"))) {
        return trace_read(shape + strlen("trace:"), fleet, out_arrivals, error);
    }
    BASE_TRY(arrivals_begin(fleet, &arrivals));
    enum base_status status = shape_make(arrivals, base_str_of(shape), fleet, error);
    if (status != BASE_OK) {
        sim_arrivals_free(arrivals);
        return status;
    }
    *out_arrivals = arrivals;
    return BASE_OK;
}

void sim_arrivals_free(struct sim_arrivals *arrivals)
{
    if (arrivals != NULL) {
        free(arrivals->knots);
        free(arrivals);
    }
}

// ---- Questions

// The last knot that at most `place` devices had come by, or the one before the end.
static uint32_t knot_before(const struct sim_arrivals *arrivals, uint64_t place)
{
    uint32_t low = 0;
    uint32_t high = arrivals->count - 1;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (arrivals->knots[middle].count <= place) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint64_t place_us(const struct sim_arrivals *arrivals, uint64_t place)
{
    const struct knot *from = &arrivals->knots[knot_before(arrivals, place)];
    uint64_t gap = from[1].count - from[0].count;
    uint64_t past = place - from[0].count;
    base_assert(arrivals->count > 1);
    past = past < gap ? past : gap;
    return from[0].at_us + (gap > 0 ? scaled(from[1].at_us - from[0].at_us, past, gap)
                                    : from[1].at_us - from[0].at_us);
}

uint64_t sim_arrivals_us(const struct sim_arrivals *arrivals, const struct sim_arrival *arrival)
{
    base_assert(arrival->number < arrival->count);
    uint64_t number = (uint64_t)arrival->number << COUNT_BITS | arrival->draw >> (64 - COUNT_BITS);
    uint64_t count = (uint64_t)arrival->count << COUNT_BITS;
    return place_us(arrivals, scaled(number, arrivals->whole, count));
}

double sim_arrivals_when(const struct sim_arrivals *arrivals, double devices)
{
    double place = devices * (1 << COUNT_BITS);
    place = place > 0 ? place : 0;
    uint64_t whole = place < (double)arrivals->whole ? (uint64_t)place : arrivals->whole;
    return (double)place_us(arrivals, whole) / 1e6;
}

double sim_arrivals_by(const struct sim_arrivals *arrivals, double seconds)
{
    uint32_t low = 0;
    uint32_t high = arrivals->count - 1;
    double us = seconds * 1e6;
    if (us >= (double)arrivals->knots[high].at_us) {
        return (double)arrivals->whole / (1 << COUNT_BITS);
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if ((double)arrivals->knots[middle].at_us <= us) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const struct knot *from = &arrivals->knots[low];
    double span = (double)(from[1].at_us - from[0].at_us);
    double past = span > 0 && us > (double)from[0].at_us ? (us - (double)from[0].at_us) / span : 0;
    double count = (double)from[0].count + past * (double)(from[1].count - from[0].count);
    return count / (1 << COUNT_BITS);
}

double sim_arrivals_span(const struct sim_arrivals *arrivals)
{
    return (double)arrivals->knots[arrivals->count - 1].at_us / 1e6;
}

uint32_t sim_arrivals_points(const struct sim_arrivals *arrivals,
                             double out_seconds[SIM_ARRIVAL_POINTS_MAX])
{
    uint32_t count = arrivals->count - 1;
    if (!arrivals->named || count > SIM_ARRIVAL_POINTS_MAX) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        out_seconds[i] = (double)arrivals->knots[i + 1].at_us / 1e6;
    }
    return count;
}
