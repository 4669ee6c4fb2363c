// Fourier transforms: passes of small factors, each writing its results in order (Stockham), and
// for sizes with a large prime factor a convolution with a chirp (Bluestein) in a power of two.
// Real numbers of an even size are transformed as half as many pairs. Called by walle.audio and by
// walle.np, on the VM's thread.
#include "vm/np/np_fourier.h"

#include <math.h>
#include <string.h>

#define LARGEST_FACTOR 61 // a larger prime is left to the convolution

static double *doubles_new(size_t count)
{
    int64_t dims = count <= (size_t)INT64_MAX ? (int64_t)count : INT64_MAX;
    return (double *)(void *)dev_np_new(NP_F64, 1, &dims)->data;
}

// Room for as many pairs; sizes that no heap has are refused by what doubles_new says.
static double *pairs_new(size_t count)
{
    return doubles_new(count <= SIZE_MAX / 2 ? count * 2 : SIZE_MAX);
}

static void owe(struct np_fourier *fourier, size_t elements)
{
    fourier->owed += elements;
    if (fourier->owed >= NP_CHUNK) {
        size_t owed = fourier->owed;
        fourier->owed = 0;
        dev_np_pay(owed);
    }
}

// `count` pairs: e to the power of -2 pi i k / size.
static double *roots_new(size_t size, size_t count)
{
    double *roots = pairs_new(count);
    for (size_t k = 0; k < count; k++) {
        double angle = 2 * M_PI * ((double)k / (double)size);
        roots[2 * k] = cos(angle);
        roots[2 * k + 1] = -sin(angle);
        if (k % NP_CHUNK == NP_CHUNK - 1) {
            dev_np_pay((size_t)NP_CHUNK * 16);
        }
    }
    return roots;
}

// Writes the factors of a size, fours first; false: one is too large.
static bool factors_find(size_t size, struct np_passes *out_passes)
{
    out_passes->size = size;
    out_passes->factor_count = 0;
    uint32_t factor = 4;
    while (size > 1) {
        if (size % factor == 0) {
            out_passes->factors[out_passes->factor_count++] = (uint8_t)factor;
            size /= factor;
        } else if (factor == 4) {
            factor = 2;
        } else {
            factor += factor == 2 ? 1 : 2;
            if (factor > LARGEST_FACTOR) {
                return false;
            }
        }
    }
    return true;
}

// --- passes: `of` blocks of `stride` results, each of `factor` values that lie `of` * stride apart

struct pass {
    const double *roots;
    size_t size;
    size_t of;
    size_t stride;
    uint32_t factor;
};

static inline void times(double *to, double real, double imaginary, const double *root)
{
    to[0] = real * root[0] - imaginary * root[1];
    to[1] = real * root[1] + imaginary * root[0];
}

static void pass_two(const struct pass *pass, const double *from, double *to, size_t block)
{
    const double *root = pass->roots + 2 * block * pass->stride;
    const double *a = from + 2 * block * pass->stride;
    const double *b = a + 2 * pass->of * pass->stride;
    double *even = to + 4 * block * pass->stride;
    double *odd = even + 2 * pass->stride;
    for (size_t i = 0; i < 2 * pass->stride; i += 2) {
        even[i] = a[i] + b[i];
        even[i + 1] = a[i + 1] + b[i + 1];
        times(odd + i, a[i] - b[i], a[i + 1] - b[i + 1], root);
    }
}

static void pass_four(const struct pass *pass, const double *from, double *to, size_t block)
{
    const double *roots = pass->roots;
    size_t place = 2 * block * pass->stride;
    size_t apart = 2 * pass->of * pass->stride;
    const double *a = from + place;
    const double *b = a + apart;
    const double *c = b + apart;
    const double *d = c + apart;
    double *out = to + 4 * place;
    size_t step = 2 * pass->stride;
    for (size_t i = 0; i < step; i += 2) {
        double sum_ac[2] = {a[i] + c[i], a[i + 1] + c[i + 1]};
        double sum_bd[2] = {b[i] + d[i], b[i + 1] + d[i + 1]};
        double less_ac[2] = {a[i] - c[i], a[i + 1] - c[i + 1]};
        double less_bd[2] = {b[i] - d[i], b[i + 1] - d[i + 1]};
        out[i] = sum_ac[0] + sum_bd[0];
        out[i + 1] = sum_ac[1] + sum_bd[1];
        times(out + step + i, less_ac[0] + less_bd[1], less_ac[1] - less_bd[0], roots + place);
        times(out + 2 * step + i, sum_ac[0] - sum_bd[0], sum_ac[1] - sum_bd[1], roots + 2 * place);
        times(out + 3 * step + i, less_ac[0] - less_bd[1], less_ac[1] + less_bd[0],
              roots + 3 * place);
    }
}

// One result of each of `stride` groups: number `which` of `factor`.
static void pass_one_of(const struct pass *pass, const double *from, double *to, size_t which)
{
    size_t apart = 2 * pass->of * pass->stride;
    size_t part = pass->size / pass->factor;
    for (size_t i = 0; i < 2 * pass->stride; i += 2) {
        double real = 0;
        double imaginary = 0;
        for (size_t k = 0; k < pass->factor; k++) {
            const double *root = pass->roots + 2 * (which * k % pass->factor * part);
            const double *value = from + i + k * apart;
            real += value[0] * root[0] - value[1] * root[1];
            imaginary += value[0] * root[1] + value[1] * root[0];
        }
        to[i] = real;
        to[i + 1] = imaginary;
    }
}

// Each result is paid for as it is made: the last pass is one block, of all values.
static void pass_any(struct np_fourier *fourier, const struct pass *pass, const double *from,
                     double *to, size_t block)
{
    size_t place = 2 * block * pass->stride;
    for (size_t j = 0; j < pass->factor; j++) {
        double *out = to + pass->factor * place + 2 * j * pass->stride;
        const double *root = pass->roots + j * place;
        pass_one_of(pass, from + place, out, j);
        owe(fourier, pass->stride * pass->factor);
        for (size_t i = 0; i < 2 * pass->stride; i += 2) {
            times(out + i, out[i], out[i + 1], root);
        }
    }
}

static void passes_run(struct np_fourier *fourier, double *values)
{
    struct np_passes *passes = &fourier->passes;
    double *from = values;
    double *to = passes->spare;
    size_t left = passes->size;
    size_t stride = 1;
    for (uint32_t i = 0; i < passes->factor_count; i++) {
        uint32_t factor = passes->factors[i];
        left /= factor;
        struct pass pass = {passes->roots, passes->size, left, stride, factor};
        for (size_t block = 0; block < left; block++) {
            if (factor == 4) {
                pass_four(&pass, from, to, block);
            } else if (factor == 2) {
                pass_two(&pass, from, to, block);
            } else {
                pass_any(fourier, &pass, from, to, block);
            }
            owe(fourier, factor == 2 || factor == 4 ? stride * factor : 0);
        }
        stride *= factor;
        double *written = to;
        to = from;
        from = written;
    }
    if (from != values) {
        memcpy(values, from, passes->size * 2 * sizeof(double));
    }
}

// --- any size

static void passes_make(struct np_passes *passes)
{
    passes->roots = roots_new(passes->size, passes->size);
    passes->spare = pairs_new(passes->size);
}

// e to the power of -pi i k k / size for each k; k k is counted to twice the size, which is a turn.
static void chirp_make(struct np_fourier *fourier)
{
    size_t size = fourier->size;
    size_t turn = 0; // k k
    fourier->chirp = pairs_new(size);
    for (size_t k = 0; k < size; k++) {
        double angle = M_PI * ((double)turn / (double)size);
        fourier->chirp[2 * k] = cos(angle);
        fourier->chirp[2 * k + 1] = -sin(angle);
        turn = (turn + 2 * k + 1) % (2 * size);
        owe(fourier, 16);
    }
}

static void kernel_make(struct np_fourier *fourier)
{
    size_t whole = fourier->passes.size;
    fourier->kernel = pairs_new(whole);
    fourier->padded = pairs_new(whole);
    for (size_t k = 0; k < fourier->size; k++) {
        size_t mirrored = k == 0 ? 0 : whole - k;
        fourier->kernel[2 * k] = fourier->chirp[2 * k];
        fourier->kernel[2 * k + 1] = -fourier->chirp[2 * k + 1];
        fourier->kernel[2 * mirrored] = fourier->chirp[2 * k];
        fourier->kernel[2 * mirrored + 1] = -fourier->chirp[2 * k + 1];
    }
    passes_run(fourier, fourier->kernel);
}

void dev_np_fourier_make(struct np_fourier *fourier, size_t size)
{
    memset(fourier, 0, sizeof(*fourier));
    fourier->size = size;
    if (factors_find(size, &fourier->passes)) {
        passes_make(&fourier->passes);
        return;
    }
    fourier->is_chirp = true;
    chirp_make(fourier);
    size_t whole = 1;
    while (whole < 2 * size) {
        whole *= 2;
    }
    (void)factors_find(whole, &fourier->passes);
    passes_make(&fourier->passes);
    kernel_make(fourier);
}

static void chirp_run(struct np_fourier *fourier, double *values)
{
    size_t whole = fourier->passes.size;
    double *padded = fourier->padded;
    memset(padded, 0, whole * 2 * sizeof(double));
    for (size_t k = 0; k < 2 * fourier->size; k += 2) {
        times(padded + k, values[k], values[k + 1], fourier->chirp + k);
    }
    passes_run(fourier, padded);
    for (size_t k = 0; k < 2 * whole; k += 2) { // for the inverse, real and imaginary change places
        double product[2];
        times(product, padded[k], padded[k + 1], fourier->kernel + k);
        padded[k] = product[1];
        padded[k + 1] = product[0];
    }
    passes_run(fourier, padded);
    for (size_t k = 0; k < 2 * fourier->size; k += 2) {
        times(values + k, padded[k + 1] / (double)whole, padded[k] / (double)whole,
              fourier->chirp + k);
    }
    owe(fourier, 2 * whole);
}

static void places_change(double *pairs, size_t size)
{
    for (size_t k = 0; k < 2 * size; k += 2) {
        double real = pairs[k];
        pairs[k] = pairs[k + 1];
        pairs[k + 1] = real;
    }
}

void dev_np_fourier(struct np_fourier *fourier, double *values, bool is_inverse)
{
    if (is_inverse) {
        places_change(values, fourier->size);
    }
    if (fourier->is_chirp) {
        chirp_run(fourier, values);
    } else {
        passes_run(fourier, values);
    }
    if (is_inverse) {
        places_change(values, fourier->size);
    }
    owe(fourier, fourier->size);
}

// --- of real numbers

void dev_np_fourier_real_make(struct np_fourier_real *real, size_t size)
{
    bool is_even = size % 2 == 0;
    size_t pairs = is_even ? size / 2 : size;
    real->size = size;
    dev_np_fourier_make(&real->fourier, pairs);
    real->roots = is_even ? roots_new(size, pairs + 1) : NULL;
    real->pairs = pairs_new(pairs);
}

void dev_np_fourier_real(struct np_fourier_real *real, const double *values, double *out_pairs)
{
    size_t half = real->size / 2;
    double *pairs = real->pairs;
    if (real->roots == NULL) {
        for (size_t k = 0; k < real->size; k++) {
            pairs[2 * k] = values[k];
            pairs[2 * k + 1] = 0;
        }
        dev_np_fourier(&real->fourier, pairs, false);
        memcpy(out_pairs, pairs, (half + 1) * 2 * sizeof(double));
        return;
    }
    memcpy(pairs, values, real->size * sizeof(double));
    dev_np_fourier(&real->fourier, pairs, false);
    for (size_t k = 0; k <= half; k++) { // what the even ones come to, and what the odd ones do
        const double *low = pairs + 2 * (k % half);
        const double *high = pairs + 2 * ((half - k) % half);
        double even[2] = {(low[0] + high[0]) / 2, (low[1] - high[1]) / 2};
        double odd[2] = {(low[1] + high[1]) / 2, (high[0] - low[0]) / 2};
        double turned[2];
        times(turned, odd[0], odd[1], real->roots + 2 * k);
        out_pairs[2 * k] = even[0] + turned[0];
        out_pairs[2 * k + 1] = even[1] + turned[1];
    }
    owe(&real->fourier, half);
}

static void real_back_odd(struct np_fourier_real *real, const double *from, double *out)
{
    double *pairs = real->pairs;
    pairs[0] = from[0];
    pairs[1] = 0;
    for (size_t k = 1; k <= real->size / 2; k++) {
        double *mirrored = pairs + 2 * (real->size - k);
        pairs[2 * k] = from[2 * k];
        pairs[2 * k + 1] = from[2 * k + 1];
        mirrored[0] = from[2 * k];
        mirrored[1] = -from[2 * k + 1];
    }
    dev_np_fourier(&real->fourier, pairs, true);
    for (size_t k = 0; k < real->size; k++) {
        out[k] = pairs[2 * k] / (double)real->size;
    }
}

void dev_np_fourier_real_back(struct np_fourier_real *real, const double *from, double *out)
{
    if (real->roots == NULL) {
        real_back_odd(real, from, out);
        return;
    }
    size_t half = real->size / 2;
    double *pairs = real->pairs;
    for (size_t k = 0; k < half; k++) {
        const double *low = from + 2 * k;
        const double *high = from + 2 * (half - k);
        double low_imaginary = k == 0 ? 0 : low[1];
        double high_imaginary = k == 0 ? 0 : high[1];
        double even[2] = {(low[0] + high[0]) / 2, (low_imaginary - high_imaginary) / 2};
        double less[2] = {(low[0] - high[0]) / 2, (low_imaginary + high_imaginary) / 2};
        const double back[2] = {real->roots[2 * k], -real->roots[2 * k + 1]};
        double odd[2];
        times(odd, less[0], less[1], back);
        pairs[2 * k] = even[0] - odd[1];
        pairs[2 * k + 1] = even[1] + odd[0];
    }
    dev_np_fourier(&real->fourier, pairs, true);
    for (size_t k = 0; k < real->size; k++) {
        out[k] = pairs[k] / (double)half;
    }
    owe(&real->fourier, half);
}
