// cvtColor of walle.cv: rows of pixels from one space of colours to another. Of uint8 it computes
// in whole numbers with as many bits behind the point as OpenCV, or in reals where OpenCV does; of
// float32 in reals. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/rows/cv_color_rows.h"

#include <float.h>
#include <math.h>

// What a code does: from how many channels to how many, which of them is blue, and by which rows.
struct conversion {
    uint8_t code;
    uint8_t from;
    uint8_t to;
    uint8_t blue; // 0 or 2, on the side that has colours
    uint8_t way;  // enum cv_color_way
    double hues;  // of uint8: how many there are
};

static const struct conversion conversions[] = {
    {0, 3, 4, 0, CV_WAY_REORDER, 0},  {1, 4, 3, 0, CV_WAY_REORDER, 0},
    {2, 3, 4, 2, CV_WAY_REORDER, 0},  {3, 4, 3, 2, CV_WAY_REORDER, 0},
    {4, 3, 3, 2, CV_WAY_REORDER, 0},  {5, 4, 4, 2, CV_WAY_REORDER, 0},
    {6, 3, 1, 0, CV_WAY_GRAY, 0},     {7, 3, 1, 2, CV_WAY_GRAY, 0},
    {8, 1, 3, 0, CV_WAY_UNGRAY, 0},   {9, 1, 4, 0, CV_WAY_UNGRAY, 0},
    {10, 4, 1, 0, CV_WAY_GRAY, 0},    {11, 4, 1, 2, CV_WAY_GRAY, 0},
    {36, 3, 3, 0, CV_WAY_YCRCB, 0},   {37, 3, 3, 2, CV_WAY_YCRCB, 0},
    {38, 3, 3, 0, CV_WAY_UNYCRCB, 0}, {39, 3, 3, 2, CV_WAY_UNYCRCB, 0},
    {40, 3, 3, 0, CV_WAY_HSV, 180},   {41, 3, 3, 2, CV_WAY_HSV, 180},
    {52, 3, 3, 0, CV_WAY_HLS, 180},   {53, 3, 3, 2, CV_WAY_HLS, 180},
    {54, 3, 3, 0, CV_WAY_UNHSV, 180}, {55, 3, 3, 2, CV_WAY_UNHSV, 180},
    {60, 3, 3, 0, CV_WAY_UNHLS, 180}, {61, 3, 3, 2, CV_WAY_UNHLS, 180},
    {66, 3, 3, 0, CV_WAY_HSV, 256},   {67, 3, 3, 2, CV_WAY_HSV, 256},
    {70, 3, 3, 0, CV_WAY_UNHSV, 255}, {71, 3, 3, 2, CV_WAY_UNHSV, 255},
    {82, 3, 3, 0, CV_WAY_YUV, 0},     {83, 3, 3, 2, CV_WAY_YUV, 0},
    {84, 3, 3, 0, CV_WAY_UNYUV, 0},   {85, 3, 3, 2, CV_WAY_UNYUV, 0},
};

static const struct conversion *conversion_of(mp_int_t code)
{
    for (size_t i = 0; i < MP_ARRAY_SIZE(conversions); i++) {
        if (conversions[i].code == code) {
            return &conversions[i];
        }
    }
    dev_cv_bad("no such conversion of colours, or none that is there");
}

// A picture of a camera: a plane of lightness, and colours for every four of its pixels.
struct planes {
    const struct cv_image *light;
    const uint8_t *u; // of the first row
    const uint8_t *v;
    int64_t step;    // bytes to the next row of colours; 0: rows follow one another in halves
    int64_t columns; // of the light
    uint8_t apart;   // bytes from a colour to the next
    uint8_t blue;
};

static uint8_t held(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

// BT.601 with 20 bits behind the point.
static void plane_row(const struct planes *planes, const uint8_t *light, int64_t row, uint8_t *to)
{
    const int64_t at = row / 2 * planes->step;
    for (int64_t x = 0; x < planes->columns; x++, to += 3) {
        int32_t u = planes->u[at + x / 2 * planes->apart] - 128;
        int32_t v = planes->v[at + x / 2 * planes->apart] - 128;
        int32_t y = (light[x] > 16 ? light[x] - 16 : 0) * 1220542;
        to[planes->blue] = held((y + 2116026 * u + (1 << 19)) >> 20);
        to[1] = held((y - 852492 * v - 409993 * u + (1 << 19)) >> 20);
        to[planes->blue ^ 2] = held((y + 1673527 * v + (1 << 19)) >> 20);
    }
}

static struct np_array *of_planes(const struct planes *planes, int64_t rows)
{
    struct np_array *made = dev_cv_room(NP_U8, rows, planes->columns, 3);
    struct cv_image to = dev_cv_of(made);
    size_t owed = 0;
    for (int64_t row = 0; row < rows; row++) {
        plane_row(planes, dev_cv_row(planes->light, row), row,
                  (uint8_t *)(uintptr_t)dev_cv_row(&to, row));
        dev_cv_pay(&owed, dev_cv_row_items(&to));
    }
    return made;
}

// NV12, NV21, YV12 and I420: all planes in one image of one channel, half as high again.
static struct np_array *of_camera(mp_obj_t value, mp_int_t code)
{
    struct cv_image src = dev_cv_take(value, CV_U8);
    if (src.channels != 1 || src.rows % 3 != 0 || src.columns % 2 != 0 ||
        src.rows * 2 / 3 % 2 != 0) {
        dev_cv_bad("the planes of a camera are one image, of even width and a height of 3/2");
    }
    const struct np_array *dense = dev_np_dense(src.array);
    src.data = dense->data;
    src.step = src.columns;
    int64_t rows = src.rows * 2 / 3;
    const uint8_t *colours = src.data + rows * src.step;
    int64_t part = rows / 2 * (src.columns / 2);
    bool is_apart = code >= 98;
    bool is_v_first = (code & 3) == 0 ? code == 92 : code == 93 || code == 98 || code == 99;
    struct planes planes = {.light = &src, .columns = src.columns};
    planes.apart = is_apart ? 1 : 2;
    planes.step = is_apart ? src.columns / 2 : src.columns;
    planes.u = colours + (is_v_first ? (is_apart ? part : 1) : 0);
    planes.v = colours + (is_v_first ? 0 : (is_apart ? part : 1));
    planes.blue = code % 2 == 0 ? 2 : 0;
    struct np_array *made = of_planes(&planes, rows);
    dev_cv_hold(dense);
    dev_cv_hold(&src);
    return made;
}

static bool is_camera(mp_int_t code)
{
    return (code >= 90 && code <= 93) || (code >= 98 && code <= 101);
}

// cvtColor(src, code[, dst[, dstCn]])
static mp_obj_t cvt_color(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, CODE, DST, CHANNELS };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_NEEDS_INT(code), CV_MAY(dst),
                                     CV_MAY_INT(dstCn, 0)};
    CV_PARSE(table);
    if (is_camera(values[CODE].u_int)) {
        return dev_cv_give(values[DST].u_obj, of_camera(values[SRC].u_obj, values[CODE].u_int));
    }
    const struct conversion *conversion = conversion_of(values[CODE].u_int);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_U8 | CV_F32);
    bool takes_alpha = conversion->from == 3 && conversion->to == 3 && src.channels == 4;
    if (src.channels != conversion->from && !takes_alpha) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.cv: this code takes %d channels, not %d"),
                          conversion->from, (int)src.channels);
    }
    struct np_array *made = dev_cv_room(src.type, src.rows, src.columns, conversion->to);
    struct cv_image to = dev_cv_of(made);
    struct cv_color color = {.from = src.channels,
                             .to = conversion->to,
                             .blue = conversion->blue,
                             .hues = conversion->hues,
                             .count = (size_t)src.columns};
    const struct cv_color_rows *rows = NP_CHOSEN(dev_cv_color_rows);
    cv_color_row *each = (src.type == NP_U8 ? rows->whole : rows->real)[conversion->way];
    size_t owed = 0;
    for (int64_t row = 0; row < src.rows; row++) {
        each(&color, dev_cv_row(&src, row), (uint8_t *)(uintptr_t)dev_cv_row(&to, row));
        dev_cv_pay(&owed, dev_cv_row_items(&to) + dev_cv_row_items(&src));
    }
    dev_cv_hold(&src);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_cvtColor_obj, 2, cvt_color);

// cvtColorTwoPlane(src1, src2, code[, dst]): lightness, and pairs of colours of half its size
static mp_obj_t cvt_color_two_plane(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC1, SRC2, CODE, DST };
    static const mp_arg_t table[] = {CV_NEEDS(src1), CV_NEEDS(src2), CV_NEEDS_INT(code),
                                     CV_MAY(dst)};
    CV_PARSE(table);
    struct cv_image light = dev_cv_take(values[SRC1].u_obj, CV_U8);
    struct cv_image colours = dev_cv_take(values[SRC2].u_obj, CV_U8);
    mp_int_t code = values[CODE].u_int;
    if (code < 90 || code > 93) {
        dev_cv_bad("two planes are converted by a code of NV12 or NV21");
    }
    if (light.channels != 1 || colours.channels != 2 || light.rows != colours.rows * 2 ||
        light.columns != colours.columns * 2) {
        dev_cv_bad("the second plane has two channels, and half the size of the first");
    }
    bool is_v_first = code >= 92;
    struct planes planes = {.light = &light,
                            .u = colours.data + (is_v_first ? 1 : 0),
                            .v = colours.data + (is_v_first ? 0 : 1),
                            .step = colours.step,
                            .columns = light.columns,
                            .apart = 2,
                            .blue = code % 2 == 0 ? 2 : 0};
    struct np_array *made = of_planes(&planes, light.rows);
    dev_cv_hold(&light);
    dev_cv_hold(&colours);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_cvtColorTwoPlane_obj, 3, cvt_color_two_plane);
