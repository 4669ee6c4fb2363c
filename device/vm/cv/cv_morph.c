// Functions of walle.cv that take the least or the largest around each place: dilate, erode and
// what is made of them. Pixels are read and written as in cv_image.c. Called by scripts, on the
// VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_filter.h"
#include "vm/cv/rows/cv_filter_rows.h"
#include "vm/np/np_wide.h"

#include <float.h>

#define TIMES_MAX 1024

enum { ERODE, DILATE, OPEN, CLOSE, GRADIENT, TOPHAT, BLACKHAT };

// What both calls take behind the kernel.
struct morph {
    struct cv_kernel kernel; // a rectangle: of all times together
    int64_t anchor_x;
    int64_t anchor_y;
    mp_int_t times;
    enum cv_border border;
    double around[4];
    bool has_around; // else nothing outside counts
};

// The kernel and its anchor. A rectangle becomes one of all times at once, and the anchor with it.
static void shape_take(struct morph *morph, mp_obj_t value, mp_obj_t anchor)
{
    static const double ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct cv_filter filter = {.kernel = {.rows = 3, .columns = 3, .numbers = ones}};
    struct cv_kernel *kernel = &filter.kernel;
    if (value != mp_const_none) {
        *kernel = dev_cv_kernel_take(value);
    }
    dev_cv_anchor(&filter, anchor);
    int64_t places = kernel->rows * kernel->columns;
    int64_t set = 0;
    for (int64_t i = 0; i < places; i++) {
        set += kernel->numbers[i] != 0;
    }
    if (set == 0 && places > 1) {
        dev_cv_bad("a kernel without a place");
    }
    if (set == places || places == 1) { // one place is the pixel itself, whatever its number
        int64_t more = morph->times > 1 ? morph->times - 1 : 0;
        kernel->rows += more * (kernel->rows - 1);
        kernel->columns += more * (kernel->columns - 1);
        filter.anchor_x *= more + 1;
        filter.anchor_y *= more + 1;
        int64_t most = kernel->rows > kernel->columns ? kernel->rows : kernel->columns;
        double *side = dev_cv_scratch((size_t)most);
        for (int64_t i = 0; i < most; i++) {
            side[i] = 1;
        }
        kernel->numbers = NULL;
        kernel->down = side;
        kernel->across = side;
        morph->times = morph->times > 1 ? 1 : morph->times;
    }
    morph->kernel = *kernel;
    morph->anchor_x = filter.anchor_x;
    morph->anchor_y = filter.anchor_y;
}

// What does not count: further than any number of the type.
static double beyond(enum np_type type, bool is_least)
{
    double most = type == NP_F32 ? (double)FLT_MAX : DBL_MAX;
    return is_least ? most : -most;
}

static struct np_array *copied(const struct cv_image *src)
{
    struct np_array *made = dev_cv_room_like(src);
    struct np_array *shaped = dev_np_view(src->array);
    shaped->rank = made->rank;
    shaped->dims[1] = src->columns;
    dev_np_fill(made, shaped);
    return made;
}

// Filters once more what was made here: where it lies, unless a border reads rows again that were
// written by then.
static struct np_array *once_more(struct cv_filter *filter, struct np_array *made)
{
    filter->from = dev_cv_of(made);
    bool is_read_once =
        filter->border == CV_BORDER_CONSTANT || filter->border == CV_BORDER_REPLICATE;
    return is_read_once && dev_cv_filter_typed(filter, made) ? made : dev_cv_filtered(filter);
}

// Of an image, or of what was made here, which may be written over.
static struct np_array *morphed(const struct cv_image *src, struct np_array *own,
                                const struct morph *morph, bool is_least)
{
    struct cv_filter filter = {
        .kernel = morph->kernel, .scale = 1, .depth = -1, .border = morph->border};
    filter.from = own != NULL ? dev_cv_of(own) : *src;
    filter.how = is_least ? CV_FILTER_LEAST : CV_FILTER_LARGEST;
    filter.anchor_x = morph->anchor_x;
    filter.anchor_y = morph->anchor_y;
    for (int c = 0; c < 4; c++) {
        filter.around[c] =
            morph->has_around ? morph->around[c] : beyond(filter.from.type, is_least);
    }
    if (morph->times == 0) {
        return own != NULL ? own : copied(src);
    }
    struct np_array *made = own != NULL ? once_more(&filter, own) : dev_cv_filtered(&filter);
    for (mp_int_t i = 1; i < morph->times; i++) {
        made = once_more(&filter, made);
    }
    return made;
}

static struct np_array *less(const struct cv_image *one, const struct cv_image *other)
{
    const struct cv_finish_rows *loops = NP_CHOSEN(dev_cv_finish_rows);
    struct np_array *made = dev_cv_room_like(one);
    struct cv_image to = dev_cv_of(made);
    size_t items = dev_cv_row_items(one);
    bool is_byte = one->type == NP_U8;
    double *first = is_byte ? NULL : dev_cv_scratch(items);
    double *second = is_byte ? NULL : dev_cv_scratch(items);
    size_t owed = 0;
    for (int64_t row = 0; row < one->rows; row++) {
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(&to, row);
        dev_cv_pay(&owed, items * 2);
        if (is_byte) {
            loops->less_u8(out, dev_cv_row(one, row), dev_cv_row(other, row), items);
            continue;
        }
        dev_cv_load(one, row, first);
        dev_cv_load(other, row, second);
        for (size_t i = 0; i < items; i++) {
            first[i] -= second[i];
        }
        dev_cv_store(to.type, out, first, items);
    }
    return made;
}

static struct np_array *operated(mp_int_t op, const struct cv_image *src, const struct morph *morph)
{
    switch (op) {
    case ERODE:
    case DILATE:
        return morphed(src, NULL, morph, op == ERODE);
    case OPEN:
    case CLOSE:
        return morphed(NULL, morphed(src, NULL, morph, op == OPEN), morph, op != OPEN);
    case GRADIENT: {
        struct cv_image most = dev_cv_of(morphed(src, NULL, morph, false));
        struct cv_image least = dev_cv_of(morphed(src, NULL, morph, true));
        return less(&most, &least);
    }
    case TOPHAT: {
        struct cv_image opened = dev_cv_of(operated(OPEN, src, morph));
        return less(src, &opened);
    }
    case BLACKHAT: {
        struct cv_image closed = dev_cv_of(operated(CLOSE, src, morph));
        return less(&closed, src);
    }
    default:
        dev_cv_bad("an operation is MORPH_ERODE to MORPH_BLACKHAT");
    }
}

static mp_obj_t morph_call(mp_int_t op, const mp_arg_val_t *values)
{
    enum { SRC, KERNEL, DST, ANCHOR, TIMES, BORDER, VALUE };
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_U8 | CV_REALS);
    struct morph morph = {.times = values[TIMES].u_int};
    if (morph.times < 0 || morph.times > TIMES_MAX) {
        dev_cv_bad("iterations are 0 to 1024");
    }
    morph.border = dev_cv_filter_border(values[BORDER].u_int);
    morph.has_around = values[VALUE].u_obj != mp_const_none;
    dev_cv_scalar(values[VALUE].u_obj, morph.around);
    shape_take(&morph, values[KERNEL].u_obj, values[ANCHOR].u_obj);
    struct np_array *made = operated(op, &src, &morph);
    dev_cv_hold(&src);
    return dev_cv_give(values[DST].u_obj, made);
}

#define MORPH_TABLE                                                                                \
    CV_NEEDS(kernel), CV_MAY(dst), CV_MAY(anchor), CV_MAY_INT(iterations, 1),                      \
        CV_MAY_INT(borderType, CV_BORDER_CONSTANT), CV_MAY(borderValue)

// dilate(src, kernel[, dst[, anchor[, iterations[, borderType[, borderValue]]]]]), erode(...)
static mp_obj_t dilate(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    static const mp_arg_t table[] = {CV_NEEDS(src), MORPH_TABLE};
    CV_PARSE(table);
    return morph_call(DILATE, values);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_dilate_obj, 2, dilate);

static mp_obj_t erode(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    static const mp_arg_t table[] = {CV_NEEDS(src), MORPH_TABLE};
    CV_PARSE(table);
    return morph_call(ERODE, values);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_erode_obj, 2, erode);

// morphologyEx(src, op, kernel[, dst[, anchor[, iterations[, borderType[, borderValue]]]]])
static mp_obj_t morphology_ex(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_NEEDS_INT(op), MORPH_TABLE};
    CV_PARSE(table);
    mp_int_t op = values[1].u_int;
    values[1] = values[0];
    return morph_call(op, values + 1);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_morphologyEx_obj, 3, morphology_ex);
