// Sampling of images at real positions: grid sampling, region-of-interest align and pooling.
// Images are PLAIN [N, C, H, W]; grids also sample volumes [N, C, D, H, W].
// Reference kernels; run on the session's thread.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "backend/run_watch.h"
#include "base/check.h"

#include <math.h>

struct image {
    enum eng_dtype dtype;
    const void *data;
    int64_t first, height, width; // first: of one channel
};

static double pixel(const struct image *image, int64_t row, int64_t column)
{
    return eng_ref_load(image->dtype, image->data, image->first + row * image->width + column);
}

// --- grid sampling ----------------------------------------------------------------------------

enum { SAMPLE_BILINEAR, SAMPLE_NEAREST, SAMPLE_BICUBIC };
enum { PADDING_ZEROS, PADDING_BORDER, PADDING_REFLECTION };

// Folds x back into [low, high].
static double reflect(double value, double low, double high)
{
    double span = high - low;
    if (span <= 0 || !isfinite(value)) {
        return low;
    }
    double distance = fabs(value - low), rest = fmod(distance, span);
    bool is_odd = fmod(floor(distance / span), 2) != 0;
    return is_odd ? high - rest : low + rest;
}

// Where position x of a row of `size` elements is read after padding.
static double padded(const struct eng_grid_sample *grid, double value, int64_t size)
{
    double last = (double)size - 1;
    if (grid->padding == PADDING_ZEROS) {
        return value;
    }
    if (grid->padding == PADDING_REFLECTION) {
        value = grid->align_corners ? reflect(value, 0, last) : reflect(value, -0.5, last + 0.5);
    }
    return value > 0 ? (value < last ? value : last) : 0; // NaN: 0
}

// A whole position; 0 outside.
static double at_whole(const struct image *image, double row, double column)
{
    if (!(row >= 0 && column >= 0 && row < (double)image->height &&
          column < (double)image->width)) {
        return 0;
    }
    return pixel(image, (int64_t)row, (int64_t)column);
}

static double bilinear(const struct image *image, double row, double column)
{
    double top = floor(row), left = floor(column), dy = row - top, dx = column - left;
    return (1 - dy) *
               ((1 - dx) * at_whole(image, top, left) + dx * at_whole(image, top, left + 1)) +
           dy * ((1 - dx) * at_whole(image, top + 1, left) +
                 dx * at_whole(image, top + 1, left + 1));
}

static double cubic(double distance)
{
    const double a = -0.75;
    double d = fabs(distance);
    if (d <= 1) {
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    }
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static double bicubic(const struct eng_grid_sample *grid, const struct image *image, double row,
                      double column)
{
    double sum = 0, top = floor(row) - 1, left = floor(column) - 1;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            double py = padded(grid, top + i, image->height);
            double px = padded(grid, left + j, image->width);
            sum += cubic(row - top - i) * cubic(column - left - j) *
                   at_whole(image, nearbyint(py), nearbyint(px));
        }
    }
    return sum;
}

// Where coordinate x in -1..1 lies in a row of `size` elements.
static double place_of(const struct eng_grid_sample *grid, double value, int64_t size)
{
    double n = (double)size;
    return grid->align_corners ? (value + 1) / 2 * (n - 1) : ((value + 1) * n - 1) / 2;
}

// At padded positions of one image.
static double in_plane(const struct eng_grid_sample *grid, const struct image *image, double row,
                       double column)
{
    return grid->mode == SAMPLE_NEAREST ? at_whole(image, nearbyint(row), nearbyint(column))
                                        : bilinear(image, row, column);
}

static double sample(const struct eng_grid_sample *grid, const struct image *image, double row,
                     double column)
{
    row = place_of(grid, row, image->height);
    column = place_of(grid, column, image->width);
    if (grid->mode == SAMPLE_BICUBIC) {
        return bicubic(grid, image, row, column);
    }
    return in_plane(grid, image, padded(grid, row, image->height),
                    padded(grid, column, image->width));
}

// A volume is `depth` images that follow each other; `at` is x, y, z.
static double sample_volume(const struct eng_grid_sample *grid, const struct image *first,
                            int64_t depth, const double *at)
{
    double x = padded(grid, place_of(grid, at[0], first->width), first->width);
    double y = padded(grid, place_of(grid, at[1], first->height), first->height);
    double z = padded(grid, place_of(grid, at[2], depth), depth), sum = 0;
    double near = grid->mode == SAMPLE_NEAREST ? nearbyint(z) : floor(z);
    for (int i = 0; i < (grid->mode == SAMPLE_NEAREST ? 1 : 2); i++) {
        double plane = near + i;
        double weight = grid->mode == SAMPLE_NEAREST ? 1 : 1 - fabs(z - plane);
        if (plane >= 0 && plane < (double)depth && weight != 0) {
            struct image image = *first;
            image.first += (int64_t)plane * image.height * image.width;
            sum += weight * in_plane(grid, &image, y, x);
        }
    }
    return sum;
}

static enum base_status run_grid_sample(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_grid_sample *params = &step->command->u.grid_sample;
    const struct eng_desc *in = &eng_ref_in_tensor(step, 0)->desc;
    const struct eng_desc *out = &eng_ref_out_tensor(step, 0)->desc;
    base_assert((in->rank == 4 || in->rank == 5) && out->rank == in->rank);
    struct image image = {.dtype = in->dtype,
                          .data = eng_ref_in(step, run, 0),
                          .height = in->dims[in->rank - 2],
                          .width = in->dims[in->rank - 1]};
    const void *grid = eng_ref_in(step, run, 1);
    enum eng_dtype grid_type = eng_ref_in_type(step, 1);
    int64_t spatial = (int64_t)in->rank - 2, places = 1;
    int64_t depth = spatial == 3 ? in->dims[2] : 1;
    for (uint32_t d = 2; d < out->rank; d++) {
        places *= out->dims[d];
    }
    for (int64_t i = 0; i < eng_desc_count(out); i++) {
        int64_t nc = i / places, place = nc / out->dims[1] * places + i % places;
        double at[3] = {0};
        for (int64_t k = 0; k < spatial; k++) {
            at[k] = eng_ref_load(grid_type, grid, spatial * place + k);
        }
        image.first = nc * depth * image.height * image.width;
        eng_ref_store(out->dtype, eng_ref_out(step, run, 0), i,
                      spatial == 3 ? sample_volume(params, &image, depth, at)
                                   : sample(params, &image, at[1], at[0]));
    }
    return BASE_OK;
}

// --- region of interest: align ----------------------------------------------------------------

struct roi {
    double top, left, bin_height, bin_width;
    int64_t grid_height, grid_width;
};

#define ROI_GRID_MAX 4096  // samples along one side of a bin
#define ROI_LOOK     65536 // samples from one look whether to go on to the next

// Boxes are inputs, and say how many samples there are.
struct align_run {
    const struct eng_roi_align *align;
    const struct eng_run *run;
    struct image image;
    int64_t unlooked; // samples taken since the last look
};

static struct roi roi_of(const struct eng_roi_align *align, enum eng_dtype dtype, const void *rois,
                         int64_t index)
{
    base_assert(align->height > 0 && align->width > 0);
    double box[4], offset = align->half_pixel ? 0.5 : 0;
    for (int64_t i = 0; i < 4; i++) {
        box[i] = eng_ref_load(dtype, rois, index * 4 + i) * (double)align->scale - offset;
    }
    double width = box[2] - box[0], height = box[3] - box[1];
    if (!align->half_pixel) { // boxes of no size become one pixel
        width = width > 1 ? width : 1;
        height = height > 1 ? height : 1;
    }
    struct roi roi = {.top = box[1],
                      .left = box[0],
                      .bin_height = height / (double)align->height,
                      .bin_width = width / (double)align->width,
                      .grid_height = align->sampling_ratio,
                      .grid_width = align->sampling_ratio};
    if (align->sampling_ratio <= 0) {
        roi.grid_height = eng_ref_to_i64(ceil(roi.bin_height));
        roi.grid_width = eng_ref_to_i64(ceil(roi.bin_width));
    }
    roi.grid_height = eng_ref_clamp(roi.grid_height, 0, ROI_GRID_MAX);
    roi.grid_width = eng_ref_clamp(roi.grid_width, 0, ROI_GRID_MAX);
    return roi;
}

// One sample; *out_most is the largest of its four weighted neighbours.
static double align_sample(const struct image *image, double row, double column, double *out_most)
{
    double h = (double)image->height, w = (double)image->width;
    *out_most = 0;
    if (!(row >= -1 && row <= h && column >= -1 && column <= w)) {
        return 0;
    }
    row = row > 0 ? (row < h - 1 ? row : h - 1) : 0;
    column = column > 0 ? (column < w - 1 ? column : w - 1) : 0;
    int64_t top = (int64_t)row, left = (int64_t)column;
    int64_t bottom = top + 1 < image->height ? top + 1 : top;
    int64_t right = left + 1 < image->width ? left + 1 : left;
    double dy = row - (double)top, dx = column - (double)left;
    double parts[4] = {
        (1 - dy) * (1 - dx) * pixel(image, top, left), (1 - dy) * dx * pixel(image, top, right),
        dy * (1 - dx) * pixel(image, bottom, left), dy * dx * pixel(image, bottom, right)};
    *out_most = fmax(fmax(parts[0], parts[1]), fmax(parts[2], parts[3]));
    return parts[0] + parts[1] + parts[2] + parts[3];
}

// Before so many are taken. TIMEOUT: the run is over.
static enum base_status align_look(struct align_run *all, int64_t count)
{
    all->unlooked += count;
    if (all->unlooked < ROI_LOOK) {
        return BASE_OK;
    }
    all->unlooked = 0;
    return eng_watch_look(all->run->watch, all->run->error);
}

static enum base_status align_bin(struct align_run *all, const struct roi *roi, int64_t bin,
                                  double *out)
{
    const struct eng_roi_align *align = all->align;
    double sum = 0, most = 0;
    double row = (double)(bin / align->width), column = (double)(bin % align->width);
    int64_t count = roi->grid_height * roi->grid_width;
    for (int64_t i = 0; i < count; i++) {
        double part = 0;
        if (i % roi->grid_width == 0) {
            BASE_TRY(align_look(all, roi->grid_width));
        }
        double iy = (double)(i / roi->grid_width) + 0.5, ix = (double)(i % roi->grid_width) + 0.5;
        double y = roi->top + (row + iy / (double)roi->grid_height) * roi->bin_height;
        double x = roi->left + (column + ix / (double)roi->grid_width) * roi->bin_width;
        sum += align_sample(&all->image, y, x, &part);
        most = i == 0 || part > most ? part : most;
    }
    *out = align->is_max ? most : sum / (double)(count > 0 ? count : 1);
    return BASE_OK;
}

// Inputs: x [N, C, H, W], rois [R, 4], batch indices [R].
static enum base_status run_roi_align(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_roi_align *align = &step->command->u.roi_align;
    const struct eng_desc *in = &eng_ref_in_tensor(step, 0)->desc;
    base_assert(in->rank == 4);
    int64_t rois = eng_ref_out_tensor(step, 0)->desc.dims[0], channels = in->dims[1];
    int64_t area = align->height * align->width;
    struct align_run all = {.align = align,
                            .run = run,
                            .image = {.dtype = in->dtype,
                                      .data = eng_ref_in(step, run, 0),
                                      .height = in->dims[2],
                                      .width = in->dims[3]}};
    for (int64_t r = 0; r < rois; r++) {
        int64_t batch = eng_ref_load_int(eng_ref_in_type(step, 2), eng_ref_in(step, run, 2), r);
        if (batch < 0 || batch >= in->dims[0]) {
            return base_error_set(run->error, BASE_ERR_INVALID,
                                  "roi_align: batch index %lld is outside 0..%lld",
                                  (long long)batch, (long long)in->dims[0] - 1);
        }
        struct roi roi = roi_of(align, eng_ref_in_type(step, 1), eng_ref_in(step, run, 1), r);
        for (int64_t i = 0; i < channels * area; i++) {
            int64_t c = i / area, bin = i % area;
            double value = 0;
            all.image.first = (batch * channels + c) * in->dims[2] * in->dims[3];
            BASE_TRY(align_bin(&all, &roi, bin, &value));
            eng_ref_store(eng_ref_out_type(step, 0), eng_ref_out(step, run, 0),
                          r * channels * area + i, value);
        }
    }
    return BASE_OK;
}

// --- region of interest: max pooling ----------------------------------------------------------

// One side of a box, [begin, begin + size), in bins; what is outside [0, limit) is cut off.
struct bins {
    double begin, size;
    int64_t count, limit;
};

static void bin_range(const struct bins *bins, int64_t index, int64_t *out_from, int64_t *out_to)
{
    base_assert(index >= 0 && index < bins->count);
    double width = bins->size / (double)bins->count, begin = bins->begin;
    *out_from = eng_ref_clamp(eng_ref_to_i64(floor((double)index * width) + begin), 0, bins->limit);
    *out_to =
        eng_ref_clamp(eng_ref_to_i64(ceil((double)(index + 1) * width) + begin), 0, bins->limit);
}

// box: top-left and bottom-right corner, whole pixels, both inside.
static double pool_bin(const struct eng_roi_pool *pool, const double *box,
                       const struct image *image, int64_t bin)
{
    int64_t top = 0, bottom = 0, left = 0, right = 0;
    double best = 0;
    struct bins rows = {box[1], fmax(box[3] - box[1] + 1, 1), pool->height, image->height};
    struct bins columns = {box[0], fmax(box[2] - box[0] + 1, 1), pool->width, image->width};
    bin_range(&rows, bin / pool->width, &top, &bottom);
    bin_range(&columns, bin % pool->width, &left, &right);
    for (int64_t y = top; y < bottom; y++) {
        for (int64_t x = left; x < right; x++) {
            double value = pixel(image, y, x);
            best = (y == top && x == left) || value > best ? value : best;
        }
    }
    return best;
}

// Inputs: x [N, C, H, W], rois [R, 5]: batch index and the box.
static enum base_status run_roi_pool(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_roi_pool *pool = &step->command->u.roi_pool;
    const struct eng_desc *in = &eng_ref_in_tensor(step, 0)->desc;
    int64_t rois = eng_ref_out_tensor(step, 0)->desc.dims[0], channels = in->dims[1];
    int64_t area = pool->height * pool->width;
    base_assert(in->rank == 4);
    struct image image = {.dtype = in->dtype,
                          .data = eng_ref_in(step, run, 0),
                          .height = in->dims[2],
                          .width = in->dims[3]};
    for (int64_t r = 0; r < rois; r++) {
        double box[4];
        for (int64_t i = 0; i < 4; i++) {
            box[i] = round(
                eng_ref_load(eng_ref_in_type(step, 1), eng_ref_in(step, run, 1), r * 5 + 1 + i) *
                (double)pool->scale);
        }
        double batch = eng_ref_load(eng_ref_in_type(step, 1), eng_ref_in(step, run, 1), r * 5);
        if (!(batch >= 0 && batch < (double)in->dims[0])) {
            return base_error_set(run->error, BASE_ERR_INVALID,
                                  "roi_pool: batch index %g is outside 0..%lld", batch,
                                  (long long)in->dims[0] - 1);
        }
        for (int64_t i = 0; i < channels * area; i++) {
            image.first = ((int64_t)batch * channels + i / area) * image.height * image.width;
            eng_ref_store(eng_ref_out_type(step, 0), eng_ref_out(step, run, 0),
                          r * channels * area + i, pool_bin(pool, box, &image, i % area));
        }
    }
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_vision[] = {
    {ENG_OP_GRID_SAMPLE, ENG_REF_FLOATS, run_grid_sample, NULL},
    {ENG_OP_ROI_ALIGN, ENG_REF_FLOATS, run_roi_align, NULL},
    {ENG_OP_ROI_POOL, ENG_REF_FLOATS, run_roi_pool, NULL},
    {.run = NULL},
};
