// walle.cv, images for scripts: what the files of the module share. Names, arguments, defaults,
// constants, the order BGR, borders and rounding are OpenCV's (docs/CV.md says where they are not).
//
// An image is an array of walle.np: rows x columns of one channel, or rows x columns x channels, of
// uint8, int32, float32 or float64. All of it runs on the VM's thread, within the run's budget:
// whoever goes through pixels pays with dev_cv_pay as it goes, after all that it needs is
// allocated. Raised are ValueError for images and values that do not fit, TypeError for what is no
// image or of no type that the function takes, and MemoryError. The module's `error` is ValueError.
#ifndef DEV_CV_H
#define DEV_CV_H

#include "vm/np/np.h"

#define CV_CHANNELS_MAX 512

// Types that a function takes, a bit each.
#define CV_U8    (1u << NP_U8)
#define CV_I32   (1u << NP_I32)
#define CV_F32   (1u << NP_F32)
#define CV_F64   (1u << NP_F64)
#define CV_REALS (CV_F32 | CV_F64)
#define CV_ALL   (CV_U8 | CV_I32 | CV_REALS)

// Rows of an argument table, of mp_arg_t.
#define CV_NEEDS(name)                                                                             \
    {                                                                                              \
        MP_QSTR_##name, MP_ARG_REQUIRED | MP_ARG_OBJ,                                              \
        {                                                                                          \
            .u_rom_obj = MP_ROM_NONE                                                               \
        }                                                                                          \
    }
#define CV_NEEDS_INT(name)                                                                         \
    {                                                                                              \
        MP_QSTR_##name, MP_ARG_REQUIRED | MP_ARG_INT,                                              \
        {                                                                                          \
            .u_int = 0                                                                             \
        }                                                                                          \
    }
#define CV_MAY(name)                                                                               \
    {                                                                                              \
        MP_QSTR_##name, MP_ARG_OBJ,                                                                \
        {                                                                                          \
            .u_rom_obj = MP_ROM_NONE                                                               \
        }                                                                                          \
    }
#define CV_MAY_INT(name, int)                                                                      \
    {                                                                                              \
        MP_QSTR_##name, MP_ARG_INT,                                                                \
        {                                                                                          \
            .u_int = int                                                                           \
        }                                                                                          \
    }
// Reads a function's arguments into `values`.
#define CV_PARSE(table)                                                                            \
    mp_arg_val_t values[MP_ARRAY_SIZE(table)];                                                     \
    mp_arg_parse_all(count, args, named, MP_ARRAY_SIZE(table), table, values)

// An image that is read. The elements of a row lie densely; rows may be apart.
struct cv_image {
    const struct np_array *array; // over the elements; copied where rows were not dense
    const uint8_t *data;
    int64_t step; // bytes from a row to the next
    int64_t rows;
    int64_t columns;
    uint32_t channels;
    enum np_type type;
};

// What lies outside of an image. The numbers are OpenCV's.
enum cv_border {
    CV_BORDER_CONSTANT = 0,
    CV_BORDER_REPLICATE = 1,
    CV_BORDER_REFLECT = 2,
    CV_BORDER_WRAP = 3,
    CV_BORDER_REFLECT_101 = 4,
    CV_BORDER_TRANSPARENT = 5,
    CV_BORDER_ISOLATED = 16 // a bit beside one of them, which changes nothing here
};

// --- cv_image.c
// An image of one of the types; int64 is taken as int32. Raises for what is none, and for one
// without pixels.
struct cv_image dev_cv_take(mp_obj_t value, uint32_t types);
struct cv_image dev_cv_take_empty(mp_obj_t value, uint32_t types); // one without pixels is fine
struct np_array *dev_cv_new(enum np_type type, int64_t rows, int64_t columns, uint32_t channels);
struct np_array *dev_cv_like(const struct cv_image *image); // of its size and type, zeros
// The same for those who write all of it before a script sees it.
struct np_array *dev_cv_room(enum np_type type, int64_t rows, int64_t columns, uint32_t channels);
struct np_array *dev_cv_room_like(const struct cv_image *image);
struct cv_image dev_cv_of(const struct np_array *made); // of dev_cv_new
// What a function gives back: `dst`, with the elements, where it is an array of this size and type;
// else `made`.
mp_obj_t dev_cv_give(mp_obj_t dst, const struct np_array *made);
bool dev_cv_same_shape(const struct cv_image *one, const struct cv_image *other);

// What is at `thing` is in memory up to here: the collector, which looks at the stack, finds an
// image's array although only its elements are used. Called behind the last use.
static inline void dev_cv_hold(const void *thing)
{
    __asm__ volatile("" : : "r"(thing) : "memory");
}

static inline const uint8_t *dev_cv_row(const struct cv_image *image, int64_t row)
{
    return image->data + row * image->step;
}

static inline size_t dev_cv_row_items(const struct cv_image *image)
{
    return (size_t)image->columns * image->channels;
}

// Elements of a row as reals, and back, rounded to even and held within the type.
void dev_cv_load(const struct cv_image *image, int64_t row, double *to);
void dev_cv_store(enum np_type type, uint8_t *to, const double *from, size_t count);
double *dev_cv_scratch(size_t count); // reals in the script's heap, zeros; raises MemoryError

// Counts work; raises where the budget is used up. `owed` is what was not counted yet.
void dev_cv_pay(size_t *owed, size_t elements);

// --- cv_value.c
_Noreturn void dev_cv_bad(const char *why);                // ValueError
_Noreturn void dev_cv_bad_type(const char *why);           // TypeError
double dev_cv_real(mp_obj_t value, double otherwise);      // None: otherwise
mp_int_t dev_cv_int(mp_obj_t value, mp_int_t otherwise);   // None: otherwise
void dev_cv_scalar(mp_obj_t value, double out_numbers[4]); // a number or up to four; None: zeros
void dev_cv_pair(mp_obj_t value, int64_t out_two[2]);      // a Size or a Point: (x, y)
// The type behind a depth of OpenCV (CV_8U, ...); negative: `own`. Raises ValueError.
enum np_type dev_cv_depth(mp_int_t depth, enum np_type own);
// Where an index outside of 0 to size-1 is found; -1: nowhere, it is the constant.
int64_t dev_cv_border_at(int64_t at, int64_t size, enum cv_border border);
enum cv_border dev_cv_border_parse(mp_int_t border); // raises for none of the first five
// A matrix of numbers, densely, as reals; raises ValueError where it has another size.
void dev_cv_matrix(mp_obj_t value, int64_t rows, int64_t columns, double *out_numbers);

#endif
