// Another rate: resample_poly, as SciPy's. The signal is thought of with `up` - 1 zeros behind each
// sample, filtered by a low pass (a sinc in a Kaiser window), and every `down`th value is kept; of
// the filter only the values that meet a sample are used. Called by scripts, on the VM's thread.
#include "vm/audio/audio.h"

#include <math.h>

#define KAISER_BETA  5.0
#define HALF_PERIODS 10 // of the slower rate, on each side of the filter's middle
#define RATE_MOST    ((size_t)1 << 24)

// The modified Bessel function of order 0, of numbers up to KAISER_BETA.
static double bessel(double x)
{
    double sum = 1;
    double term = 1;
    for (int k = 1; k < 40; k++) {
        term *= x * x / (4.0 * k * k);
        sum += term;
    }
    return sum;
}

struct filter {
    size_t half;    // values on each side of the middle
    double *values; // 2 half + 1
};

static struct filter filter_make(size_t up, size_t down)
{
    double slower = (double)(up > down ? up : down);
    struct filter filter = {.half = HALF_PERIODS * (up > down ? up : down)};
    size_t count = 2 * filter.half + 1;
    filter.values = dev_audio_doubles(count);
    double sum = 0;
    size_t owed = 0;
    for (size_t i = 0; i < count; i++) {
        double place = (double)i - (double)filter.half;
        double part = place / (double)filter.half;
        double angle = M_PI * place / slower;
        double sinc = place == 0 ? 1 : sin(angle) / angle;
        double window = bessel(KAISER_BETA * sqrt(1 - part * part)) / bessel(KAISER_BETA);
        filter.values[i] = sinc / slower * window;
        sum += filter.values[i];
        dev_audio_owe(&owed, 64);
    }
    for (size_t i = 0; i < count; i++) {
        filter.values[i] *= (double)up / sum;
        dev_audio_owe(&owed, 1);
    }
    dev_np_pay(owed);
    return filter;
}

struct resampling {
    struct audio_signal signal;
    size_t up;
    size_t down;
    struct filter filter;
    double *samples; // of the signal, that one result is made of
    size_t owed;
};

// Result `index` is the sum of the samples k with 0 <= index down - k up + half <= 2 half, each
// times the filter's value there.
static double result_at(struct resampling *run, size_t index)
{
    size_t place = index * run->down + run->filter.half;
    size_t width = 2 * run->filter.half;
    size_t first = place > width ? (place - width + run->up - 1) / run->up : 0;
    size_t last = place / run->up;
    last = last < run->signal.count ? last : run->signal.count - 1;
    if (first > last) {
        return 0;
    }
    size_t count = last - first + 1;
    dev_audio_read(&run->signal, first, count, run->samples);
    const double *value = run->filter.values + (place - first * run->up);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += run->samples[i] * *(value - i * run->up);
    }
    dev_audio_owe(&run->owed, 2 * count);
    return sum;
}

static size_t common_divisor(size_t a, size_t b)
{
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// resample_poly(x, up, down)
static mp_obj_t resample_poly(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { X, UP, DOWN, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_x, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_up, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_down, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct resampling run = {.signal = dev_audio_signal(values[X].u_obj, "x")};
    run.up = dev_audio_size(values[UP].u_obj, "up", 1, RATE_MOST);
    run.down = dev_audio_size(values[DOWN].u_obj, "down", 1, RATE_MOST);
    size_t divisor = common_divisor(run.up, run.down);
    run.up /= divisor;
    run.down /= divisor;
    int64_t size = (int64_t)((run.signal.count * run.up + run.down - 1) / run.down);
    struct np_array *made = dev_np_new(run.signal.type, 1, &size);
    const struct audio_row all = {made->type, made->data, (int64_t)dev_np_item(made->type)};
    struct audio_row row = all;
    bool is_same = run.up == 1 && run.down == 1;
    if (!is_same) {
        run.filter = filter_make(run.up, run.down);
    }
    run.samples = dev_audio_doubles(2 * run.filter.half / run.up + 2);
    for (int64_t i = 0; i < size; i++) {
        double value;
        if (is_same) {
            dev_audio_read(&run.signal, (size_t)i, 1, &value);
        } else {
            value = result_at(&run, (size_t)i);
        }
        dev_audio_write(&row, &value, 1, 1);
        row.at += row.step;
        dev_audio_owe(&run.owed, 4);
    }
    dev_np_pay(run.owed);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_resample_obj, 3, resample_poly);
