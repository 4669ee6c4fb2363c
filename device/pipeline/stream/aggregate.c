// Incremental aggregates over plain states. Called by the windows of a stream (stream_window.c) for
// every event, and by event_stream.c, which checks declarations and reads the answers; scripts look
// at single last values, bins and quantiles through vm/vm_aggregate.c. On the stream's thread;
// pure.
//
// All kinds are in one file, for what they share is most of it: sums that are exact (128 bits for
// integers, Klein's compensated sum for reals), states that are plain bytes, and their merge. The
// two sketches have files of their own (distinct_sketch.c, quantile_sketch.c).
#include "pipeline/stream/aggregate.h"

#include "base/check.h"

#include <string.h>

#define TWO_TO_32 4294967296.0
#define TWO_TO_64 18446744073709551616.0
#define UNIT      0x1p1023 // reals go up to twice that

struct sum_state {
    uint64_t count;
    int64_t high; // of the 128-bit sum of integers
    uint64_t low;
    double real; // sum of reals, what its roundings lost, and what those of that lost
    double lost;
    double rest;
    int64_t units; // of UNIT, that the sum is beyond `real`
};

struct best_state {
    uint64_t type; // enum dev_value_type; NONE: nothing yet
    union {
        int64_t integer;
        double real;
    };
};

struct last_entry {
    uint64_t seq;
    struct dev_cell cell;
};

struct last_state {
    uint32_t capacity;
    uint32_t count;
    struct last_entry entries[]; // by seq, ascending
};

struct bins_state {
    uint32_t bins;
    uint32_t reserved;
    uint64_t counts[]; // bins, below, above
};

static const char *const kind_names[DEV_AGGREGATE_KIND_COUNT] = {
    [DEV_AGGREGATE_COUNT] = "count",
    [DEV_AGGREGATE_SUM] = "sum",
    [DEV_AGGREGATE_MIN] = "min",
    [DEV_AGGREGATE_MAX] = "max",
    [DEV_AGGREGATE_MEAN] = "mean",
    [DEV_AGGREGATE_DISTINCT] = "distinct",
    [DEV_AGGREGATE_LAST] = "last",
    [DEV_AGGREGATE_HISTOGRAM] = "histogram",
    [DEV_AGGREGATE_QUANTILES] = "quantiles",
};

static bool name_valid(struct base_str name)
{
    if (name.size == 0 || name.size > DEV_AGGREGATE_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool letter = c >= 'a' && c <= 'z';
        bool later = (c >= '0' && c <= '9') || c == '_';
        if (!letter && !(later && i > 0)) {
            return false;
        }
    }
    return true;
}

static enum base_status size_check(const struct dev_aggregate_spec *spec, uint32_t least,
                                   uint32_t most, struct base_error *error)
{
    if (spec->size < least || spec->size > most) {
        return base_error_set(error, spec->size < least ? BASE_ERR_INVALID : BASE_ERR_TOO_LARGE,
                              "aggregate %.*s: size %u is not between %u and %u",
                              (int)spec->name.size, spec->name.data, spec->size, least, most);
    }
    return BASE_OK;
}

enum base_status dev_aggregate_check(struct dev_aggregate_spec *spec, struct base_error *error)
{
    if (!name_valid(spec->name)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "an aggregate's name is not [a-z][a-z0-9_]* of at most 32 bytes");
    }
    if ((unsigned)spec->kind >= DEV_AGGREGATE_KIND_COUNT) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "aggregate %.*s: unknown kind",
                              (int)spec->name.size, spec->name.data);
    }
    if (spec->value.size == 0 && spec->kind != DEV_AGGREGATE_COUNT) {
        return base_error_set(error, BASE_ERR_INVALID, "aggregate %.*s: %s needs a value",
                              (int)spec->name.size, spec->name.data, kind_names[spec->kind]);
    }
    switch (spec->kind) {
    case DEV_AGGREGATE_LAST:
        return size_check(spec, 1, DEV_AGGREGATE_LAST_MAX, error);
    case DEV_AGGREGATE_HISTOGRAM:
        if (!(spec->low < spec->high) || !(spec->high - spec->low <= 1e300)) {
            return base_error_set(error, BASE_ERR_INVALID, "aggregate %.*s: low is not below high",
                                  (int)spec->name.size, spec->name.data);
        }
        return size_check(spec, 1, DEV_AGGREGATE_BINS_MAX, error);
    case DEV_AGGREGATE_DISTINCT:
        spec->size = spec->size == 0 ? DEV_DISTINCT_BITS_DEFAULT : spec->size;
        return size_check(spec, DEV_DISTINCT_BITS_MIN, DEV_DISTINCT_BITS_MAX, error);
    case DEV_AGGREGATE_QUANTILES:
        spec->size = spec->size == 0 ? DEV_QUANTILE_BUCKETS_DEFAULT : spec->size;
        return size_check(spec, DEV_QUANTILE_BUCKETS_MIN, DEV_QUANTILE_BUCKETS_MAX, error);
    default:
        base_assert(spec->kind <= DEV_AGGREGATE_MEAN); // kinds with a size are behind it
        return size_check(spec, 0, 0, error);
    }
}

size_t dev_aggregate_bytes(const struct dev_aggregate_spec *spec)
{
    base_assert((unsigned)spec->kind < DEV_AGGREGATE_KIND_COUNT);
    switch (spec->kind) {
    case DEV_AGGREGATE_COUNT:
        return sizeof(uint64_t);
    case DEV_AGGREGATE_SUM:
    case DEV_AGGREGATE_MEAN:
        return sizeof(struct sum_state);
    case DEV_AGGREGATE_DISTINCT:
        return dev_distinct_bytes(spec->size);
    case DEV_AGGREGATE_LAST:
        return sizeof(struct last_state) + spec->size * sizeof(struct last_entry);
    case DEV_AGGREGATE_HISTOGRAM:
        return sizeof(struct bins_state) + (spec->size + 2) * sizeof(uint64_t);
    case DEV_AGGREGATE_QUANTILES:
        return dev_quantile_bytes(spec->size);
    default:
        return sizeof(struct best_state);
    }
}

void dev_aggregate_init(const struct dev_aggregate_spec *spec, void *state)
{
    base_assert((uintptr_t)state % 8 == 0);
    memset(state, 0, dev_aggregate_bytes(spec));
    if (spec->kind == DEV_AGGREGATE_LAST) {
        ((struct last_state *)state)->capacity = spec->size;
    } else if (spec->kind == DEV_AGGREGATE_HISTOGRAM) {
        ((struct bins_state *)state)->bins = spec->size;
    } else if (spec->kind == DEV_AGGREGATE_QUANTILES) {
        dev_quantile_init(state, spec->size);
    }
}

// --- sums

static void integer_add(struct sum_state *sum, int64_t high, uint64_t low)
{
    bool carry = __builtin_add_overflow(sum->low, low, &sum->low);
    sum->high = (int64_t)((uint64_t)sum->high + (uint64_t)high + carry);
}

// The sum, rounded, and exactly what the rounding lost (Knuth); none where the sum is no real.
static double two_sum(double a, double b, double *out_lost)
{
    double total = a + b;
    double b_part = total - a;
    *out_lost = (a - (total - b_part)) + (b - b_part);
    return total;
}

static bool is_beyond(double real)
{
    return real - real != 0;
}

// What is left of a number without its UNIT, exactly (Sterbenz), which is counted.
static double unit_take(struct sum_state *sum, double real)
{
    if (real > -UNIT && real < UNIT) {
        return real;
    }
    sum->units += real > 0 ? 1 : -1;
    return real - (real > 0 ? UNIT : -UNIT);
}

// Compensated twice (Klein, Computing 76, 2006). What goes beyond all reals goes on in units.
static void real_add(struct sum_state *sum, double real)
{
    double lost = 0;
    double rest = 0;
    double before = sum->real;
    if (is_beyond(before + real)) { // both of one sign, one of them at least UNIT
        before = unit_take(sum, before);
        real = unit_take(sum, real);
    }
    sum->real = two_sum(before, real, &lost);
    if (is_beyond(lost)) { // only the steps on the way were beyond
        lost = 0;
    }
    sum->lost = two_sum(sum->lost, lost, &rest);
    sum->rest += rest;
}

static void number_add(struct sum_state *sum, struct dev_value value)
{
    base_assert(value.type == DEV_VALUE_REAL || value.type == DEV_VALUE_INTEGER);
    sum->count++;
    if (value.type == DEV_VALUE_REAL) {
        real_add(sum, value.real);
    } else {
        integer_add(sum, value.integer < 0 ? -1 : 0, (uint64_t)value.integer);
    }
}

static void sum_merge(struct sum_state *sum, const struct sum_state *from)
{
    sum->count += from->count;
    integer_add(sum, from->high, from->low);
    real_add(sum, from->real);
    real_add(sum, from->lost);
    real_add(sum, from->rest);
    sum->units += from->units;
}

// The sum of three, the first by far the largest, rounded once.
static double rounded(double real, double lost, double rest)
{
    double low = 0;
    double tail = 0;
    lost = two_sum(lost, rest, &rest);
    double total = two_sum(real, lost, &low);
    if (is_beyond(total)) {
        return total;
    }
    low = two_sum(low, rest, &tail);
    total = two_sum(total, low, &low);
    // Halfway between two reals, the tail says which way.
    if ((low > 0 && tail > 0) || (low < 0 && tail < 0)) {
        double next = total + 2 * low;
        total = next - total == 2 * low ? next : total;
    }
    return total;
}

static void integers_add(struct sum_state *all)
{
    // Four parts of 32 bits are reals without rounding.
    real_add(all, (double)(all->high >> 32) * TWO_TO_64 * TWO_TO_32);
    real_add(all, (double)(all->high & UINT32_MAX) * TWO_TO_64);
    real_add(all, (double)(all->low >> 32) * TWO_TO_32);
    real_add(all, (double)(all->low & UINT32_MAX));
}

// Integers and reals together, rounded once; not finite: beyond all reals.
static double sum_real(const struct sum_state *sum)
{
    struct sum_state all = *sum;
    integers_add(&all);
    double real = all.real;
    for (int64_t left = all.units; left != 0 && !is_beyond(real); left += left > 0 ? -1 : 1) {
        double lost = 0;
        double rest = 0;
        real = two_sum(real, left > 0 ? UNIT : -UNIT, &lost);
        all.lost = two_sum(all.lost, is_beyond(lost) ? 0 : lost, &rest);
        all.rest += rest;
    }
    return rounded(real, all.lost, all.rest);
}

// A mean is none of those that are beyond all reals: it lies among what was added.
static double sum_mean(const struct sum_state *sum)
{
    base_assert(sum->count > 0);
    double total = sum_real(sum);
    double count = (double)sum->count;
    if (!is_beyond(total)) {
        return total / count;
    }
    struct sum_state all = *sum;
    integers_add(&all);
    return (double)all.units * (UNIT / TWO_TO_64) / count * TWO_TO_64 +
           (all.real / count + all.lost / count);
}

static struct dev_value sum_value(const struct sum_state *sum)
{
    bool small = sum->high == ((int64_t)sum->low < 0 ? -1 : 0);
    if (small && sum->real == 0 && sum->lost == 0 && sum->rest == 0 && sum->units == 0) {
        return dev_value_integer((int64_t)sum->low);
    }
    double total = sum_real(sum);
    return is_beyond(total) ? dev_value_none() : dev_value_real(total);
}

// --- least and greatest

static struct dev_value best_value(const struct best_state *best)
{
    if (best->type == DEV_VALUE_REAL) {
        return dev_value_real(best->real);
    }
    return best->type == DEV_VALUE_NONE ? dev_value_none() : dev_value_integer(best->integer);
}

static void best_add(struct best_state *best, struct dev_value value, int sign)
{
    base_assert(sign == 1 || sign == -1);
    if (best->type != DEV_VALUE_NONE && dev_value_compare(value, best_value(best)) * sign <= 0) {
        return;
    }
    best->type = value.type;
    if (value.type == DEV_VALUE_REAL) {
        best->real = value.real;
    } else {
        best->integer = value.integer;
    }
}

// --- last values

static void last_add(struct last_state *last, struct dev_value value, uint64_t seq)
{
    base_assert(last->capacity > 0 && last->count <= last->capacity);
    uint32_t at = last->count;
    while (at > 0 && dev_seq_before(seq, last->entries[at - 1].seq)) {
        at--;
    }
    if (last->count == last->capacity) {
        if (at == 0) {
            return; // older than all that are kept
        }
        at--;
        memmove(&last->entries[0], &last->entries[1], at * sizeof(last->entries[0]));
    } else {
        memmove(&last->entries[at + 1], &last->entries[at],
                (last->count - at) * sizeof(last->entries[0]));
        last->count++;
    }
    last->entries[at].seq = seq;
    (void)dev_cell_set(&last->entries[at].cell, value);
}

// --- histogram

static void bin_add(const struct dev_aggregate_spec *spec, struct bins_state *bins, double value)
{
    base_assert(bins->bins == spec->size && spec->low < spec->high);
    uint32_t bin = bins->bins; // below
    if (value >= spec->high) {
        bin = bins->bins + 1;
    } else if (value >= spec->low) {
        bin = (uint32_t)((value - spec->low) / (spec->high - spec->low) * bins->bins);
        bin = bin >= bins->bins ? bins->bins - 1 : bin;
    }
    bins->counts[bin]++;
}

// --- all kinds

static struct dev_value as_number(struct dev_value value)
{
    if (value.type == DEV_VALUE_BOOLEAN) {
        value.type = DEV_VALUE_INTEGER;
    }
    return dev_value_is_number(value) ? value : dev_value_none();
}

static void hash_add(const struct dev_aggregate_spec *spec, void *state, uint64_t hash)
{
    dev_distinct_add(state, spec->size, hash);
}

void dev_aggregate_add(const struct dev_aggregate_spec *spec, void *state, struct dev_value value,
                       uint64_t seq)
{
    if (spec->kind == DEV_AGGREGATE_COUNT) {
        *(uint64_t *)state += spec->value.size == 0 || value.type != DEV_VALUE_NONE;
        return;
    }
    if (value.type == DEV_VALUE_NONE) {
        return;
    }
    if (spec->kind == DEV_AGGREGATE_DISTINCT) {
        hash_add(spec, state, dev_value_hash(value));
        return;
    }
    if (spec->kind == DEV_AGGREGATE_LAST) {
        last_add(state, value, seq);
        return;
    }
    value = as_number(value);
    if (value.type == DEV_VALUE_NONE) {
        return;
    }
    switch (spec->kind) {
    case DEV_AGGREGATE_SUM:
    case DEV_AGGREGATE_MEAN:
        number_add(state, value);
        break;
    case DEV_AGGREGATE_MIN:
    case DEV_AGGREGATE_MAX:
        best_add(state, value, spec->kind == DEV_AGGREGATE_MAX ? 1 : -1);
        break;
    case DEV_AGGREGATE_HISTOGRAM:
        bin_add(spec, state, dev_value_as_real(value));
        break;
    default:
        base_assert(spec->kind == DEV_AGGREGATE_QUANTILES);
        dev_quantile_add(state, dev_value_as_real(value));
        break;
    }
}

static void last_merge(struct last_state *last, const struct last_state *from)
{
    for (uint32_t i = 0; i < from->count; i++) {
        last_add(last, dev_cell_get(&from->entries[i].cell), from->entries[i].seq);
    }
}

void dev_aggregate_merge(const struct dev_aggregate_spec *spec, void *state, const void *from)
{
    const struct bins_state *bins = from;
    switch (spec->kind) {
    case DEV_AGGREGATE_COUNT:
        *(uint64_t *)state += *(const uint64_t *)from;
        break;
    case DEV_AGGREGATE_SUM:
    case DEV_AGGREGATE_MEAN:
        sum_merge(state, from);
        break;
    case DEV_AGGREGATE_MIN:
    case DEV_AGGREGATE_MAX:
        if (((const struct best_state *)from)->type != DEV_VALUE_NONE) {
            best_add(state, best_value(from), spec->kind == DEV_AGGREGATE_MAX ? 1 : -1);
        }
        break;
    case DEV_AGGREGATE_DISTINCT:
        dev_distinct_merge(state, spec->size, from);
        break;
    case DEV_AGGREGATE_LAST:
        last_merge(state, from);
        break;
    case DEV_AGGREGATE_HISTOGRAM:
        base_assert(bins->bins == spec->size);
        for (uint32_t i = 0; i < bins->bins + 2; i++) {
            ((struct bins_state *)state)->counts[i] += bins->counts[i];
        }
        break;
    default:
        dev_quantile_merge(state, from);
        break;
    }
}

struct dev_value dev_aggregate_value(const struct dev_aggregate_spec *spec, const void *state)
{
    const struct sum_state *sum = state;
    uint64_t total = 0;
    switch (spec->kind) {
    case DEV_AGGREGATE_COUNT:
        return dev_value_integer((int64_t) * (const uint64_t *)state);
    case DEV_AGGREGATE_SUM:
        return sum_value(sum);
    case DEV_AGGREGATE_MEAN:
        return sum->count == 0 ? dev_value_none() : dev_value_real(sum_mean(sum));
    case DEV_AGGREGATE_DISTINCT:
        return dev_value_integer((int64_t)(dev_distinct_estimate(state, spec->size) + 0.5));
    case DEV_AGGREGATE_LAST: {
        uint32_t count = dev_aggregate_last_count(state);
        return count == 0 ? dev_value_none() : dev_aggregate_last(state, count - 1);
    }
    case DEV_AGGREGATE_HISTOGRAM:
        for (uint32_t i = 0; i < spec->size + 2; i++) {
            total += dev_aggregate_bin(state, i);
        }
        return dev_value_integer((int64_t)total);
    case DEV_AGGREGATE_QUANTILES:
        return dev_aggregate_quantile(state, 0.5);
    default:
        base_assert(spec->kind == DEV_AGGREGATE_MIN || spec->kind == DEV_AGGREGATE_MAX);
        return best_value(state);
    }
}

uint32_t dev_aggregate_last_count(const void *state)
{
    return ((const struct last_state *)state)->count;
}

struct dev_value dev_aggregate_last(const void *state, uint32_t index)
{
    const struct last_state *last = state;
    base_check(index < last->count);
    return dev_cell_get(&last->entries[index].cell);
}

uint64_t dev_aggregate_bin(const void *state, uint32_t bin)
{
    const struct bins_state *bins = state;
    base_check(bin < bins->bins + 2);
    return bins->counts[bin];
}

struct dev_value dev_aggregate_quantile(const void *state, double q)
{
    const struct dev_quantile_sketch *sketch = state;
    return sketch->count == 0 ? dev_value_none() : dev_value_real(dev_quantile_value(sketch, q));
}

double dev_aggregate_quantile_error(const void *state)
{
    return dev_quantile_error(state);
}

// --- single values

size_t dev_aggregate_item_bytes(const struct dev_aggregate_spec *spec)
{
    return spec->kind == DEV_AGGREGATE_LAST ? sizeof(struct dev_cell) : 16;
}

_Static_assert(offsetof(struct dev_cell, integer) == 8, "an item is the start of a cell");

// A cell, of which only LAST keeps a text. DISTINCT keeps the hash as the integer, COUNT only that
// there is a value.
void dev_aggregate_item_set(const struct dev_aggregate_spec *spec, void *item,
                            struct dev_value value)
{
    struct dev_cell cell;
    if (spec->kind == DEV_AGGREGATE_LAST) {
        (void)dev_cell_set(item, value);
        return;
    }
    if (value.type != DEV_VALUE_NONE && spec->kind == DEV_AGGREGATE_DISTINCT) {
        value = dev_value_integer((int64_t)dev_value_hash(value));
    } else if (value.type != DEV_VALUE_NONE && spec->kind == DEV_AGGREGATE_COUNT) {
        value = dev_value_boolean(true);
    } else {
        value = as_number(value);
    }
    (void)dev_cell_set(&cell, value);
    memcpy(item, &cell, 16);
}

static struct dev_value item_value(const void *item)
{
    struct dev_cell cell = {.type = DEV_VALUE_NONE};
    memcpy(&cell, item, 16);
    return dev_cell_get(&cell);
}

void dev_aggregate_item_add(const struct dev_aggregate_spec *spec, void *state, const void *item,
                            uint64_t seq)
{
    if (spec->kind == DEV_AGGREGATE_LAST) {
        dev_aggregate_add(spec, state, dev_cell_get(item), seq);
        return;
    }
    struct dev_value value = item_value(item);
    if (spec->kind == DEV_AGGREGATE_DISTINCT) {
        if (value.type != DEV_VALUE_NONE) {
            hash_add(spec, state, (uint64_t)value.integer);
        }
        return;
    }
    dev_aggregate_add(spec, state, value, seq);
}
