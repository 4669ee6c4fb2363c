// imdecode and imencode of walle.cv: between bytes of a file and an image. There are no files on a
// device, so there is no imread. The image is allocated in the script's heap when its size is known
// and before a pixel is read. Called by scripts, on the VM's thread.
#include "vm/cv/cv_codec.h"

#include "vm/cv/cv_calls.h"

#include "py/objstr.h"

#include <string.h>

#define OUT_SPARE 4096

// Whether the run may go on: the codecs ask, and leave; nothing is raised while they work.
struct pace {
    size_t owed;
    bool is_over;
};

static bool pace_go(void *ctx, size_t elements)
{
    struct pace *pace = ctx;
    pace->owed += elements;
    if (pace->owed >= NP_CHUNK && !pace->is_over) {
        pace->is_over = dev_vm_budget_charge(pace->owed / DEV_VM_WORK_PER_UNIT);
        pace->owed = 0;
    }
    return !pace->is_over;
}

static _Noreturn void raise_codec(const struct cv_codec *codec, const struct pace *pace)
{
    if (pace->is_over) {
        dev_vm_over_budget();
    }
    dev_cv_bad(codec->why);
}

// imdecode(buf, flags): BGR by IMREAD_COLOR, gray by IMREAD_GRAYSCALE, BGRA too by IMREAD_UNCHANGED
static mp_obj_t imdecode(mp_obj_t buf, mp_obj_t flags)
{
    mp_int_t how = mp_obj_get_int(flags);
    if (how < CV_READ_UNCHANGED || how > CV_READ_COLOR) {
        dev_cv_bad("imdecode by IMREAD_UNCHANGED, IMREAD_GRAYSCALE or IMREAD_COLOR");
    }
    const struct np_array *bytes = dev_np_dense(dev_np_of(buf));
    if (bytes->type != NP_U8 || bytes->size == 0) {
        dev_cv_bad("imdecode: the bytes of a file are uint8, and not none");
    }
    struct pace pace = {0, false};
    struct cv_codec codec = {.bytes = bytes->data,
                             .size = bytes->size,
                             .go = pace_go,
                             .ctx = &pace,
                             .memory_bytes = dev_vm_current->heap_bytes};
    bool is_jpeg = dev_cv_is_jpeg(codec.bytes, codec.size);
    if (!is_jpeg && !dev_cv_is_png(codec.bytes, codec.size)) {
        dev_cv_bad("imdecode: the bytes are neither of a JPEG nor of a PNG");
    }
    struct cv_pixels pixels;
    if (!(is_jpeg ? dev_cv_jpeg_head : dev_cv_png_head)(&codec, (enum cv_read)how, &pixels)) {
        raise_codec(&codec, &pace);
    }
    struct np_array *made = dev_cv_new(NP_U8, pixels.rows, pixels.columns, pixels.channels);
    pixels.at = made->data;
    pixels.step = (size_t)pixels.columns * pixels.channels;
    if (!(is_jpeg ? dev_cv_jpeg_read : dev_cv_png_read)(&codec, &pixels)) {
        raise_codec(&codec, &pace);
    }
    dev_cv_hold(bytes);
    dev_np_pay(pace.owed);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_cv_imdecode_obj, imdecode);

enum kind { KIND_JPEG, KIND_PNG, KINDS };

// By the ending of a file's name, in either case.
static enum kind kind_of(const char *name)
{
    static const struct {
        char text[6];
        uint8_t kind;
    } endings[] = {{".jpg", KIND_JPEG}, {".jpeg", KIND_JPEG}, {".png", KIND_PNG}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < MP_ARRAY_SIZE(endings); i++) {
        if (strcasecmp(dot, endings[i].text) == 0) {
            return (enum kind)endings[i].kind;
        }
    }
    return KINDS;
}

// The value behind a key of (key, value, key, value, ...).
static int parameter_of(mp_obj_t params, mp_int_t key, int otherwise, int most)
{
    if (params == mp_const_none) {
        return otherwise;
    }
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(params, &size, &items);
    mp_int_t found = otherwise;
    for (size_t i = 0; i + 1 < size; i += 2) {
        found = mp_obj_get_int(items[i]) == key ? mp_obj_get_int(items[i + 1]) : found;
        dev_vm_step();
    }
    return (int)(found < 0 ? 0 : found > most ? most : found);
}

struct encoding {
    enum kind kind;
    int level;
    struct cv_pixels pixels;
    struct pace pace;
};

// Writes to an array of so many bytes; gives how many the file has.
static size_t encoded(struct encoding *encoding, const struct np_array *to)
{
    struct cv_codec codec = {.out = to->data,
                             .out_size = to->size,
                             .go = pace_go,
                             .ctx = &encoding->pace,
                             .memory_bytes = dev_vm_current->heap_bytes};
    size_t size = 0;
    bool good = encoding->kind == KIND_JPEG
                    ? dev_cv_jpeg_write(&codec, &encoding->pixels, encoding->level, &size)
                    : dev_cv_png_write(&codec, &encoding->pixels, encoding->level, &size);
    if (!good) {
        raise_codec(&codec, &encoding->pace);
    }
    return size;
}

// imencode(ext, img[, params]): (True, bytes as uint8)
static mp_obj_t imencode(size_t count, const mp_obj_t *args)
{
    enum { JPEG_QUALITY = 1, PNG_COMPRESSION = 16 };
    struct encoding encoding = {.kind = kind_of(mp_obj_str_get_str(args[0]))};
    struct cv_image image = dev_cv_take(args[1], CV_U8);
    mp_obj_t params = count > 2 ? args[2] : mp_const_none;
    if (encoding.kind == KINDS) {
        dev_cv_bad("imencode to .jpg, .jpeg or .png");
    }
    if ((image.channels != 1 && image.channels != 3 && image.channels != 4) ||
        image.rows > CV_SIDE_MAX || image.columns > CV_SIDE_MAX) {
        dev_cv_bad("imencode of 1, 3 or 4 channels, and at most 32767 pixels on each side");
    }
    encoding.level = encoding.kind == KIND_JPEG ? parameter_of(params, JPEG_QUALITY, 95, 100)
                                                : parameter_of(params, PNG_COMPRESSION, 1, 9);
    const struct np_array *dense = dev_np_dense(image.array);
    encoding.pixels = (struct cv_pixels){(uint32_t)image.rows, (uint32_t)image.columns,
                                         image.channels, dense->data, dev_cv_row_items(&image)};
    int64_t room = (int64_t)dense->size / 2 + OUT_SPARE;
    struct np_array *made = dev_np_new(NP_U8, 1, &room);
    int64_t size = (int64_t)encoded(&encoding, made);
    if (size > room) { // once more, with the room that it takes
        made = dev_np_new(NP_U8, 1, &size);
        (void)encoded(&encoding, made);
    }
    dev_cv_hold(dense);
    dev_np_pay(encoding.pace.owed);
    made->dims[0] = size;
    made->size = (size_t)size;
    mp_obj_t both[] = {mp_const_true, MP_OBJ_FROM_PTR(dev_np_cast(made, NP_U8))};
    return mp_obj_new_tuple(2, both);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(dev_cv_imencode_obj, 2, 3, imencode);

// haveImageReader(filename), haveImageWriter(filename): is there a codec for files of this name?
static mp_obj_t have_image(mp_obj_t filename)
{
    return mp_obj_new_bool(kind_of(mp_obj_str_get_str(filename)) != KINDS);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_cv_haveImageReader_obj, have_image);
MP_DEFINE_CONST_FUN_OBJ_1(dev_cv_haveImageWriter_obj, have_image);
