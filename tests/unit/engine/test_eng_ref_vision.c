// Reference backend: resize, grid sampling, regions of interest. Expected numbers are those of the
// ONNX project's own cases where it has one.
#include "ref_rig.h"

#include "backend/run_watch.h"

static struct eng_resize resize_of(enum eng_resize_fn fn, enum eng_resize_coord coord, float scale)
{
    return (struct eng_resize){
        .fn = fn, .coord = coord, .scale = {1, 1, scale, scale}, .cubic_a = -0.75F};
}

// Of 1..16 as [1, 1, 4, 4].
static void check_resize(struct eng_resize resize, int64_t height, int64_t width,
                         const float *expected)
{
    float x[16];
    struct ref_rig rig;
    for (int i = 0; i < 16; i++) {
        x[i] = (float)(i + 1);
    }
    rig_init(&rig);
    uint32_t in = rig_in(&rig, ENG_F32, DIMS(1, 1, 4, 4), x);
    uint32_t out = rig_out(&rig, ENG_F32, DIMS(1, 1, height, width));
    struct eng_command *command = rig_command(&rig, ENG_OP_RESIZE, IDS(in), IDS(out));
    command->u.resize = &resize;
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    rig_expect_f32(&rig, out, expected, (size_t)(height * width), 1e-5F);
    rig_done(&rig);
}

static void resize(void **state)
{
    (void)state;
    check_resize(resize_of(ENG_RESIZE_CUBIC, ENG_COORD_ALIGN_CORNERS, 0.8F), 3, 3,
                 F32(1, 2.3951917F, 3.7903831F, 6.5807662F, 7.9759579F, 9.3711491F, 12.1615324F,
                     13.5567236F, 14.9519157F));
    struct eng_resize r = resize_of(ENG_RESIZE_NEAREST, ENG_COORD_HALF_PIXEL, 2);
    r.round = ENG_ROUND_CEIL;
    r.scale[2] = 1;
    check_resize(r, 4, 8,
                 F32(1, 2, 2, 3, 3, 4, 4, 4, 5, 6, 6, 7, 7, 8, 8, 8, 9, 10, 10, 11, 11, 12, 12, 12,
                     13, 14, 14, 15, 15, 16, 16, 16));
    r = resize_of(ENG_RESIZE_LINEAR, ENG_COORD_TF_CROP, 0.75F);
    r.extrapolation = 10;
    r.roi_begin[2] = 0.4F;
    r.roi_begin[3] = 0.6F;
    r.roi_end[0] = r.roi_end[1] = 1;
    r.roi_end[2] = 1.2F;
    r.roi_end[3] = 1.7F;
    check_resize(r, 3, 3, F32(7.6F, 10, 10, 12.4F, 10, 10, 10, 10, 10));
    r = resize_of(ENG_RESIZE_LINEAR, ENG_COORD_PYTORCH_HALF_PIXEL, 0);
    check_resize(r, 3, 1, F32(1.6666666F, 7, 12.333333F));
    r = resize_of(ENG_RESIZE_CUBIC, ENG_COORD_HALF_PIXEL, 2);
    r.cubic_a = -0.5F;
    r.exclude_outside = true;
    check_resize(r, 8, 8,
                 F32(0.5588235F, 0.8149421F, 1.3569825F, 1.8970588F, 2.3970587F, 2.9371352F,
                     3.4791756F, 3.7352941F, 1.5832976F, 1.839416F, 2.3814566F, 2.9215329F,
                     3.4215329F, 3.9616091F, 4.5036497F, 4.759768F, 3.7514594F, 4.0075779F,
                     4.5496182F, 5.0896945F, 5.5896945F, 6.1297708F, 6.6718116F, 6.9279299F,
                     5.9117646F, 6.1678834F, 6.7099237F, 7.25F, 7.75F, 8.2900763F, 8.8321171F,
                     9.0882349F, 7.9117646F, 8.1678829F, 8.7099237F, 9.25F, 9.75F, 10.2900763F,
                     10.8321171F, 11.0882349F, 10.0720701F, 10.3281889F, 10.8702288F, 11.410305F,
                     11.910305F, 12.4503813F, 12.9924221F, 13.2485409F, 12.2402315F, 12.4963503F,
                     13.0383911F, 13.5784674F, 14.0784674F, 14.6185436F, 15.1605835F, 15.4167023F,
                     13.2647057F, 13.5208244F, 14.0628653F, 14.6029415F, 15.1029415F, 15.6430178F,
                     16.1850586F, 16.4411774F));
    // Round to the nearest: halves go down or up.
    r = resize_of(ENG_RESIZE_NEAREST, ENG_COORD_ASYMMETRIC, 2);
    r.scale[2] = 0.25F;
    r.round = ENG_ROUND_PREFER_FLOOR;
    check_resize(r, 1, 8, F32(1, 1, 2, 2, 3, 3, 4, 4));
    r.round = ENG_ROUND_PREFER_CEIL;
    check_resize(r, 1, 8, F32(1, 2, 2, 3, 3, 4, 4, 4));
}

static void check_grid(struct eng_grid_sample grid, const float *places, const float *expected)
{
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(1, 1, 3, 2), F32(0, 1, 2, 3, 4, 5));
    uint32_t g = rig_in(&rig, ENG_F32, DIMS(1, 2, 4, 2), places);
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(1, 1, 2, 4));
    struct eng_command *command = rig_command(&rig, ENG_OP_GRID_SAMPLE, IDS(x, g), IDS(y));
    command->u.grid_sample = grid;
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    rig_expect_f32(&rig, y, expected, 8, 1e-4F);
    rig_done(&rig);
}

static void grid_sampling(void **state)
{
    (void)state;
    const float *near =
        F32(-1, -1, -0.5F, -0.5F, -0.2F, -0.2F, 0, 0, 0, 0, -0.2F, -0.2F, 0.5F, 0.5F, 1, 1);
    const float *far =
        F32(-10, -10, -5, -5, -0.2F, -0.2F, 10, 10, 10, 10, -0.2F, -0.2F, 5, 5, 10, 10);
    check_grid((struct eng_grid_sample){.mode = 2}, near,
               F32(-0.1406F, 0.3828F, 1.7556F, 2.9688F, 2.9688F, 1.7556F, 5.1445F, 1.3906F));
    check_grid((struct eng_grid_sample){.mode = 1}, near, F32(0, 0, 2, 2, 2, 2, 5, 0));
    check_grid((struct eng_grid_sample){.padding = 2}, far,
               F32(2.5F, 0, 1.7F, 2.5F, 2.5F, 1.7F, 5, 2.5F));
    check_grid((struct eng_grid_sample){.padding = 1}, far, F32(0, 0, 1.7F, 5, 5, 1.7F, 5, 5));
    check_grid((struct eng_grid_sample){.align_corners = true}, near,
               F32(0, 1.25F, 2, 2.5F, 2.5F, 2, 3.75F, 5));
    const float *odd =
        F32(NAN, 0, INFINITY, -INFINITY, 1e30F, -1e30F, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    check_grid((struct eng_grid_sample){.mode = 1}, odd, F32(0, 0, 0, 2, 2, 2, 2, 2));
}

static const float image[100] = {
    0.2764F, 0.715F,  0.1958F, 0.3416F, 0.4638F, 0.0259F, 0.2963F, 0.6518F, 0.4856F, 0.725F,
    0.9637F, 0.0895F, 0.2919F, 0.6753F, 0.0234F, 0.6132F, 0.8085F, 0.5324F, 0.8992F, 0.4467F,
    0.3265F, 0.8479F, 0.9698F, 0.2471F, 0.9336F, 0.1878F, 0.4766F, 0.4308F, 0.34F,   0.2162F,
    0.0206F, 0.172F,  0.2155F, 0.4394F, 0.0653F, 0.3406F, 0.7724F, 0.3921F, 0.2541F, 0.5799F,
    0.4062F, 0.2194F, 0.4473F, 0.4687F, 0.7109F, 0.9327F, 0.9815F, 0.632F,  0.1728F, 0.6119F,
    0.3097F, 0.1283F, 0.4984F, 0.5068F, 0.4279F, 0.0173F, 0.4388F, 0.043F,  0.4671F, 0.7119F,
    0.1011F, 0.8477F, 0.4726F, 0.1777F, 0.9923F, 0.4042F, 0.1869F, 0.7795F, 0.9946F, 0.9689F,
    0.1366F, 0.3671F, 0.7011F, 0.6234F, 0.9867F, 0.5585F, 0.6985F, 0.5609F, 0.8788F, 0.9928F,
    0.5697F, 0.8511F, 0.6711F, 0.9406F, 0.8751F, 0.7496F, 0.165F,  0.1049F, 0.1559F, 0.2514F,
    0.7012F, 0.4056F, 0.7879F, 0.3461F, 0.0415F, 0.2998F, 0.5094F, 0.3727F, 0.5482F, 0.0502F};

static void check_align(bool half_pixel, const float *box, const float *expected)
{
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(1, 1, 10, 10), image);
    uint32_t rois = rig_in(&rig, ENG_F32, DIMS(1, 4), box);
    uint32_t batch = rig_in(&rig, ENG_I64, DIMS(1), I64(0));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(1, 1, 5, 5));
    struct eng_command *command = rig_command(&rig, ENG_OP_ROI_ALIGN, IDS(x, rois, batch), IDS(y));
    command->u.roi_align = (struct eng_roi_align){
        .half_pixel = half_pixel, .height = 5, .width = 5, .sampling_ratio = 2, .scale = 1};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    rig_expect_f32(&rig, y, expected, 25, 1e-4F);
    ((int64_t *)rig.data[batch])[0] = 1;
    assert_int_equal(rig_run(&rig, command), BASE_ERR_INVALID);
    rig_done(&rig);
}

// Boxes choose how many samples are taken: whoever stops the run is heard among them.
static void roi_align_is_stopped_among_its_samples(void **state)
{
    (void)state;
    static _Atomic(bool) stop = true;
    const struct eng_watch watch = {.stop = &stop};
    const float *const boxes[] = {F32(0, 0, 100, 100), F32(0, 0, 1e6F, 1e6F)};
    for (int large = 0; large < 2; large++) {
        struct ref_rig rig;
        rig_init(&rig);
        uint32_t x = rig_in(&rig, ENG_F32, DIMS(1, 1, 10, 10), image);
        uint32_t rois = rig_in(&rig, ENG_F32, DIMS(1, 4), boxes[large]);
        uint32_t batch = rig_in(&rig, ENG_I64, DIMS(1), I64(0));
        uint32_t y = rig_out(&rig, ENG_F32, DIMS(1, 1, 1, 1));
        struct eng_command *command =
            rig_command(&rig, ENG_OP_ROI_ALIGN, IDS(x, rois, batch), IDS(y));
        command->u.roi_align = (struct eng_roi_align){.height = 1, .width = 1, .scale = 1};
        rig.watch = &watch;
        assert_int_equal(rig_run(&rig, command), large ? BASE_ERR_TIMEOUT : BASE_OK);
        rig_done(&rig);
    }
}

static void roi_align(void **state)
{
    (void)state;
    check_align(true, F32(5, 5, 9, 9),
                F32(0.2393F, 0.4075F, 0.3379F, 0.2525F, 0.4743F, 0.3671F, 0.2702F, 0.4105F, 0.6419F,
                    0.8308F, 0.5556F, 0.4543F, 0.5564F, 0.7502F, 0.93F, 0.6626F, 0.5617F, 0.4813F,
                    0.4954F, 0.6663F, 0.6636F, 0.3721F, 0.2056F, 0.1928F, 0.2478F));
    check_align(false, F32(0, 5, 4, 9),
                F32(0.3022F, 0.4305F, 0.4696F, 0.3978F, 0.5423F, 0.3656F, 0.705F, 0.5165F, 0.3172F,
                    0.7015F, 0.2912F, 0.5059F, 0.6476F, 0.6235F, 0.8299F, 0.5916F, 0.7389F, 0.7048F,
                    0.8372F, 0.8893F, 0.6227F, 0.6153F, 0.7097F, 0.6154F, 0.4585F));
}

static void roi_pool(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(1, 1, 10, 10), image);
    uint32_t rois = rig_in(&rig, ENG_F32, DIMS(2, 5), F32(0, 0, 0, 6, 4, 0, 16, 16, 40, 40));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(2, 1, 1, 2));
    struct eng_command *command = rig_command(&rig, ENG_OP_ROI_POOL, IDS(x, rois), IDS(y));
    command->u.roi_pool = (struct eng_roi_pool){.height = 1, .width = 2, .scale = 0.5F};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    // Box 0..3 x 0..2 in two bins of 2 x 3; box from 8, 8 to the corner, the second bin outside.
    EXPECT_F32(&rig, y, 0.9637F, 0.9698F, 0.5482F, 0);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resize),    cmocka_unit_test(grid_sampling),
        cmocka_unit_test(roi_align), cmocka_unit_test(roi_align_is_stopped_among_its_samples),
        cmocka_unit_test(roi_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
